"""Results that know how to be shown, and a layer above them that does it.

``AuditResult.table()`` is asked of the result; how a table looks is the business of `replicable_rl.pages`, which is
above it and may not be imported from below. So the report says here what it shows, when the package is imported.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from enum import Enum
from html import escape
from typing import Any, TypeVar

import numpy as np

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
    if isinstance(record, tuple):
        values, usual = record._asdict(), record._field_defaults  # type: ignore[attr-defined]  # it is a named one
    else:
        fields = [one for one in dataclasses.fields(record) if one.repr]
        values = {one.name: vars(record)[one.name] for one in fields}
        usual = {one.name: one.default for one in fields}
    given = (f"{name}={short(value)}" for name, value in values.items() if value is not usual.get(name, record))
    return described(record, ", ".join(given))


def described(record: object, text: str) -> str:
    """Write the name of a record's class, and what is to be said of it, on one line that is not too long."""
    return f"{type(record).__name__}({brief(visible(' '.join(text.split())), _LONGEST)})"


def short(value: Any) -> str:
    """Write one value of a record, in a few words."""
    if isinstance(value, str):
        return repr(brief(value, 100))
    if isinstance(value, Enum):
        return repr(value.value)
    if type(value) is float:
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        few = value.ndim == 1 and value.size <= _FEW
        return short(value.tolist()) if few else f"<{value.dtype} array of shape {value.shape}>"
    if isinstance(value, Mapping):
        items = [f"{short(key)}: {short(item)}" for key, item in itertools.islice(value.items(), _FEW)]
        return f"{{{_listed(items, len(value))}}}"
    if type(value) in (tuple, list):
        text = _listed([short(item) for item in itertools.islice(value, _FEW)], len(value))
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    return brief(repr(value), 200)


def _listed(texts: list[str], size: int) -> str:
    return ", ".join(texts) + f", … {size} in all" * (size > len(texts))
