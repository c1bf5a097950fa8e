"""A black-box simulator has the law of what it simulates, counts its steps, and refuses bad answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.randomness import sample_stream
from replicable_rl.rules import EmpiricalModel
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import MAX_CALLS
from tests.statistics import ALPHA, SEED, goodness_of_fit

Step = Callable[[Any, Any, np.random.Generator], tuple[Any, Any]]


def one_step(mdp: rr.TabularMDP, flaw: float = 0.0) -> Step:
    """Step through a table one pair at a time; ``flaw`` is moved from the first outcome to the last."""

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        outcomes = mdp.rows.of_row(state * mdp.n_actions + action)
        u, k = rng.random(), outcomes.start
        while k < outcomes.stop - 1:
            u -= mdp.rows.probability[k] - (flaw if k == outcomes.start else 0.0)
            if u < 0:
                break
            k += 1
        return int(mdp.rows.next_state[k]), float(mdp.rows.reward[k])

    return step


def many_steps(mdp: rr.TabularMDP, flaw: float = 0.0) -> Step:
    """The same with arrays: the k-th outcome is where the cumulative sum of its pair passes u."""
    ends = np.full((mdp.n_states * mdp.n_actions, int(np.diff(mdp.rows.indptr).max())), 2.0)
    for row in range(len(ends)):
        probability = mdp.rows.probability[mdp.rows.of_row(row)].copy()
        if probability.size > 1:
            probability[0] -= flaw
            ends[row, : probability.size - 1] = np.cumsum(probability)[:-1]

    def step(state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        row = state * mdp.n_actions + action
        k = mdp.rows.indptr[row] + (rng.random(row.size)[:, None] >= ends[row]).sum(axis=1)
        return mdp.rows.next_state[k], mdp.rows.reward[k]

    return step


STEPS = pytest.mark.parametrize(("make_step", "many"), [(one_step, False), (many_steps, True)])


def simulate(mdp: rr.TabularMDP, step: Step, many: bool) -> rr.Simulator:
    sizes: dict[str, Any] = {name: vars(mdp)[name] for name in ("n_states", "n_actions", "gamma", "reward_range")}
    return rr.Simulator(step, step_many=step if many else None, **sizes)


def small(step: Step, many: bool = False, **options: Any) -> rr.Simulator:
    sizes: dict[str, Any] = {"n_states": 2, "n_actions": 1, "gamma": 0.5, "reward_range": (0.0, 1.0), "name": "small"}
    return rr.Simulator(step, step_many=step if many else None, **{**sizes, **options})


def still(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return state, 0.0


def as_table(counts: OutcomeCounts) -> dict[tuple[int, int], tuple[int, float]]:
    """Return (row, next state) -> (count, mean reward)."""
    keys = zip(counts.row.tolist(), counts.next_state.tolist(), strict=True)
    return dict(zip(keys, zip(counts.count.tolist(), counts.reward.tolist(), strict=True), strict=True))


# --- the law -------------------------------------------------------------------------------------------------------


def least_p(mdp: rr.TabularMDP, counts: OutcomeCounts) -> float:
    """Return the smallest p-value of the rows' chi-square tests, times their number."""
    seen, possible, worst = as_table(counts), set(), 1.0
    for row in range(rows := mdp.n_states * mdp.n_actions):
        outcomes = mdp.rows.of_row(row)
        keys = [(row, int(s)) for s in mdp.rows.next_state[outcomes]]
        possible.update(keys)
        observed = [seen.get(key, (0, 0.0))[0] for key in keys]
        worst = min(worst, goodness_of_fit(observed, mdp.rows.probability[outcomes] * counts.calls))
    assert set(seen) <= possible, "an impossible outcome was counted"
    return worst * rows


@STEPS
@pytest.mark.parametrize("problem", ["two-goals-v1", "garnet-v1"])
def test_outcomes_have_the_law_of_the_table(problem: str, make_step: Callable[..., Step], many: bool) -> None:
    mdp = rr.make(problem)
    counts = simulate(mdp, make_step(mdp), many).draw(20_000 if many else 600, sample_stream(SEED))
    assert least_p(mdp, counts) > ALPHA


