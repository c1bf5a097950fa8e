"""The run store: one SQLite file, a row for every finished run.

A run is *finished* when its row is committed. Rows are added in batches, each one transaction with the contents that
it needs, so that a process killed at any moment leaves whole rows and no others. Two processes may add to one file:
the first to finish a run keeps it, and since a run is a function of its key, the second has found the same.

``runs`` holds one row for every run. What many rows share (problems, algorithms, claims) is in ``documents`` as
canonical JSON, once. Levels are data: ``levels`` names the list of their names, and ``digests`` holds their
fingerprints of 32 bytes, one after the other. ``contents`` holds outputs and histories, once for every fingerprint.
``error`` says why a run failed. ``audits`` says which runs belong together, and what was asked of them, and
``repeats`` which runs were made again, and whether they came out the same. ``sample`` is the seed of a sample that
``sampler`` drew, or the digest of one that was recorded, which has no sampler. Seeds and numbers of samples are decimal
text, for they pass SQLite's 63 bits.

Every row has a seal: the digest of what it says and of the documents that it names. It is checked whenever the row is
read, and a file in which something was changed is refused. Somebody who changes a row *and* computes its seal again is
not found out.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import Json, array_to_bytes, canonical_json, json_text, parse_json, read_npy
from replicable_rl.display import Displayed
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.runs import (
    LEVELS,
    AuditSpec,
    Claims,
    Drawn,
    Fingerprints,
    ObjectSpec,
    Repeat,
    Run,
    RunFamily,
    Status,
    history_digest,
    level_of,
    speaker,
)
from replicable_rl.runs.run import KeptHistory, KeptOutputs

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
Row = tuple[Any, ...]
_OWN = ("key", "sampler", "shared_seed", "sample", "digests", "history", "samples", "seconds", "error")
_NAMED = ("problem", "algorithm", "levels", "status", "claims", "made_with")  # by the numbers of documents
_COLUMNS = ", ".join((*_OWN, *_NAMED, "seal"))
_ADD = f"""INSERT INTO runs ({_COLUMNS}) VALUES ({", ".join("?" * (_COLUMNS.count(",") + 1))})
    ON CONFLICT (key) DO UPDATE SET ({_COLUMNS}) = (excluded.{_COLUMNS.replace(", ", ", excluded.")})
    WHERE runs.error IS NOT NULL"""  # what has finished never changes
_OF_FAMILY = """problem = (SELECT id FROM documents WHERE json = ?)
    AND algorithm = (SELECT id FROM documents WHERE json = ?) AND sampler IS ?"""
HISTORY = "history"  # what a history is called beside the levels


class RunStore(Displayed):
    """Finished runs, in a file or in memory.

    Parameters
    ----------
    path : path or None
        The SQLite file; it is made where there is none. None keeps the runs in memory.

    Notes
    -----
    After :meth:`close` a store in a file can still be used: it is opened for the length of each call, and
    never made again. A copy (``copy.deepcopy``, ``pickle``) of a store in a file names the same file; a copy
    of one in memory has its content. A file that cannot be written can be read.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> store = RunStore()
    >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> [(family.problem.id, family.algorithm.id, runs) for family, runs in store.families()]
    [('chain-v1', 'phased-vi-v1', 6)]
    """

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
            return _copy, (self.path, None)
        with self._session() as connection:
            return _copy, (None, connection.serialize())

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

    # --- adding ----------------------------------------------------------------------------------

    def add(self, runs: Sequence[Run], contents: Mapping[str, bytes]) -> int:
        """Add finished and failed runs in one transaction, and return how many finished ones are new.

        ``contents`` are their outputs by fingerprint, as :func:`replicable_rl.store.packed` collects them.
        """
        with self._session(write=True) as connection:
            numbered = _numbering(connection)
            finished = [_row(run, numbered) for run in runs if run.error is None]
            failed = [_row(run, numbered) for run in runs if run.error is not None]
            before = connection.total_changes  # not earlier: new documents are no new runs
            connection.executemany(_ADD, finished)
            new = connection.total_changes - before
            connection.executemany(_ADD, failed)
            connection.executemany(
                "INSERT OR IGNORE INTO contents (digest, data) VALUES (?, ?)",
                [(bytes.fromhex(digest), data) for digest, data in contents.items()],
            )
        return new

    def add_audit(self, spec: AuditSpec) -> None:
        """Keep what an audit runs and asks; one that is there already changes nothing."""
        text = _text(spec.to_json())
        with self._session() as connection:
            if connection.execute("SELECT 1 FROM audits WHERE json = ?", (text,)).fetchone():
                return  # also in a file that cannot be written
        with self._session(write=True) as connection:
            connection.execute("INSERT OR IGNORE INTO audits (json, seal) VALUES (?, ?)", (text, _seal([text])))

    def add_repeats(self, repeats: Iterable[Repeat]) -> None:
        """Keep whether runs that were made again came out the same."""
        own = [(self._blob(one.run), one.same, one.why) for one in repeats]
        with self._session(write=True) as connection:
            query = "INSERT INTO repeats (key, same, why, seal) VALUES (?, ?, ?, ?)"
            connection.executemany(query, [(*one, _seal(one)) for one in own])

    # --- reading ---------------------------------------------------------------------------------

    def runs(self, family: RunFamily) -> dict[str, Run]:
        """Return the runs of a family by their keys; those that failed follow."""
        specs = (_text(spec.to_json()) for spec in (family.problem, family.algorithm))
        query = f"SELECT {_COLUMNS} FROM runs WHERE {_OF_FAMILY} ORDER BY error IS NOT NULL, id"
        with self._session() as connection:
            rows = connection.execute(query, (*specs, family.sampler))
            return {run.key: run for run in map(self._reader(connection), rows)}

    def run(self, key: str) -> Run:
        """Return the run with this key.

        >>> import replicable_rl as rr
        >>> store = RunStore()
        >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
        >>> store.run(result.runs[0].key).policy.tolist()
        [0, 0, 0, 0, 0]
        """
        with self._session() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM runs WHERE key = ?", (self._blob(key),)).fetchone()
            if row is None:
                raise InvalidInput(f"{self}: no run has the key {key}.")
            return self._reader(connection)(row)

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Return which of the keys have finished."""
        query = "SELECT 1 FROM runs WHERE key = ? AND error IS NULL"
        with self._session() as connection:
            return {key for key in keys if connection.execute(query, (self._blob(key),)).fetchone()}

    def families(self) -> list[tuple[RunFamily, int]]:
        """Return every family and the number of its finished runs; those on recorded samples have no sampler."""
        query = """SELECT p.json, a.json, sampler, count(*) FROM runs
            JOIN documents p ON p.id = problem JOIN documents a ON a.id = algorithm
            WHERE error IS NULL GROUP BY problem, algorithm, sampler ORDER BY min(runs.id)"""
        with self._session() as connection:
            return [
                (RunFamily(_object(problem), _object(algorithm), sampler), count)
                for problem, algorithm, sampler, count in connection.execute(query).fetchall()
            ]

    def audits(self) -> list[AuditSpec]:
        """Return what the audits in this store run and ask, in the order in which they came."""
        with self._session() as connection:
            rows = connection.execute("SELECT json, seal FROM audits ORDER BY id").fetchall()
        for i, (text, sealed) in enumerate(rows, start=1):
            if sealed != _seal([text]):
                raise self.damaged(f"audit {i} was changed after it was written")
        return [AuditSpec.from_json(parse_json(text)) for text, _ in rows]

    def repeats(self) -> list[Repeat]:
        """Return which runs were made again, and whether they came out the same."""
        with self._session() as connection:
            rows = connection.execute("SELECT key, same, why, seal FROM repeats ORDER BY id").fetchall()
        found = [(key, None if same is None else bool(same), why) for key, same, why, _ in rows]
        if any(_seal(one) != row[-1] for one, row in zip(found, rows, strict=True)):
            raise self.damaged("a run that was made again was changed after it was written")
        return [Repeat(key.hex(), same, why) for key, same, why in found]

    def output(self, level: str, digest: str) -> Any:
        """Return the output of a level with this fingerprint; for ``"history"``, what happened round by round."""
        with self._session() as connection:
            query = "SELECT data FROM contents WHERE digest = ?"
            row = connection.execute(query, (self._blob(digest),)).fetchone()
        if row is None:
            raise InvalidInput(
                f"{self}: holds nothing with the fingerprint {digest}. Make its runs again in another file."
            )
        return decode(repr(self), level, row[0], digest)

    def outputs(self, level: str, digests: Iterable[str]) -> dict[str, Any]:
        """Return several outputs of a level by their fingerprints."""
        with self._session():
            return {digest: self.output(level, digest) for digest in digests}

    def _reader(self, connection: sqlite3.Connection) -> Callable[[Row], Run]:
        """Return what makes a run of a row, which must have its seal; what many rows have is read once."""

        @cache
        def text(number: int) -> str:
            row = connection.execute("SELECT json FROM documents WHERE id = ?", (number,)).fetchone()
            if row is None:
                raise self.damaged(f"there is no document {number!r:.20}")
            return str(row[0])

        @cache
        def digest(number: int | None) -> str | None:
            return None if number is None else _text_digest(text(number))

        @cache
        def said(kind: Callable[[Json], Any], number: int | None) -> Any:
            return None if number is None else kind(parse_json(text(number)))

        @cache
        def claimed(number: int, algorithm: int) -> Claims:
            return Claims.from_json(parse_json(text(number)), speaker(said(ObjectSpec.from_json, algorithm)))

        @cache
        def family(problem: int, algorithm: int, sampler: str | None) -> RunFamily:
            return RunFamily(said(ObjectSpec.from_json, problem), said(ObjectSpec.from_json, algorithm), sampler)

        @cache
        def outputs(levels: int, digests: bytes) -> KeptOutputs:
            prints = {name: digests[32 * i : 32 * i + 32].hex() for i, name in enumerate(said(tuple, levels))}
            return KeptOutputs(Fingerprints(prints), self.output)

        def run(row: Row) -> Run:
            own, numbers, sealed = row[: len(_OWN)], row[len(_OWN) : -1], row[-1]
            if sealed != _seal([*own, *map(digest, numbers)]):
                raise self.damaged("a run was changed after it was written")
            key, sampler, shared_seed, sample, digests, history, samples, seconds, error = own
            problem, algorithm, levels, status, claims, made_with = numbers
            kept = outputs(levels, digests)
            return Run(
                fingerprints=kept.fingerprints,
                outputs=kept,
                status=said(Status.from_json, status),
                claims=claimed(claims, algorithm),
                samples=None if samples is None else int(samples),
                history={} if history is None else KeptHistory(history.hex(), self.output),
                spec=family(problem, algorithm, sampler).spec(int(shared_seed), sample, key.hex()),
                made_with=said(dict, made_with),
                seconds=seconds,
                error=error,
            )

        return run

    def _blob(self, digest: str) -> bytes:
        try:
            return bytes.fromhex(digest)
        except (TypeError, ValueError):
            raise InvalidInput(f"{self}: keys and fingerprints are hexadecimal digits, got {digest!r}.") from None


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


