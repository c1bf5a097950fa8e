"""Names that somebody types, such as on a command line: texts that become what the columns of a log hold."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Sequence
from typing import Any

from replicable_rl.data.columns import RAW, Columns
from replicable_rl.data.forms import FLOATS
from replicable_rl.data.labels import Label
from replicable_rl.data.naming import FORMS
from replicable_rl.data.source import opened
from replicable_rl.errors import InvalidInput, shown


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_WHOLE = [f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")] + [
    "INTEGER",
    "UINTEGER",
    FLOATS,
]
_READERS: dict[str, Callable[[str], Label]] = {
    **dict.fromkeys(_WHOLE, int),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), float),
    "BOOLEAN": _truth,
    "DATE": datetime.date.fromisoformat,
    "TIMESTAMP": datetime.datetime.fromisoformat,
}
_SAID = {int: "whole numbers", float: "numbers", _truth: "truth values"}


def typed_names(source: Any, columns: Columns, use: str, names: Sequence[tuple[str, ...]]) -> list[Label]:
    """Return typed names, each a text for every column of the states or the actions, as the log has them.

    A column of a text file has no type: there all names together are whole numbers, numbers, truth values, dates or
    times if they can be, and texts otherwise. Columns with bins have texts.
    """
    with opened(source, columns, (None, None)) as rows:
        kinds = [rows.kinds.get(column, RAW) for column in columns.of(use)]
    kinds = ["VARCHAR" if bins else kind for kind, bins in zip(kinds, columns.bins_of(use), strict=True)]
    parts = [
        _guessed(texts) if kind == RAW else _read(use, column, kind, texts)
        for column, kind, texts in zip(columns.of(use), kinds, zip(*names, strict=True), strict=True)
    ]
    return list(parts[0]) if len(parts) == 1 else list(zip(*parts, strict=True))


def _guessed(texts: Sequence[str]) -> list[Label]:
    """Return names of a text file.

    >>> _guessed(["1", "2"]), _guessed(["1", "0.5"]), _guessed(["1", "x"]), _guessed(["01"])
    ([1, 2], [1.0, 0.5], ['1', 'x'], ['01'])
    """
    for kind, form in FORMS.items():
        if all(re.fullmatch(form, text) for text in texts):
            with contextlib.suppress(ValueError):  # no day of the calendar
                return [_READERS[kind](text) for text in texts]
    return list(texts)


def _read(use: str, column: str, kind: str, texts: Sequence[str]) -> list[Label]:
    read = _READERS.get(kind.partition("(")[0])  # DECIMAL(18,3)
    if read is None:
        return list(texts)
    found = []
    for text in texts:
        try:
            found.append(read(text))
        except (ValueError, KeyError):
            what = _SAID.get(read, "dates or times")
            raise InvalidInput(
                f"from_transitions: {use}s=[...] must name {what}, for the column {column!r} holds them, got "
                f"{shown(text)}."
            ) from None
    return found
