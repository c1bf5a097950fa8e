"""A database that is one file or in memory: its life, and what it says when something is wrong."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from replicable_rl.display import Displayed
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.store.connection import Copy, connect, gone, restore
from replicable_rl.store.schema import bring_up_to_date, transaction

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: a table is not there


class Database(Displayed):
    """The connection of a run store: opened, closed, opened again, shared by threads, and copied."""

    _opened: sqlite3.Connection | None = None

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._setup(path)
        with self._explained(), self._undamaged("version 1"):
            self._opened = connect(self.path)

    def _setup(self, path: str | os.PathLike[str] | None) -> None:
        """Set all but the connection."""
        try:
            # Absolute, for results open it again, wherever the process has gone meanwhile.
            self.path = None if path is None else str(Path(os.fsdecode(path)).absolute())
            if b"\0" in os.fsencode(self.path or ""):
                raise ValueError
        except (TypeError, ValueError):
            raise InvalidInput(f"RunStore: path must name a file, or be None; got {path!r}.") from None
        self.damaged: list[str] = []  # what was found changed, and is left out
        self._lock = threading.RLock()  # one connection, several threads
        self._documents: dict[object, tuple[int, bytes]] = {}  # numbers and digests
        self._file: tuple[int, int] | None = None  # which file was opened to be written, and has all columns

    def __enter__(self) -> Self:
        with self._lock, self._explained():
            if self._opened is None:
                self._reopen()
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
            return _closed, (type(self), self.path)
        with self._session() as connection:
            return _in_memory, (type(self), connection.serialize())

    def __repr__(self) -> str:
        return f"RunStore({self.path!r})" if self.path is not None else "RunStore(in memory)"

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._session(write=True) as connection:
            self._check_is_there()
            known = dict(self._documents)
            try:
                with transaction(connection, "IMMEDIATE"):
                    if self._file is None:
                        bring_up_to_date(connection)
                    yield connection
                self._file = self._file or self._identity()
            except BaseException:
                self._documents = known  # numbers given inside are taken back
                raise

    @contextlib.contextmanager
    def _session(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend one thread the connection; a store that was closed is open for as long as the outermost of these."""
        with self._lock, self._explained():
            if self._opened is not None:
                if write and isinstance(self._opened, Copy):  # of version 1: from now on, the file itself
                    self._reopen(write=True)
                yield self._opened
                return
            self._reopen(write=write)
            try:
                yield self._connection
            finally:
                self.close()

    def _identity(self) -> tuple[int, int]:
        """Return which file has the name of the store now; (-1, -1) for none, (0, 0) for a store in memory."""
        with contextlib.suppress(FileNotFoundError):
            found = None if self.path is None else os.stat(self.path)  # noqa: PTH116  # once a commit
            return (0, 0) if found is None else (found.st_dev, found.st_ino)
        return -1, -1

    def _check_is_there(self) -> None:
        """Refuse to write to a file that was deleted or replaced: SQLite would go on, and all would be lost."""
        if self._file is not None and self._identity() != self._file:
            raise gone(str(self.path))

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._opened is not None, "asked for outside of a session"
        return self._opened

    def _reopen(self, *, write: bool = False) -> None:
        if self.path is None:
            raise InvalidInput(f"{self}: was closed, and what it held in memory is gone. Close it later.")
        with self._undamaged("version 1"):
            opened = connect(self.path, create=False, write=write)
        self.close()
        self._opened, self._documents, self._file = opened, {}, None  # the file may have been replaced

    @contextlib.contextmanager
    def _undamaged(self, what: str) -> Iterator[None]:
        """Say of content that cannot be understood that it is damaged."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidFile):
                raise
            raise self._damaged(f"{what}: {error}") from None

    def _damaged(self, how: str) -> InvalidFile:
        how = " ".join(how.split()).rstrip(".")
        return InvalidFile(f"{self.path or 'run store'}: the file is damaged ({how}). Restore it from a copy.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says of a file into one clear sentence."""
        try:
            yield
        except UnicodeDecodeError:  # SQLite quotes what it cannot read
            raise self._damaged("its tables cannot be read") from None
        except sqlite3.Error as error:
            path = self.path or "run store"
            code = getattr(error, "sqlite_errorcode", 0)  # Python's own errors have none
            if code & 0xFF in _DAMAGE or (not code and str(error).startswith("Could not decode")):
                raise self._damaged(str(error)) from None
            if code == sqlite3.SQLITE_READONLY_DBMOVED:
                raise gone(path) from None
            if code & 0xFF == sqlite3.SQLITE_READONLY:
                raise InvalidFile(
                    f"{path}: the file cannot be written ({error}). Its runs can be read; to add more, copy it to "
                    "where it can be written."
                ) from None
            raise InvalidFile(
                f"{path}: {error}. Finished runs are kept; mend this, and the same call resumes."
            ) from None


def _closed(kind: type[Database], path: str) -> Database:
    """Return a store in a file, which is opened when it is used."""
    store = kind.__new__(kind)
    store._setup(path)
    return store


def _in_memory(kind: type[Database], content: bytes) -> Database:
    """Return a store in memory with the content of another one."""
    store = kind.__new__(kind)
    store._setup(None)
    with store._explained():
        store._opened = restore(content)
    return store
