"""Seals: the digest that every record in a store carries, by which a change is found out.

A seal is the first half of the SHA-256 of the parts of a row: its key, which says what was run, the digests of the
documents that it names, and its own values. It is checked whenever the row is read, alone or with all rows that were
added with it (``blocks.py``). Somebody who changes a row *and* computes its seal again is not found out. Version 2
wrote whole digests. Rows of older versions have none: they are read, and their runs are not ``sealed``.
"""

import hashlib
import sqlite3
import struct

_TABLES = ("runs", "failures", "audits")
_SIZE, _SIZE_2 = 16, 32  # bytes of a seal, and of one of version 2
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
    return hashlib.sha256(pieces(*parts)).digest()[:_SIZE]


def pieces(*parts: Part) -> bytes:
    """Return of each part the length and the bytes, so that no two records have the same."""
    found = b""
    for part in parts:
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
    if found is None:
        return False
    if len(found) not in (_SIZE, _SIZE_2) or found != hashlib.sha256(pieces(*parts) + rest).digest()[: len(found)]:
        raise ValueError("it does not have its seal; it was changed after it was written")
    return True


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
