"""Seals: the digest that every record in a store carries, by which a change is found out.

A seal is the SHA-256 of the parts of a row: its key, which says what was run, the digests of the documents that it
names, and its own values. It is checked whenever the row is read. Somebody who changes a row *and* computes its seal
again is not found out. Rows of older versions have none: they are read, and their runs are not ``sealed``.
"""

import hashlib
import sqlite3
import struct

_TABLES = ("runs", "failures", "audits")
CANNOT_READ = (AttributeError, LookupError, TypeError, ValueError, OverflowError, struct.error)  # a damaged row

Part = bytes | str | float | None


class DamagedRecord(UserWarning):
    """Records in a store were changed; they are left out, and an audit makes such runs again."""


def seal(*parts: Part) -> bytes:
    """Return the seal of a record: of each part the length and the bytes, so that no two records have the same.

    >>> seal(b"key", "ab", "c", 1.0, None) == seal(b"key", "a", "bc", 1.0, None)
    False
    """
    return hashlib.sha256(b"".join(map(_piece, parts))).digest()


def check_seal(found: bytes | None, *parts: Part) -> bool:
    """Refuse a record whose seal is another; return whether it has one."""
    if found is not None and found != seal(*parts):
        raise ValueError("it does not have its seal; it was changed after it was written")
    return found is not None


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


def _piece(part: Part) -> bytes:
    if part is None:
        return b"-"
    if type(part) is float:
        return struct.pack("<d", part)
    data = part.encode() if isinstance(part, str) else part
    if type(data) is not bytes:
        raise TypeError(f"a record has no part {part!r:.60}")
    return b"%d:%b" % (len(data), data)
