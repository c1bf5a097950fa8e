"""Train twice, and see whether the second run gives the same policy.

One shared seed, two samples, on the two-goals grid, where left and right are equally good.
rPVI at its theorem's own sample size returns the same Q; Phased Q-learning with the very same
number of samples does not, however many that is, because nothing breaks the ties the same way
twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replicable_rl.canonical import Json
from replicable_rl.records import ObjectSpec, RunSpec, Solution
from replicable_rl.registry import make, make_algorithm
from replicable_rl.solve import solve

__all__ = ["PLAN", "Comparison", "analyse", "run"]

_PROBLEM = ObjectSpec("two-goals-v1")
_CALLS = 8_187_898_146_367_124  # what thm:rpvi asks for at these parameters
_PROMISE = {"epsilon": 0.1, "delta": 0.001}

PLAN: Mapping[str, tuple[RunSpec, RunSpec]] = {
    name: (RunSpec(_PROBLEM, algorithm, 2023, 1), RunSpec(_PROBLEM, algorithm, 2023, 2))
    for name, algorithm in {
        "Replicable Phased Value Iteration": ObjectSpec("rpvi-v1", {**_PROMISE, "rho": 0.2, "calls": _CALLS}),
        "Phased Q-learning": ObjectSpec("phased-vi-v1", {**_PROMISE, "calls": _CALLS}),
    }.items()
}


@dataclass(frozen=True)
class Comparison:
    """Two runs of one algorithm with one shared seed and two samples."""

    name: str
    runs: tuple[Solution, Solution]

    @property
    def same_value(self) -> bool:
        """Whether every bit of Q is the same."""
        return self.runs[0].fingerprints.value == self.runs[1].fingerprints.value

    @property
    def same_policy(self) -> bool:
        """Whether the policy is the same in every state."""
        return self.runs[0].fingerprints.policy == self.runs[1].fingerprints.policy

    def to_json(self) -> dict[str, Json]:
        """Return the comparison and both runs."""
        return {
            "algorithm": self.name,
            "same_policy": self.same_policy,
            "same_value": self.same_value,
            "runs": [solution.to_json() for solution in self.runs],
        }


def run(plan: Mapping[str, tuple[RunSpec, RunSpec]] = PLAN) -> dict[str, list[Solution]]:
    """Run every spec of the plan; objects are rebuilt from the specs alone."""
    return {name: [_run_spec(spec) for spec in specs] for name, specs in plan.items()}


def analyse(solutions: Mapping[str, Sequence[Solution]]) -> list[Comparison]:
    """Pair the runs of each algorithm."""
    return [Comparison(name, (runs[0], runs[1])) for name, runs in solutions.items()]


def _run_spec(spec: RunSpec) -> Solution:
    problem = make(spec.problem.id, **spec.problem.params)
    algorithm = make_algorithm(spec.algorithm.id, **spec.algorithm.params)
    return solve(problem, algorithm, shared_seed=spec.shared_seed, sample_seed=spec.sample_seed)
