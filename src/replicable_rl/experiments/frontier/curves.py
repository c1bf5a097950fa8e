"""Every rule and rPVI on every problem, at rising sample sizes, each until its agreement is shown.

epsilon is 5 % of what the best policy gains over the uniform one, from the first state on. A curve is one rule on one
problem. It starts at the smallest size and goes on while an agreement of 0.8 is not *shown*: the lower end of
an exact interval, with the error shared out over all sizes that may be tried, so that stopping early is allowed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from replicable_rl.algorithms import PlugInPolicy, ReplicablePhasedVI
from replicable_rl.audit import AuditResult, audit_spec
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.experiment import CONFIDENCE, Scale, Study
from replicable_rl.experiments.frontier.lab import SecondLab
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import build
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import Units

BUDGET = 0.05  # of the gain over the uniform policy
DELTA, RHO = 0.01, 0.2
TARGET = 1.0 - RHO
DEFAULT, PLAIN, PUBLISHED = "affordable", "greedy", "published"
COARSE, FINE = "rPVI, τ = ε", "rPVI"  # tolerance of a query: as large as the loss, or what the proof needs for it
JUDGED = (DEFAULT, PUBLISHED, PLAIN)  # what claims are about
RULES = (DEFAULT, PUBLISHED, "tolerance", "rounded", "gumbel", PLAIN, COARSE, FINE)
PROBLEMS: Mapping[str, ObjectSpec] = {
    "two-goals": ObjectSpec("two-goals-v1"),
    "two-goals-wide": ObjectSpec("two-goals-wide-v1"),
    "riverswim": ObjectSpec("riverswim-v1"),
    "garnet": ObjectSpec("garnet-v1"),
    "machine-repair": ObjectSpec("machine-repair-v1"),
    "inventory": ObjectSpec("inventory-v1"),
    "FrozenLake 4×4": ObjectSpec("gymnasium/FrozenLake-v1", {"gamma": 0.95}),
    "FrozenLake 8×8": ObjectSpec("gymnasium/FrozenLake-v1", {"gamma": 0.95, "map_name": "8x8"}),
    "Taxi": ObjectSpec("gymnasium/Taxi-v4", {"gamma": 0.95}),
    "admission": ObjectSpec("admission-v1"),
    "machine-repair-50": ObjectSpec("machine-repair-v1", {"n_states": 50}),
    "inventory-50": ObjectSpec("inventory-v1", {"capacity": 49, "demand": 15.0, "lot": 10}),
}
SLOW = ("inventory", "Taxi", "inventory-50")  # a run of rPVI takes a hundred times as long there
CHEAP = ("two-goals", "two-goals-wide", "garnet")  # elsewhere the coarse rPVI loses more than the budget
SHARE = 0.625  # 25 of 40 pairs: enough to show the target at one of few sizes


@dataclass(frozen=True)
class Extent:
    """What is run: pairs at each size, rising sizes of a batch and of an iteration of rPVI, problems and rules.

    ``pairs`` are those of the rules that claims are about; the others make do with a share of them.
    """

    pairs: int
    samples: Sequence[int] = (10**3, 10**4, 10**5, 10**6)  # of the rules that claims are about
    others: Sequence[int] = (10**4, 10**6)  # of the other rules
    calls: Sequence[int] = (10**5, 10**8, 10**11)
    problems: Sequence[str] = tuple(PROBLEMS)
    rules: Sequence[str] = RULES

    @classmethod
    def of(cls, scale: Scale) -> Extent:
        """Return what a reproduction runs: up to 40 pairs at every size, or a small version on three problems."""
        pairs = max(2, 2 * scale.pairs // 5)
        if not scale.quick:
            return cls(pairs)
        few = ("two-goals", "machine-repair", "admission")
        return cls(pairs, (10**3, 10**5), (), (10**6, 10**10), few, (DEFAULT, PUBLISHED, PLAIN, FINE))

    def curves(self) -> list[tuple[str, str]]:
        """Return all pairs of a problem and a rule that are run."""
        return [
            (problem, rule)
            for problem in self.problems
            for rule in self.rules
            if not (rule in (COARSE, FINE) and problem in SLOW) and not (rule == COARSE and problem not in CHEAP)
        ]

    def pairs_of(self, rule: str) -> int:
        """Return the pairs of a rule at every size."""
        return self.pairs if rule in JUDGED else max(2, round(SHARE * self.pairs))

    def sizes(self, rule: str) -> Sequence[int]:
        """Return the sizes of a rule, from the smallest on."""
        if rule in (COARSE, FINE):
            return self.calls
        return self.samples if rule in JUDGED else self.others


class Stakes(NamedTuple):
    """What there is to lose on a problem: the gain over the uniform policy, as rewards and normalised, and epsilon."""

    mdp: TabularMDP
    gain: float
    epsilon: float


@functools.cache
def stakes(problem: str) -> Stakes:
    """Return the problem of a name, and what 5 % of the gain over the uniform policy is."""
    mdp = build(PROBLEMS[problem])
    uniform = mdp.support.uniform()
    best = float(mdp.initial @ optimal_values(mdp).value)
    gain = best - evaluate_policy(mdp, uniform).expected_return
    # Three significant digits: an identity should not hang on the last bit of a plan.
    return Stakes(mdp, gain, float(f"{BUDGET * gain / Units.of(mdp).span:.2e}"))


def algorithm_of(rule: str, epsilon: float, size: int) -> Any:
    """Return what decides by a rule from so many samples of every pair (and of every iteration, for rPVI)."""
    if rule == PUBLISHED:
        return SecondLab(epsilon, DELTA, RHO, size)
    if rule in (COARSE, FINE):
        tolerance = epsilon if rule == COARSE else None
        return ReplicablePhasedVI(epsilon, DELTA, RHO, tolerance=tolerance, calls=size)
    return PlugInPolicy(epsilon, DELTA, RHO, rule=rule, samples=size)


def study_of(extent: Extent, problem: str, rule: str, size: int) -> Study:
    """Return the audit of a rule on a problem at one size."""
    mdp, _, epsilon = stakes(problem)
    point = {"problem": problem, "rule": rule, "size": size, "sizes": len(extent.sizes(rule))}
    algorithm = algorithm_of(rule, epsilon, size)
    return Study(point, audit_spec(mdp, algorithm, shared_seeds=extent.pairs_of(rule), rho=RHO, confidence=CONFIDENCE))


def first(extent: Extent) -> list[Study]:
    """Return the first size of every curve."""
    return [study_of(extent, problem, rule, extent.sizes(rule)[0]) for problem, rule in extent.curves()]


def following(extent: Extent, studies: Sequence[Study], results: Sequence[AuditResult]) -> list[Study]:
    """Return the next size of every curve whose agreement is not shown yet."""
    made = zip(studies, results, strict=True)
    last = {(one.point["problem"], one.point["rule"]): (one.point["size"], result) for one, result in made}
    found = []
    for (problem, rule), (size, result) in last.items():
        sizes = extent.sizes(rule)
        larger = [one for one in sizes if one > size]
        if larger and not is_shown(result.agreement("policy").same, extent.pairs_of(rule), len(sizes)):
            found.append(study_of(extent, problem, rule, larger[0]))
    return found


def is_shown(same: int, pairs: int, sizes: int) -> bool:
    """Whether so many equal pairs show the target, where as many sizes may be tried.

    >>> is_shown(39, 40, 4), is_shown(38, 40, 4)
    (True, False)
    """
    return clopper_pearson(same, pairs, 1.0 - (1.0 - CONFIDENCE) / sizes)[0] >= TARGET


def design(scale: Scale) -> list[Study]:
    """Return the first size of every curve."""
    return first(Extent.of(scale))


def more(scale: Scale, studies: Sequence[Study], results: Sequence[AuditResult]) -> list[Study]:
    """Return the next size of every curve that has not come far enough."""
    return following(Extent.of(scale), studies, results)
