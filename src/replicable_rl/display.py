"""Results that know how to be shown, and a layer above them that does it.

``AuditResult.table()`` is asked of the result; how a table looks is the business of `replicable_rl.report`, which is
above it and may not be imported from below. So the report says here what it shows, when the package is imported.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SHOWN: dict[str, Callable[..., Any]] = {}


def shows(what: str) -> Callable[[_Function], _Function]:
    """Let a function show something from now on, such as ``"audit table"``."""

    def register(function: _Function) -> _Function:
        _SHOWN[what] = function
        return function

    return register


def shown(what: str, *arguments: Any, **options: Any) -> Any:
    """Return what the function that shows this makes of it."""
    return _SHOWN[what](*arguments, **options)
