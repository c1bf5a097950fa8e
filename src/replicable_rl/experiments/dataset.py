"""What an experiment found: tables of plain numbers, saved as JSON and CSV.

A figure draws a :class:`Dataset` and computes nothing; a test checks it. So everything that a figure
shows is in the files beside it, and the same stored runs give the same files, byte for byte.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from replicable_rl.audit import Estimate
from replicable_rl.canonical import MAX_JSON_INTEGER, Json, json_text, parse_json
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import read_file, write_csv, write_text

Cell = str | int | float | bool | None
Row = Mapping[str, Any]

_FORMAT = "replicable-rl dataset"
_LARGEST = 1 << 28  # bytes of a file


def estimate_columns(name: str, value: Estimate) -> dict[str, float]:
    """Return an estimate as three columns: no number travels without its interval.

    >>> estimate_columns("share", Estimate(0.9, 0.8, 0.95))
    {'share': 0.9, 'share_low': 0.8, 'share_high': 0.95}
    """
    return {name: float(value), f"{name}_low": value.low, f"{name}_high": value.high}


@dataclass(frozen=True)
class Table:
    """Columns by name, and rows of cells: text, numbers, truth values, or None for what is not there.

    Integers beyond 2**53, which JSON cannot hold everywhere, are kept as decimal strings.

    >>> table = Table.of([{"calls": 13_000, "share": 0.5}, {"calls": 10**20, "share": 1.0}])
    >>> table.rows[1], table.column("share")
    (('100000000000000000000', 1.0), [0.5, 1.0])
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInput(f"Table: a row has {len(row)} cells for {len(self.columns)} columns.")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(_plain(cell) for cell in row) for row in self.rows))

    @classmethod
    def of(cls, records: Sequence[Row]) -> Table:
        """Build from rows as mappings; all must have the same columns."""
        columns = tuple(records[0]) if records else ()
        if any(tuple(record) != columns for record in records):
            raise InvalidInput("Table: all rows must have the same columns in the same order.")
        return cls(columns, tuple(tuple(record.values()) for record in records))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def where(self, **equal: Cell) -> list[dict[str, Any]]:
        """Return the rows in which the named columns hold these values."""
        return [row for row in self if all(row[name] == value for name, value in equal.items())]

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return [row[name] for row in self]

    def distinct(self, name: str) -> list[Any]:
        """Return the different values of a column in the order in which they come."""
        return list(dict.fromkeys(self.column(name)))


@dataclass(frozen=True)
class Dataset:
    """The data of one figure or table: tables, whatever else is said of it, its name and title."""

    tables: Mapping[str, Table]
    details: Mapping[str, Json] = field(default_factory=dict)
    name: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", MappingProxyType(dict(self.tables)))
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        tables = {
            name: {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}
            for name, table in self.tables.items()
        }
        about = {"format": _FORMAT, "version": 1, "name": self.name, "title": self.title}
        return {**about, "tables": tables, "details": dict(self.details)}

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write ``<name>.json`` and a ``<name>-<table>.csv`` for each table, each whole or not at all."""
        target = Path(folder)
        files = [target / f"{self.name}.json"]
        write_text(files[0], json_text(self.to_json(), indent=1, ascii=False))
        for name, table in self.tables.items():
            files.append(target / f"{self.name}-{name}.csv")
            write_csv(files[-1], list(table))
        return files

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Dataset:
        """Read what :meth:`save` wrote to ``<name>.json``."""
        try:
            data = parse_json(read_file(path, _LARGEST))
            if data["format"] != _FORMAT or data["version"] != 1:
                raise InvalidFile(f"{path}: is no dataset of version 1.")
            tables = {
                name: Table(tuple(table["columns"]), tuple(tuple(row) for row in table["rows"]))
                for name, table in data["tables"].items()
            }
            return cls(tables, data["details"], data["name"], data["title"])
        except InvalidFile:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidFile(f"{path}: is no dataset ({error}).") from None


def _plain(cell: Any) -> Cell:
    """Return a cell that JSON and CSV write the same way everywhere."""
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return int(cell) if abs(cell) <= MAX_JSON_INTEGER else str(cell)
    if isinstance(cell, float) and math.isfinite(cell):
        return float(cell)
    raise InvalidInput(f"Table: a cell must be text, a finite number, a truth value or None, got {cell!r}.")
