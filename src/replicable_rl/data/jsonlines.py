"""JSON lines: the names of their columns, how DuckDB reads them, and the first line that is no object."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence

from replicable_rl.data.columns import quoted
from replicable_rl.errors import InvalidFile, shown

FILE = "(file)"  # the column that says in which file a row is
LOOKED_AT = 1000  # lines whose names of columns are looked at


def names_in(file: str, lines: Iterable[str], most: int | None = LOOKED_AT) -> tuple[str, ...]:
    """Return the names of columns in the first lines, or in all; refuse a line that is no object.

    >>> names_in("log.jsonl", ['{"state": 1, "action": 0}', "", '{"reward": 0.5}'])
    ('state', 'action', 'reward')
    """
    names: dict[str, None] = {}
    for line, text in enumerate(itertools.islice(lines, most), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InvalidFile(
                f'{file}, line {line}: must be an object of JSON, such as {{"state": 1}}, got {shown(text.strip())}.'
            )
        names |= dict.fromkeys(row)
    return tuple(names)


def query(files: Sequence[str], names: Iterable[str], *, compression: str, has_files: bool) -> str:
    """Return what selects columns of files, all as they are written, and the file if rows are to say theirs."""
    names = list(names)
    kinds = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    chosen = ", ".join(f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" for name in names)
    chosen += f", {quoted(FILE)}" if has_files else ""
    return (
        f"SELECT {chosen} FROM read_json([{', '.join(map(literal, files))}], format='newline_delimited', "
        f"columns={{{kinds}}}, auto_detect=false, compression='{compression}'{of_files(has_files)})"
    )


def of_files(has_files: bool) -> str:
    """Return what makes rows say in which file they are."""
    return f", filename='{FILE}'" if has_files else ""


def literal(text: str) -> str:
    """Return a text for a query."""
    return "'" + text.replace("'", "''") + "'"
