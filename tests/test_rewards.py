"""A constant added to all rewards changes no decision: no claim may become false by it, and no digit may be lost.

The attack: a table whose rewards are b and b + 1 with a large b. Values are then b/(1 - gamma) and more, and what tells
the actions apart drowns in the last digits. Truth is computed in rational numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.algorithms.approximate_mdp import LearnedModel, RowQueries
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.queries import Means, Query
from replicable_rl.randomness import sample_stream
from tests.statistics import SEED
from tests.test_planning import exact_pairs, exact_q, exact_value, one_hot

EPSILON, DELTA, RHO = 0.1, 0.001, 0.2
REFUSED = r"^{}: rewards between .* that 64-bit numbers can hardly tell apart\. Subtract a constant"
OFFSETS = [sign * 10.0**k for k in (3, 5, 6, 7, 13, 15) for sign in (1, -1)]


def detour(
    b: float, gamma: float = 0.9, *, width: float = 1.0, slip: float = 0.3, noisy: bool = False
) -> rr.TabularMDP:
    """Two steps that pay little lead to a state that pays much, for ever; staying pays a bit more than the steps.

    A planner that sees one step ahead stays, and loses nearly everything. With ``noisy`` rewards are b or b + width by
    chance, and must be learned.
    """

    def row(s: int, to: int, mean: float) -> list[tuple[float, int, float]]:
        pays = [(mean, b + width), (1.0 - mean, b)] if noisy else [(1.0, b + round(mean) * width)]
        goes = [(1.0, to)] if to == s else [(1.0 - slip, to), (slip, s)]
        return [(p * q, t, r) for q, t in goes if q for p, r in pays]

    outcomes = [[row(s, 0, 0.3), row(s, min(s + 1, 2), 0.9 if s == 2 else 0.1)] for s in range(3)]
    return rr.TabularMDP.from_outcomes(outcomes, gamma=gamma, initial=[1.0, 0.0, 0.0], reward_range=(b, b + width))


def exact_losses(mdp: rr.TabularMDP, policy: np.ndarray) -> list[float]:
    """What a policy loses in every state, values normalised to [0, 1]."""
    low, high = map(Fraction, mdp.reward_range)
    mine = exact_value(mdp, exact_pairs(mdp, normalise=True), one_hot(policy.tolist(), mdp.n_actions))
    span = (high - low) / (1 - Fraction(mdp.gamma))
    return [float((max(row) - v) / span) for row, v in zip(exact_q(mdp, normalise=True), mine, strict=True)]


def algorithms(gamma: float) -> dict[str, Any]:
    horizon = math.ceil(math.log(300.0) / -math.log(gamma))
    return {
        "RMax": rr.RMax(EPSILON, DELTA, horizon),
        "ReplicableRMax": rr.ReplicableRMax(EPSILON, DELTA, RHO, horizon),
        "ApproximateMDP": rr.ApproximateMDP(EPSILON, DELTA),
        "ReplicableApproximateMDP": rr.ReplicableApproximateMDP(EPSILON, DELTA, RHO),
        "PhasedVI": rr.PhasedVI(EPSILON, DELTA),
        "ReplicablePhasedVI": rr.ReplicablePhasedVI(EPSILON, DELTA, RHO),
    }


NAMES = list(algorithms(0.9))


# --- no false claim --------------------------------------------------------------------------------------


def check_claims(mdp: rr.TabularMDP, algorithm: Any) -> bool:
    """Whether a run on a table claims accuracy, after its claim was found true, or its silence explained."""
    run = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1)
    losses = exact_losses(mdp, run.policy)
    if run.model is not None:  # what is claimed is about the model; its policy is the model's
        learned = rr.TabularMDP(run.model.rows, n_actions=2, gamma=mdp.gamma, reward_range=run.model.reward_range)
        assert max(exact_losses(learned, run.policy)) <= 1e-7 / (1.0 - mdp.gamma)
    claim = run.claims.accuracy
    if claim is None:
        assert len(run.claims.missing["accuracy"]) > 20
    elif claim.level == "policy":
        assert (losses[0] if "initial" in claim.statement else max(losses)) <= EPSILON
    return claim is not None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_a_claim_is_true_or_missing_or_the_problem_is_refused(name: str, noisy: bool, gamma: float) -> None:
    algorithm = algorithms(gamma)[name]
    for b in OFFSETS:
        mdp = detour(b, gamma, noisy=noisy)
        if abs(b) <= 1e6:
            claimed = check_claims(mdp, algorithm)
            assert claimed or abs(b) > 1e5
        else:
            for refused in (
                lambda mdp=mdp: rr.solve(mdp, algorithm, shared_seed=1),
                lambda mdp=mdp: algorithm.plan(mdp),
            ):
                with pytest.raises(rr.InvalidInput, match=REFUSED.format(name)):
                    refused()


# --- the same bits twice -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked(Query):
    """Plain means that remember what they were asked."""

    means: list[float] = field(default_factory=list)

    @property
    def keeps_zero(self) -> bool:
        return True

    def answer(self, means: np.ndarray, *address: int, index: np.ndarray | None = None) -> np.ndarray:
        self.means.extend(means.tolist())
        return means


def test_means_of_rewards_keep_their_digits() -> None:
    """What rSTAT rounds is the same to the last bit, whatever was added to the rewards."""
    asked = []
    for b in (0.0, 2.0**40, -(2.0**40)):
        mdp, query = detour(b, noisy=True), Asked()
        for seen in (
            mdp.play(np.full((3, 2), 0.5), 10**12, 20, sample_stream(SEED)),
            mdp.draw(10**12, sample_stream(SEED)).transitions(3, 2, b),
        ):
            LearnedModel.empty(mdp).learned(np.arange(6), seen, RowQueries(Means(), query))
        asked.append(query.means)
    assert asked[0] == asked[1] == asked[2]
    assert asked[0][:2] == pytest.approx([0.3, 0.1], abs=1e-5)  # ten standard deviations are 5e-6


# --- planning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.999, 0.9999])
@pytest.mark.parametrize("noisy", [False, True])
def test_planning_is_as_exact_as_the_numbers_it_returns(gamma: float, noisy: bool) -> None:
    """The certificate is true, and an offset adds no more to it than the last bits of numbers like b/(1 - gamma)."""
    plain = optimal_values(detour(0.0, gamma, noisy=noisy))
    for b in OFFSETS:
        mdp = detour(b, gamma, noisy=noisy)
        best, exact = optimal_values(mdp), [x for row in exact_q(mdp, normalise=True) for x in row]
        worst = max(abs(Fraction(float(x)) - y) for x, y in zip(best.q.reshape(-1), exact, strict=True))
        assert worst <= Fraction(best.error)
        assert best.error <= plain.error + 2.0**-50 * abs(b) / (1.0 - gamma)
        assert best.converged == (best.error <= 1e-10 / (1.0 - gamma))
        found = evaluate_policy(mdp, best.policy)
        values = exact_value(mdp, exact_pairs(mdp, normalise=True), one_hot(best.policy.tolist(), 2))
        assert max(abs(Fraction(x) - y) for x, y in zip(found.value.tolist(), values, strict=True)) <= found.error
        if abs(b) <= 1e7:
            assert best.policy.tolist() == plain.policy.tolist()


# --- sums of rewards ---------------------------------------------------------------------------------------
