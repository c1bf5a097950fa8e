"""A black-box simulator has the law of what it simulates, counts its steps, and refuses bad answers."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge
from replicable_rl.problem import simulator as simulator_module
from replicable_rl.problem.source import Generative
from replicable_rl.randomness import sample_stream
from replicable_rl.rules import EmpiricalModel
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import MAX_CALLS
from tests.statistics import ALPHA, SEED, goodness_of_fit

if TYPE_CHECKING:
    pass

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
    """Step through a table with arrays: the k-th pair's outcome is where its cumulative sum passes u."""
    width = int(np.diff(mdp.rows.indptr).max())
    ends = np.full((mdp.n_states * mdp.n_actions, width), 2.0)
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
    return rr.Simulator(
        step,
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
        step_many=step if many else None,
    )


def still(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return state, 0.0


def small(step: Step, many: bool = False, n_states: int = 2, **options: Any) -> rr.Simulator:
    fixed: dict[str, Any] = {"n_actions": 1, "gamma": 0.5, "reward_range": (0.0, 1.0), **options}
    return rr.Simulator(step, n_states=n_states, step_many=step if many else None, **fixed)


def as_table(counts: OutcomeCounts) -> dict[tuple[int, int], tuple[int, float]]:
    """Return (row, next state) -> (count, mean reward)."""
    rows = np.repeat(np.arange(counts.indptr.size - 1), np.diff(counts.indptr))
    keys = zip(rows.tolist(), counts.next_state.tolist(), strict=True)
    return dict(zip(keys, zip(counts.count.tolist(), counts.reward.tolist(), strict=True), strict=True))


# --- the law -----------------------------------------------------------------------------------


def least_p(mdp: rr.TabularMDP, counts: OutcomeCounts) -> float:
    """Return the smallest p-value of the rows' chi-square tests, times their number."""
    seen = as_table(counts)
    allowed: set[tuple[int, int]] = set()
    worst, rows = 1.0, mdp.n_states * mdp.n_actions
    for row in range(rows):
        outcomes = mdp.rows.of_row(row)
        keys = [(row, int(s)) for s in mdp.rows.next_state[outcomes]]
        assert len(set(keys)) == len(keys), "this test needs one outcome for each next state"
        allowed.update(keys)
        observed = [seen.get(key, (0, 0.0))[0] for key in keys]
        worst = min(worst, goodness_of_fit(observed, mdp.rows.probability[outcomes] * counts.calls))
    assert set(seen) <= allowed, "an impossible outcome was counted"
    return worst * rows


@STEPS
@pytest.mark.parametrize("problem", ["two-goals-v1", "garnet-v1", "chain-v1"])
def test_outcomes_have_the_law_of_the_table(problem: str, make_step: Callable[..., Step], many: bool) -> None:
    mdp = rr.make(problem)
    calls = 20_000 if many else 600
    counts = simulate(mdp, make_step(mdp), many).draw(calls, sample_stream(SEED))
    assert least_p(mdp, counts) > ALPHA
    by_table = {
        (row, int(mdp.rows.next_state[k])): float(mdp.rows.reward[k])
        for row in range(mdp.n_states * mdp.n_actions)
        for k in range(*mdp.rows.of_row(row).indices(mdp.rows.reward.size))
    }
    for key, (_, reward) in as_table(counts).items():
        assert reward == pytest.approx(by_table[key], abs=1e-12)


@STEPS
def test_a_flawed_simulator_is_noticed(make_step: Callable[..., Step], many: bool) -> None:
    """The test above has power: a probability off by 0.1 does not pass."""
    mdp = rr.make("riverswim-v1")
    calls = 20_000 if many else 3000
    counts = simulate(mdp, make_step(mdp, flaw=0.1), many).draw(calls, sample_stream(SEED))
    assert least_p(mdp, counts) < ALPHA


# --- counting ----------------------------------------------------------------------------------


class Recorder:
    """A step that keeps what it was asked and what it answered."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.rows: list[tuple[int, int]] = []
        self.answers: list[tuple[int, float]] = []

    def __call__(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        answer = self.step(state, action, rng)
        asked, answered = np.broadcast_arrays(state, action), np.broadcast_arrays(*answer)
        self.rows += zip(*(np.ravel(x).tolist() for x in asked), strict=True)
        self.answers += zip(*(np.ravel(x).tolist() for x in answered), strict=True)
        return answer


def uniform_rewards(state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Go anywhere, and earn anything: works for numbers and for arrays."""
    size = np.shape(state)
    successor = rng.integers(0, 3, size=size)
    reward = rng.random(size) * (action + 1) / 2.0
    return (int(successor), float(reward)) if size == () else (successor, reward)


@pytest.mark.parametrize(("many", "calls"), [(False, 700), (True, 700), (True, 40_000), (True, 1)])
def test_every_step_is_counted_and_every_reward_averaged(many: bool, calls: int) -> None:
    """Against the record of the steps themselves; 40000 calls for 6 pairs are several batches."""
    recorder = Recorder(uniform_rewards)
    problem = rr.Simulator(
        recorder, n_states=3, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), step_many=recorder if many else None
    )
    counts = problem.draw(calls, sample_stream(SEED))
    assert len(recorder.rows) == calls * 3 * 2
    assert {recorder.rows.count((s, a)) for s in range(3) for a in range(2)} == {calls}
    rewards: dict[tuple[int, int], list[float]] = defaultdict(list)
    for (s, a), (successor, reward) in zip(recorder.rows, recorder.answers, strict=True):
        rewards[s * 2 + a, successor].append(reward)
    table = as_table(counts)
    assert set(table) == set(rewards)
    for key, (count, mean) in table.items():
        assert count == len(rewards[key])
        assert mean == pytest.approx(math.fsum(rewards[key]) / count, rel=1e-12)
    assert counts.calls == calls
    assert np.add.reduceat(counts.count, counts.indptr[:-1]).tolist() == [calls] * 6
    for row in range(6):
        states = counts.next_state[counts.indptr[row] : counts.indptr[row + 1]]
        assert (np.diff(states) > 0).all()
    # What algorithms use: the mean over the calls of a row.
    by_hand = [math.fsum(r for s in range(3) for r in rewards[row, s]) / calls for row in range(6)]
    assert counts.mean(counts.reward).tolist() == pytest.approx(by_hand, rel=1e-12)


