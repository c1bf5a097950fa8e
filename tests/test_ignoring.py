"""States that are hardly ever reached may be ignored, and that may not cost more than is said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.logs import Dataset, Process
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.theory.decisions import SPENT, plug_in_policy


def corridor(length: int = 30, gamma: float = 0.95) -> rr.TabularMDP:
    """Left and right; only the far end pays. By chance nobody gets there in time, and the best policy does."""
    P, R = np.zeros((length, 2, length)), np.zeros((length, 2))
    for s in range(length):
        P[s, 0, max(s - 1, 0)] = P[s, 1, min(s + 1, length - 1)] = 1.0
    R[-1] = 1.0
    return rr.TabularMDP.from_dense(P, R, gamma=gamma, initial=[1.0] + [0.0] * (length - 1))


def loss_of(mdp: rr.TabularMDP, policy: NDArray[np.int64]) -> float:
    best = rr.optimal_values(mdp).value
    return float((1.0 - mdp.gamma) * mdp.initial @ (best - rr.evaluate_policy(mdp, policy).value))


def log_of(mdp: rr.TabularMDP, calls: int) -> Dataset:
    """Return a log in which every pair was tried so often."""
    drawn = mdp.draw(calls, sample_stream(3))
    some = drawn.count > 0
    row = drawn.row[some]
    states, actions = tuple(range(mdp.n_states)), tuple(range(mdp.n_actions))
    mask = mdp.support.given
    allowed = None if mask is None else tuple(map(tuple, mask.tolist()))
    process = Process(states, actions, mdp.gamma, mdp.reward_range, tuple(mdp.initial.tolist()), allowed=allowed)
    parts = row // mdp.n_actions, row % mdp.n_actions, drawn.next_state[some], drawn.reward[some], drawn.count[some]
    return Dataset(process, *parts)


def test_what_lies_on_the_way_is_not_ignored() -> None:
    mdp = corridor()
    for rule in ("affordable", "greedy", "tolerance"):
        algorithm = rr.PlugInPolicy(0.05, 0.05, 0.2, rule=rule, budget=3 * 10**5, horizon=100)
        run = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1)
        assert loss_of(mdp, run.policy) < 0.05
    log = rr.solve(log_of(mdp, 500), rr.PlugInPolicy(0.05, 0.05, 0.2), shared_seed=1)
    assert loss_of(mdp, log.policy) < 0.05


@pytest.mark.parametrize("problem", ["machine-repair-v1", "two-goals-v1", "admission-v1", "riverswim-v1"])
def test_ignoring_costs_what_is_said(problem: str) -> None:
    """The said bound is one on the model; with so many steps the true cost is near it."""
    mdp = rr.make(problem)
    algorithm = rr.PlugInPolicy(0.05, 0.05, 0.2, rule="greedy", budget=10**6, horizon=100)
    run = rr.solve(mdp, algorithm, shared_seed=2, sample_seed=2)
    said = re.search(r"left at action 0, with which the whole policy loses ([\d.e-]+) on", str(run.status))
    assert loss_of(mdp, run.policy) <= (0.0 if said is None else float(said[1])) + 0.01
    assert said is None or float(said[1]) <= 0.05 / 2


def bold(first: str = "other") -> rr.TabularMDP:
    """Four states in a row, and a goal. A bold action leads on, nearly as good; at the end, one action is a trap.

    The best policy goes to the goal at once, so that the last states are hardly ever reached. Where the bold action
    is preferred, they are, and there the trap is what nobody has decided: action 0, or the first that is allowed.
    """
    P, R = np.zeros((6, 10, 6)), np.ones((6, 10))
    trap, goal, allowed = 4, 5, np.ones((6, 10), dtype=np.bool_)
    P[:, :, goal] = 1.0
    P[trap], R[trap] = np.eye(6)[trap], 1.0
    ahead = {"always 0": (0, 0, 0, 0), "mask": (0, 0, 1, 1), "reversed": (9, 9, 0, 0)}[first]
    for s, action in enumerate(ahead):
        P[s, action], R[s, action] = np.eye(6)[s + 1], 0.99
    R[trap, 1 if first == "mask" else 0] = 0.0
    if first == "mask":
        allowed[2:, 0] = False
    P[~allowed] = 0.0
    return rr.TabularMDP.from_dense(P, R, gamma=0.9, initial=np.eye(6)[0], allowed=allowed)


@pytest.mark.parametrize(
    ("first", "rule"),
    [
        ("always 0", "tolerance"),
        ("always 0", "affordable"),
        ("mask", "affordable"),
        ("mask", "tolerance"),
        ("reversed", rr.rules.AffordableTolerance(tuple(range(9, -1, -1)))),
        ("reversed", rr.rules.RandomTolerance(None, tuple(range(9, -1, -1)))),
    ],
)
def test_a_rule_that_goes_where_the_best_policy_does_not(first: str, rule: Any) -> None:
    """What is ignored is priced for the policy that the rule decides, and not for the best one."""
    mdp = bold(first)
    algorithm = rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule, budget=10**5, horizon=30)
    for seed in range(3):
        run = rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=1)
        lost = loss_of(mdp, run.policy)
        assert lost < 0.1
        said = re.search(r"left at .*, with which the whole policy loses ([\d.e-]+) on", str(run.status))
        assert said is None or lost == pytest.approx(float(said[1]), abs=0.01)
    log = rr.solve(log_of(mdp, 2000), rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule), shared_seed=1)
    assert loss_of(mdp, log.policy) < 0.1


@pytest.mark.parametrize("first", ["always 0", "mask", "reversed"])
def test_cuts_from_episodes_and_logs_cost_what_is_allowed(first: str) -> None:
    """Who publishes ignores states too, in the order of the cuts."""
    mdp = bold(first)
    order = tuple(range(9, -1, -1)) if first == "reversed" else None
    promise = rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rr.rules.AffordableTolerance(order))
    cases: list[tuple[Any, rr.PlugInPolicy, int | None]] = [
        (mdp, replace(promise, budget=10**5, horizon=30), 1),
        (log_of(mdp, 2000), promise, None),
    ]
    for problem, algorithm, seed in cases:
        cuts = rr.publish(problem, algorithm, sample_seed=seed)
        assert loss_of(mdp, cuts.policy) < 0.1
        follow = replace(algorithm, rule=rr.rules.PublishedCuts(cuts))
        assert loss_of(mdp, rr.solve(problem, follow, shared_seed=1, sample_seed=seed).policy) < 0.1


def test_ignored_states_get_the_first_allowed_action_of_the_order() -> None:
    mdp = bold("reversed")
    rule = rr.rules.AffordableTolerance(tuple(range(9, -1, -1)))
    run = rr.solve(
        mdp, rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule, budget=10**5, horizon=30), shared_seed=0, sample_seed=1
    )
    assert "3 states hardly ever reached and left at action 9" in str(run.status)
    assert run.policy[3:].tolist() == [9, 9, 9]


def test_where_the_worst_state_counts_a_state_that_costs_is_not_ignored() -> None:
    """However seldom it is reached: epsilon is then about every state."""
    P, R = np.zeros((3, 2, 3)), np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    P[0, :, 1], P[0, :, 2] = 0.999, 0.001
    P[1, :, 0], P[2, :, 0] = 1.0, 1.0
    mdp = rr.TabularMDP.from_dense(P, R, gamma=0.9, initial=[1.0, 0.0, 0.0])
    for over, action in (("initial", 0), ("worst", 1)):
        algorithm = rr.PlugInPolicy(0.05, 0.05, 0.2, budget=10**5, horizon=20, over=over, rule="tolerance")
        assert rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1).policy[2] == action


def test_labs_that_follow_cuts_from_episodes_decide_alike() -> None:
    """Who publishes ignores states too, and says so in the cuts; who follows ignores none by a seed of its own."""
    mdp, same = rr.make("machine-repair-v1"), 0
    algorithm = rr.PlugInPolicy(0.05, 0.05, 0.2, budget=2 * 10**5, horizon=100)
    cuts = rr.publish(mdp, algorithm, sample_seed=1)
    assert np.isinf(cuts.margins).any()
    follow = rr.PlugInPolicy(0.05, 0.05, 0.2, budget=2 * 10**5, horizon=100, rule=rr.rules.PublishedCuts(cuts))
    for seed in range(10):
        run = rr.solve(mdp, follow, shared_seed=seed, sample_seed=100 + seed)
        alike = bool(np.array_equal(run.policy, cuts.policy))
        same += alike
        assert ("the published policy" in str(run.status)) == alike
    assert same >= 9


def test_who_follows_cuts_ignores_no_state_by_another_order() -> None:
    """The publisher prefers action 1, also in states that are ignored; nobody else's first action counts."""
    mdp, steps = rr.make("machine-repair-v1"), dict[str, Any](budget=10**5, horizon=100)
    mine = rr.PlugInPolicy(0.05, 0.05, 0.2, rule=rr.rules.AffordableTolerance(order=(1, 0)), **steps)
    cuts = rr.publish(mdp, mine, sample_seed=1)
    ignored = np.isinf(cuts.margins)
    assert ignored.any()
    assert (cuts.policy[ignored] == 1).all()
    follow = rr.PlugInPolicy(0.05, 0.05, 0.2, rule=rr.rules.PublishedCuts(cuts), **steps)
    for seed in range(4):
        run = rr.solve(mdp, follow, shared_seed=seed, sample_seed=50 + seed)
        assert run.policy[ignored].tolist() == cuts.policy[ignored].tolist()


