"""The run store: one SQLite file, a row for every finished run.

A run is *finished* when its row is committed. Rows are added in batches, each one transaction
with the arrays it needs, so that a process killed at any moment leaves whole rows and no
others. Two processes may add to one file: the first to finish a run keeps it, and since a run
is a function of its key, the second has found the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from replicable_rl.canonical import Json, canonical_json
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.records import LEVELS, Guarantee, Level, ObjectSpec, RunFamily, RunRecord, RunSpec, Solution, Status
from replicable_rl.store import arrays as codec
from replicable_rl.store.arrays import Encoded
from replicable_rl.store.database import Database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP

__all__ = ["FamilySummary", "RunStore"]

_COLUMNS = "key, shared_seed, sample_seed, policy, value, model, history, samples, seconds, status, guarantee"

_PAIRS = """SELECT problem, algorithm, SUM(n), COUNT(*), SUM(n * (n - 1) / 2), MIN(first) AS first FROM
    (SELECT problem, algorithm, COUNT(*) AS n, MIN(id) AS first FROM runs GROUP BY problem, algorithm, shared_seed)
    GROUP BY problem, algorithm ORDER BY first"""
_SAME = """SELECT problem, algorithm, SUM(n * (n - 1) / 2) FROM
    (SELECT problem, algorithm, COUNT(*) AS n FROM runs WHERE {level} IS NOT NULL
    GROUP BY problem, algorithm, shared_seed, {level}) GROUP BY problem, algorithm"""


class FamilySummary(NamedTuple):
    """The finished runs of one algorithm on one problem: pairs have one shared seed; ``same`` is by level."""

    problem: ObjectSpec
    algorithm: ObjectSpec
    runs: int
    shared_seeds: int
    pairs: int
    same: dict[Level, int]


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
    of one in memory has its content. A file that cannot be written can be read.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> store = RunStore()
    >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> [(problem.id, algorithm.id, runs) for problem, algorithm, runs in store.families()]
    [('chain-v1', 'phased-vi-v1', 6)]
    """

    # --- adding ----------------------------------------------------------------------------------

    def add(self, family: RunFamily, records: Sequence[RunRecord], arrays: Mapping[str, Encoded]) -> int:
        """Add finished and failed runs and their arrays in one transaction; return how many runs are new."""
        finished = [record for record in records if record.error is None]
        failed = [record for record in records if record.error is not None]
        with self._transaction() as connection:
            ids = self._document(family.problem), self._document(family.algorithm)
            rows = [(*ids, *self._row(record)) for record in finished]
            before = connection.total_changes  # not earlier: new documents are no new runs
            connection.executemany(
                f"INSERT OR IGNORE INTO runs (problem, algorithm, {_COLUMNS}) VALUES (?,?, ?,?,?,?,?,?,?,?,?,?,?)",
                rows,
            )
            new = connection.total_changes - before
            connection.executemany(
                "INSERT OR REPLACE INTO failures (problem, algorithm, key, shared_seed, sample_seed, seconds, error)"
                " VALUES (?,?,?,?,?,?,?)",
                [
                    (*ids, bytes.fromhex(r.key), str(r.shared_seed), str(r.sample_seed), r.seconds, r.error)
                    for r in failed
                ],
            )
            connection.executemany(
                "INSERT OR IGNORE INTO arrays (digest, dtype, shape, data) VALUES (?,?,?,?)",
                [(bytes.fromhex(digest), *encoded) for digest, encoded in arrays.items()],
            )
        return new

    def _row(self, record: RunRecord) -> tuple[Any, ...]:
        digests = (record.policy, record.value, record.model, record.history)
        return (
            bytes.fromhex(record.key),
            str(record.shared_seed),
            str(record.sample_seed),
            *(None if digest is None else bytes.fromhex(digest) for digest in digests),
            None if record.samples is None else str(record.samples),
            record.seconds,
            None if record.status is None else self._document(record.status),
            None if record.guarantee is None else self._document(record.guarantee),
        )

    def _document(self, value: ObjectSpec | Status | Guarantee) -> int:
        """Return the number of a document, which is added where it is new."""
        key: object = value if not isinstance(value, ObjectSpec) else canonical_json(value.to_json())
        if key not in self._documents:
            text = canonical_json(value.to_json()).decode()
            self._connection.execute("INSERT OR IGNORE INTO documents (json) VALUES (?)", (text,))
            (self._documents[key],) = self._connection.execute(
                "SELECT id FROM documents WHERE json = ?", (text,)
            ).fetchone()
        return self._documents[key]

    # --- reading ---------------------------------------------------------------------------------

    def runs(self, family: RunFamily) -> list[RunRecord]:
        """Return the finished runs of a family."""
        with self._session() as connection:
            documents: dict[int, Any] = {}
            query = f"SELECT {_COLUMNS} FROM runs WHERE problem = ? AND algorithm = ?"
            rows = connection.execute(query, self._family_ids(family))
            with self._undamaged("a run"):
                return [self._record(row, documents) for row in rows]

    def run(self, key: str) -> RunRecord:
        """Return the finished run with this key."""
        return self._find(key)[0]

    def failures(self, family: RunFamily) -> list[RunRecord]:
        """Return the runs of a family that failed, whether or not they finished later."""
        query = "SELECT key, shared_seed, sample_seed, seconds, error FROM failures WHERE problem = ? AND algorithm = ?"
        with self._session() as connection:
            rows = connection.execute(query, self._family_ids(family)).fetchall()
        with self._undamaged("a failure"):
            return [
                RunRecord(key.hex(), int(shared), int(sample), seconds=seconds, error=error)
                for key, shared, sample, seconds, error in rows
            ]

    def keys(self, family: RunFamily, *, failed: bool = False) -> set[str]:
        """Return the keys of the finished runs of a family, and of those that failed where that is asked."""
        query = "SELECT key FROM runs WHERE problem = ? AND algorithm = ?"
        if failed:
            query = f"{query} UNION {query.replace('runs', 'failures')}"
        with self._session() as connection:
            ids = self._family_ids(family) * (2 if failed else 1)
            keys = connection.execute(query, ids).fetchall()
        with self._undamaged("a key"):
            return {key.hex() for (key,) in keys}

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Return which of the keys have finished."""
        with self._session() as connection:
            query = "SELECT 1 FROM runs WHERE key = ?"
            return {key for key in keys if connection.execute(query, (bytes.fromhex(key),)).fetchone()}

    def families(self) -> list[tuple[ObjectSpec, ObjectSpec, int]]:
        """Return problem, algorithm and number of finished runs of every family."""
        query = """SELECT p.json, a.json, runs FROM
            (SELECT problem, algorithm, count(*) AS runs, min(id) AS first FROM runs GROUP BY problem, algorithm)
            JOIN documents p ON p.id = problem JOIN documents a ON a.id = algorithm ORDER BY first"""
        with self._session() as connection:
            rows = connection.execute(query).fetchall()
        with self._undamaged("a document"):
            return [(ObjectSpec.from_json(json.loads(p)), ObjectSpec.from_json(json.loads(a)), n) for p, a, n in rows]

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
        found = {}
        with self._session() as connection:
            for problem, algorithm, runs, seeds, pairs, _ in connection.execute(_PAIRS).fetchall():
                one, two = (ObjectSpec.from_json(self._json(id)) for id in (problem, algorithm))
                found[problem, algorithm] = FamilySummary(one, two, runs, seeds, pairs, {})
            for level in LEVELS:
                for problem, algorithm, same in connection.execute(_SAME.format(level=level)).fetchall():
                    found[problem, algorithm].same[level] = same
        return list(found.values())

    def array(self, digest: str) -> NDArray[Any]:
        """Return the policy or the action values with this fingerprint."""
        return codec.decode_array(f"{self}: array {digest[:16]}", self._encoded(digest), digest)

    def arrays(self, digests: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return several of them by their fingerprints."""
        with self._session():
            return {digest: self.array(digest) for digest in digests}

    def model(self, digest: str) -> TabularMDP:
        """Return the learned model with this fingerprint."""
        return codec.decode_model(f"{self}: model {digest[:16]}", self._encoded(digest), digest)

    def history(self, digest: str) -> dict[str, NDArray[np.float64]]:
        """Return what happened round by round, by its digest."""
        return codec.decode_history(f"{self}: history {digest[:16]}", self._encoded(digest), digest)

    def solution(self, key: str) -> Solution:
        """Return a finished run whole, with its arrays.

        >>> import replicable_rl as rr
        >>> store = RunStore()
        >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
        >>> store.solution(result.records[0].key).policy.tolist()
        [0, 0, 0, 0, 0]
        """
        with self._session():
            return self._solution(key, *self._find(key))

    def _solution(self, key: str, record: RunRecord, problem: ObjectSpec, algorithm: ObjectSpec) -> Solution:
        if record.value is None or record.policy is None or record.status is None or record.guarantee is None:
            raise InvalidInput(f"{self}: run {key} has no action values, so it is no Solution. Read array(policy).")
        solution = Solution.from_q(
            self.array(record.value),
            self.array(record.policy),
            samples=record.samples or 0,
            status=record.status,
            guarantee=record.guarantee,
            model=None if record.model is None else self.model(record.model),
            history=None if record.history is None else self.history(record.history),
        )
        spec = RunSpec(problem, algorithm, record.shared_seed, record.sample_seed)
        if spec.digest != record.key:
            raise InvalidFile(f"{self}: run {key} is another than its key says; the file was changed.")
        return solution.with_spec(spec)

    def _find(self, key: str) -> tuple[RunRecord, ObjectSpec, ObjectSpec]:
        query = f"SELECT problem, algorithm, {_COLUMNS} FROM runs WHERE key = ?"
        with self._session() as connection:
            row = connection.execute(query, (self._blob(key),)).fetchone()
            if row is None:
                raise InvalidInput(f"{self}: no finished run has the key {key}.")
            with self._undamaged(f"run {key}"):
                problem, algorithm = (ObjectSpec.from_json(self._json(id)) for id in row[:2])
                return self._record(row[2:], {}), problem, algorithm

    def _record(self, row: Sequence[Any], documents: dict[int, Any]) -> RunRecord:
        key, shared, sample, policy, value, model, history, samples, seconds, status, guarantee = row
        for id, kind in ((status, Status), (guarantee, Guarantee)):
            if id is not None and id not in documents:
                documents[id] = kind.from_json(self._json(id))
        return RunRecord(
            key.hex(),
            int(shared),
            int(sample),
            policy and policy.hex(),
            value and value.hex(),
            model and model.hex(),
            history and history.hex(),
            samples and int(samples),
            seconds,
            status and documents[status],
            guarantee and documents[guarantee],
        )

    def _encoded(self, digest: str) -> Encoded:
        with self._session() as connection:
            query = "SELECT dtype, shape, data FROM arrays WHERE digest = ?"
            row = connection.execute(query, (self._blob(digest),)).fetchone()
        if row is None:
            raise InvalidInput(f"{self}: holds no array with the fingerprint {digest}.")
        return Encoded(*row)

    def _json(self, id: int) -> Json:
        row = self._connection.execute("SELECT json FROM documents WHERE id = ?", (id,)).fetchone()
        with self._undamaged(f"document {id}"):
            return json.loads(row[0])

    def _blob(self, digest: str) -> bytes:
        try:
            return bytes.fromhex(digest)
        except (TypeError, ValueError):
            raise InvalidInput(f"{self}: keys and fingerprints are hexadecimal digits, got {digest!r}.") from None

    def _family_ids(self, family: RunFamily) -> tuple[int, int]:
        """The numbers of problem and algorithm; -1, which no document has, where a spec is new."""
        query = "SELECT id FROM documents WHERE json = ?"
        with self._session() as connection:
            rows = [
                connection.execute(query, (canonical_json(spec.to_json()).decode(),)).fetchone()
                for spec in (family.problem, family.algorithm)
            ]
        problem, algorithm = (-1 if row is None else int(row[0]) for row in rows)
        return problem, algorithm