def _copy(path: str | None, content: bytes | None) -> RunStore:
    """Return a store in the same file, which is opened when it is used, or one in memory with the same content."""
    store = object.__new__(RunStore)
    store._setup(path)
    if content is not None:
        with store._explained(), contextlib.closing(sqlite3.connect(":memory:")) as source:
            opened = store._open(create=True)
            source.deserialize(content)
            source.backup(opened)  # one that is deserialised itself could not grow beyond 1 GiB
    return store


def packed(run: Run, contents: dict[str, bytes], **changes: Any) -> Run:
    """Return a run without its outputs and with ``changes``, to travel; what ``contents`` lacks of them is added to it.

    Equal outputs have one fingerprint and are encoded once.

    >>> contents = {}
    >>> run = packed(Run.of({"policy": [0, 1]}), contents)
    >>> list(contents) == [run.fingerprints.policy], run.outputs
    (True, {})
    """
    for name, digest in run.fingerprints.items():
        if digest not in contents:
            contents[digest] = array_to_bytes(level_of(name).encode(run.outputs[name]))
    history = run.history_digest
    if history is not None and history not in contents:
        contents[history] = _encode_history(run.history)
    return run.kept(None, history, **changes)


def decode(owner: str, name: str, data: bytes, digest: str) -> Any:
    """Read an output of a level, or a history, and check its fingerprint."""
    if name != HISTORY and name not in LEVELS:
        raise InvalidInput(
            f"{owner}: no level is called {name!r}; load the module that registers it (--plugin MODULE)."
        )
    reason = "its content does not have this fingerprint"
    try:
        output = _decode_history(data) if name == HISTORY else LEVELS[name].decode(read_npy(data))
        if (history_digest(output) if name == HISTORY else LEVELS[name].digest(name, output)) == digest:
            return output
    except Exception as error:  # whatever numpy, zipfile or json say of bytes that they cannot read
        reason = str(error).rstrip(".")
    raise InvalidFile(f"{owner}: {name} {digest[:16]}: is damaged ({reason}). Restore the file from a copy.")