def test_who_publishes_spends_what_who_follows_may() -> None:
    """Whatever the rule and however many samples: else more samples would speak against good cuts."""
    for n in (10, 10**6, 10**12):
        plan = plug_in_policy(20, 4, 0.9, 0.05, 0.01, 0.2, rule="published", samples=n, known_rewards=False)
        assert plan.spent == SPENT * 0.05
    problem = rr.make("two-goals-v1")
    found = [
        rr.publish(problem, rr.PlugInPolicy(0.5, 0.05, 0.2, rule=rule, samples=2**37), sample_seed=1).digest
        for rule in ("affordable", "rounded", "tolerance", "greedy")
    ]
    assert len(set(found)) == 1


def test_no_reward_is_not_called_a_large_epsilon() -> None:
    lake = rr.from_gymnasium("FrozenLake-v1", gamma=0.95, map_name="8x8")
    algorithm = rr.PlugInPolicy(0.001, 0.05, 0.2, budget=200, horizon=50)
    said = str(rr.solve(lake, algorithm, shared_seed=1, sample_seed=1).status)
    assert "no sample had a reward above the lowest that there may be" in said
    assert "asks for nothing" not in said


def test_a_state_is_ignored_by_two_shared_numbers() -> None:
    """The first is the one that it always was."""
    one, two = (SharedRandomness(5).uniform("decide/ignored", shape=n) for n in (1, 2))
    assert one[0] == two[0]


def test_few_steps_need_not_try_every_pair() -> None:
    mdp = rr.make("garnet-v1", n_states=300, n_actions=4)
    run = rr.solve(mdp, rr.PlugInPolicy(0.1, 0.05, 0.2, budget=500, horizon=50), shared_seed=1, sample_seed=1)
    assert run.samples is not None
    assert run.samples <= 500
