"""A database that is one file or in memory: its tables, its life, and what it says when something is wrong.

``runs`` holds one row for every run. What many rows share (problems, algorithms, claims) is in ``documents`` as
canonical JSON, once. Levels are data: ``levels`` names the list of their names, and ``digests`` holds their
fingerprints of 32 bytes, one after the other. ``contents`` holds outputs and histories, once for every fingerprint.
``error`` says why a run failed. ``audits`` says which runs belong together, and what was asked of them, and
``repeats`` which runs were made again, and whether they came out the same. ``sample`` is the seed of a sample that
``sampler`` drew, or the digest of one that was recorded, which has no sampler. Seeds and numbers of samples are decimal
text, for they pass SQLite's 63 bits. ``seal`` is the digest of a row.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from replicable_rl.display import Displayed
from replicable_rl.errors import InvalidFile, InvalidInput

APPLICATION_ID = 0x7252_4C31  # "rRL1": what `file` and this module know a store by
SCHEMA = 1
_WAIT = 60.0  # seconds that one process waits for another to commit
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: a table is not there
_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_ABOUT = """SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version"""
_TABLES = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE)",
    """CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    problem INTEGER NOT NULL REFERENCES documents,
    algorithm INTEGER NOT NULL REFERENCES documents,
    sampler TEXT,
    shared_seed TEXT NOT NULL,
    sample TEXT NOT NULL,
    digests BLOB NOT NULL,
    history BLOB,
    samples TEXT,
    seconds REAL NOT NULL,
    error TEXT,
    levels INTEGER NOT NULL REFERENCES documents,
    status INTEGER REFERENCES documents,
    claims INTEGER NOT NULL REFERENCES documents,
    made_with INTEGER NOT NULL REFERENCES documents,
    seal BLOB NOT NULL
)""",
    "CREATE INDEX runs_of_a_family ON runs (problem, algorithm)",
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL)",
    "CREATE TABLE audits (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE, seal BLOB NOT NULL)",
    """CREATE TABLE repeats (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, same INTEGER, why TEXT NOT NULL, seal BLOB NOT NULL
)""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA}",
)


class Database(Displayed):
    """The connection of a run store: opened, closed, opened again, shared by threads, and copied."""

    _opened: sqlite3.Connection | None = None

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._setup(path)
        with self._explained():
            self._open(create=True)

    def _setup(self, path: str | os.PathLike[str] | None) -> None:
        """Set all but the connection."""
        try:
            # Absolute, for results open it again, wherever the process has gone meanwhile.
            self.path = None if path is None else str(Path(os.fsdecode(path)).absolute())
            if "\0" in (self.path or ""):
                raise ValueError
        except (TypeError, ValueError):
            raise InvalidInput(f"RunStore: path must name a file, or be None; got {path!r}.") from None
        self._lock = threading.RLock()  # one connection, several threads

    def __enter__(self) -> Self:
        with self._lock, self._explained():
            if self._opened is None:
                self._open(create=False)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def __del__(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self.path is not None:
            return _copy, (type(self), self.path, None)
        with self._session() as connection:
            return _copy, (type(self), None, connection.serialize())

    def __repr__(self) -> str:
        return f"RunStore({self.path!r})" if self.path is not None else "RunStore(in memory)"

    @contextlib.contextmanager
    def _session(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend one thread the connection for one transaction; a store that was closed is opened for as long."""
        with self._lock, self._explained():
            closed = self._opened is None
            connection = self._opened or self._open(create=False)
            try:
                if connection.in_transaction:  # inside of another session
                    yield connection
                else:
                    with _transaction(connection, "IMMEDIATE" if write else "DEFERRED"):
                        yield connection
            finally:
                if closed:
                    self.close()

    def _open(self, *, create: bool) -> sqlite3.Connection:
        """Open the file, or a database in memory; where nothing is, create it or say so. Anything else is refused."""
        if self.path is None:
            if not create:
                raise InvalidInput(f"{self}: was closed, and what it held in memory is gone. Close it later.")
            uri = ":memory:"
        else:
            _check_path(Path(self.path), create)
            uri = f"{Path(self.path).as_uri()}?mode={'rwc' if create else 'rw'}"
        opened = sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=True)
        try:
            opened.execute(f"PRAGMA busy_timeout = {int(_WAIT * 1000)}")
            if not self._is_store(opened):
                with _transaction(opened, "IMMEDIATE"):  # nobody may see the file half made
                    if not self._is_store(opened):  # another process may have been faster
                        for statement in _TABLES:
                            opened.execute(statement)
        except BaseException:
            opened.close()
            raise
        self._opened = opened
        return opened

    def _is_store(self, connection: sqlite3.Connection) -> bool:
        """Whether a file has the tables of a store; False for an empty one, and anything else is refused."""
        ((application, version, tables),) = connection.execute(_ABOUT)  # at once: another process may make the tables
        if (application, version) == (APPLICATION_ID, SCHEMA):
            return True
        if application == APPLICATION_ID:
            raise InvalidFile(
                f"{self.path}: is a run store of schema {version}; this release reads schema {SCHEMA}. Upgrade "
                "replicable-rl, or name another file."
            )
        if application or version or tables:
            raise InvalidFile(f"{self.path}: is an SQLite file of another program. Name another file.")
        return False

    def damaged(self, how: str) -> InvalidFile:
        """Say that the file is not as it was written."""
        how = " ".join(how.split()).rstrip(".")
        return InvalidFile(f"{self.path or 'run store'}: the file is damaged ({how}). Restore it from a copy.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says of a file into one clear sentence."""
        try:
            yield
        except UnicodeDecodeError:  # SQLite quotes what it cannot read
            raise self.damaged("its tables cannot be read") from None
        except sqlite3.Error as error:
            path, code = self.path or "run store", getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_NOTADB:
                raise InvalidFile(f"{path}: is not a run store (no SQLite file). Name another file.") from None
            if code in _DAMAGE or str(error).startswith("Could not decode"):
                raise self.damaged(str(error)) from None
            if code in _NOT_WRITABLE:
                raise InvalidFile(
                    f"{path}: the file cannot be written ({error}). Its runs can be read; to add more, copy it to "
                    "where it can be written."
                ) from None
            raise InvalidFile(
                f"{path}: {error}. Finished runs are kept; mend this, and the same call resumes."
            ) from None


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
    """Make the block one transaction, which is taken back when the block raises."""
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_path(path: Path, create: bool) -> None:
    """Refuse what cannot be a store.

    The file is not opened: to close it again would drop the locks that this process has on it through SQLite.
    """
    try:
        if path.is_dir():
            raise InvalidFile(f"{path}: is a directory. Name a file for the store.")
        if path.exists():
            if not path.is_file():  # SQLite would write to a device
                raise InvalidFile(f"{path}: is not a regular file. Name another file.")
        elif not create:
            raise InvalidFile(
                f"{path}: the store is gone; it was moved or deleted. Put it back, or make its runs again."
            )
        elif not path.parent.is_dir():
            raise InvalidFile(f"{path}: there is no directory {path.parent}. Make it first.")
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be opened ({error.strerror or error}). Name another file.") from None


def _copy(kind: type[Database], path: str | None, content: bytes | None) -> Database:
    """Return a store in the same file, which is opened when it is used, or one in memory with the same content."""
    store = kind.__new__(kind)
    store._setup(path)
    if content is not None:
        with store._explained(), contextlib.closing(sqlite3.connect(":memory:")) as source:
            opened = store._open(create=True)
            source.deserialize(content)
            source.backup(opened)  # one that is deserialised itself could not grow beyond 1 GiB
    return store
