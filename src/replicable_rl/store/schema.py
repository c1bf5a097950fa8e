"""The tables of a run store (``schema.sql``), and the checks that a file is one.

``runs`` holds one row for every finished run; triggers refuse to change, replace or delete one. What many rows share
(problems, algorithms, claims) is in ``documents`` as canonical JSON, once. Levels are data: ``levels`` is the list of
their names, and ``digests`` their fingerprints of 32 bytes, one after the other. ``contents`` holds outputs and
histories, once for every fingerprint. ``failures`` says which runs raised; a later success of the same run goes to
``runs`` and counts. ``audits`` says which runs belong together, and what was asked of them. ``sample`` is the seed of
a sample that ``sampler`` drew, or the digest of one that was recorded, which has no sampler. Seeds and numbers of
samples are decimal text, for they pass SQLite's 63 bits. ``seal`` is the digest of a row (``seals.py``), and of all
rows from the ``first`` to the ``last`` of a block (``blocks.py``). Half of a key is indexed: no two share that either.

A file of schema version 1 is read from a copy in memory; one of version 2 has whole digests, no blocks, and contents as
levels encode them. Each is itself upgraded by the first write to it.
"""

import contextlib
import functools
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from replicable_rl.canonical import Json, canonical_json
from replicable_rl.errors import InvalidFile
from replicable_rl.store.seals import add_seal_columns, text_digest

BY_KEY = "substr(key, 1, 16) = substr(?1, 1, 16) AND key = ?1"  # half of it is indexed; in version 2, all of it
_HALF, _WHOLE = "substr(key, 1, 16) = substr(NEW.key, 1, 16)", "key = NEW.key"
APPLICATION_ID = 0x7252_4C31  # "rRL1": what `file` and this module know a store by
SCHEMA_VERSION = 3

_TABLES = Path(__file__).with_name("schema.sql")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
    """Make the block one transaction, which is taken back when the block raises."""
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def make_tables(connection: sqlite3.Connection) -> None:
    """Make what a store needs; in a transaction, for nobody may see the file half made."""
    for statement in _statements():  # one by one: a script would commit
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Give a file of version 2 what it lacks, and any file the triggers that somebody dropped; in a transaction."""
    add_seal_columns(connection)
    for statement in _statements():
        if statement.startswith("CREATE TABLE IF NOT EXISTS"):
            connection.execute(statement)
        elif statement.startswith("CREATE UNIQUE INDEX") and _same_key(connection) is None:
            with contextlib.suppress(sqlite3.IntegrityError):  # somebody dropped it, and added rows twice
                connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    restore_triggers(connection)


def restore_triggers(connection: sqlite3.Connection) -> None:
    """Make the triggers again that somebody dropped or changed; in a transaction."""
    there = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    same_key = _same_key(connection) or _WHOLE
    for written in _statements():
        statement = written.replace(_HALF, same_key)
        name = statement.split(maxsplit=3)[2]
        if statement.startswith("CREATE TRIGGER") and there.get(name) != statement.rstrip(";"):
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
            connection.execute(statement)


def set_aside(connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
    """Move damaged rows out of the way of the runs that take their place; in a transaction."""
    connection.execute("CREATE TABLE IF NOT EXISTS damaged AS SELECT * FROM runs WHERE 0")
    connection.execute("DROP TRIGGER finished_runs_are_never_deleted")
    in_its_place = (_same_key(connection) or _WHOLE).replace("NEW.key", "?")
    for key in keys:
        connection.execute(f"INSERT INTO damaged SELECT * FROM runs WHERE {in_its_place}", (key,))
        connection.execute(f"DELETE FROM runs WHERE {in_its_place}", (key,))
    restore_triggers(connection)


def _same_key(connection: sqlite3.Connection) -> str | None:
    """Return what no two rows of a file share: half of the key, or in version 2 all of it; None: nothing forbids it."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    return _HALF if "runs_by_key" in there else _WHOLE if "sqlite_autoindex_runs_1" in there else None


@functools.cache
def _statements() -> list[str]:
    return [statement.strip() for statement in _TABLES.read_text(encoding="utf-8").split("\n\n")]


def document(connection: sqlite3.Connection, value: Json) -> tuple[int, bytes]:
    """Return the number of a document, which is added where it is new, and its digest."""
    text = canonical_json(value).decode()
    connection.execute("INSERT OR IGNORE INTO documents (json) VALUES (?)", (text,))
    (number,) = connection.execute("SELECT id FROM documents WHERE json = ?", (text,)).fetchone()
    return int(number), text_digest(text)


def version_of(path: str, connection: sqlite3.Connection) -> int | None:
    """Return the schema version, None for an empty file; in a transaction, or it may see two states of it."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
        raise InvalidFile(f"{path}: is not a run store (no SQLite file). Name another file.") from None
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == 0 and version == 0:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            return None
    if application != APPLICATION_ID:
        raise InvalidFile(f"{path}: is an SQLite file of another program. Name another file.")
    if not 1 <= version <= SCHEMA_VERSION:
        newer = "Upgrade replicable-rl" if version > SCHEMA_VERSION else "Use the release that wrote it"
        raise InvalidFile(
            f"{path}: is a run store of schema version {version}; this release reads versions 1 to {SCHEMA_VERSION}. "
            f"{newer}, or name another file."
        )
    return int(version)
