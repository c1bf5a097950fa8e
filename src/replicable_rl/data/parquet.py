"""Files of Parquet: they say themselves which columns they have, and of which types; those of a folder must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replicable_rl.data.columns import EMPTY, PARTS, Columns, alike, check_header, family, literals, said
from replicable_rl.errors import InvalidInput

if TYPE_CHECKING:
    from replicable_rl.data.engine import Engine


def parquet(files: Sequence[str], numbers: str = "") -> str:
    """Return the call that reads files, all as one table; what their folders are called is no column."""
    return f"read_parquet([{literals(files)}], union_by_name=true, hive_partitioning=false{numbers})"


def check_files(duck: Engine, files: Sequence[str], columns: Columns) -> None:
    """Refuse files that lack a column, or hold names of one column in several types: an engine would convert them."""
    kinds: dict[str, dict[str, list[str]]] = {}  # of every column, by type: the files
    described: dict[tuple[object, ...], dict[str, str]] = {}
    for file, header in _headers(duck, files).items():
        inside = [name for name, _ in header]
        check_header(file, columns, inside)
        for column in columns.asked:
            other = next((one for one in inside if one.lower() == column.lower() and one != column), None)
            if other is not None:
                raise InvalidInput(f"{file}: the columns {column!r} and {other!r} differ by capitals only. Rename one.")
        if tuple(header) not in described:
            found = duck.rows(f"DESCRIBE SELECT * FROM {parquet([file])}")
            nothing = {name for name, kind in header if "NullType()" in kind}  # which DuckDB before 2 calls INTEGER
            described[tuple(header)] = {
                str(name): EMPTY if name in nothing else family(str(kind)) for name, kind, *_ in found
            }
        for column, kind in described[tuple(header)].items():
            kinds.setdefault(column, {}).setdefault(kind, []).append(file)
    for use in PARTS:
        for column, bins in zip(columns.of(use), columns.bins_of(use), strict=False):
            if bins is None:
                _check_kinds(use, column, kinds[column])


def _headers(duck: Engine, files: Sequence[str]) -> dict[str, list[tuple[str, tuple[object, ...]]]]:
    """Return the columns of every file, each with what the file says of its type; parts of columns are left out."""
    types = "type, converted_type, scale, precision, logical_type"
    found: dict[str, list[tuple[str, tuple[object, ...]]]] = {}
    parts = 0  # of the column before, that are still to come
    for file, name, children, *kind in duck.rows(
        f"SELECT file_name, name, num_children, {types} FROM parquet_schema([{literals(files)}])"
    ):
        if str(file) not in found:  # the first line of a file is the table itself
            found[str(file)], parts = [], 0
        elif parts:
            parts += int(children or 0) - 1
        else:
            found[str(file)].append((str(name), (*kind, children)))
            parts = int(children or 0)
    return found


def _check_kinds(use: str, column: str, kinds: dict[str, list[str]]) -> None:
    """Refuse a column that holds names of several types."""
    first = next((kind for kind in kinds if kind != EMPTY), EMPTY)
    for kind, files in kinds.items():
        if not alike(kind, first):
            raise InvalidInput(
                f"{files[0]}: the {said(use)} in {column!r} is of type {kind}, and in {kinds[first][0]} of type "
                f"{first}. Write all files with one type."
            )