class Recorder:
    """Steps anywhere and earns anything, and keeps what it was asked and what it answered."""

    def __init__(self) -> None:
        self.rewards: dict[tuple[int, int], list[float]] = defaultdict(list)

    def __call__(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        successor = rng.integers(0, 3, size=np.shape(state))
        reward = rng.random(np.shape(state)) * (action + 1) / 2.0
        for s, a, t, r in zip(*(np.ravel(x).tolist() for x in (state, action, successor, reward)), strict=True):
            self.rewards[s * 2 + a, t].append(r)
        return (int(successor), float(reward)) if np.shape(state) == () else (successor, reward)


@pytest.mark.parametrize(("many", "calls"), [(False, 700), (True, 40_000), (True, 1)])
def test_every_step_is_counted_and_every_reward_averaged(many: bool, calls: int) -> None:
    """Against the record of the steps themselves; 40000 calls for 6 pairs are several batches."""
    recorder = Recorder()
    counts = small(recorder, many, n_states=3, n_actions=2).draw(calls, sample_stream(SEED))
    table, rewards = as_table(counts), recorder.rewards
    assert set(table) == set(rewards)
    for key, (count, mean) in table.items():
        assert count == len(rewards[key])
        assert mean == pytest.approx(math.fsum(rewards[key]) / count, rel=1e-12)
    assert counts.calls == calls
    assert np.add.reduceat(counts.count, counts.indptr[:-1]).tolist() == [calls] * 6
    by_hand = [math.fsum(r for s in range(3) for r in rewards[row, s]) / calls for row in range(6)]
    assert counts.mean(counts.reward).tolist() == pytest.approx(by_hand, rel=1e-12)


@STEPS
def test_the_same_stream_gives_the_same_counts_once(make_step: Callable[..., Step], many: bool) -> None:
    mdp = rr.make("garnet-v1")
    problem, rng = simulate(mdp, make_step(mdp), many), sample_stream(7)
    one, two, fresh = problem.draw(50, sample_stream(7)), problem.draw(50, rng), problem.draw(50, rng)
    for name in ("indptr", "next_state", "reward", "count"):
        assert vars(one)[name].tobytes() == vars(two)[name].tobytes()
    assert one.count.tolist() != fresh.count.tolist()


# --- solving -------------------------------------------------------------------------------------------------------


def test_rpvi_on_a_simulator_is_rpvi_on_the_table() -> None:
    """On the chain rewards are random, so the table's rewards are learned too: the same plan, the same bins."""
    mdp = rr.make("chain-v1", gamma=0.8)
    problem = simulate(mdp, many_steps(mdp), True)
    algorithm = rr.ReplicablePhasedVI(0.2, 0.001, 0.2, calls=20_000, iterations=15, tolerance=0.05)
    assert rr.plan(problem, algorithm).numbers == rr.plan(mdp, algorithm).numbers
    by_steps = rr.solve(problem, algorithm, shared_seed=1, sample_seed=10)
    by_table = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=20)
    assert by_steps.fingerprints.policy == by_table.fingerprints.policy
    assert by_steps.samples == by_table.samples


