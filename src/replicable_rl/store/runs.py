"""The run store: one SQLite file, a row for every finished run.

A run is *finished* when its row is committed. Rows are added in batches, each one transaction with the contents that
it needs, so that a process killed at any moment leaves whole rows and no others. Two processes may add to one file:
the first to finish a run keeps it, and since a run is a function of its key, the second has found the same.

What is read is checked: a row must have the key of what it says was run, and its seal, unless a whole block of rows is
as it was added. A row that was changed is named in a warning and left out, and the run that an audit makes in its place
puts it aside.
"""

import sqlite3
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replicable_rl.canonical import canonical_json, parse_json
from replicable_rl.errors import InvalidInput
from replicable_rl.records import AuditSpec, Drawn, ObjectSpec, Run, RunFamily, in_order
from replicable_rl.store.blocks import Row, as_written, family_of, stretches
from replicable_rl.store.contents import decode
from replicable_rl.store.database import Database
from replicable_rl.store.reading import Reader, in_chunks, without_collection
from replicable_rl.store.schema import BY_KEY, document, set_aside
from replicable_rl.store.seals import CANNOT_READ, DamagedRecord, check_seal, seal, seal_column

_FAMILY, _IN_IT = "problem, algorithm, sampler", "key, shared_seed, sample"
_IDENTITY = f"{_FAMILY}, {_IN_IT}"
_RUN = "digests, history, samples, seconds, levels, status, claims, made_with"  # the last four are documents
_FAILURE = "seconds, error, made_with"
_TABLES = ((_RUN, "runs"), (_FAILURE, "failures"))
_OF_FAMILY = "problem = ? AND algorithm = ? AND sampler IS ?"


class FamilySummary(NamedTuple):
    """The finished runs of a family: pairs have one shared seed; ``same`` counts, by level, those that agree."""

    family: RunFamily
    runs: int
    shared_seeds: int
    pairs: int
    same: dict[str, int]


