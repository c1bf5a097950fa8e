"""What is proved of decisions holds with masks: many states, few that decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dev.benchmarks import decision_edges as edges

import replicable_rl as rr
from replicable_rl.problem.rows import Rows
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules import AffordableTolerance, Tuning
from replicable_rl.theory import decisions
from tests.statistics import SEED
from tests.test_rules import estimate


def one_choice(p: list[float], n_states: int) -> rr.TabularMDP:
    """Coins in the first state, nothing to choose in the others, and nothing follows."""
    A, forced = len(p), np.arange(1, n_states)
    indptr = np.concatenate([2 * np.arange(A + 1), 2 * A + np.repeat(forced, A)])  # one outcome in a forced state
    successors = np.concatenate([np.zeros(2 * A), forced]).astype(np.int32)
    chances = np.concatenate([np.ravel([(1.0 - x, x) for x in p]), np.ones(n_states - 1)])
    rewards = np.concatenate([np.tile([0.0, 1.0], A), np.zeros(n_states - 1)])
    allowed = np.zeros((n_states, A), dtype=bool)
    allowed[:, 0] = allowed[0] = True
    first = np.zeros(n_states)
    first[0] = 1.0
    rows = Rows(indptr, successors, chances, rewards)
    return rr.TabularMDP(rows, n_actions=A, gamma=0.0, initial=first, reward_range=(0.0, 1.0), allowed=allowed)


@pytest.mark.parametrize("n_actions", [2, 5])
@pytest.mark.parametrize("n_states", [10**3, 10**5, 10**6])
def test_few_samples_for_many_masked_states_prove_nothing(n_states: int, n_actions: int) -> None:
    """With three samples a state two runs differ in a third of the pairs, where one state has all the weight."""
    problem = one_choice([0.5] * n_actions, n_states)
    plan = rr.PlugInPolicy(0.9, 0.01, 0.2, samples=3 * n_states).plan(problem)
    assert plan.claims().replicability is None
    assert plan.numbers.rho_proved == 1.0


@pytest.mark.parametrize("n_states", [2, 8, 1000, 10**5])
def test_a_masked_plan_of_its_own_is_proved(n_states: int) -> None:
    plan = rr.PlugInPolicy(0.9, 0.01, 0.2).plan(one_choice([0.4, 0.6], n_states))
    assert plan.claims().accuracy is not None
    assert plan.claims().replicability is not None
    less = rr.PlugInPolicy(0.9, 0.01, 0.2, samples=int(0.9 * plan.numbers.per_pair)).plan(
        one_choice([0.4, 0.6], n_states)
    )
    assert less.claims().replicability is None


def test_without_masks_the_bound_is_what_it_was() -> None:
    """The corrected sum and the one over all comparisons are the same where all actions are allowed."""
    for S, A in ((2, 2), (50, 4), (10**5, 3)):
        plain, full = (decisions.Sizes(S, A, 0.9, False, True, pairs) for pairs in (None, S * A))
        for n in (10.0, 1e6, 1e12):
            bound = decisions.affordable_disagreement(plain, n, 0.1)
            assert bound == decisions.affordable_disagreement(full, n, 0.1)
            one = decisions.Sizes(S, A, 0.9, False, True, S + A - 1)
            assert bound / math.sqrt(S) <= decisions.affordable_disagreement(one, n, 0.1) <= bound * (1 + 1e-12)


def test_arrays_decide_as_the_package_does_with_masks() -> None:
    rng = np.random.default_rng(SEED)
    n_states, n, decided = 400, 200, set()
    for seed in range(60):
        gap = rng.uniform(0.5, 2.5) / math.sqrt(n_states)
        one = edges.OneChoice([0.5 - gap / 2, 0.5 - gap / 3, 0.5 + gap / 2], n_states, n)
        model = estimate(one_choice(one.coins.p[0].tolist(), n_states), n, seed)
        numbers = SharedRandomness(seed).uniform("decide/affordable", shape=2)
        decision = AffordableTolerance().decide(model, SharedRandomness(seed), Tuning(0.9, 0.0, "initial"))
        theirs = one.decide(model.q.reshape(n_states, -1)[None, :1], 0.9, numbers[None])
        assert decision.outputs["policy"][0] == theirs[0, 0]
        decided.add(int(theirs[0, 0]))
    assert len(decided) > 1


def test_two_masked_runs_differ_seldom_at_the_size_of_the_plan() -> None:
    """One of 3000 states decides, and its gap is where the window of the first tolerance is."""
    n_states = 3000
    weight = edges.OneChoice([0.5, 0.5], n_states, 1).weight
    problem, differ = one_choice([0.5 - 0.75 / weight, 0.5 + 0.75 / weight], n_states), 0
    algorithm = rr.PlugInPolicy(0.9, 0.01, 0.2)
    assert rr.plan(problem, algorithm).claims().replicability is not None
    for seed in range(40):
        one, two = (rr.solve(problem, algorithm, shared_seed=seed, sample_seed=2 * seed + i) for i in (0, 1))
        differ += one.fingerprints.policy != two.fingerprints.policy
    assert differ <= 20  # of 40 at 0.2: more with probability below 1e-5
