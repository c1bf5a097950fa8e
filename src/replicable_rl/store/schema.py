"""The tables of a run store, and the checks that a file is one.

``runs`` holds one row for every finished run; triggers refuse to change, replace or delete
one. What many rows share (problems, algorithms, guarantees) is in ``documents`` as canonical JSON, once.
``arrays`` holds policies, values, models and histories, once for every distinct fingerprint.
``failures`` says which runs raised; a later success of the same run goes to ``runs`` and counts.
Seeds and samples are decimal text, for they pass SQLite's 63 bits.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from replicable_rl.errors import InvalidFile

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "connect", "gone", "restore", "transaction"]

APPLICATION_ID = 0x7252_4C31  # "rRL1": what `file` and this module know a store by
SCHEMA_VERSION = 1
_WAIT = 60.0  # seconds that a writer waits for another process to commit

_TABLES = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    problem INTEGER NOT NULL REFERENCES documents,
    algorithm INTEGER NOT NULL REFERENCES documents,
    shared_seed TEXT NOT NULL,
    sample_seed TEXT NOT NULL,
    policy BLOB,
    value BLOB,
    model BLOB,
    history BLOB,
    samples TEXT,
    seconds REAL NOT NULL,
    status INTEGER REFERENCES documents,
    guarantee INTEGER REFERENCES documents
);
CREATE INDEX runs_of_a_family ON runs (problem, algorithm);
CREATE TABLE failures (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    problem INTEGER NOT NULL REFERENCES documents,
    algorithm INTEGER NOT NULL REFERENCES documents,
    shared_seed TEXT NOT NULL,
    sample_seed TEXT NOT NULL,
    seconds REAL NOT NULL,
    error TEXT NOT NULL
);
CREATE INDEX failures_of_a_family ON failures (problem, algorithm);
CREATE TABLE arrays (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TRIGGER finished_runs_never_change BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'finished runs never change'); END;
CREATE TRIGGER finished_runs_are_never_deleted BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'finished runs are never deleted'); END;
CREATE TRIGGER finished_runs_are_never_replaced BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE key = NEW.key OR id = NEW.id)
BEGIN SELECT RAISE(IGNORE); END;
"""


def connect(path: str | None, *, create: bool = True) -> sqlite3.Connection:
    """Open the store under an absolute path; where nothing is, create it or say so. Anything else is refused.

    A file that cannot be written is opened to be read.
    """
    if path is None:
        return _opened("run store", ":memory:", create=True)
    file = Path(path)
    exists = _check_path(file, create)
    if os.access(file.parent, os.W_OK) and (not exists or os.access(file, os.W_OK)):
        return _opened(path, f"{file.as_uri()}?mode={'rwc' if create else 'rw'}", create=create)
    if not exists:
        raise InvalidFile(f"{path}: cannot be made, for its directory cannot be written. Name another file.")
    return _connect_to_read(path, f"{file.as_uri()}?mode=ro")


def restore(content: bytes) -> sqlite3.Connection:
    """Return a store in memory with the content that another one had, as SQLite serialises it."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        with contextlib.closing(sqlite3.connect(":memory:")) as source:
            source.deserialize(content)
            source.backup(connection)  # one that is deserialised itself could not grow beyond 1 GiB
        _prepare("run store", connection, create=False)
    except BaseException:
        connection.close()
        raise
    return connection


def gone(path: str) -> InvalidFile:
    """Say that a store is no longer where it was."""
    return InvalidFile(f"{path}: the store is gone; it was moved or deleted. Put it back, or make its runs again.")


def _connect_to_read(path: str, uri: str) -> sqlite3.Connection:
    """Open a file that cannot be written, beside which SQLite could make no log."""
    log = Path(f"{path}-wal")
    if log.exists():  # left by a process that was killed, or somebody else is writing
        try:
            return _opened(path, uri, create=False)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        if log.stat().st_size:
            raise InvalidFile(
                f"{path}: its last runs are in {log.name}, which is read only where it can be written. "
                "Copy both files to such a place."
            )
    return _opened(path, f"{uri}&immutable=1", create=False)


def _opened(path: str, uri: str, *, create: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=True)
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(_WAIT * 1000)}")
        _prepare(path, connection, create=create)
        connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: a killed process loses nothing
    except BaseException:
        connection.close()
        raise
    return connection


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


def _prepare(path: str, connection: sqlite3.Connection, *, create: bool) -> None:
    """Check the file and make its tables if asked, whatever other processes do to it at the same time."""
    deadline = time.monotonic() + _WAIT
    while True:
        try:
            with transaction(connection, "DEFERRED"):
                version = _version(path, connection)
            if create:
                connection.execute("PRAGMA journal_mode = WAL")
            if version is None:
                if not create:
                    raise InvalidFile(f"{path}: is empty, and no run store. Put the store back, or name another file.")
                _create(path, connection)
            return
        except sqlite3.OperationalError as error:
            # Two that change the journal mode at once do not wait for each other, as everybody else does.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _create(path: str, connection: sqlite3.Connection) -> None:
    """Make the tables in one transaction: nobody may see the file half made."""
    with transaction(connection, "IMMEDIATE"):
        if _version(path, connection) is None:  # another process may have been faster
            for statement in _statements(_TABLES):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _check_path(path: Path, create: bool) -> bool:
    """Refuse what cannot be a store, and return whether there is a file.

    The file is not opened: to close it again would drop the locks that this process has on it through SQLite.
    """
    try:
        if path.is_dir():
            raise InvalidFile(f"{path}: is a directory. Name a file for the store.")
        if not path.exists():
            if not create:
                raise gone(str(path))
            if not path.parent.is_dir():
                raise InvalidFile(f"{path}: there is no directory {path.parent}. Make it first.")
            return False
        if not path.is_file():  # SQLite would write to a device, and leave files beside it
            raise InvalidFile(f"{path}: is not a regular file. Name another file.")
        if not os.access(path, os.R_OK):
            raise InvalidFile(f"{path}: cannot be opened (it may not be read). Name another file.")
        if path.stat().st_size == 1:  # to SQLite such a file is empty
            raise InvalidFile(f"{path}: is not a run store (no SQLite file). Name another file.")
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be opened ({error.strerror or error}). Name another file.") from None
    return True


def _version(path: str, connection: sqlite3.Connection) -> int | None:
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
    if version != SCHEMA_VERSION:
        newer = "Upgrade replicable-rl" if version > SCHEMA_VERSION else "Use the release that wrote it"
        raise InvalidFile(
            f"{path}: is a run store of schema version {version}; this release reads version {SCHEMA_VERSION}. "
            f"{newer}, or name another file."
        )
    return int(version)


def _statements(script: str) -> list[str]:
    """Split a script into its statements; a trigger holds a semicolon of its own."""
    statements, piece = [], ""
    for line in script.splitlines():
        piece += line + "\n"
        if sqlite3.complete_statement(piece) and piece.strip():
            statements.append(piece)
            piece = ""
    return statements