@STEPS
def test_samples_reported_are_samples_drawn(make_step: Callable[..., Step], many: bool) -> None:
    mdp = rr.make("chain-v1")
    recorder = Recorder(make_step(mdp))
    solution = rr.solve(
        simulate(mdp, recorder, many),
        rr.PhasedVI(0.2, 0.05, calls=30, iterations=7),
        shared_seed=1,
        sample_seed=1,
    )
    assert solution.samples == len(recorder.rows) == 30 * 7 * 5 * 2


def test_continuous_rewards_have_their_mean() -> None:
    """Hoeffding's bound at level ALPHA for the six rows' means of rewards in [0, 1]."""
    problem = rr.Simulator(
        uniform_rewards, n_states=3, n_actions=2, gamma=0.5, reward_range=(0, 1), step_many=uniform_rewards
    )
    calls = 100_000
    counts = problem.draw(calls, sample_stream(SEED))
    radius = math.sqrt(math.log(2 * 6 / ALPHA) / (2 * calls))
    means = counts.mean(counts.reward).reshape(3, 2)
    assert np.abs(means - [0.25, 0.5]).max() <= radius < 0.01


# --- determinism -------------------------------------------------------------------------------


@STEPS
def test_same_randomness_same_counts(make_step: Callable[..., Step], many: bool) -> None:
    mdp = rr.make("garnet-v1")
    problem = simulate(mdp, make_step(mdp), many)
    one, two, other = (problem.draw(50, sample_stream(seed)) for seed in (7, 7, 8))
    for array in ("indptr", "next_state", "reward", "count"):
        assert getattr(one, array).tobytes() == getattr(two, array).tobytes()
    assert one.count.tolist() != other.count.tolist()


def test_draws_of_one_stream_are_fresh() -> None:
    mdp = rr.make("garnet-v1")
    problem, rng = simulate(mdp, many_steps(mdp), True), sample_stream(7)
    assert problem.draw(50, rng).count.tolist() != problem.draw(50, rng).count.tolist()


