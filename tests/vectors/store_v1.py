"""Wrote ``store-v1.sqlite`` and ``store-v1.json``, what it holds: ``python -m tests.vectors.store_v1``.

A new schema version gets files of its own name; what a release has written stays, and must open in every
later one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import replicable_rl as rr
from replicable_rl.records import ObjectSpec, RunFamily, RunRecord

CHAIN = rr.make("chain-v1")
ALGORITHMS = (
    rr.ReplicablePhasedVI(0.1, 0.01, 0.2, calls=100_000, iterations=5),
    rr.ReplicableRMax(0.2, 0.05, 0.3, horizon=5),
)


def audits(store: rr.RunStore) -> list[rr.AuditResult]:
    """Make the runs, or find them again."""
    return [rr.audit(CHAIN, algorithm, shared_seeds=3, store=store) for algorithm in ALGORITHMS]


def described(store: rr.RunStore) -> list[Any]:
    """Return all that a store holds as JSON; a solution has the status and the guarantee of its record."""
    content = []
    for problem, algorithm, _ in store.families():
        family = RunFamily(problem, algorithm)
        records = store.runs(family)
        solutions = [store.solution(record.key).to_json() for record in records if record.value]
        plain = [record._replace(status=None, guarantee=None) for record in records]
        content.append([problem.to_json(), algorithm.to_json(), plain, solutions, store.failures(family)])
    return content


def agreements(results: list[rr.AuditResult]) -> list[Any]:
    """Return the table of the audits: level, pairs, estimate and interval."""
    lines = [(level, result.agreement(level)) for result in results for level in result.levels]
    return [[level, one.same, one.pairs, one.estimate, one.low, one.high] for level, one in lines]


def write(path: Path) -> None:
    """Write the golden store and what it holds: two audits, and training code that ended once and failed once."""
    if path.exists():
        raise SystemExit(f"{path}: a golden file is never written again.")
    most = 2**64 - 1
    with rr.RunStore(path) as store:
        table = agreements(audits(store))
        own = RunFamily(ObjectSpec("callable"), ObjectSpec("train", {"rate": 0.5, "steps": 10**20}))
        finished = RunRecord(own.key(most, 2**63), most, 2**63, policy="00", samples=2**70, seconds=0.25)
        failed = RunRecord(own.key(most, 1), most, 1, seconds=0.5, error="RuntimeError: out of luck")
        store.add(own, [finished, failed], {})
        expected = {"content": described(store), "agreements": table}
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(__file__).with_name("store-v1.sqlite"))