class RunStore(Database):
    """Finished runs, in a file or in memory.

    Parameters
    ----------
    path : path or None
        The SQLite file; it is made where there is none. None keeps the runs in memory.

    Notes
    -----
    After :meth:`close` a store in a file can still be used: it is opened for the length of each call, and
    never made again. A copy (``copy.deepcopy``, ``pickle``) of a store in a file names the same file; a copy
    of one in memory has its content. A file that cannot be written can be read. A file of version 1 is read as it was
    when it was opened. The first write to a file of version 1 or 2 makes it one of version 3, which they do not read.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> store = RunStore()
    >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> [(family.problem.id, family.algorithm.id, runs) for family, runs in store.families()]
    [('chain-v1', 'phased-vi-v1', 6)]
    """

    # --- adding ----------------------------------------------------------------------------------

    def add(self, runs: Sequence[Run], contents: Mapping[str, bytes]) -> int:
        """Add finished and failed runs in one transaction, and return how many finished ones are new.

        ``contents`` are their outputs by fingerprint, as :func:`replicable_rl.store.packed` collects them.
        """
        known: dict[int, tuple[int, bytes]] = {}  # documents by the `id` of what says them: runs share and keep these

        def number(value: Any) -> tuple[int, bytes]:
            if id(value) not in known:
                known[id(value)] = self._document(value)
            return known[id(value)]

        with self._transaction() as connection:
            finished = [(*_identity(run, number), *self._row(run, number)) for run in runs if run.error is None]
            failed = [(*_identity(run, number), *_failure(run, number)) for run in runs if run.error is not None]
            before = connection.total_changes  # not earlier: new documents are no new runs
            insert = _insert("OR IGNORE", "runs", f"{_IDENTITY}, {_RUN}, seal")
            connection.executemany(insert, finished)
            new = connection.total_changes - before
            if new < len(finished):  # another process was faster, or what is there is damaged
                new += self._mend(insert, finished)
            elif family := family_of(finished):
                self._add_block(family, finished)
            connection.executemany(_insert("OR REPLACE", "failures", f"{_IDENTITY}, {_FAILURE}, seal"), failed)
            connection.executemany(
                f"{_insert('', 'contents', 'digest, data')} ON CONFLICT (digest) DO UPDATE SET data = excluded.data "
                "WHERE data IS NOT excluded.data",  # what is there may be damaged
                [(bytes.fromhex(digest), data) for digest, data in contents.items()],
            )
        return new

    def add_audit(self, spec: AuditSpec) -> None:
        """Keep what an audit runs and asks; one that is there already changes nothing."""
        text = canonical_json(spec.to_json()).decode()
        with self._session() as connection:
            if connection.execute("SELECT 1 FROM audits WHERE json = ?", (text,)).fetchone():
                return
        with self._transaction() as connection:
            connection.execute(_insert("OR IGNORE", "audits", "json, seal"), (text, seal(text)))

    def _add_block(self, family: Row, rows: Sequence[Row]) -> None:
        """Give rows of one family, which were added just now, one digest for all."""
        (last,) = self._connection.execute("SELECT last_insert_rowid()").fetchone()
        digest = Reader(self._text, self.output).block_seal(family, [row[3:] for row in rows])
        insert = _insert("OR REPLACE", "blocks", f"first, last, {_FAMILY}, seal")
        self._connection.execute(insert, (last - len(rows) + 1, last, *family, digest))

    def _mend(self, insert: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Put runs in the place of damaged rows, which are set aside; return how many."""
        read = Reader(self._text, self.output)
        there = {row[3]: self._found("runs", _RUN, row[3]) for row in rows}  # by key
        damaged = [row for row in rows if (found := there[row[3]]) is None or not read.sound(found[:3], [found[3:]])]
        if damaged:
            set_aside(self._connection, [row[3] for row in damaged])
            before = self._connection.total_changes
            self._connection.executemany(insert, damaged)
            if self._connection.total_changes - before < len(damaged):
                raise self._damaged("it takes no more rows")
        return len(damaged)

    def _row(self, run: Run, number: Callable[[Any], tuple[int, bytes]]) -> tuple[Any, ...]:
        digests, history = self._blob("".join(run.fingerprints.values())), run.history_digest
        if len(digests) != 32 * len(run.fingerprints):
            raise InvalidInput(f"{self}: fingerprints have 64 hexadecimal digits, got {dict(run.fingerprints)!r:.200}.")
        status = (None, None) if run.status is None else number(run.status)
        documents = self._document(tuple(run.fingerprints)), status, number(run.claims), number(run.made_with)
        samples = None if run.samples is None else str(run.samples)
        own = digests, None if history is None else bytes.fromhex(history), samples, float(run.seconds)
        sealed = seal(bytes.fromhex(run.key), *own, *(digest for _, digest in documents))
        return *own, *(id for id, _ in documents), sealed

    def _document(self, value: Any) -> tuple[int, bytes]:
        """Return the number and the digest of the document that says a value, which is added where it is new."""
        key = value
        if isinstance(value, ObjectSpec):
            key = canonical_json(value.to_json())  # equal ones need not have equal JSON: 1 and True
        elif isinstance(value, Mapping):
            key = frozenset(value.items())
        if key not in self._documents:
            said = value.to_json() if hasattr(value, "to_json") else list(value) if key is value else dict(value)
            self._documents[key] = document(self._connection, said)
        return self._documents[key]

    # --- reading ---------------------------------------------------------------------------------

    def runs(self, family: RunFamily) -> dict[str, Run]:
        """Return the runs of a family by their keys; those that failed follow, unless they finished later.

        Damaged ones are left out, and a warning names them.
        """
        found: dict[str, Run] = {}
        with self._session() as connection, self._undamaged("a run"), without_collection():
            read = Reader(self._text, self.output)
            ids = (*(self._number_of(spec) for spec in (family.problem, family.algorithm)), family.sampler)
            for _, rows, vouched in self._finished(connection, read, ids):
                found |= read.of_family(family, rows, vouched=vouched)
            query = f"SELECT {_IN_IT}, {_FAILURE}, {seal_column(connection, 'failures')} FROM failures"
            failed = connection.execute(f"{query} WHERE {_OF_FAMILY} ORDER BY id", ids).fetchall()
            for key, run in read.of_family(family, failed).items():
                found.setdefault(key, run)
        self._name_damaged(read.damaged)
        return found

    def _finished(
        self, connection: sqlite3.Connection, read: Reader, family: Row | None = None
    ) -> Iterator[tuple[Row, list[Row], bool]]:
        """Yield the rows of finished runs in their order, with the numbers of their family, a block or some at a time.

        Also say whether a block vouches for them. Without a ``family`` all are yielded.
        """
        columns, within = f"{_RUN}, {seal_column(connection, 'runs')} FROM runs", "id BETWEEN ? AND ?"
        of_block = f"SELECT {_IN_IT}, {columns} NOT INDEXED WHERE {within} AND {_OF_FAMILY} ORDER BY id"
        of_one = f"AND {_OF_FAMILY}" if family else ""
        of_others = f"SELECT {_IDENTITY}, {columns} WHERE {within} {of_one} ORDER BY id"
        for part in stretches(connection, family):
            ends = part.first, part.last
            if part.seal is not None:
                rows = as_written(connection, of_block, (*ends, *part.family))
                if read.vouched(part, rows):
                    yield part.family, rows, True
                    continue
            for chunk in in_chunks(connection.execute(of_others, (*ends, *(family or ())))):
                some: dict[Row, list[Row]] = defaultdict(list)
                for row in chunk:
                    some[row[:3]].append(row[3:])
                for ids, of_family in some.items():
                    yield ids, of_family, False

    def run(self, key: str) -> Run:
        """Return the run with this key; one that failed only where it did not finish later.

        >>> import replicable_rl as rr
        >>> store = RunStore()
        >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
        >>> store.run(result.runs[0].key).policy.tolist()
        [0, 0, 0, 0, 0]
        """
        blob = self._blob(key)
        with self._session(), self._undamaged(f"run {key}"):
            for columns, table in _TABLES:
                if row := self._found(table, columns, blob):
                    return Reader(self._text, self.output).alone(row)
        raise InvalidInput(f"{self}: no run has the key {key}.")

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Return which of the keys have finished; those of damaged rows have not."""
        with self._session() as connection:
            read, query = Reader(self._text, self.output), _by_key(connection, "runs", _RUN)
            rows = ((key, connection.execute(query, (self._blob(key),)).fetchone()) for key in keys)
            return {key for key, row in rows if row and read.sound(row[:3], [row[3:]])}

    def _found(self, table: str, columns: str, key: bytes) -> tuple[Any, ...] | None:
        query = _by_key(self._connection, table, columns)
        row: tuple[Any, ...] | None = self._connection.execute(query, (key,)).fetchone()
        return row

    def families(self) -> list[tuple[RunFamily, int]]:
        """Return every family and the number of its finished runs; those on recorded samples have no sampler."""
        return [(summary.family, summary.runs) for summary in self.summary()]

    def summary(self) -> list[FamilySummary]:
        """Return, for every family, how many runs there are and how many pairs of them agree.

        >>> import replicable_rl as rr
        >>> store = RunStore()
        >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
        >>> (one,) = store.summary()
        >>> one.runs, one.shared_seeds, one.pairs, one.same["policy"] == result.agreement("policy").same
        (6, 3, 3, True)
        """
        rows: dict[Row, list[tuple[str, int, bytes]]] = defaultdict(list)  # shared seed, levels, fingerprints
        with self._session() as connection, self._undamaged("a family"), without_collection():
            read = Reader(self._text, self.output)
            for ids, some, vouched in self._finished(connection, read):
                rows[ids] += [(row[1], row[7], row[3]) for row in (some if vouched else read.sound(ids, some))]
            found = [_summary(read.family(ids), sound, read.levels) for ids, sound in rows.items() if sound]
        self._name_damaged(read.damaged)
        return found

    def audits(self) -> list[AuditSpec]:
        """Return what the audits in this store run and ask, in the order in which they came; no damaged ones."""
        found, damaged = [], []
        with self._session() as connection, self._undamaged("an audit"):
            query = f"SELECT json, {seal_column(connection, 'audits')} FROM audits ORDER BY id"
            for i, (text, sealed) in enumerate(connection.execute(query).fetchall(), start=1):
                try:
                    check_seal(sealed, text)
                    found.append(AuditSpec.from_json(parse_json(text)))
                except CANNOT_READ as error:
                    damaged.append(f"audit {i}: {error}")
        self._name_damaged(damaged)
        return found

    def _name_damaged(self, damaged: Sequence[str]) -> None:
        """Warn, once in the life of a store, of what was changed in it."""
        new = [one for one in dict.fromkeys(damaged) if one not in self.damaged]
        self.damaged += new
        if new:
            records = f"{len(new)} records are" if len(new) > 1 else "a record is"
            said = f"{self.path or 'run store'}: {records} damaged and left out ({new[0].rstrip('.'):.300})."
            warnings.warn(f"{said} An audit makes such runs again.", DamagedRecord, stacklevel=3)

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

    def _text(self, id: int) -> str:
        """Return a document."""
        row = self._connection.execute("SELECT json FROM documents WHERE id = ?", (id,)).fetchone()
        if row is None or not isinstance(row[0], str):
            raise ValueError(f"there is no document {id!r:.20}")
        return row[0]

    def _number_of(self, spec: ObjectSpec) -> int:
        """Return the number of a problem or an algorithm; -1, which no document has, where it is new."""
        text = canonical_json(spec.to_json()).decode()
        row = self._connection.execute("SELECT id FROM documents WHERE json = ?", (text,)).fetchone()
        return -1 if row is None else int(row[0])

    def _blob(self, digest: str) -> bytes:
        try:
            return bytes.fromhex(digest)
        except (TypeError, ValueError):
            raise InvalidInput(f"{self}: keys and fingerprints are hexadecimal digits, got {digest!r}.") from None


def _summary(
    family: RunFamily, rows: Sequence[tuple[str, int, bytes]], levels: Mapping[int, Sequence[str]]
) -> FamilySummary:
    """Count the pairs that agree; rows are shared seeds, numbers of levels, and fingerprints."""
    shared, numbers, digests = zip(*rows, strict=True)
    seeds, lists = Counter(shared), {number: levels[number] for number in set(numbers)}
    same = {}
    for level in in_order(name for names in lists.values() for name in names):
        start = {number: 32 * names.index(level) for number, names in lists.items() if level in names}
        where = [start.get(number) for number in numbers]
        prints = [None if i is None else digest[i : i + 32] for i, digest in zip(where, digests, strict=True)]
        found = Counter(zip(shared, prints, strict=True))
        same[level] = _pairs({pair: n for pair, n in found.items() if pair[1] is not None})
    return FamilySummary(family, len(rows), len(seeds), _pairs(seeds), same)


def _pairs(groups: Mapping[Any, int]) -> int:
    return sum(n * (n - 1) // 2 for n in groups.values() if n > 1)


def _identity(run: Run, number: Callable[[Any], tuple[int, bytes]]) -> tuple[Any, ...]:
    key, spec = bytes.fromhex(run.key), run.spec
    assert spec is not None, "it has a key"
    sample, ids = spec.sample, (number(spec.problem)[0], number(spec.algorithm)[0])
    drawn = (sample.sampler, str(sample.seed)) if isinstance(sample, Drawn) else (None, sample.digest)
    return *ids, drawn[0], key, str(spec.shared_seed), drawn[1]


def _failure(run: Run, number: Callable[[Any], tuple[int, bytes]]) -> tuple[Any, ...]:
    own, (made_with, digest) = (float(run.seconds), run.error), number(run.made_with)
    return *own, made_with, seal(bytes.fromhex(run.key), *own, digest)


def _by_key(connection: sqlite3.Connection, table: str, columns: str) -> str:
    """Return the query of a row by its key; it reads all of the row, for an index may hold what the row has lost."""
    columns = f"{_IDENTITY}, {columns}, {seal_column(connection, table)}"
    return f"SELECT {columns} FROM {table} NOT INDEXED WHERE id = (SELECT id FROM {table} WHERE {BY_KEY})"


def _insert(what: str, table: str, columns: str) -> str:
    return f"INSERT {what} INTO {table} ({columns}) VALUES ({','.join('?' * (columns.count(',') + 1))})"