def test_batches_do_not_change_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of randomness a step: the same steps, in batches of any size."""
    mdp = rr.make("riverswim-v1")
    problem = simulate(mdp, many_steps(mdp), True)
    whole = problem.draw(500, sample_stream(SEED))
    monkeypatch.setattr(simulator_module, "_CHUNK", 77)
    parts = problem.draw(500, sample_stream(SEED))
    assert parts.count.tolist() == whole.count.tolist()
    assert parts.next_state.tolist() == whole.next_state.tolist()
    assert parts.reward.tolist() == pytest.approx(whole.reward.tolist(), rel=1e-12)


# --- solving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared_seed", [1, 2, 3])
def test_rpvi_on_a_simulator_is_rpvi_on_the_table(shared_seed: int) -> None:
    """On the chain rewards are random, so the table's rewards are learned too: the same plan, the same bins."""
    mdp = rr.make("chain-v1", gamma=0.8)
    problem = simulate(mdp, many_steps(mdp), True)
    algorithm = rr.ReplicablePhasedVI(0.2, 0.001, 0.2, calls=20_000, iterations=15, tolerance=0.05)
    assert rr.plan(problem, algorithm).numbers == rr.plan(mdp, algorithm).numbers
    by_steps = rr.solve(problem, algorithm, shared_seed=shared_seed, sample_seed=10)
    by_table = rr.solve(mdp, algorithm, shared_seed=shared_seed, sample_seed=20)
    assert by_steps.policy.tolist() == by_table.policy.tolist()
    assert by_steps.fingerprints.policy == by_table.fingerprints.policy
    width = algorithm.plan(mdp).numbers.width * (1.0 / (1.0 - mdp.gamma))
    assert np.abs(by_steps.q - by_table.q).max() < 3 * width


def test_rpvi_on_a_simulator_learns_known_rewards_too() -> None:
    """On this Garnet the table's rewards are known and a simulator's are not; the best actions win by 0.3."""
    mdp = rr.make("garnet-v1", n_states=6, n_actions=3, gamma=0.7, seed=119)
    problem = simulate(mdp, many_steps(mdp), True)
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=5_000, iterations=20, tolerance=0.01)
    assert rr.plan(mdp, algorithm).numbers.known_rewards
    assert not rr.plan(problem, algorithm).numbers.known_rewards
    by_steps = rr.solve(problem, algorithm, shared_seed=1, sample_seed=10)
    by_table = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=20)
    optimum = rr.optimal_values(mdp)
    assert optimum.policy.tolist() == [2, 2, 2, 0, 1, 1]
    assert by_steps.policy.tolist() == by_table.policy.tolist() == optimum.policy.tolist()
    assert np.abs(by_steps.q - optimum.q).max() < 0.15


def test_a_simulator_is_a_generative_model_with_a_record() -> None:
    problem = small(lambda s, a, rng: (0, 0.0), name="my plant")
    assert isinstance(problem, Generative)
    solution = rr.solve(problem, rr.PhasedVI(0.2, 0.05, calls=2, iterations=2), shared_seed=1, sample_seed=1)
    assert solution.spec is not None
    assert solution.spec.problem.id == "simulator"
    assert solution.spec.problem.params["name"] == "my plant"
    others = [small(lambda s, a, rng: (0, 0.0), name="my plant", gamma=gamma).spec for gamma in (0.25, 0.5)]
    assert others[0] != others[1] == solution.spec.problem  # all that its bits depend on, but for the code
    assert json.loads(json.dumps(solution.to_json()))["samples"] == "8"


# --- bad answers -------------------------------------------------------------------------------


SHAPE, PAIR = "one for each state", r"must return \(next state, reward\)"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((0.0, 0.5), SHAPE),
        ((True, 0.5), SHAPE),
        (([0], 0.5), SHAPE),
        ((0, [0.5]), SHAPE),
        ((2**70, 0.5), SHAPE),
        ((2, 0.5), r"0\.\.1, got 2 from state 0, action 0"),
        ((-1, 0.5), r"0\.\.1, got -1 from state 0"),
        ((0, math.nan), r"reward_range \[0, 1\], got nan"),
        ((0, 1.5), "got 1.5 from state 0, action 0"),
        ((0, -1e-9), "got -1e-09"),
        (None, PAIR),
        ((0, 0.5, False, False, {}), PAIR),
        ((0, "much"), SHAPE),
        ((0, 1j), SHAPE),
    ],
)
def test_bad_answers(answer: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^Simulator bad: .*{message}"):
        small(lambda s, a, rng: answer, name="bad").draw(3, sample_stream(1))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s: (s * 0.0, s * 0.5), SHAPE),
        (lambda s: (s[1:], s * 0.5), SHAPE),
        (lambda s: (s[:, None], s * 0.5), SHAPE),
        (lambda s: (s, s[1:] * 0.5), SHAPE),
        (lambda s: (s, 0.5), SHAPE),
        (lambda s: (0, s * 0.5), SHAPE),
        (lambda s: (s + 1, s * 0.5), "got 2 from state 1, action 0"),
        (lambda s: (s - 1, s * 0.5), "got -1 from state 0"),
        (lambda s: (s.astype(np.uint64) + np.uint64(2**63), s * 0.5), r"got 9\.22\S* from state 0"),
        (lambda s: (s, np.where(s == 1, np.nan, 0.5)), "got nan from state 1"),
        (lambda s: (s, s * 2.0), "got 2 from state 1"),
        (lambda s: ([[0], [0, 1]], s * 0.5), SHAPE),
        (lambda s: s, PAIR),
    ],
)
def test_bad_arrays(answer: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^Simulator bad: .*{message}"):
        small(lambda s, a, rng: answer(s), True, name="bad").draw(3, sample_stream(1))


def test_one_bad_answer_among_good_ones() -> None:
    def step(state: int, action: int, rng: np.random.Generator) -> Any:
        return (0, 0.5) if state == 0 else (0,)

    with pytest.raises(InvalidInput, match=PAIR):
        small(step).draw(3, sample_stream(1))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), ValueError("mine"), TypeError("mine"), KeyError("mine")])
