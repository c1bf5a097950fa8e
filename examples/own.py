"""A problem, an algorithm, a level, a source and a rule of your own, in one file and without a change in the package.

    replicable-rl --plugin examples.own list
    replicable-rl --plugin examples.own solve two-doors-v1 good-enough-v1 --epsilon 0.05 --shared-seed 2023
    replicable-rl --plugin examples.own audit two-doors-v1 good-enough-v1 --epsilon 0.05 --store own.sqlite
    replicable-rl --plugin examples.own report own.sqlite

The algorithm estimates the model once, plans on it, and takes in every state the first action that is good enough:
whose value is within a tolerance of the best. The tolerance is random and shared, so that two runs hardly ever disagree
about which actions are good enough. It stands for a policy and for the sets of good actions that this policy follows
from; its values differ from run to run, so it does not publish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import replicable_rl as rr
from replicable_rl.runs import ObjectSpec
from replicable_rl.sampling import OutcomeCounts

rr.register(rr.Level("good-actions", implies=("policy",)))  # an (S, A) table of zeros and ones


def two_doors(p: float = 0.5) -> rr.TabularMDP:
    """Two doors that lead to a prize equally often: which one to take is for the samples to decide, or for nobody."""
    door = [(p, 1, 1.0), (1.0 - p, 1, 0.0)]
    return rr.TabularMDP.from_outcomes([[door, door], [[(1.0, 0, 0.0)], [(1.0, 0, 0.0)]]], gamma=0.9)


rr.register("two-doors-v1", two_doors)


class NumpyCounts(rr.Generative):
    """A table as a source: counts of successors from numpy's multinomial, which is slower and somebody else's code.

    Give it to ``rr.solve`` and ``rr.audit`` in place of the table.
    """

    def __init__(self, mdp: rr.TabularMDP) -> None:
        more: dict[str, Any] = {"initial": mdp.initial, "known_rewards": mdp.known_rewards, "allowed": mdp.allowed}
        super().__init__(mdp.n_states, mdp.n_actions, mdp.gamma, mdp.reward_range, **more)
        self.mdp = mdp

    @property
    def spec(self) -> ObjectSpec:
        """What it is called, with the version that a store asks for."""
        return ObjectSpec("numpy-counts", {"of": self.mdp.spec.text, "version": "1"})

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        rows = self.mdp.rows
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        counts = [rng.multinomial(calls, rows.probability[first:last]) for first, last in ends]
        return OutcomeCounts(rows.indptr, rows.next_state, rows.reward, np.concatenate(counts), calls)


@dataclass(frozen=True)
class MostTried(rr.rules.Rule):
    """Of the actions that are nearly the best, the one that the data know best: ``PlugInPolicy(rule=MostTried())``."""

    nearly: float = 0.01

    id: ClassVar[str] = "most-tried"

    def decide(self, model: Any, shared: rr.SharedRandomness, tuning: rr.rules.Tuning) -> rr.rules.Decision:
        """Ask nothing but the model and the shared numbers."""
        tolerance = self.nearly * (1.0 + float(shared.uniform("most-tried/tolerance", shape=1)[0]))
        visits = model.visits.reshape(model.n_states, model.n_actions)
        return rr.rules.Decision({"policy": np.where(model.gap <= tolerance, visits, -1.0).argmax(axis=1)})


@rr.register
@dataclass(frozen=True)
class GoodEnough(rr.Algorithm):
    """Plan on one estimate of the model, and take the first action that is good enough."""

    epsilon: float
    calls: int = 1000

    id: ClassVar[str] = "good-enough-v1"
    needs: ClassVar[type] = rr.Generative

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < 1.0:
            raise rr.InvalidInput(f"GoodEnough: epsilon must lie in (0, 1), got {self.epsilon!r}.")

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        """Draw once, plan, and decide."""
        counts = source.draw(self.calls, rng)
        weights, pairs = counts.count / counts.calls, zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
        outcomes = [
            [(float(weights[k]), int(counts.next_state[k]), float(counts.reward[k])) for k in range(first, last)]
            for first, last in pairs
        ]
        model = rr.TabularMDP.from_outcomes(
            [outcomes[s : s + source.n_actions] for s in range(0, len(outcomes), source.n_actions)],
            gamma=source.gamma,
            reward_range=source.reward_range,
            estimated=True,
        )
        q = rr.optimal_values(model).q
        tolerance = self.epsilon * (1.0 + float(shared.uniform("good-enough/tolerance", shape=1)[0]))
        span = (source.reward_range[1] - source.reward_range[0]) / (1.0 - source.gamma)
        good = q >= q.max(axis=1, keepdims=True) - tolerance * span
        return rr.Run.of(
            {"good-actions": good.astype(np.int64), "policy": good.argmax(axis=1)},
            samples=self.calls * len(outcomes),
            status=rr.Status(rr.StatusCode.COMPLETED, f"planned on {self.calls} samples of every pair"),
            claims=rr.Claims(missing={"accuracy": "no bound is known", "replicability": "no bound is known"}),
        )