@pytest.mark.parametrize("wide", [1.0, 1e9])
def test_the_noise_of_rewards_belongs_to_a_sample(wide: float) -> None:
    """The rewards are 80 and 20, far from both ends of the range that was promised, or always 50."""

    def step(states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        return states, np.where(actions == 0, 50.0, np.where(rng.random(states.size) < 0.5, 80.0, 20.0))

    problem = small(step, True, n_states=1, n_actions=2, gamma=0.9, reward_range=(-100.0 * wide, 100.0 * wide))
    model = EmpiricalModel(problem, problem.draw(200_000, np.random.default_rng(2)))
    assert model.spread[0] == pytest.approx([0.0, 30.0 / (200.0 * wide) * 0.1], rel=0.01)
    assert model.spread_between.max() == 0.0


# --- bad answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((0.5, 0.5), "got 0.5 from state 0"),
        ((2, 0.5), r"0\.\.1, got 2 from state 0, action 0"),
        ((-1, 0.5), r"0\.\.1, got -1 from state 0"),
        ((0, math.nan), r"reward_range \[0, 1\], got nan"),
        ((0, -1e-9), "got -1e-09"),
        (([0], 0.5), "step"),
        ((0, "much"), "the reward of step"),
        ((2**70, 0.5), "the next state of step"),
        (None, r"\(next state, reward\)"),
        ((0, 0.5, False, False, {}), r"\(next state, reward\)"),
    ],
)
def test_bad_answers(answer: Any, message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=rf"^Simulator small: .*{message}"):
        small(lambda s, a, rng: answer).draw(3, sample_stream(1))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s: (s[1:], s * 0.5), "step_many"),
        (lambda s: (s + 1, s * 0.5), "got 2 from state 1, action 0"),
        (lambda s: (s.astype(np.uint64) + np.uint64(2**63), s * 0.5), r"got 9\.22\S* from state 0"),
        (lambda s: ([[0], [0, 1]], s * 0.5), "next state"),
    ],
)
def test_bad_arrays(answer: Any, message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=rf"^Simulator small: .*{message}"):
        small(lambda s, a, rng: answer(s), True).draw(3, sample_stream(1))


@pytest.mark.parametrize("calls", [0, 1.5, True, MAX_CALLS + 1])
def test_bad_calls(calls: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^Simulator: .*calls"):
        small(still).draw(calls, sample_stream(1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_states", 0),
        ("n_actions", 2.5),
        ("gamma", 1.0),
        ("reward_range", (1.0, 0.0)),
        ("reward_range", (0.0, math.inf)),
        ("reward_range", 5.0),
        ("step", None),
        ("step_many", 5),
        ("budget", 0),
        ("version", ""),
        ("initial", [0.5, 0.5, 0.5]),
        ("initial", [1.5, -0.5]),
    ],
)
def test_bad_constructors(name: str, value: Any) -> None:
    sizes: dict[str, Any] = {"n_states": 2, "n_actions": 2, "gamma": 0.5, "reward_range": (0.0, 1.0)}
    with pytest.raises(rr.InvalidInput, match=rf"^Simulator: {name}"):
        rr.Simulator(**{"step": still, **sizes, name: value})


# --- budget, identity and the end ----------------------------------------------------------------------------------


def test_a_budget_is_kept() -> None:
    steps = 0

    def counted(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        nonlocal steps
        steps += 1
        return state, 0.0

    problem = small(counted, budget=100)
    with pytest.raises(InvalidInput, match=r"^PhasedVI: .* 102 steps"):
        rr.solve(problem, rr.PhasedVI(0.2, 0.05, calls=17, iterations=3), shared_seed=1, sample_seed=1)
    assert steps == 0
    rr.solve(problem, rr.PhasedVI(0.2, 0.05, calls=10, iterations=5), shared_seed=1, sample_seed=1)
    assert steps == 100


def test_a_simulator_is_known_by_its_version_alone() -> None:
    nameless = small(still)
    assert nameless.identity is not None
    assert "version" in nameless.identity
    one, two = (small(still, version=version) for version in ("1", "2"))
    assert one.identity is two.identity is None
    assert one.spec != two.spec
    assert small(still, gamma=0.25).spec != small(still).spec


def test_what_is_done_leads_to_one_more_state() -> None:
    """Each draw from state 1 ends with 2; what comes after the end is known, and is not stepped."""

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, bool]:
        assert state < 2
        return (99 if state else 1), 0.5 * state, state == 1

    problem = small(step, ends=True, initial=[1.0, 0.0])  # type: ignore[arg-type]  # three values where it ends
    assert (problem.n_states, problem.initial.tolist()) == (3, [1.0, 0.0, 0.0])  # type: ignore[union-attr]
    table = as_table(problem.draw(10, sample_stream(1)))
    assert table == {(0, 1): (10, 0.0), (1, 2): (10, 0.5), (2, 2): (10, 0.0)}
    with pytest.raises(rr.InvalidInput, match="reward_range must contain 0"):
        small(step, ends=True, reward_range=(0.5, 1.0))  # type: ignore[arg-type]
