"""The run store: one SQLite file, a row for every finished run.

A run is *finished* when its row is committed. Rows are added in batches, each one transaction with the contents that
it needs, so that a process killed at any moment leaves whole rows and no others. Two processes may add to one file:
the first to finish a run keeps it, and since a run is a function of its key, the second has found the same.

``runs`` holds one row for every run. What many rows share is in ``documents`` as canonical JSON, once: ``family`` is
the problem, the algorithm and the sampler, ``about`` the names of levels and of columns of a history, the status, the
claims and the versions. ``digests`` holds the fingerprints of these levels and columns, 32 bytes each, one after the
other, and ``contents`` holds the arrays, once for every fingerprint. ``sample`` is the seed of a sample that was drawn,
or the digest of one that was recorded, which has no sampler. Seeds and numbers of samples are decimal text, for they
pass SQLite's 63 bits. ``error`` says why a run failed. ``audits`` says which runs belong together and in which order,
and what was asked of them, and ``repeats`` which runs were made again, and whether they came out the same.

Every row has a digest of what it says and of the documents that it names. It is checked whenever the row is read, and a
file in which something was changed is refused. Somebody who changes a row *and* computes its digest again is not found
out.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from replicable_rl.canonical import Json, array_to_bytes, canonical_json, from_record, parse_json, read_npy, to_json
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import check_regular
from replicable_rl.runs import (
    HISTORY,
    LEVELS,
    Claims,
    Drawn,
    Fingerprints,
    Kept,
    Run,
    RunFamily,
    column_digest,
    level_of,
    speaker,
    status_from,
)
from replicable_rl.wording import Displayed

APPLICATION_ID = 0x7252_4C31  # "rRL1": what `file` and this module know a store by
SCHEMA = 1
_WAIT = 60.0  # seconds that one process waits for another to commit
_ABOUT = """SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version"""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE)",
    """CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    shared_seed TEXT NOT NULL,
    sample TEXT NOT NULL,
    digests BLOB NOT NULL,
    samples TEXT,
    seconds REAL NOT NULL,
    error TEXT,
    family INTEGER NOT NULL REFERENCES documents,
    about INTEGER NOT NULL REFERENCES documents,
    digest BLOB NOT NULL
)""",
    "CREATE INDEX IF NOT EXISTS runs_of_a_family ON runs (family)",
    "CREATE TABLE IF NOT EXISTS contents (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS audits (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE, digest BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS repeats (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE, digest BLOB NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA}",
)
Row = tuple[Any, ...]
Documents = tuple[int, int, str]  # the numbers of those of a run, and their digest
_COLUMNS = "key, shared_seed, sample, digests, samples, seconds, error, family, about, digest"
_ADD = f"""INSERT INTO runs ({_COLUMNS}) VALUES ({", ".join("?" * (_COLUMNS.count(",") + 1))})
    ON CONFLICT (key) DO UPDATE SET ({_COLUMNS}) = (excluded.{_COLUMNS.replace(", ", ", excluded.")})
    WHERE runs.error IS NOT NULL"""  # what has finished never changes
_SELECT = f"""SELECT {_COLUMNS.replace("family, about", "f.json, a.json")}
    FROM runs LEFT JOIN documents f ON f.id = family LEFT JOIN documents a ON a.id = about"""


class RunStore(Displayed):
    """Finished runs, in a file or in memory.

    Parameters
    ----------
    path : path or None
        The SQLite file; it is made where there is none. None keeps the runs in memory.

    Notes
    -----
    After :meth:`close` a store in a file can still be used: it is opened for the length of each call, and
    never made again. A copy (``copy.deepcopy``, ``pickle``) names the same file; a store in memory cannot be copied.
    A file that cannot be written can be read.

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
        try:
            # Absolute, for results open it again, wherever the process has gone meanwhile.
            self.path = None if path is None else str(Path(os.fsdecode(path)).absolute())
        except TypeError:
            raise InvalidInput(f"RunStore: path must name a file, or be None; got {path!r}.") from None
        self._lock = threading.RLock()  # one connection, several threads
        with self._explained():
            self._open(create=True)

    def __getstate__(self) -> str:
        if self.path is None:
            raise InvalidInput(f"{self}: a store in memory cannot be copied. Give it a file.")
        return self.path

    def __setstate__(self, path: str) -> None:
        self.path, self._lock = path, threading.RLock()

    def __enter__(self) -> Self:
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
                    with connection:  # commits the transaction, or takes it back when the block raises
                        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                        yield connection
            finally:
                if closed:
                    self.close()

    def _open(self, *, create: bool) -> sqlite3.Connection:
        """Open the file, or a database in memory; where nothing is, create it or say so. Anything else is refused."""
        uri = ":memory:"
        if self.path is not None:
            uri = f"{Path(self.path).as_uri()}?mode={'rwc' if create else 'rw'}"
            if os.path.exists(self.path):  # noqa: PTH110  # Path's own raises where a name is too long
                check_regular(self.path)  # without opening it: to close it again would drop SQLite's locks
            elif not create:
                raise InvalidFile(
                    f"{self.path}: the store is gone; it was moved or deleted. Put it back, or make its runs again."
                )
        elif not create:
            raise InvalidInput(f"{self}: was closed, and what it held in memory is gone. Close it later.")
        opened = sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=True)
        try:
            # At once, for another process may make the tables; these may be made again.
            application, version, tables = opened.execute(_ABOUT).fetchone()
            if not (application or version or tables):
                with opened:  # nobody may see the file half made
                    for statement in ("BEGIN IMMEDIATE", *_TABLES):
                        opened.execute(statement)
            elif (application, version) != (APPLICATION_ID, SCHEMA):
                raise InvalidFile(
                    f"{self.path}: is no run store of schema {SCHEMA}, but an SQLite file of another program or of "
                    "another release. Name another file."
                )
        except BaseException:
            opened.close()
            raise
        self._opened = opened
        return opened

    def damaged(self, how: str) -> InvalidFile:
        """Say that the file is not as it was written."""
        return InvalidFile(f"{self.path}: is no run store, or the file is damaged ({how}). Restore it from a copy.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says of a file into one clear sentence."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes what it cannot read, which has no code
            code = vars(error).get("sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):  # or a table is not there
                raise self.damaged(" ".join(str(error).split())) from None
            raise InvalidFile(
                f"{self.path}: cannot be read or written now ({error}). Finished runs are kept: mend this, or copy "
                "the file to where it can be written, and the same call resumes."
            ) from None

    # --- adding ----------------------------------------------------------------------------------

    def add(self, runs: Sequence[Run], contents: Mapping[str, bytes]) -> int:
        """Add finished and failed runs in one transaction, and return how many finished ones are new.

        ``contents`` are their outputs by fingerprint, as :func:`replicable_rl.store.packed` collects them.
        """
        with self._session(write=True) as connection:
            documents_of: dict[Any, Documents] = {}
            rows = [(_row(connection, run, documents_of), run.error is None) for run in runs]
            before = connection.total_changes  # not earlier: new documents are no new runs
            connection.executemany(_ADD, [row for row, finished in rows if finished])
            new = connection.total_changes - before
            connection.executemany(_ADD, [row for row, finished in rows if not finished])
            connection.executemany(
                "INSERT OR IGNORE INTO contents (digest, data) VALUES (?, ?)",
                [(bytes.fromhex(digest), data) for digest, data in contents.items()],
            )
        return new

    def add_audit(self, record: Json) -> None:
        """Keep what an audit runs and asks; a record that is there already changes nothing."""
        self._add_texts("audits", [_text(record)])

    def add_repeats(self, records: Iterable[Json]) -> None:
        """Keep whether runs that were made again came out the same."""
        self._add_texts("repeats", [_text(record) for record in records])

    def _add_texts(self, table: str, texts: list[str]) -> None:
        query = f"INSERT OR IGNORE INTO {table} (json, digest) VALUES (?, ?)"
        with self._session(write=True) as connection:
            connection.executemany(query, [(text, _digest(text)) for text in texts])

    # --- reading ---------------------------------------------------------------------------------

    def runs(self, family: RunFamily) -> dict[str, Run]:
        """Return the runs of a family by their keys; those that failed follow."""
        of_family = "WHERE family = (SELECT id FROM documents WHERE json = ?) ORDER BY error IS NOT NULL, runs.id"
        with self._session() as connection:
            rows = connection.execute(f"{_SELECT} {of_family}", (_text(to_json(family)),))
            return {run.key: run for run in map(self._run, rows)}

    def run(self, key: str) -> Run:
        """Return the run with this key."""
        with self._session() as connection:
            row = connection.execute(f"{_SELECT} WHERE key = ?", (self._blob(key),)).fetchone()
            if row is None:
                raise InvalidInput(f"{self}: no run has the key {key}.")
            return self._run(row)

    def families(self) -> list[tuple[RunFamily, int]]:
        """Return every family and the number of its finished runs; those on recorded samples have no sampler."""
        query = """SELECT json, count(*) FROM runs JOIN documents ON documents.id = family
            WHERE error IS NULL GROUP BY family ORDER BY min(runs.id)"""
        with self._session() as connection:
            return [(from_record(RunFamily, parse_json(text)), runs) for text, runs in connection.execute(query)]

    def audits(self) -> list[Json]:
        """Return the records of the audits in this store, in the order in which they came."""
        return self._texts("audits")

    def repeats(self) -> list[Json]:
        """Return the records of the runs that were made again."""
        return self._texts("repeats")

    def _texts(self, table: str) -> list[Json]:
        with self._session() as connection:
            rows = connection.execute(f"SELECT json, digest FROM {table} ORDER BY id").fetchall()
        if any(_digest(text) != digest for text, digest in rows):
            raise self.damaged(f"a row of {table} was changed after it was written")
        return [parse_json(text) for text, _ in rows]

    def output(self, level: str, digest: str) -> Any:
        """Return the output of a level with this fingerprint, or a column of a history by ``"history/NAME"``."""
        with self._session() as connection:
            query = "SELECT data FROM contents WHERE digest = ?"
            row = connection.execute(query, (self._blob(digest),)).fetchone()
        if row is None:
            raise InvalidInput(
                f"{self}: holds nothing with the fingerprint {digest}. Make its runs again in another file."
            )
        if not level.startswith(HISTORY) and level not in LEVELS:
            raise InvalidInput(
                f"{self}: no level is called {level!r}; load the module that registers it (--plugin MODULE)."
            )
        reason = "its content does not have this fingerprint"
        try:
            output, seen = _decoded(level, row[0])
            if seen == digest:
                return output
        except Exception as error:  # whatever NumPy, zipfile or json say of bytes that they cannot read
            reason = str(error).rstrip(".")
        raise InvalidFile(f"{self}: {level} {digest[:16]}: is damaged ({reason}). Restore the file from a copy.")

    def outputs(self, level: str, digests: Iterable[str]) -> dict[str, Any]:
        """Return several outputs of a level by their fingerprints."""
        with self._session():
            return {digest: self.output(level, digest) for digest in digests}

    def _run(self, row: Row) -> Run:
        """Return the run of a row, whose digest is checked."""
        *own, family, about, digest = row
        if digest != _digest(own, _both(family, about)):
            raise self.damaged("a run was changed after it was written")
        key, shared_seed, sample, digests, samples, seconds, error = own
        runs, levels, columns, run = _shared(family, about)
        texts = [digests[i : i + 32].hex() for i in range(0, len(digests), 32)]
        prints = Fingerprints(zip(levels, texts, strict=False))  # the columns of its history follow
        return run.but(
            fingerprints=prints,
            outputs=Kept(prints, self.output),
            samples=None if samples is None else int(samples),
            history=Kept(dict(zip(columns, texts[len(levels) :], strict=True)), self.output, HISTORY),
            spec=runs.spec(int(shared_seed), sample, key.hex()),
            seconds=seconds,
            error=error,
        )

    def _blob(self, digest: str) -> bytes:
        try:
            return bytes.fromhex(digest)
        except (TypeError, ValueError):
            raise InvalidInput(f"{self}: keys and fingerprints are hexadecimal digits, got {digest!r}.") from None


def packed(run: Run, contents: dict[str, bytes], **changes: Any) -> Run:
    """Return a run without its outputs and with ``changes``, to travel; ``contents`` gets what it lacks of them."""
    for name, digest in run.fingerprints.items():
        if digest not in contents:
            contents[digest] = array_to_bytes(level_of(name).encode(run.outputs[name]))
    for name, digest in run.columns.items():
        if digest not in contents:
            contents[digest] = array_to_bytes(np.asarray(run.history[name]))
    return run.kept(None, **changes)


def _decoded(name: str, data: bytes) -> tuple[Any, str]:
    """Return an output of a level, or a column of a history, and its digest."""
    array = read_npy(data)
    if name.startswith(HISTORY):
        return array, column_digest(name.removeprefix(HISTORY), array)
    output = LEVELS[name].decode(array)
    return output, LEVELS[name].digest(name, output)


def _row(connection: sqlite3.Connection, run: Run, documents_of: dict[Any, Documents]) -> Row:
    """Return the row of a run, and add its documents where they are new."""
    key, spec, levels, columns = run.key, run.spec, tuple(run.fingerprints), tuple(run.columns)
    assert spec is not None, "it has a key"
    digests = [*run.fingerprints.values(), *run.columns.values()]
    if any(len(digest) != 64 for digest in digests):
        raise InvalidInput(f"RunStore: fingerprints have 64 hexadecimal digits, got {dict(run.fingerprints)!r:.200}.")
    sampler = spec.sample.sampler if isinstance(spec.sample, Drawn) else None
    # Many runs share their specs. Equal ones need not have equal JSON: 1 and True.
    shared = id(spec.problem), id(spec.algorithm), sampler, levels, columns, run.status, run.claims, id(run.made_with)
    if shared not in documents_of:
        family = _text(to_json(RunFamily(spec.problem, spec.algorithm, sampler)))
        about = _text([levels, columns, to_json(run.status), run.claims.to_json(), dict(run.made_with)])
        documents_of[shared] = _number(connection, family), _number(connection, about), _both(family, about)
    *numbers, documents = documents_of[shared]
    own = [
        bytes.fromhex(key),
        str(spec.shared_seed),
        str(spec.sample.seed) if isinstance(spec.sample, Drawn) else spec.sample.digest,
        bytes.fromhex("".join(digests)),
        None if run.samples is None else str(run.samples),
        float(run.seconds),
        run.error,
    ]
    return *own, *numbers, _digest(own, documents)


def _number(connection: sqlite3.Connection, text: str) -> int:
    """Return the number of a document, which is added where it is new."""
    connection.execute("INSERT OR IGNORE INTO documents (json) VALUES (?)", (text,))
    return int(connection.execute("SELECT id FROM documents WHERE json = ?", (text,)).fetchone()[0])


@lru_cache(maxsize=256)  # many rows share them
def _shared(family: str, about: str) -> tuple[RunFamily, list[str], list[str], Run]:
    """Return what documents say: the family of a run, its levels and columns, and a run without what is its own."""
    runs, (levels, columns, status, claims, made_with) = from_record(RunFamily, parse_json(family)), parse_json(about)
    claimed = Claims.from_json(claims, speaker(runs.algorithm))
    return runs, levels, columns, Run(Fingerprints(), {}, status_from(status), claimed, made_with=made_with)


@lru_cache(maxsize=256)
def _both(family: str, about: str) -> str:
    """Return the digest of the documents of a run."""
    return hashlib.sha256(f"{family}\n{about}".encode()).hexdigest()


def _text(value: Json) -> str:
    return canonical_json(value).decode()


def _digest(*parts: object) -> bytes:
    """Return the digest of a row: of its texts, bytes, numbers and None, as Python has always written them."""
    return hashlib.sha256(ascii(parts).encode()).digest()
