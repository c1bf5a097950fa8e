"""The tables of a run store, and the checks that a file is one.

``runs`` holds one row for every finished run; a trigger refuses to change or delete one. What
many rows share (problems, algorithms, guarantees) is in ``documents`` as canonical JSON, once.
``arrays`` holds policies, values, models and histories, once for every distinct fingerprint.
``failures`` says which runs raised; a later success of the same run goes to ``runs`` and counts.
Seeds and samples are decimal text, for they pass SQLite's 63 bits.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from replicable_rl.errors import InvalidFile

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "connect"]

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
"""


def connect(path: str) -> sqlite3.Connection:
    """Open a store, or create it where nothing is; anything else under that name is refused."""
    if path != ":memory:":
        _check_path(Path(path))
    connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    try:
        # Until the schema is there nobody may see the file half made: one transaction.
        connection.execute(f"PRAGMA busy_timeout = {int(_WAIT * 1000)}")
        if _version(path, connection) is None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if _version(path, connection) is None:  # another process may have been faster
                for statement in _statements(_TABLES):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: a killed process loses nothing
    except BaseException:
        connection.close()
        raise
    return connection


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise InvalidFile(f"{path}: is a directory. Name a file for the store.")
    if not path.parent.is_dir():
        raise InvalidFile(f"{path}: there is no directory {path.parent}. Make it first.")
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as stream:
            if stream.read(16) != b"SQLite format 3\x00":
                raise InvalidFile(f"{path}: is not a run store (no SQLite file). Name another file.")


def _version(path: str, connection: sqlite3.Connection) -> int | None:
    """Return the schema version; None for an empty file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
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
