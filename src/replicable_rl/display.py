"""Results that know how to be shown, and a layer above them that does it.

``AuditResult.table()`` is asked of the result; how a table looks is the business of `replicable_rl.report`, which is
above it and may not be imported from below. So the report says here what it shows, when the package is imported.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from html import escape
from typing import Any, TypeVar

from replicable_rl.wording import brief, visible

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SHOWN: dict[str, Callable[..., Any]] = {}
_FEW = 6  # items of a list that a line shows
_LONGEST = 500  # characters of a line


def shows(what: str) -> Callable[[_Function], _Function]:
    """Let a function show something from now on, such as ``"audit table"``."""

    def register(function: _Function) -> _Function:
        _SHOWN[what] = function
        return function

    return register


def shown(what: str, *arguments: Any, **options: Any) -> Any:
    """Return what the function that shows this makes of it."""
    return _SHOWN[what](*arguments, **options)


class Displayed:
    """Something that a notebook shows as ``print`` does."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(visible(str(self)))}</pre>"


def short_repr(record: Any) -> str:
    """Write a dataclass or a named tuple on one line: arrays by their shapes, long lists cut, without what is as usual.

    A class takes it as its own with ``__repr__ = short_repr``.

    >>> @dataclasses.dataclass
    ... class Found:
    ...     states: tuple[int, ...]
    ...     gap: float
    ...     why: str | None = None
    ...     __repr__ = short_repr
    >>> Found(tuple(range(1000)), 1 / 3)
    Found(states=(0, 1, 2, 3, 4, 5, … 1000 in all), gap=0.333333)
    """
    known: list[tuple[str, Any, Any]]
    if hasattr(record, "_asdict"):  # a named tuple
        known = [(name, value, record._field_defaults.get(name, record)) for name, value in record._asdict().items()]
    else:
        fields = [field for field in dataclasses.fields(record) if field.repr]
        known = [(field.name, getattr(record, field.name), field.default) for field in fields]
    said = (f"{name}={short(value)}" for name, value, default in known if value is not default)
    return described(record, ", ".join(said))


def described(record: object, text: str) -> str:
    """Write the name of a record's class, and what is to be said of it, on one line that is not too long."""
    return f"{type(record).__name__}({brief(visible(' '.join(text.split())), _LONGEST)})"


def short(value: object) -> str:
    """Write one value of a record, in a few words."""
    if isinstance(value, str):
        return repr(brief(value, 100))
    if isinstance(value, Enum):
        return repr(value.value)
    if type(value) is float:
        return f"{value:.6g}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        few = value.shape != () and all(size <= _FEW for size in value.shape) and len(value.shape) == 1
        return short(value.tolist()) if few else f"<{value.dtype} array of shape {value.shape}>"  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        return _some("{}", [f"{short(key)}: {short(one)}" for key, one in _first(value.items())], value)
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return _some("()" if isinstance(value, tuple) else "[]", [short(one) for one in _first(value)], value)
    return brief(repr(value), 200)


def _first(values: Any) -> list[Any]:
    return [one for _, one in zip(range(_FEW), values, strict=False)]


def _some(ends: str, texts: list[str], values: Collection[Any]) -> str:
    more = f", … {len(values)} in all" if len(values) > len(texts) else "," * (ends == "()" and len(values) == 1)
    return f"{ends[0]}{', '.join(texts)}{more}{ends[1]}"
