"""JSON lines: the names of their columns, how DuckDB reads them, and the first line that is no object."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from replicable_rl.canonical import json_text
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
            row = json.loads(text, object_pairs_hook=_Object)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, _Object):
            raise InvalidFile(
                f'{file}, line {line}: must be an object of JSON, such as {{"state": 1}}, got {shown(text.strip())}.'
            )
        keys = [key for key, _ in row]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidFile(f"{file}, line {line}: has {shown(twice)} twice. Leave out one of them.")
        names |= dict.fromkeys(keys)
    return tuple(names)


class _Object(list[tuple[str, Any]]):
    """An object of JSON, as the pairs that are written: a dictionary would keep the last of two."""


def query(
    files: Sequence[str], names: Iterable[str], *, compression: str, is_marked: bool, has_files: bool = False
) -> str:
    """Return what selects columns of files, all as they are written, and the file if rows are to say theirs.

    Files that begin with a byte order mark (``is_marked``) are read as lines of text, for DuckDB's reader of JSON does
    not take one.
    """
    names, of_file = list(names), of_files(has_files)
    source = f"[{', '.join(map(literal, files))}]"
    if is_marked:
        kinds = json_text(dict.fromkeys(names, "JSON"))
        lines = (
            f"read_csv({source}, columns={{'line': 'VARCHAR'}}, auto_detect=false, header=false, delim='\x01', "
            f"quote='', escape='', strict_mode=false, compression='{compression}'{of_file})"
        )
        has_twice = "len(json_keys(line)) > len(list_distinct(json_keys(line)))"
        one = f"CASE WHEN {has_twice} THEN error('duplicate key') ELSE json_transform(line, {literal(kinds)}) END"
        rows = f"(SELECT {one} AS r{f', {quoted(FILE)}' * has_files} FROM {lines} WHERE trim(line) <> '')"
        values = [f"r.{quoted(name)}" for name in names]
    else:
        kinds = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
        rows = (
            f"read_json({source}, format='newline_delimited', columns={{{kinds}}}, auto_detect=false, "
            f"compression='{compression}'{of_file})"
        )
        values = [quoted(name) for name in names]
    chosen = ", ".join(f"CAST({value} AS VARCHAR) AS {quoted(name)}" for value, name in zip(values, names, strict=True))
    chosen += f", {quoted(FILE)}" if has_files else ""
    return f"SELECT {chosen} FROM {rows}"


def of_files(has_files: bool) -> str:
    """Return what makes rows say in which file they are."""
    return f", filename='{FILE}'" if has_files else ""


def literal(text: str) -> str:
    """Return a text for a query."""
    return "'" + text.replace("'", "''") + "'"
