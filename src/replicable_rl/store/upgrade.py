"""A store of schema version 1 becomes one of version 2.

Every run gets the key of its new identity, which names the sampler; its key of version 1 is checked on the way. What
version 1 said of its guarantee becomes claims, and its tables become the bytes that levels have.

Version 1 kept runs and no audits, so these are found again from the seeds; nothing of version 2 is ever guessed like
this. Runs with one shared seed belong together, and an audit has the same number R of them under every seed. Where
the numbers differ (an audit that was interrupted, or extended), R is the most common one of at least two. An audit is
found only where its samples follow from its own seed, which is 0 unless somebody chose another one (below 100 000), so
that all of its runs are in the store. What is left out depends on seeds and counts alone, never on an outcome.
"""

import hashlib
import itertools
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from replicable_rl.canonical import array_to_bytes, canonical_json, parse_json
from replicable_rl.records import AuditSpec, ObjectSpec, RunFamily, derived_seed
from replicable_rl.solve.files import MADE_WITH_1, claims_1, sampler_1
from replicable_rl.store.schema import document, make_tables

_SEEDS = 100_000  # audits are found again whose seed is below
_TRIES = 8  # times that all these seeds are tried in vain, a sixth of a second each
_SET_ASIDE = (
    "DROP TRIGGER finished_runs_never_change",
    "DROP TRIGGER finished_runs_are_never_deleted",
    "DROP TRIGGER finished_runs_are_never_replaced",
    "DROP INDEX runs_of_a_family",
    "DROP INDEX failures_of_a_family",
    "ALTER TABLE runs RENAME TO old_runs",
    "ALTER TABLE failures RENAME TO old_failures",
)
_OLD_RUNS = """SELECT problem, algorithm, key, shared_seed, sample_seed, model, value, policy, history, samples,
    seconds, status, guarantee FROM old_runs ORDER BY id"""
_OLD_FAILURES = "SELECT problem, algorithm, key, shared_seed, sample_seed, seconds, error FROM old_failures ORDER BY id"
_RUN = """INSERT INTO runs (problem, algorithm, sampler, key, shared_seed, sample, levels, digests, history, samples,
    seconds, status, claims, made_with) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""
_FAILURE = """INSERT INTO failures (problem, algorithm, sampler, key, shared_seed, sample, seconds, error, made_with)
    VALUES (?,?,?,?,?,?,?,?,?)"""


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring the tables of version 1 to version 2; inside of a transaction."""
    for statement in _SET_ASIDE:
        connection.execute(statement)
    make_tables(connection)
    connection.create_function("encoded", 3, _encoded)
    connection.execute("INSERT INTO contents (digest, data) SELECT digest, encoded(dtype, shape, data) FROM arrays")
    old = _Old(connection)
    connection.executemany(_RUN, [old.run(*row) for row in connection.execute(_OLD_RUNS)])
    connection.executemany(_FAILURE, [old.failure(*row) for row in connection.execute(_OLD_FAILURES)])
    tries = iter(range(_TRIES))
    audits = [audit for family in old.families.values() for audit in family.audits(tries)]
    texts = [(canonical_json(audit.to_json()).decode(),) for audit in audits]
    connection.executemany("INSERT INTO audits (json) VALUES (?)", texts)
    for table in ("arrays", "old_runs", "old_failures"):
        connection.execute(f"DROP TABLE {table}")


