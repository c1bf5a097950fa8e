"""StableDecisions: rules on trained Q-values, one or several, however they are held."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import replicable_rl as rr
from replicable_rl.adapters.q_rules import BestBin, NearlyBest, QRule
from tests.test_rules import bandit, policy_of

SEED = 2023
tables = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-100.0, 100.0))
seeds = st.integers(0, 2**64 - 1)


def actions(q: Any, tolerance: float = 0.1, shared_seed: int = SEED, **options: Any) -> list[int]:
    decisions = rr.StableDecisions(q, tolerance, shared_seed=shared_seed, **options)
    return [int(action) for action in decisions(np.arange(len(q)))]


# --- the rules --------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(tables, st.just(0.0) | st.floats(1e-9, 50.0), seeds)
def test_the_first_action_of_the_shared_order_within_the_shared_tolerance(q: Any, x: float, seed: int) -> None:
    shared = rr.SharedRandomness(seed)
    order = np.argsort(shared.uniform("decide/order", shape=q.shape[1]))
    r = x * (1.0 + shared.uniform("decide/tolerance", shape=1)[0])
    expected = [next(int(a) for a in order if row.max() - row[a] <= r) for row in q]
    decisions = rr.StableDecisions(q, x, shared_seed=seed)
    assert decisions(range(len(q))).tolist() == expected
    given_up = decisions.gaps(range(len(q)))[np.arange(len(q)), expected]
    assert (given_up <= 2 * x).all()


@pytest.mark.parametrize("seed", range(5))
def test_on_a_table_it_is_the_rule_of_plug_in_policies(seed: int) -> None:
    q = np.random.default_rng(seed).uniform(0.0, 1.0, (40, 4))
    numbered = tuple(range(4))
    for x, order in ((0.02, numbered), (0.2, numbered), (0.2, (2, 0, 3, 1))):
        expected = policy_of(rr.rules.RandomTolerance(x, order), bandit(q), seed)
        assert actions(q, x, seed, order=order) == expected.tolist()
    assert actions(q, 0.0, seed, order=numbered) == policy_of(rr.rules.Greedy(), bandit(q), seed).tolist()


@settings(max_examples=50, deadline=None)
@given(tables)
def test_without_a_tolerance_it_is_greedy(q: Any) -> None:
    as_numbered = tuple(range(q.shape[1]))
    assert actions(q, 0.0, order=as_numbered) == rr.greedy(q).tolist()
    assert actions(q, 0.0, order=as_numbered[::-1]) == [int(np.flatnonzero(row == row.max())[-1]) for row in q]


@settings(max_examples=100, deadline=None)
@given(tables, st.floats(0.01, 50.0), seeds)
def test_rounded_values_are_near_and_decide(q: Any, width: float, seed: int) -> None:
    offset = rr.SharedRandomness(seed).uniform("decide/action-offset", shape=q.shape[1])
    rounded = (np.floor(q / width - offset) + offset + 0.5) * width
    assert np.abs(rounded - q).max() <= width / 2 + 1e-9
    chosen = actions(q, width, seed, rule="rounded")
    assert (rounded[np.arange(len(q)), chosen] == rounded.max(axis=1)).all()


@pytest.mark.parametrize(("short", "rule"), [("tolerance", NearlyBest()), ("rounded", BestBin())])
def test_a_short_id_stands_for_a_rule(short: str, rule: QRule) -> None:
    q = np.random.default_rng(SEED).normal(0.0, 0.2, (200, 4))
    assert actions(q, 0.1, SEED, rule=short) == actions(q, 0.1, SEED, rule=rule) != actions(q, 0.0, SEED)
    assert repr(rr.StableDecisions(q, 0.1, rule=rule, shared_seed=1)) == repr(
        rr.StableDecisions(q, 0.1, rule=short, shared_seed=1)
    )


def test_a_rule_of_ones_own() -> None:
    @dataclass(frozen=True)
    class NotTheWorst:
        id: ClassVar[str] = "not-the-worst"
        positive: ClassVar[bool] = True

        def good(self, q: Any, x: float, numbers: Any) -> Any:
            return q > q.min(axis=1, keepdims=True) + x * numbers("mine", 1)

    q = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 0.01]])
    assert actions(q, 0.5, order=(1, 0, 2), rule=NotTheWorst()) == [1, 0]
    assert "rule='not-the-worst'" in repr(rr.StableDecisions(q, 0.5, rule=NotTheWorst(), shared_seed=1))
    with pytest.raises(rr.InvalidInput, match=r"tolerance must be positive for rule='not-the-worst'"):
        actions(q, 0.0, rule=NotTheWorst())
    with pytest.raises(rr.InvalidInput, match=r"rule must be 'tolerance' or 'rounded', got"):
        actions(q, 0.5, rule=NotTheWorst)


def test_shared_numbers_are_frozen() -> None:
    good = np.array([[a not in worse for a in range(4)] for worse in ((), (1,), (1, 3), (1, 2, 3))], dtype=float)
    assert actions(good) == [1, 3, 2, 0]  # the order
    r = 1.2241549399155636
    assert actions(np.array([[0.0, -r + 1e-12], [0.0, -r - 1e-12]]), 1.0, order=(1, 0)) == [1, 0]
    low, high = 0.126677532893788, 0.756523031617655  # the offsets
    for q, expected in (
        (0.0, 1),
        (low - 1e-9, 1),
        (low + 1e-9, 0),
        (high - 1e-9, 0),
        (high + 1e-9, 1),
        (1.0, 1),
        (low + 1.1, 0),
    ):
        assert actions(np.full((1, 2), q), 1.0, rule="rounded") == [expected]


def test_what_is_not_allowed_is_never_taken() -> None:
    q = np.array([[-np.inf, 0.0, -1.0], [3.0, -np.inf, -np.inf]])
    for seed in range(20):
        for rule in ("tolerance", "rounded"):
            first, second = actions(q, 50.0, seed, rule=rule)
            assert first in (1, 2)
            assert second == 0


# --- what tolerances buy ----------------------------------------------------------------------


def share_alike(one: Any, two: Any, tolerance: float, seeds: int = 40) -> float:
    """Return the share of rows in which two tables of Q-values are decided alike, over shared seeds."""
    return float(np.mean([np.equal(actions(one, tolerance, r), actions(two, tolerance, r)) for r in range(seeds)]))


def test_where_actions_tie_a_tolerance_makes_agents_act_alike() -> None:
    rng = np.random.default_rng(1)
    q = np.repeat(rng.choice([0.0, 1.0], (200, 4)).round(), 1, axis=0)  # ties everywhere
    one, two = (q + rng.normal(0.0, 0.01, q.shape) for _ in range(2))
    assert share_alike(one, two, 0.0, 1) < 0.7
    assert share_alike(one, two, 0.2) > 0.98
    for seed in range(20):  # and what they give up is small
        chosen = actions(one, 0.2, seed)
        assert (q.max(axis=1) - q[np.arange(200), chosen]).max() == 0.0


def test_of_two_actions_and_a_smooth_q_a_tolerance_only_moves_the_border() -> None:
    where = np.linspace(-1.0, 1.0, 4001)
    one, two = (np.stack([where, np.full_like(where, shift)], axis=1) for shift in (0.0, 0.01))
    expected = 1.0 - 20 / 4001  # the share between the borders, which are 0.01 apart
    for tolerance in (0.0, 0.05, 0.2):
        assert share_alike(one, two, tolerance, 10) == pytest.approx(expected, abs=2 / 4001)


@settings(max_examples=50, deadline=None)
@given(tables, st.floats(0.01, 50.0), seeds, st.sampled_from(["tolerance", "rounded"]))
def test_cells_have_shared_numbers_of_their_own(q: Any, x: float, seed: int, rule: Any) -> None:
    shared, A = rr.SharedRandomness(seed), q.shape[1]
    cells = np.arange(len(q))[::-1] * 7
    place, offset = (shared.uniform(f"decide/{of}", shape=(60, A))[cells] for of in ("order", "action-offset"))
    r = x * (1.0 + shared.uniform("decide/tolerance", shape=60)[cells])
    rounded = (np.floor(q / x - offset) + offset + 0.5) * x
    good = q.max(axis=1, keepdims=True) - q <= r[:, None]
    good = rounded == rounded.max(axis=1, keepdims=True) if rule == "rounded" else good
    expected = [min(np.flatnonzero(one), key=place[i].__getitem__) for i, one in enumerate(good)]
    assert actions(q, x, seed, rule=rule, cells=lambda states: cells[states]) == expected
    assert actions(q, x, seed, rule=rule, cells=np.zeros_like) == actions(q, x, seed, rule=rule)


# --- Q-functions, one or several ---------------------------------------------------------------


def test_an_ensemble_is_averaged() -> None:
    rng = np.random.default_rng(3)
    several = [rng.normal(size=(7, 3)) for _ in range(4)]
    mean = (several[0] + several[1] + several[2] + several[3]) / 4
    for q in (several, tuple(several), np.array(several), [lambda s, one=one: one[s] for one in several]):
        decisions = rr.StableDecisions(q, 0.3, shared_seed=SEED)
        assert decisions.values(np.arange(7)).tolist() == mean.tolist()
        assert decisions(np.arange(7)).tolist() == actions(mean, 0.3)
    assert repr(decisions) == "StableDecisions(4 Q-functions, tolerance=0.3, rule='tolerance', shared_seed=2023)"


def quadratic(observations: Any) -> Any:
    """Three action values of observations of shape (n, 2)."""
    x, y = np.asarray(observations, dtype=float).T
    return np.stack([x, y, 1.0 - x * y], axis=1)


@pytest.mark.parametrize("rule", ["tolerance", "rounded"])
def test_a_batch_is_decided_as_one_by_one(rule: Any) -> None:
    seen = np.random.default_rng(4).uniform(-1.0, 1.0, (50, 2))
    decisions = rr.StableDecisions(quadratic, 0.3, rule=rule, shared_seed=SEED)
    whole = decisions(seen)
    assert whole.dtype == np.int64
    assert whole.tolist() == [decisions.act(one) for one in seen]
    assert whole[::-1].tolist() == decisions(seen[::-1]).tolist()
    acts, state = decisions.predict(seen, None, np.ones(50, dtype=bool), deterministic=True)
    assert acts.tolist() == whole.tolist()
    assert state is None
    assert type(decisions.act(seen[0])) is int


def test_a_table_takes_a_state_alone_and_is_not_changed_from_outside() -> None:
    q = np.array([[0.0, 1.0], [1.0, 0.0]])
    decisions = rr.StableDecisions(q, 0.0, shared_seed=SEED)
    assert decisions.predict(0) == (1, None)
    assert decisions.act(np.int64(1)) == 0
    q[:] = 5.0
    assert decisions([0, 1]).tolist() == [1, 0]
    assert decisions([]).tolist() == []
    assert pickle.loads(pickle.dumps(decisions))([0, 1]).tolist() == [1, 0]  # noqa: S301  # our own bytes


def test_mappings_of_observations() -> None:
    decisions = rr.StableDecisions(lambda seen: quadratic(seen["place"]), 0.0, shared_seed=SEED)
    seen = np.random.default_rng(5).uniform(-1.0, 1.0, (6, 2))
    assert decisions({"place": seen}).tolist() == [decisions.act({"place": one}) for one in seen]


def test_through_an_audit() -> None:
    truth = np.random.default_rng(6).choice([0.0, 0.5], (40, 3))

    def train(shared_seed: int, sample_seed: int, tolerance: float) -> rr.StableDecisions:
        noise = np.random.default_rng(sample_seed).normal(0.0, 0.001, truth.shape)
        return rr.StableDecisions(truth + noise, tolerance, shared_seed=shared_seed)

    found = [
        rr.audit_callable(partial(train, tolerance=x), shared_seeds=20, probe=range(40)).agreement("policy")
        for x in (0.0, 0.1)
    ]
    assert float(found[0].estimate) == 0.0
    assert float(found[1].estimate) > 0.9


# --- Stable-Baselines3 ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dqn() -> rr.StableBaselines3:
    pytest.importorskip("stable_baselines3")
    options = {"policy_kwargs": {"net_arch": [8]}, "learning_starts": 20}
    return rr.StableBaselines3("DQN", "CartPole-v1", 100, algorithm_options=options)


def test_models_of_stable_baselines3(dqn: rr.StableBaselines3) -> None:
    from stable_baselines3.common.evaluation import evaluate_policy

    one, two = dqn(1, 1), dqn(1, 2)
    seen = np.random.default_rng(7).uniform(-1.0, 1.0, (30, 4)).astype(np.float32)
    greedy = rr.StableDecisions(one, 0.0, shared_seed=SEED)
    assert greedy(seen).tolist() == one(seen).tolist() == [greedy.act(each) for each in seen]
    assert greedy.predict(seen[0])[0] == one(seen[:1])[0]  # the model knows that this is one observation
    both = rr.StableDecisions([one, two.model], 0.1, shared_seed=SEED)
    alone = [rr.StableDecisions(each, 0.1, shared_seed=SEED).values(seen) for each in (one, two)]
    assert np.abs(both.values(seen) - (alone[0] + alone[1]) / 2).max() < 1e-12
    env = gymnasium.make("CartPole-v1")
    earned, _ = evaluate_policy(both, env, n_eval_episodes=2, warn=False)
    assert earned >= 1.0
    with pytest.raises(rr.InvalidInput, match=r"^StableDecisions: observations must be a batch, .* Box\("):
        both(seen[:, :3])


def test_states_that_a_model_does_not_know_are_refused() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    agent = rr.StableDecisions(sb3.DQN("MlpPolicy", "FrozenLake-v1", device="cpu"), 0.1, shared_seed=1)
    assert agent(np.arange(16)).shape == (16,)
    for wrong in ([16], [-1], [0.5]):
        with pytest.raises(rr.InvalidInput, match=r"^StableDecisions: observations must be a batch, .* Discrete\(16\)"):
            agent(np.array(wrong))


def test_a_model_without_q_values_is_refused() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.A2C("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(rr.InvalidInput, match=r"^StableDecisions: q_functions must hold Q-values, which A2C does not"):
        rr.StableDecisions(model, 0.1, shared_seed=1)


# --- bad input --------------------------------------------------------------------------------


def decide(q: Any = ((0.5, 0.25),), tolerance: Any = 0.1, seen: Any = (0,), **options: Any) -> Any:
    return rr.StableDecisions(q, tolerance, **{"shared_seed": 1} | options)(seen)


def returning(value: Any) -> Callable[[Any], Any]:
    return lambda seen: value


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: decide([]), r"q_functions must hold at least one Q-function, got none"),
        (lambda: decide("greedy"), r"q_functions must be a function of observations, .* got 'greedy'"),
        (lambda: decide(None), r"q_functions must be a function"),
        (lambda: decide(dict), r"q_functions must be a function"),
        (lambda: decide([None, quadratic]), r"q_functions must be a function .* got None"),
        (lambda: decide([0.5, 0.25]), r"a table of q_functions must have shape \(n, A\), got \(2,\)"),
        (lambda: decide(np.zeros((2, 0))), r"must have shape \(n, A\), got \(2, 0\)"),
        (lambda: decide([[0.5, 0.25], [0.5]]), r"a table of q_functions must be an array of numbers"),
        (lambda: decide([["a", "b"]]), r"must be an array of numbers"),
        (lambda: decide([[0.5, np.nan]]), r"must be finite \(-inf: not allowed\) .* got nan in row 0, action 1"),
        (lambda: decide([[0.5, 0.5], [np.inf, 0.5]]), r"must be finite .* got inf in row 1, action 0"),
        (lambda: decide([[-np.inf, -np.inf]]), r"must allow an action in every row, got none in row 0"),
        (lambda: decide([np.zeros((2, 2)), np.zeros((2, 3))]), r"values of one shape, .* got \(1, 2\) and \(1, 3\)"),
        (
            lambda: decide([np.array([[-np.inf, 0.0]]), np.array([[0.0, -np.inf]])]),
            r"q_functions must leave an action with a finite value",
        ),
        (lambda: decide(seen=[1]), r"states must lie in 0\.\.0, got 1"),
        (lambda: decide(seen=[-1]), r"states must lie in 0\.\.0, got -1"),
        (lambda: decide(seen=[0.0]), r"observations of a table must be its states"),
        (lambda: decide(seen=[[0]]), r"observations of a table must be its states"),
        (lambda: decide(seen=0), r"observations must be a batch .* act\(observation\)"),
        (lambda: decide(returning([[1.0, 0.0]]), seen=[1, 2]), r"one row for each of the 2 observations, got 1"),
        (lambda: decide(returning([1.0, 0.0])), r"the values of a Q-function must have shape \(n, A\), got \(2,\)"),
        (lambda: decide(returning([[np.nan, 0.0]])), r"the values of a Q-function must be finite"),
        (lambda: decide(returning(None)), r"the values of a Q-function must be an array of numbers, got None"),
        (lambda: decide([[1e101, 0.0]]), r"must be finite .* at most 1e100, got 1e\+101 in row 0, action 0"),
        (lambda: decide(np.zeros((0, 2))), r"must have a row for every state, got none"),
        (lambda: decide(cells=3), r"cells must be a function of observations, got 3"),
        (lambda: decide(cells=lambda _: [0, 1]), r"an integer for each of the 1 observations, got int64 .* \(2,\)"),
        (lambda: decide(cells=lambda _: [0.5]), r"an integer for each of the 1 observations, got float64"),
        (lambda: decide(cells=lambda _: [-1]), r"cells must lie in 0\.\.2\*\*40, got -1\. Number them"),
        (lambda: decide(cells=lambda _: [2**41]), r"cells must lie in 0\.\.2\*\*40"),
        (lambda: decide(tolerance=-0.1), r"tolerance must be 0, or a number from 1e-100 to 1e100, got -0\.1"),
        (lambda: decide(tolerance=1e-200), r"tolerance must be 0, or a number"),
        (lambda: decide(tolerance=np.nan), r"tolerance must be"),
        (lambda: decide(tolerance="0.1"), r"tolerance must be"),
        (lambda: decide(tolerance=0, rule="rounded"), r"tolerance must be positive for rule='rounded'"),
        (lambda: decide(rule="greedy"), r"rule must be 'tolerance' or 'rounded', got 'greedy'"),
        (lambda: decide(shared_seed=-1), r"shared_seed must be an integer from 0"),
        (lambda: decide(shared_seed=0.5), r"shared_seed must be an integer from 0"),
        (lambda: decide(order=(0, 0)), r"order must name every action once, got action 0 twice"),
        (lambda: decide(order=(0, 1, 2)), r"order must name each of the actions 0\.\.1 once, got \[0, 1, 2\]"),
    ],
)
def test_bad_input_is_one_clear_sentence(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"^StableDecisions: .*{sentence}"):
        call()


def test_tables_need_no_torch() -> None:
    code = (
        "import sys, replicable_rl as rr\n"
        "rr.StableDecisions([[0.5, 0.25]], 0.1, shared_seed=1)([0])\n"
        "assert not {'torch', 'stable_baselines3', 'gymnasium'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
