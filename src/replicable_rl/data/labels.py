"""Names of states and actions: a text or a whole number, and a tuple of these where a state has several columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from replicable_rl.canonical import Json, json_text
from replicable_rl.errors import InvalidInput, shown

Label = Any  # a text, a whole number, or a tuple of them
Declared = tuple[tuple[Label, ...] | None, tuple[Label, ...] | None]  # all states, and all actions, where given
EXACT = 2**53  # whole numbers below it are floats too


def plain(label: Any) -> Label:
    """Return a label as Python's own text or whole number; floats that are whole are whole numbers.

    >>> plain(np.int64(3)), plain(2.0), plain((np.str_("a"), 1))
    (3, 2, ('a', 1))
    """
    if isinstance(label, tuple) and not any(isinstance(part, tuple) for part in label):
        return tuple(map(plain, label))
    if isinstance(label, str):
        return str(label)
    if isinstance(label, (int, np.integer)) and not isinstance(label, (bool, np.timedelta64)):
        return int(label)
    if isinstance(label, (float, np.floating)) and label.is_integer() and abs(float(label)) < EXACT:
        return int(label)
    raise InvalidInput(
        f"from_transitions: a name must be a text or a whole number, got {shown(label)}. Cast it to text."
    )


def spoken(label: Label) -> str:
    """Return a label as a text for people; of several parts, one that holds a comma or a quote stands in quotes.

    >>> print(spoken(("b", 0)), spoken(("p", "q, r")), spoken(("p, q", "r")), sep=" | ")
    b, 0 | p, "q, r" | "p, q", r
    """
    return ", ".join(map(_part, label)) if isinstance(label, tuple) else str(label)


def _part(label: Label) -> str:
    """Return a part of a label: no comma, quote or blank at its ends can be taken for what is between parts."""
    text = str(label)
    return text if text == text.strip() != "" and not set(text) & {",", '"'} else json_text(text, ascii=False)


def written(label: Label) -> Json:
    """Return a label as JSON, with its type: 1 and "1" are two names.

    >>> written(1), written(("1", 2))
    ('int:1', ['str:1', 'int:2'])
    """
    return [written(part) for part in label] if isinstance(label, tuple) else f"{type(label).__name__}:{label}"


def read_back(data: Any) -> Label:
    """Return the label that was written.

    >>> read_back(written((1, "a:b")))
    (1, 'a:b')
    """
    if isinstance(data, list):
        return tuple(map(read_back, data))
    kind, _, text = data.partition(":")
    return {"str": str, "int": int}[kind](text)