class _Old:
    """Rows of version 1 as rows of version 2; documents keep their numbers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts: dict[int, str] = dict(connection.execute("SELECT id, json FROM documents"))
        self._made_with = document(connection, MADE_WITH_1)[0]
        self._claims: dict[int | None, int] = {}
        self._levels: dict[tuple[str, ...], int] = {}
        self.families: dict[tuple[int, int], _OldFamily] = {}

    def run(self, problem: int, algorithm: int, key: bytes, shared: str, sample: str, *more: Any) -> tuple[Any, ...]:
        """Return the row of a finished run."""
        model, value, policy, history, samples, seconds, status, guarantee = more
        found = {"model": model, "value": value, "policy": policy}
        names = tuple(name for name, digest in found.items() if digest is not None)
        if names not in self._levels:
            self._levels[names] = document(self._connection, list(names))[0]
        if guarantee not in self._claims:
            data = None if guarantee is None else parse_json(self._texts[guarantee])
            self._claims[guarantee] = document(self._connection, claims_1(data).to_json())[0]
        digests = b"".join(found[name].ljust(32, b"\0") for name in names)  # tests wrote shorter ones
        identity = self._identity(problem, algorithm, key, shared, sample)
        levels, claims = self._levels[names], self._claims[guarantee]
        return *identity, levels, digests, history, samples, seconds, status, claims, self._made_with

    def failure(
        self, problem: int, algorithm: int, key: bytes, shared: str, sample: str, seconds: float, error: str
    ) -> tuple[Any, ...]:
        """Return the row of a failed run."""
        return *self._identity(problem, algorithm, key, shared, sample), seconds, error, self._made_with

    def _identity(self, problem: int, algorithm: int, key: bytes, shared: str, sample: str) -> tuple[Any, ...]:
        ids = problem, algorithm
        if ids not in self.families:
            self.families[ids] = _OldFamily(*(self._texts[id] for id in ids))
        family = self.families[ids]
        return *ids, family.sampler, family.new_key(key, shared, sample), shared, sample


class _OldFamily:
    """The runs of one algorithm on one problem."""

    def __init__(self, problem: str, algorithm: str) -> None:
        self._hash = hashlib.sha256(f'{{"algorithm":{algorithm},"problem":{problem},"sample_seed":"'.encode())
        specs = [ObjectSpec.from_json(parse_json(text)) for text in (problem, algorithm)]
        self.sampler = sampler_1(specs[0])
        self._family = RunFamily(specs[0], specs[1], self.sampler)
        self._samples: Mapping[int, set[int]] = defaultdict(set)  # by shared seed

    def new_key(self, key: bytes, shared: str, sample: str) -> bytes:
        """Check the old key of a run, and return the new one."""
        digest = self._hash.copy()
        digest.update(f'{sample}","shared_seed":"{shared}"}}'.encode())
        if digest.digest() != key:
            raise ValueError(f"run {key.hex()} is another than its key says")
        self._samples[int(shared)].add(int(sample))
        return bytes.fromhex(self._family.key(int(shared), int(sample)))

    def audits(self, tries: Iterator[int]) -> Iterator[AuditSpec]:
        """Yield the audits that made these runs."""
        for seed in self._seeds(tries):
            sizes = {shared: _size(seed, shared, found) for shared, found in self._samples.items()}
            counts = Counter(size for size in sizes.values() if size >= 2)
            if counts:
                R = max(counts, key=lambda size: (counts[size], size))
                yield self._audit(seed, [shared for shared, size in sizes.items() if size >= R], R)

    def _seeds(self, tries: Iterator[int]) -> list[int]:
        """Return the seeds of audits from which samples here follow; a search in vain takes one of the tries."""
        found: set[int] = set()
        for shared, samples in sorted(self._samples.items()):  # small ones were chosen by somebody
            left = set(samples)
            for seed in itertools.chain(sorted(found), range(_SEEDS)):
                if derived_seed("sample", seed, shared, 0) in left:
                    found.add(seed)
                    left -= {derived_seed("sample", seed, shared, i) for i in range(_size(seed, shared, left))}
                    if not left:
                        break
            if left and next(tries, None) is None:
                break
        return sorted(found)

    def _audit(self, seed: int, shared_seeds: list[int], R: int) -> AuditSpec:
        derived = {derived_seed("shared", seed, j): j for j in range(len(self._samples))}
        in_order = sorted(shared_seeds, key=lambda shared: derived.get(shared, len(derived)))
        planned = in_order == list(derived)[: len(in_order)]
        rho = self._family.algorithm.params.get("rho")
        return AuditSpec(
            self._family.problem,
            self._family.algorithm,
            shared_seeds=len(in_order) if planned else tuple(in_order),
            runs_per_seed=R,
            seed=seed,
            sampler=self.sampler,
            rho=float(rho) if isinstance(rho, (int, float)) and 0.0 < rho < 1.0 else None,
        )


def _size(seed: int, shared: int, samples: set[int]) -> int:
    """Return how many runs of an audit with this seed there are under a shared seed."""
    return next(i for i in itertools.count() if derived_seed("sample", seed, shared, i) not in samples)


def _encoded(dtype: str, shape: str, data: Any) -> Any:
    """Return a table as a level writes it; models and histories are as they were, and so is what is damaged."""
    try:
        if dtype in ("<i8", "<f8"):
            return array_to_bytes(np.frombuffer(data, dtype=dtype).reshape(tuple(map(int, shape.split(",")))))
    except (TypeError, ValueError):
        pass  # whoever reads it finds that its fingerprint is another
    return data
