"""Names that somebody types, such as on a command line: texts that become what the columns of a log hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from replicable_rl.data.columns import RAW, Columns
from replicable_rl.data.labels import Label
from replicable_rl.data.source import opened
from replicable_rl.data.textrows import WHOLE
from replicable_rl.errors import InvalidInput, shown


def typed_names(source: Any, columns: Columns, use: str, names: Sequence[tuple[str, ...]]) -> list[Label]:
    """Return typed names, each a text for every column of the states or the actions, as the log has them.

    A column of a text file has no type: there all names together are whole numbers if they can be, and texts
    otherwise. Columns with bins have texts.
    """
    with opened(source, columns, (None, None)) as rows:
        kinds = [rows.kinds.get(column, RAW) for column in columns.of(use)]
    every = zip(columns.of(use), kinds, columns.bins_of(use), zip(*names, strict=True), strict=True)
    parts = [texts if bins else _typed(use, column, kind, texts) for column, kind, bins, texts in every]
    return list(parts[0]) if len(parts) == 1 else list(zip(*parts, strict=True))


def _typed(use: str, column: str, kind: str, texts: tuple[str, ...]) -> tuple[Label, ...]:
    wrong = next((text for text in texts if not re.fullmatch(WHOLE, text)), None)
    if kind == "VARCHAR" or (kind == RAW and wrong is not None):
        return texts
    if wrong is not None:
        raise InvalidInput(
            f"from_transitions: {use}s=[...] must name whole numbers, for the column {column!r} holds them, got "
            f"{shown(wrong)}."
        )
    return tuple(map(int, texts))
