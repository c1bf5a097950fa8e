"""Opening a run store: the file that there is, a new one, one that can only be read, or one of version 1."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from replicable_rl.errors import InvalidFile
from replicable_rl.store.schema import make_tables, transaction, version_of
from replicable_rl.store.upgrade import upgrade

_WAIT = 60.0  # seconds that a writer waits for another process to commit


class Copy(sqlite3.Connection):
    """A copy in memory of a file of schema version 1, as it was when it was opened: to be read only."""


def connect(path: str | None, *, create: bool = True, write: bool = False) -> sqlite3.Connection:
    """Open the store under an absolute path; where nothing is, create it or say so. Anything else is refused.

    A file that cannot be written is opened to be read. Of a file of version 1 this is a `Copy`, and the file stays as
    it is, unless ``write`` asks for the file itself: then it is upgraded first.
    """
    if path is None:
        return _opened("run store", ":memory:", create=True)
    file = Path(path)
    exists = _check_path(file, create)
    if os.access(file.parent, os.W_OK) and (not exists or os.access(file, os.W_OK)):
        return _opened(path, f"{file.as_uri()}?mode={'rwc' if create else 'rw'}", create=create, write=write)
    if not exists:
        raise InvalidFile(f"{path}: cannot be made, for its directory cannot be written. Name another file.")
    return _connect_to_read(path, f"{file.as_uri()}?mode=ro", write=write)


def restore(content: bytes) -> sqlite3.Connection:
    """Return a store in memory with the content that another one had, as SQLite serialises it."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    with _closed_on_error(connection), contextlib.closing(sqlite3.connect(":memory:")) as source:
        source.deserialize(content)
        source.backup(connection)  # one that is deserialised itself could not grow beyond 1 GiB
        _prepare("run store", connection, create=False)
    return connection


def gone(path: str) -> InvalidFile:
    """Say that a store is no longer where it was."""
    return InvalidFile(f"{path}: the store is gone; it was moved or deleted. Put it back, or make its runs again.")


def _connect_to_read(path: str, uri: str, *, write: bool) -> sqlite3.Connection:
    """Open a file that cannot be written, beside which SQLite could make no log."""
    log = Path(f"{path}-wal")
    if log.exists():  # left by a process that was killed, or somebody else is writing
        try:
            return _opened(path, uri, create=False, write=write)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        if log.stat().st_size:
            raise InvalidFile(
                f"{path}: its last runs are in {log.name}, and to read them, SQLite must write beside it. Copy both "
                "files into a folder that you can write to."
            )
    return _opened(path, f"{uri}&immutable=1", create=False, write=write)


def _opened(path: str, uri: str, *, create: bool, write: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=True)
    with _closed_on_error(connection):
        connection.text_factory = _text
        connection.execute(f"PRAGMA busy_timeout = {int(_WAIT * 1000)}")
        if not _prepare(path, connection, create=create, write=write):
            with contextlib.closing(connection):
                return _copied(path, connection)
        connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: a killed process loses nothing
    return connection


def _text(data: bytes) -> str:
    """Read a text whose bytes may be damaged: its digest is then another, and only its row is left out."""
    return data.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _prepare(path: str, connection: sqlite3.Connection, *, create: bool, write: bool = False) -> bool:
    """Check the file and make its tables if asked, whatever other processes do to it at the same time.

    Return whether it can be used as it is; one of version 1 cannot.
    """
    deadline = time.monotonic() + _WAIT
    while True:
        try:
            with transaction(connection, "DEFERRED"):
                version = version_of(path, connection)
            if version == 1 and not write:
                return False
            if version is None and not create:
                raise InvalidFile(f"{path}: is empty, and no run store. Put the store back, or name another file.")
            if create:
                connection.execute("PRAGMA journal_mode = WAL")
            if version in (None, 1):
                _make(path, connection)
            return True
        except sqlite3.OperationalError as error:
            # Two that change the journal mode at once do not wait for each other, as everybody else does.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _make(path: str, connection: sqlite3.Connection) -> None:
    """Make or upgrade the tables in one transaction: nobody may see the file half made."""
    with transaction(connection, "IMMEDIATE"):
        version = version_of(path, connection)  # another process may have been faster
        if version is None:
            make_tables(connection)
        elif version == 1:
            upgrade(connection)


def _copied(path: str, connection: sqlite3.Connection) -> Copy:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Copy)
    with _closed_on_error(copy):
        connection.backup(copy)
        _make(path, copy)
    return copy


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
