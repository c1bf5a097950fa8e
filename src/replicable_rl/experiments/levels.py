"""Model, value, policy: whether each level is harder to replicate than the next.

The same model gives the same value and the same value the same policy, so agreement cannot fall along the
chain. The paper expects it to *rise*: replicating a model should be hardest, a policy easiest. ApproximateMDP
learns the model and plans; rPVI estimates values directly. Both run over a range of sample sizes, and for each
level the samples at which two runs agree with probability 0.8 are read off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.crossing import crossing
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.lab import CONFIDENCE, Scale, Study
from replicable_rl.records import ObjectSpec

__all__ = ["NAME", "TITLE", "analyse", "plan"]

NAME = "levels"
TITLE = "Model, value, policy: how many samples each takes"

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
TARGET = 0.8
TOLERANCE = 0.02  # of a query about a value or a probability, both in [0, 1]
PROMISE = {"epsilon": TOLERANCE, "delta": 0.001, "rho": 0.2, "tolerance": TOLERANCE}
CALLS = {
    "replicable-approximate-mdp-v1": tuple(10**k for k in range(3, 11)),
    "rpvi-v1": tuple(10**k for k in range(2, 9)),
}


def plan(scale: Scale) -> list[Study]:
    """Both algorithms over their range of calls, on both grids."""
    return [
        Study(
            ObjectSpec(grid),
            ObjectSpec(id, {**PROMISE, "calls": calls}),
            scale.pairs,
            about=(("problem", grid), ("algorithm", id), ("calls", calls)),
        )
        for grid in GRIDS
        for id, sizes in CALLS.items()
        for calls in scale.some(sizes)
    ]


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return agreement at every level over the samples, and the samples at which it passes the target."""
    rows: list[dict[str, Any]] = []
    for study, result in zip(studies, results, strict=True):
        (samples,) = {record.samples for record in result.records}
        for level, found in result.agreements.items():
            rows.append(
                study.point
                | {"samples": samples, "level": level, "pairs": found.pairs, "same": found.same}
                | estimate_columns("agreement", found.value)
            )
    table = Table.of(rows)
    details = {**PROMISE, "target": TARGET, "confidence": CONFIDENCE}
    return Dataset(NAME, TITLE, {"agreement": table, "needed": Table.of(_needed(table))}, details)


def _needed(table: Table) -> list[dict[str, Any]]:
    curves = dict.fromkeys((row["problem"], row["algorithm"], row["level"]) for row in table)
    found = []
    for problem, algorithm, level in curves:
        rows = table.where(problem=problem, algorithm=algorithm, level=level)
        samples, same, pairs = ([row[name] for row in rows] for name in ("samples", "same", "pairs"))
        where = crossing(samples, same, pairs, TARGET, CONFIDENCE)
        found.append(
            {"problem": problem, "algorithm": algorithm, "level": level}
            | where.columns("samples")
            | {"tried_from": rows[0]["samples"], "tried_to": rows[-1]["samples"]}
        )
    return found
