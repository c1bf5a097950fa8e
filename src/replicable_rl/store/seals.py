"""Seals: the digest that every record in a store carries, by which a change is found out.

A seal is the SHA-256 of the parts of a row: its key, which says what was run, the digests of the documents that it
names, and its own values. It is checked whenever the row is read. Somebody who changes a row *and* computes its seal
again is not found out. Rows of older versions have none: they are read, and their runs are not ``sealed``.
"""

import functools
import hashlib
import sqlite3
import struct
from collections.abc import Sequence

_TABLES = ("runs", "failures", "audits")
CANNOT_READ = (AttributeError, LookupError, TypeError, ValueError, OverflowError, struct.error)  # a damaged row

Part = bytes | str | float | None
_eight_bytes = struct.Struct("<d").pack


class DamagedRecord(UserWarning):
    """Records in a store were changed; they are left out, and an audit makes such runs again."""


def seal(*parts: Part) -> bytes:
    """Return the seal of a record.

    >>> seal(b"key", "ab", "c", 1.0, None) == seal(b"key", "a", "bc", 1.0, None)
    False
    """
    return hashlib.sha256(pieces(*parts)).digest()


def pieces(*parts: Part) -> bytes:
    """Return of each part the length and the bytes, so that no two records have the same."""
    found = b""
    for part in parts:  # in one loop, for every row that is read has five
        data = part.encode() if type(part) is str else part
        if type(data) is bytes:
            found += b"%d:%b" % (len(data), data)
        elif data is None:
            found += b"-"
        elif type(data) is float:
            found += _eight_bytes(data)
        else:
            raise TypeError(f"a record has no part {part!r:.60}")
    return found


def check_seal(found: bytes | None, *parts: Part, rest: bytes = b"") -> bool:
    """Refuse a record whose seal is another; return whether it has one.

    ``rest`` are the pieces of its last parts, where many records share these.
    """
    if found is not None and found != hashlib.sha256(pieces(*parts) + rest).digest():
        raise ValueError("it does not have its seal; it was changed after it was written")
    return found is not None


def seals_of_runs(
    keys: Sequence[bytes],
    digests: Sequence[bytes],
    histories: Sequence[bytes | None],
    samples: Sequence[str | None],
    seconds: Sequence[float],
    rests: Sequence[bytes],
) -> list[bytes]:
    """Return the seals that finished runs must have: of very many, so that no line of Python is run for each piece.

    >>> own = b"key", b"prints", None, "20", 0.5
    >>> seals_of_runs(*([part] for part in own), [pieces(b"document")]) == [seal(*own, b"document")]
    True
    """
    rarely_new = functools.lru_cache(pieces)
    parts = (
        map(_heads.__getitem__, map(len, keys)),
        keys,
        map(_heads.__getitem__, map(len, digests)),
        digests,
        map(rarely_new, histories, samples),
        map(_eight_bytes, seconds),
        rests,
    )
    return [hashlib.sha256(content).digest() for content in map(b"".join, zip(*parts, strict=True))]


_heads = [b"%d:" % length for length in range(1000)]  # no key, and no list of fingerprints, is longer


def text_digest(text: str) -> bytes:
    """Return the digest of a document."""
    return hashlib.sha256(text.encode()).digest()


def seal_column(connection: sqlite3.Connection, table: str) -> str:
    """Return what to select for the seals of a table; those of older versions have no such column."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    return "seal" if "seal" in names else "NULL"


def add_seal_columns(connection: sqlite3.Connection) -> None:
    """Give the tables of an older version their column, in a transaction; its rows stay without a seal."""
    for table in _TABLES:
        if seal_column(connection, table) == "NULL":
            connection.execute(f"ALTER TABLE {table} ADD COLUMN seal BLOB")
