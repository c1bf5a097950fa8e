"""The theorems at their own sample sizes: what they ask for, drawn; what they promise, measured.

Counts are drawn instead of samples, so that 10^15 samples and more cost no more than a thousand. For every
shipped problem, rPVI (``thm:rpvi``) and the replicable ApproximateMDP (``obs:rep-mdp``) run at the m of their
theorem. Two promises are measured: how often do two runs differ (at most rho), and how far is the answer off
(at most epsilon)? For rPVI that is the loss of the policy from the worst state, for ApproximateMDP the error of
an entry of the model. The latter is measured after rows were divided by their sums, which the promise does not
cover: it can be larger. Times are those of the runs when they were made, as the store keeps them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit import AuditResult, Estimate
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.lab import CONFIDENCE, Scale, Study
from replicable_rl.records import Level, ObjectSpec
from replicable_rl.registry import PROBLEMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP

__all__ = ["NAME", "TITLE", "analyse", "plan"]

NAME = "theorem"
TITLE = "The theorems at their own sample sizes"

DELTA, RHO = 0.001, 0.2
EPSILON = 0.1
LARGER_EPSILON = {"inventory-v1": 0.5}  # where m at 0.1 would pass 2**63 - 1, the most that can be counted
FEWER_PAIRS = {"inventory-v1": 4}  # where a run takes a hundred times as long
ENTRY_EPSILON = 0.05
_NEEDS_INPUT = ("gridworld-v1",)
_LEVEL: dict[str, Level] = {"rpvi-v1": "value", "replicable-approximate-mdp-v1": "model"}  # what each theorem is about


def plan(scale: Scale) -> list[Study]:
    """Both algorithms on every problem that has a size of its own; no parameter but the promise."""
    studies = []
    for problem in (id for id in PROBLEMS if id not in _NEEDS_INPUT):
        if scale.quick and problem in FEWER_PAIRS:
            continue
        epsilon = LARGER_EPSILON.get(problem, EPSILON)
        pairs = max(2, scale.pairs // FEWER_PAIRS.get(problem, 1))
        for algorithm, promised in (("rpvi-v1", epsilon), ("replicable-approximate-mdp-v1", ENTRY_EPSILON)):
            spec = ObjectSpec(algorithm, {"epsilon": promised, "delta": DELTA, "rho": RHO})
            about = ("problem", problem), ("algorithm", algorithm), ("epsilon", promised)
            studies.append(Study(ObjectSpec(problem), spec, pairs, about=about))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return a row for every theorem on every problem."""
    rows = [_row(study, result) for study, result in zip(studies, results, strict=True)]
    details = {"delta": DELTA, "rho": RHO, "confidence": CONFIDENCE}
    return Dataset(NAME, TITLE, {"theorems": Table.of(rows)}, details)


def _row(study: Study, result: AuditResult) -> dict[str, Any]:
    problem, algorithm = study.objects()
    asked: Any = algorithm.plan(problem)  # type: ignore[attr-defined]  # both algorithms can say it beforehand
    level = _LEVEL[study.algorithm.id]
    found = result.agreement(level)
    differ = Estimate(1.0 - found.estimate, 1.0 - found.high, 1.0 - found.low)
    off = _worst_loss(result) if level == "value" else _worst_entry(problem, result)
    (drawn,) = {record.samples for record in result.records}
    return (
        study.point
        | {"states": problem.n_states, "actions": problem.n_actions, "rho": RHO, "level": level}
        | {"calls": str(asked.calls_needed), "samples_a_run": str(drawn), "samples": str(result.samples)}
        | {"pairs": found.pairs, "differ": found.pairs - found.same}
        | estimate_columns("disagreement", differ)
        | {
            "error_is": "loss of the policy" if level == "value" else "error of an entry, divided row",
            "worst_error": off,
        }
        | {"kept_epsilon": off <= float(study.point["epsilon"]), "refuted_rho": differ.low > RHO}
        | {"refuted_epsilon": level == "value" and _too_many_lose(result, float(study.point["epsilon"]))}
        | {"guarantee": min(record.guarantee.kind for record in result.records if record.guarantee is not None)}
        | {"median_seconds_a_run": statistics.median(record.seconds for record in result.records)}
    )


def _worst_loss(result: AuditResult) -> float:
    """The largest loss of any policy from any state, in values normalised to [0, 1]; certified from above."""
    return max(one.worst_loss + one.normalised_error for one in result.policies or ())


def _too_many_lose(result: AuditResult, epsilon: float) -> bool:
    """Whether more runs than a share delta must have lost more than epsilon; one or two may."""
    lost = {one.fingerprint for one in result.policies or () if one.worst_loss - one.normalised_error > epsilon}
    policies = [record.policy for record in result.records]
    low, _ = clopper_pearson(sum(policy in lost for policy in policies), len(policies), CONFIDENCE)
    return low > DELTA


def _worst_entry(problem: TabularMDP, result: AuditResult) -> float:
    """The largest error of a transition probability of any learned model, after its rows were divided by their sums."""
    truth = dense(problem)
    learned = (result.store.model(one.fingerprint) for one in result.classes("model"))
    return max(float(np.abs(dense(model) - truth).max()) for model in learned)


def dense(mdp: TabularMDP) -> NDArray[np.float64]:
    """Return the (S*A, S) table of transition probabilities."""
    rows = mdp.rows
    table = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    np.add.at(table, (np.repeat(np.arange(len(table)), np.diff(rows.indptr)), rows.next_state), rows.probability)
    return table
