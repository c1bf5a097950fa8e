"""Blocks: rows that were added together have one digest, so that many are checked in the time of a few.

Where the digest of a block does not fit, or rows have none, every row is checked by its own seal. So a block only saves
time: it never refuses a row, and none is read that its own seal would refuse, unless somebody computes digests again.
"""

import hashlib
import itertools
import marshal
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Row = tuple[Any, ...]
_SMALLEST, _LARGEST = 50, 20_000  # rows: fewer gain nothing, and more would not be read at once
_FIRST_ID, _LAST_ID = -(2**63), 2**63 - 1
_COLUMNS = "first, last, problem, algorithm, sampler, seal"


class Stretch(NamedTuple):
    """Rows by their ids: those of a block, with the numbers of its family and its seal, or those that have none."""

    first: int
    last: int
    family: Row = ()
    seal: bytes | None = None


def stretches(connection: sqlite3.Connection, family: Row | None) -> Iterator[Stretch]:
    """Yield all ids in order: the blocks, of one family or of all, and what is between them.

    Whatever the table of blocks says, every id is in one stretch.
    """
    start = _FIRST_ID
    for first, last, *ids, seal in _blocks(connection, family):
        if type(last) is int and type(seal) is bytes and start <= first <= last < min(first + _LARGEST, _LAST_ID):
            if start < first:
                yield Stretch(start, first - 1)
            yield Stretch(first, last, tuple(ids), seal)
            start = last + 1
    yield Stretch(start, _LAST_ID)


def _blocks(connection: sqlite3.Connection, family: Row | None) -> list[Row]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'blocks'").fetchone():
        return []  # of version 2
    which = "" if family is None else "WHERE problem = ? AND algorithm = ? AND sampler IS ?"
    return connection.execute(f"SELECT {_COLUMNS} FROM blocks {which} ORDER BY first", family or ()).fetchall()


def as_written(connection: sqlite3.Connection, query: str, values: Row) -> list[Row]:
    """Return the rows of a block, or none where a text is damaged; quicker than texts are read elsewhere."""
    lenient, connection.text_factory = connection.text_factory, str
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        if not str(error).startswith("Could not decode"):
            raise
        return []
    finally:
        connection.text_factory = lenient


def block_seal(rows: list[Row], documents: bytes) -> bytes:
    """Return the digest of the rows of a block and of all documents that they name.

    >>> block_seal([(b"key", "7", None)], b"") == block_seal([(b"key", "7", 0)], b"")
    False
    """
    # This form of Python's own has not changed since 2006, and is written ten times as fast as any other. Nothing is
    # ever read from it; were it to change, rows would be checked one by one.
    return hashlib.sha256(marshal.dumps(rows, 2) + documents).digest()


def family_of(rows: Sequence[Row]) -> Row | None:
    """Return the numbers of the family with which all these rows begin, where they are worth a block."""
    if not _SMALLEST <= len(rows) < _LARGEST:
        return None
    families = [ids for ids, _ in itertools.groupby(rows, key=lambda row: row[:3])]
    return families[0] if len(families) == 1 else None