def _encode_history(history: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Write a history: the names of its columns, which may be any text, and their lengths as JSON, then the numbers."""
    heading = json_text([[name, column.size] for name, column in history.items()])
    return b"".join([heading.encode(), b"\n", *(column.astype("<f8").tobytes() for column in history.values())])


def _decode_history(data: bytes) -> dict[str, NDArray[np.float64]]:
    heading, _, numbers = data.partition(b"\n")
    names, sizes = zip(*parse_json(heading), strict=True)
    columns = np.split(np.frombuffer(numbers, dtype="<f8"), np.cumsum(sizes)[:-1])
    return dict(zip(names, columns, strict=True))


def _row(run: Run, numbered: Callable[[Any], tuple[int | None, str | None]]) -> Row:
    """Return the row of a run."""
    key, spec, history = run.key, run.spec, run.history_digest
    assert spec is not None, "it has a key"
    sample = spec.sample
    if any(len(digest) != 64 for digest in run.fingerprints.values()):
        raise InvalidInput(f"RunStore: fingerprints have 64 hexadecimal digits, got {dict(run.fingerprints)!r:.200}.")
    own = (
        bytes.fromhex(key),
        sample.sampler if isinstance(sample, Drawn) else None,
        str(spec.shared_seed),
        str(sample.seed) if isinstance(sample, Drawn) else sample.digest,
        bytes.fromhex("".join(run.fingerprints.values())),
        None if history is None else bytes.fromhex(history),
        None if run.samples is None else str(run.samples),
        float(run.seconds),
        run.error,
    )
    documents = (spec.problem, spec.algorithm, tuple(run.fingerprints), run.status, run.claims, run.made_with)
    numbers, digests = zip(*map(numbered, documents), strict=True)
    return *own, *numbers, _seal([*own, *digests])


def _numbering(connection: sqlite3.Connection) -> Callable[[Any], tuple[int | None, str | None]]:
    """Return what numbers documents, which are added where they are new, and takes their digests."""
    known: dict[Any, tuple[int | None, str | None]] = {id(None): (None, None)}

    def numbered(value: Any) -> tuple[int | None, str | None]:
        # The others are shared by many runs, which keep them; equal ones need not have equal JSON: 1 and True.
        key = value if isinstance(value, (Status, Claims, tuple)) else id(value)
        if key not in known:
            text = _text(value.to_json() if isinstance(value, (ObjectSpec, Status, Claims)) else value)
            connection.execute("INSERT OR IGNORE INTO documents (json) VALUES (?)", (text,))
            ((number,),) = connection.execute("SELECT id FROM documents WHERE json = ?", (text,))
            known[key] = number, _text_digest(text)
        return known[key]

    return numbered


def _object(text: str) -> ObjectSpec:
    return ObjectSpec.from_json(parse_json(text))


def _text(value: Json) -> str:
    return canonical_json(value).decode()


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(parts: Sequence[object]) -> bytes:
    """Return the digest of a row: of its texts, bytes, numbers and None, as Python has always written them."""
    return hashlib.sha256(ascii(parts).encode()).digest()
