"""The run store: one SQLite file, a row for every finished run.

A run is *finished* when its row is committed. Rows are added in batches, each one transaction with the contents that
it needs, so that a process killed at any moment leaves whole rows and no others. Two processes may add to one file:
the first to finish a run keeps it, and since a run is a function of its key, the second has found the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from replicable_rl.canonical import Json, canonical_json, parse_json
from replicable_rl.errors import InvalidInput
from replicable_rl.records import AuditSpec, Drawn, ObjectSpec, Run, RunFamily, in_order
from replicable_rl.store.contents import decode
from replicable_rl.store.database import Database
from replicable_rl.store.reading import Reader, without_collection
from replicable_rl.store.schema import document

_IDENTITY = "key, problem, algorithm, sampler, shared_seed, sample"
_RUN = "levels, digests, history, samples, seconds, status, claims, made_with"
_FAILURE = "seconds, error, made_with"
_TABLES = ((_RUN, "runs"), (_FAILURE, "failures"))
_OF_FAMILY = "problem = ? AND algorithm = ? AND sampler = ?"

_FAMILIES = """SELECT problem, algorithm, sampler, SUM(n), COUNT(*), SUM(n * (n - 1) / 2), MIN(first) AS first FROM
    (SELECT problem, algorithm, sampler, COUNT(*) AS n, MIN(id) AS first FROM runs WHERE sampler IS NOT NULL
    GROUP BY problem, algorithm, sampler, shared_seed) GROUP BY problem, algorithm, sampler ORDER BY first"""
_SAME = """WITH places (levels, place) AS (VALUES {places})
    SELECT problem, algorithm, sampler, SUM(n * (n - 1) / 2) FROM
    (SELECT problem, algorithm, sampler, COUNT(*) AS n FROM runs JOIN places USING (levels) WHERE sampler IS NOT NULL
    GROUP BY problem, algorithm, sampler, shared_seed, substr(digests, 1 + 32 * place, 32))
    GROUP BY problem, algorithm, sampler"""


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
    when it was opened, and the first write to it makes it one of version 2, which version 1 does not read.

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
        numbers: dict[int, int] = {}  # of documents by the `id` of what says them: runs share these, and keep them

        def number(value: Any) -> int:
            if id(value) not in numbers:
                numbers[id(value)] = self._document(value)
            return numbers[id(value)]

        with self._transaction() as connection:
            finished = [(*_identity(run, number), *self._row(run, number)) for run in runs if run.error is None]
            failed = [
                (*_identity(run, number), run.seconds, run.error, number(run.made_with))
                for run in runs
                if run.error is not None
            ]
            before = connection.total_changes  # not earlier: new documents are no new runs
            connection.executemany(_insert("OR IGNORE", "runs", f"{_IDENTITY}, {_RUN}"), finished)
            new = connection.total_changes - before
            connection.executemany(_insert("OR REPLACE", "failures", f"{_IDENTITY}, {_FAILURE}"), failed)
            connection.executemany(
                _insert("OR IGNORE", "contents", "digest, data"),
                [(bytes.fromhex(digest), data) for digest, data in contents.items()],
            )
        return new

    def add_audit(self, spec: AuditSpec) -> None:
        """Keep what an audit runs and asks; one that is there already changes nothing."""
        text = (canonical_json(spec.to_json()).decode(),)
        with self._session() as connection:
            if connection.execute("SELECT 1 FROM audits WHERE json = ?", text).fetchone():
                return
        with self._transaction() as connection:
            connection.execute(_insert("OR IGNORE", "audits", "json"), text)

    def _row(self, run: Run, number: Callable[[Any], int]) -> tuple[Any, ...]:
        digests, history = self._blob("".join(run.fingerprints.values())), run.history_digest
        if len(digests) != 32 * len(run.fingerprints):
            raise InvalidInput(f"{self}: fingerprints have 64 hexadecimal digits, got {dict(run.fingerprints)!r:.200}.")
        return (
            self._document(tuple(run.fingerprints)),
            digests,
            None if history is None else bytes.fromhex(history),
            None if run.samples is None else str(run.samples),
            run.seconds,
            None if run.status is None else number(run.status),
            number(run.claims),
            number(run.made_with),
        )

    def _document(self, value: Any) -> int:
        """Return the number of the document that says a value, which is added where it is new."""
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
        """Return the runs of a family by their keys; those that failed follow, unless they finished later."""
        with self._session() as connection, self._undamaged("a run"), without_collection():
            read = Reader(self._json, self.output)
            ids = (*(self._number_of(spec) for spec in (family.problem, family.algorithm)), family.sampler)
            query = f"SELECT key, shared_seed, sample, {{}} FROM {{}} WHERE {_OF_FAMILY} ORDER BY id"
            finished, failed = (
                read.of_family(family, connection.execute(query.format(*table), ids)) for table in _TABLES
            )
            for key, run in failed.items():
                finished.setdefault(key, run)
            return finished

    def run(self, key: str) -> Run:
        """Return the run with this key; one that failed only where it did not finish later.

        >>> import replicable_rl as rr
        >>> store = RunStore()
        >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
        >>> store.run(result.runs[0].key).policy.tolist()
        [0, 0, 0, 0, 0]
        """
        blob, query = self._blob(key), f"SELECT {_IDENTITY}, {{}} FROM {{}} WHERE key = ?"
        with self._session() as connection, self._undamaged(f"run {key}"):
            read = Reader(self._json, self.output)
            for table in _TABLES:
                if row := connection.execute(query.format(*table), (blob,)).fetchone():
                    return read.alone(row)
        raise InvalidInput(f"{self}: no run has the key {key}.")

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Return which of the keys have finished."""
        with self._session() as connection:
            query = "SELECT 1 FROM runs WHERE key = ?"
            return {key for key in keys if connection.execute(query, (self._blob(key),)).fetchone()}

    def families(self) -> list[tuple[RunFamily, int]]:
        """Return every family and the number of its finished runs; samples that were recorded belong to none."""
        return [(summary.family, summary.runs) for summary in self._families().values()]

    def summary(self) -> list[FamilySummary]:
        """Return, for every family, how many runs there are and how many pairs of them agree.

        The database counts, so that this takes a fraction of a second for 100 000 runs.

        >>> import replicable_rl as rr
        >>> store = RunStore()
        >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
        >>> (one,) = store.summary()
        >>> one.runs, one.shared_seeds, one.pairs, one.same["policy"] == result.agreement("policy").same
        (6, 3, 3, True)
        """
        with self._session() as connection, self._undamaged("a family"):
            found = self._families()
            numbers = connection.execute("SELECT DISTINCT levels FROM runs").fetchall()
            lists = {int(number): self._json(number) for (number,) in numbers}
            for level in in_order(name for names in lists.values() for name in names):
                places = [f"({number}, {names.index(level)})" for number, names in lists.items() if level in names]
                for *ids, same in connection.execute(_SAME.format(places=", ".join(places))).fetchall():
                    found[tuple(ids)].same[level] = same
        return list(found.values())

    def _families(self) -> dict[tuple[Any, ...], FamilySummary]:
        with self._session() as connection, self._undamaged("a family"):
            read, found = Reader(self._json, self.output), {}
            for problem, algorithm, sampler, runs, seeds, pairs, _ in connection.execute(_FAMILIES).fetchall():
                family = RunFamily(read.objects[problem], read.objects[algorithm], sampler)
                found[problem, algorithm, sampler] = FamilySummary(family, runs, seeds, pairs, {})
            return found

    def audits(self) -> list[AuditSpec]:
        """Return what the audits in this store run and ask, in the order in which they came."""
        with self._session() as connection, self._undamaged("an audit"):
            rows = connection.execute("SELECT json FROM audits ORDER BY id").fetchall()
            return [AuditSpec.from_json(parse_json(text)) for (text,) in rows]

    def output(self, level: str, digest: str) -> Any:
        """Return the output of a level with this fingerprint; for ``"history"``, what happened round by round."""
        with self._session() as connection:
            query = "SELECT data FROM contents WHERE digest = ?"
            row = connection.execute(query, (self._blob(digest),)).fetchone()
        if row is None:
            raise InvalidInput(f"{self}: holds nothing with the fingerprint {digest}.")
        return decode(repr(self), level, row[0], digest)

    def outputs(self, level: str, digests: Iterable[str]) -> dict[str, Any]:
        """Return several outputs of a level by their fingerprints."""
        with self._session():
            return {digest: self.output(level, digest) for digest in digests}

    def _json(self, id: int) -> Json:
        row = self._connection.execute("SELECT json FROM documents WHERE id = ?", (id,)).fetchone()
        with self._undamaged(f"document {id}"):
            return parse_json(row[0])

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


def _identity(run: Run, number: Callable[[Any], int]) -> tuple[Any, ...]:
    key, spec = bytes.fromhex(run.key), run.spec
    assert spec is not None, "it has a key"
    sample, ids = spec.sample, (number(spec.problem), number(spec.algorithm))
    drawn = (sample.sampler, str(sample.seed)) if isinstance(sample, Drawn) else (None, sample.digest)
    return key, *ids, drawn[0], str(spec.shared_seed), drawn[1]


def _insert(what: str, table: str, columns: str) -> str:
    return f"INSERT {what} INTO {table} ({columns}) VALUES ({','.join('?' * (columns.count(',') + 1))})"