def test_an_exception_of_the_step_is_its_own(error: Exception, many: bool) -> None:
    def step(state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        raise error

    algorithm = rr.PhasedVI(0.2, 0.05, calls=3, iterations=2)
    with pytest.raises(type(error)) as raised:
        rr.solve(small(step, many), algorithm, shared_seed=1, sample_seed=1)
    assert raised.value is error


@pytest.mark.parametrize("calls", [0, -1, 1.5, True, MAX_CALLS + 1])
def test_bad_calls(calls: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^Simulator: (calls must be|at most 2\*\*63 - 1)"):
        small(lambda s, a, rng: (0, 0.0)).draw(calls, sample_stream(1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_states", 0),
        ("n_states", 2.5),
        ("n_actions", 0),
        ("gamma", 1.0),
        ("reward_range", (1.0, 0.0)),
        ("reward_range", (0.0, math.inf)),
        ("step", None),
        ("step_many", 5),
        ("budget", 0),
        ("version", ""),
        ("initial", [0.5, 0.5]),
        ("initial", [0.5, 0.5, 0.5, -0.5, 0.0]),
        ("initial", [1.0, 1.0, 0.0, 0.0, 0.0]),
    ],
)
def test_bad_constructors(name: str, value: Any) -> None:
    good: dict[str, Any] = {"n_states": 5, "n_actions": 2, "gamma": 0.5, "reward_range": (0.0, 1.0)}
    with pytest.raises(InvalidInput, match=rf"^Simulator: {name}"):
        rr.Simulator(**{"step": still, **good, name: value})


# --- budget and identity -------------------------------------------------------------------------------------


def test_a_budget_is_kept_before_and_during_a_run() -> None:
    steps = 0

    def counted(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        nonlocal steps
        steps += 1
        return state, 0.0

    problem = small(counted, budget=100)
    assert problem.budget == 100
    assert small(counted).budget == 10**9
    with pytest.raises(SampleSizeTooLarge, match="102 steps"):
        problem.draw(51, sample_stream(1))
    with pytest.raises(SampleSizeTooLarge, match=r"^PhasedVI: .* 102 steps"):
        rr.solve(problem, rr.PhasedVI(0.2, 0.05, calls=17, iterations=3), shared_seed=1, sample_seed=1)
    assert steps == 0
    rr.solve(problem, rr.PhasedVI(0.2, 0.05, calls=10, iterations=5), shared_seed=1, sample_seed=1)
    assert steps == 100


def test_a_simulator_is_known_by_its_version_alone() -> None:
    nameless = small(still)
    assert nameless.identity is not None
    assert "version" in nameless.identity
    assert "version" not in nameless.spec.params
    one, two = (small(still, name="still", version=version) for version in ("1", "2"))
    assert one.identity is two.identity is None
    assert one.spec != two.spec
    assert one.spec.params["version"] == "1"


def test_where_episodes_start_may_be_known() -> None:
    unknown, known = small(still), small(still, initial=[0.25, 0.75])
    assert (unknown.initial, unknown.trust.estimated, unknown.known_rewards) == (None, False, None)
    assert known.initial is not None
    assert known.initial.tolist() == known.spec.params["initial"] == [0.25, 0.75]
    run = rr.solve(known, rr.ApproximateMDP(0.1, 0.01), shared_seed=1, sample_seed=1)
    assert run.model is not None
    assert run.model.initial.tolist() == [0.25, 0.75]
    assert run.model.estimated


def test_what_a_refusal_advises_fits() -> None:
    """Whatever form is asked for: what the sentence names is within the budget, and hardly more would be."""

    def step(state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.integers(0, 2, np.shape(state)), np.full(np.shape(state), 0.5)

    simulator = rr.Simulator(
        step, n_states=2, n_actions=2, gamma=0.9, reward_range=(0.0, 1.0), step_many=step, name="coin", budget=10**6
    )
    for algorithm in (
        rr.ReplicablePhasedVI(0.2, 0.01, 0.2),
        rr.ReplicableApproximateMDP(0.01, 0.01, 0.2),
        rr.PhasedVI(0.1, 0.01),
    ):
        with pytest.raises(rr.InvalidInput) as refused:
            rr.solve(simulator, algorithm, shared_seed=1)
        advised = int(re.findall(r"With calls=(\d+) it would fit", str(refused.value))[0])
        fits, more = (
            dataclasses.replace(algorithm, calls=calls).plan(simulator).samples for calls in (advised, advised + 1)
        )
        assert fits <= 10**6 < more


# --- random rewards ---------------------------------------------------------------------------------------


def payments(states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Go round a ring; action 0 pays 2 always, action 1 pays -1 or 3."""
    return (states + 1) % 3, np.where(actions == 0, 2.0, np.where(rng.random(states.size) < 0.25, 3.0, -1.0))


def test_the_noise_of_rewards_belongs_to_a_sample() -> None:
    sizes: dict[str, Any] = {"n_states": 3, "n_actions": 2, "gamma": 0.5, "reward_range": (-2.0, 6.0)}
    ring = rr.Simulator(payments, step_many=payments, **sizes)
    counts = ring.draw(40_000, np.random.default_rng(1))
    spread = EmpiricalModel(ring, counts).spread
    assert spread[:, 0].tolist() == [0.0, 0.0, 0.0]
    one_step = 4.0 * np.sqrt(0.25 * 0.75)  # of the reward; values are normalised: by the width, and by 1 - gamma
    assert spread[:, 1] == pytest.approx(one_step / 8.0 * 0.5, rel=0.02)
    assert EmpiricalModel(ring, counts).spread_between.max() == 0.0


def coins(states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    chance = 0.5 + 0.02 * np.cos(1.0 + 2.0 * states + 3.0 * actions)
    return (states + 1) % 6, (rng.random(states.size) < chance).astype(float)


def test_who_follows_cuts_of_a_simulator_with_random_rewards_decides_alike() -> None:
    """Without the noise of rewards margins were said to be far larger, and most labs decided otherwise."""
    sizes: dict[str, Any] = {"n_states": 6, "n_actions": 2, "gamma": 0.9, "reward_range": (0.0, 1.0)}
    ring = rr.Simulator(coins, step_many=coins, initial=[1 / 6] * 6, **sizes)
    same = 0
    for lab in range(12):
        cuts = rr.publish(ring, rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000), sample_seed=lab)
        assert cuts.margins.max() < 30.0
        follow = rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000, rule=rr.rules.PublishedCuts(cuts))
        runs = [rr.solve(ring, follow, shared_seed=0, sample_seed=100 + 4 * lab + i) for i in range(4)]
        same += sum(np.array_equal(run.policy, cuts.policy) for run in runs)
    assert same >= 42  # of 48


@pytest.mark.parametrize("wide", [1.0, 1e3, 1e6, 1e9])
def test_the_noise_of_rewards_is_seen_in_wide_ranges(wide: float) -> None:
    """The rewards are 80 and 20, far from both ends of the range that was promised."""
    reward_range = (-100.0 * wide, 100.0 * wide)

    def step(states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        return states, np.where(rng.random(states.size) < 0.5, 80.0, 20.0)

    sizes: dict[str, Any] = {"n_states": 1, "n_actions": 1, "gamma": 0.9, "reward_range": reward_range}
    one = rr.Simulator(step, step_many=step, **sizes)
    spread = EmpiricalModel(one, one.draw(200_000, np.random.default_rng(2))).spread[0, 0]
    assert spread == pytest.approx(30.0 / (200.0 * wide) * 0.1, rel=0.01)
