"""Results at a prompt, on one line, and in a notebook."""

import dataclasses
import itertools
from collections.abc import Mapping
from enum import Enum
from html import escape
from typing import Any

import numpy as np

from replicable_rl.wording import brief, visible

_ITEMS = 6  # of a list on a line
_LONGEST = 500  # characters of a line


class Displayed:
    """A result of one line or two: a notebook shows it as ``print`` does."""

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
        fields = [field for field in dataclasses.fields(record) if field.repr]
        values = {field.name: vars(record)[field.name] for field in fields}
        usual = {field.name: field.default for field in fields}
    unusual = (f"{name}={short(value)}" for name, value in values.items() if value is not usual.get(name, record))
    return described(record, ", ".join(unusual))


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
        is_short = value.ndim == 1 and value.size <= _ITEMS
        return short(value.tolist()) if is_short else f"<{value.dtype} array of shape {value.shape}>"
    if isinstance(value, Mapping):
        items = [f"{short(key)}: {short(item)}" for key, item in itertools.islice(value.items(), _ITEMS)]
        return f"{{{_listed(items, len(value))}}}"
    if type(value) in (tuple, list):
        text = _listed([short(item) for item in itertools.islice(value, _ITEMS)], len(value))
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    return brief(repr(value), 200)


def _listed(texts: list[str], size: int) -> str:
    return ", ".join(texts) + f", … {size} in all" * (size > len(texts))
