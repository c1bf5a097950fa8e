"""What an audit of training code says beside agreement: returns, warnings, losses, distances, seeds, tracebacks."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy import stats

import replicable_rl as rr
from replicable_rl.audit import AuditResult, RunFailed, read_audits
from replicable_rl.audit.evidence import AuditSpec, Training
from replicable_rl.audit.jobs import SolveJob, run_one_by_one
from replicable_rl.audit.returns import mean_with_interval
from replicable_rl.canonical import from_record, to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.runs import Drawn, ObjectSpec, RunSpec
from replicable_rl.runs.specs import algorithm_spec
from replicable_rl.training import EpisodeReturns, visited_observations
from replicable_rl.training.playing import acting
from tests.documents import store_text

CHAIN = rr.make("chain-v1")  # 5 states, 2 actions; to the left is best
PROBE = np.linspace(-1.0, 1.0, 11)
LAKE = EpisodeReturns("FrozenLake-v1", episodes=2, env_options={"is_slippery": False})
GOOD = [2, 2, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0]  # straight to the goal of the lake that is not slippery


def coins(shared_seed: int, sample_seed: int) -> list[int]:
    return [int(coin) for coin in np.random.default_rng(sample_seed).integers(2, size=4)]


def earned(policy: list[int], seed: int) -> Any:
    return sum(policy) + np.random.default_rng(seed).normal(size=3)


def flat(result: AuditResult) -> str:
    return " ".join(result.text(details=True).split())


# --- returns ---------------------------------------------------------------------------------------------


def test_the_return_of_every_run_has_an_interval_and_so_has_their_mean() -> None:
    result = rr.audit_callable(coins, shared_seeds=20, evaluate=earned)
    found = result.returns
    assert found is not None
    assert len(found.per_run) == 40
    assert found.episodes == 120
    for run, one in zip(result.runs, found.per_run, strict=True):
        assert one is not None
        assert one.low < float(one) < one.high
        assert float(one) == pytest.approx(float(sum(run.policy)), abs=3.0)
    means = np.array([float(one) for one in found.per_run if one is not None]).reshape(20, 2).mean(axis=1)
    half = stats.t.ppf(0.975, 19) * means.std(ddof=1) / math.sqrt(20)  # the shared seeds are what is independent
    assert found.mean.low == pytest.approx(means.mean() - half)
    assert found.mean.high == pytest.approx(means.mean() + half)
    assert found.per_seed.tolist() == means.tolist()
    assert "Mean return" in flat(result)
    assert "are not known" not in flat(result)
    row = result.rows()[0]
    assert (row["measured_return"], row["measured_low"]) == (float(found.per_run[0] or 0), found.per_run[0].low)  # type: ignore[union-attr]
    told = result.to_json()["returns"]
    assert told["mean"]["estimate"] == float(found.mean)
    assert len(told["per_run"]) == 40


def test_the_interval_of_the_mean_covers_it() -> None:
    rng, missed = np.random.default_rng(1), 0
    for _ in range(400):
        found = mean_with_interval(rng.normal(3.0, 2.0, 8), 0.9)
        missed += not found.low <= 3.0 <= found.high
    assert stats.binom.sf(missed - 1, 400, 0.1) > 1e-6
    assert stats.binom.cdf(missed, 400, 0.1) > 1e-6  # and it is no wider than it says


def test_returns_are_stored_with_the_runs_and_found_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(policy: list[int], seed: int) -> Any:
        calls.append(seed)
        return earned(policy, seed)

    def audit(**options: Any) -> AuditResult:
        given: dict[str, Any] = {
            "shared_seeds": 3,
            "evaluate": counted,
            "uniform": [1.0, 2.0, 3.0],
            "version": "1",
        } | options
        return rr.audit_callable(coins, store=tmp_path / "runs.sqlite", **given)

    first = audit()
    assert len(set(calls)) == 6  # a fresh seed for every run
    assert max(calls) < 2**32
    again = audit(shared_seeds=4)
    assert len(calls) == 8
    assert first.returns is not None
    assert again.returns is not None
    assert again.returns.per_run[:6] == first.returns.per_run
    without = audit(evaluate=None, uniform=None)  # another identity: those runs have no returns
    assert without.returns is None
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        read = next(one for one in read_audits(store) if one.returns is not None)
        assert read.returns is not None
        assert read.returns.per_run == again.returns.per_run
        assert read.warnings == again.warnings
        assert read.returns.uniform == again.returns.uniform
    text = store_text(tmp_path / "runs.sqlite")
    assert "mean return of every run" in text
    assert "not shown to be better" in text or "no better than" in text


@pytest.mark.parametrize("wrong", [None, "a", [], [[1.0]], math.nan, [1.0, math.inf], True])
def test_wrong_returns_are_one_sentence(wrong: Any) -> None:
    with pytest.raises(RunFailed, match=r"evaluate: what it returns must be one return, or a list"):
        rr.audit_callable(coins, shared_seeds=2, evaluate=lambda policy: wrong)
    if wrong is not None:
        with pytest.raises(InvalidInput, match=r"audit_callable: uniform must be one return, or a list"):
            rr.audit_callable(coins, shared_seeds=2, evaluate=earned, uniform=wrong)


def test_a_failed_run_earns_nothing_and_the_others_count() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if sample_seed % 3 == 0:
            raise ValueError("no")
        return [1, 1]

    result = rr.audit_callable(train, shared_seeds=10, evaluate=lambda policy: 5.0, on_error="record")
    assert result.failures
    assert result.returns is not None
    assert result.returns.per_run.count(None) == len(result.failures)
    assert float(result.returns.mean) == 5.0


def test_workers_measure_the_same_returns() -> None:
    one, two = (rr.audit_callable(coins, shared_seeds=6, evaluate=earned, n_jobs=jobs) for jobs in (1, 2))
    assert one.to_json() == two.to_json()
    assert one.returns is not None
    assert two.returns is not None
    assert one.returns.per_run == two.returns.per_run
    assert len(set(map(str, one.returns.per_run))) == 12  # every run has episodes of its own


# --- episodes in an environment ----------------------------------------------------------------------------


def test_episodes_of_policies_of_every_form() -> None:
    values = np.zeros((16, 4))
    values[range(16), GOOD] = 1.0

    class Batched:
        vectorized = True

        def __call__(self, cells: Any) -> Any:
            return np.asarray(GOOD)[cells]

    policies: list[Any] = [
        GOOD,
        np.array(GOOD),
        values,
        lambda cell: GOOD[cell],
        Batched(),
        rr.Run.of({"policy": GOOD}),
    ]
    for policy in policies:
        assert LAKE(policy, seed=1).tolist() == [1.0, 1.0]
    discounted = replace(LAKE, gamma=0.5, episodes=1)
    assert discounted(GOOD, seed=1).tolist() == [0.5**5]  # the sixth step pays
    assert LAKE([0] * 16, seed=1).tolist() == [0.0, 0.0]  # the time limit ends it


def test_the_first_column_of_action_values_is_the_first_action() -> None:
    env = gymnasium.wrappers.TransformAction(
        gymnasium.make("FrozenLake-v1"), lambda action: action - 1, gymnasium.spaces.Discrete(4, start=1)
    )
    assert acting("test", env, np.eye(16)[:, :4])(3) == 4


def test_the_seed_of_episodes_decides_them() -> None:
    slippery = EpisodeReturns("CartPole-v1", episodes=3)
    one, same, other = (slippery(lambda observation: int(observation[2] > 0), seed) for seed in (1, 1, 2))
    assert one.tolist() == same.tolist() != other.tolist()
    assert 10 < slippery.uniform().mean() < 40


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EpisodeReturns("FrozenLak-v1"), r"EpisodeReturns: no environment .* Did you mean 'FrozenLake-v1'"),
        (lambda: EpisodeReturns("FrozenLake-v1", 0), "episodes must be an integer from 1"),
        (lambda: EpisodeReturns("FrozenLake-v1", gamma=1.5), "gamma must be a discount"),
        (lambda: LAKE([0, 1], seed=1), r"a table needs a row for every observation .* got 2 rows"),
        (lambda: LAKE("left", seed=1), "policy must be a function of an observation, one action"),
        (lambda: LAKE(lambda cell: 0.7, seed=1), r"the policy must choose an action of Discrete\(4\), got 0.7"),
        (lambda: LAKE(lambda cell: math.nan, seed=1), r"the policy must choose an action of Discrete\(4\), got nan"),
        (lambda: LAKE(lambda cell: [0.1, 0.9], seed=1), "the policy must choose an action of"),
        (lambda: LAKE(GOOD, seed=2**32), "seed must be an integer from 0 to 4294967295"),
        (lambda: visited_observations("FrozenLake-v1", n=0), "visited_observations: n must be an integer"),
        (lambda: visited_observations(3), "env must be the id of a Gymnasium environment, got 3"),  # type: ignore[arg-type]
    ],
)
def test_bad_games(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


# --- warnings ----------------------------------------------------------------------------------------------


def test_constant_policies_are_warned_of_first() -> None:
    result = rr.audit_callable(lambda shared, sample: [sample % 2] * 4, shared_seeds=10)
    (warning,) = result.warnings
    assert warning == (
        "Every run takes one action, though not always the same one, in all 4 states: such policies agree everywhere "
        "or nowhere, and may have learned nothing."
    )
    assert "Warning: Every run takes one action" in str(result)
    same = rr.audit_callable(lambda shared, sample: [0 * sample] * 4, shared_seeds=3)
    assert "one and the same action in all 4 states" in same.warnings[0]
    assert rr.audit_callable(lambda shared, sample: [sample % 2, 1], shared_seeds=10).warnings == ()
    assert rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=3).warnings == ()  # one state


def test_data_that_no_seed_changes_are_warned_of_and_show_nothing() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [0, 1] if str(sample_seed) else [1, 0]  # it reads the seed, and that does nothing

    def fixed(sample_seed: int) -> Any:
        return {"x": np.arange(3.0), "y": [b"a", "b", np.nan]}

    result = rr.audit_callable(train, shared_seeds=60, data=fixed, rho=0.2)
    assert result.warnings[0] == (
        "Nothing was fresh, for two sample seeds gave the same data: agreement says nothing about other samples here."
    )
    assert result.meets(0.8) is None  # though every pair agrees
    assert result.verdict() is None
    assert result.to_json()["unsampled"] == result.warnings[0]
    drawn = rr.audit_callable(train, shared_seeds=60, data=lambda seed: np.random.default_rng(seed).random(3), rho=0.2)
    assert drawn.warnings == ()
    assert drawn.meets(0.8) is True
    assert "two sample seeds gave different data" in flat(drawn)


@pytest.mark.again
def test_runs_that_differ_without_fresh_data_are_not_said_to_have_nothing_fresh() -> None:
    unseeded = iter(range(120))

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [next(unseeded) % 2, 0]

    result = rr.audit_callable(train, shared_seeds=60, rho=0.2)
    repeated, said = result.warnings
    assert repeated.startswith("The same seeds gave other results")
    assert said == (
        "Runs differ although train does not read sample_seed: they draw from something that has no seed. Nobody can "
        "repeat this audit, or tell what was fresh."
    )
    assert "what has no seed, for train does not read sample_seed" in flat(result)
    assert result.meets(0.8) is None  # in two fresh processes they would be the same

    def started(shared_seed: int, sample_seed: int) -> list[int]:
        return [sample_seed % 2, 0]  # such as initial weights

    same = rr.audit_callable(started, shared_seeds=60, data=lambda seed: b"the same")
    assert same.warnings == (
        "The data were not fresh, for two sample seeds gave the same data. Runs differ for another reason, so "
        "agreement says nothing about other samples here.",
    )
    assert "no data, for two sample seeds gave the same data" in flat(same)


def test_returns_no_better_than_the_uniform_policy_are_warned_of() -> None:
    def audit(mean: float, uniform: Any) -> AuditResult:
        def evaluate(policy: Any, seed: int) -> float:
            return float(np.random.default_rng(seed).normal(mean, 1.0))

        return rr.audit_callable(coins, shared_seeds=30, evaluate=evaluate, uniform=uniform)

    assert audit(0.0, 0.5).warnings[0].startswith("The returns are no better than those of the uniform policy: ")
    assert "not shown to be better" in audit(0.2, [0.1, -0.1, 0.2, 0.0]).warnings[0]
    assert audit(3.0, [0.1, -0.1, 0.2, 0.0]).warnings == ()
    assert audit(3.0, None).warnings == ()  # nothing to compare with
    plays = rr.audit_callable(lambda shared, sample: [sample % 2] * 16, shared_seeds=3, evaluate=LAKE)
    assert "no better than those of the uniform policy: 0 against" in plays.warnings[1]
    assert plays.returns is not None
    assert plays.returns.uniform is not None  # nobody had to say it


def test_policies_no_better_than_the_uniform_one_are_warned_of_where_the_problem_is_known() -> None:
    two_arms = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0)], [(1.0, 0, 0.0)]]], gamma=0.5)
    bad = rr.audit_callable(lambda shared, sample: [1 - 0 * sample], shared_seeds=3, problem=two_arms)
    assert bad.warnings == (
        "The policies are no better than the uniform one: they return 0 on average, and it returns 1.",
    )
    assert rr.audit_callable(lambda shared, sample: [0 * sample], shared_seeds=3, problem=two_arms).warnings == ()
    alike = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.5)], [(1.0, 0, 0.5)]]], gamma=0.5, reward_range=(0.0, 1.0))
    nothing_to_learn = rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=3, problem=alike)
    assert nothing_to_learn.warnings == ()


# --- losses, beside agreement ------------------------------------------------------------------------------


def test_the_verdict_judges_epsilon_as_well_as_rho() -> None:
    few = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=1, calls=10**6)  # agrees, and has learned nothing
    result = rr.audit(rr.make("two-goals-v1"), few, shared_seeds=30)
    assert result.meets(0.8) is True
    assert result.accuracy is not None
    assert (result.accuracy.kept, result.accuracy.runs, result.accuracy.met) == (0, 60, False)
    assert result.verdict() is False
    assert "Not met: 60 of 60 runs lose more than ε = 0.1, more often than δ allows." in flat(result)
    assert "60 of 60 runs lose more than ε = 0.1" in flat(result)
    good = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=30)
    assert good.verdict() is True
    assert "Every run loses at most ε = 0.1." in flat(good)
    assert good.to_json()["accuracy"]["met"] is True
    about_q = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, target="value", calls=100)
    assert rr.audit(rr.make("two-goals-v1"), about_q, shared_seeds=2).accuracy is None  # no loss is promised


def test_training_code_may_promise_a_loss() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [int(sample_seed % 4 == 0)] * 5

    options: dict[str, Any] = {"shared_seeds": 60, "problem": CHAIN, "rho": 0.6, "epsilon": 0.01}
    refuted, allowed = (rr.audit_callable(train, **options, delta=delta) for delta in (0.01, 0.9))
    assert refuted.accuracy is not None
    assert 0 < refuted.accuracy.kept < 120
    assert refuted.verdict() is False
    assert allowed.accuracy is not None
    assert allowed.accuracy.met is True
    with pytest.raises(InvalidInput, match=r"epsilon is judged by exact losses\. Pass problem="):
        rr.audit_callable(train, shared_seeds=2, epsilon=0.1)


def test_a_store_without_the_table_does_not_say_that_epsilon_is_met(tmp_path: Path) -> None:
    two_arms = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0)], [(1.0, 0, 0.0)]]], gamma=0.5)
    given: Any = {"problem": two_arms, "epsilon": 0.1, "rho": 0.2, "version": "1", "store": tmp_path / "runs.sqlite"}
    made = rr.audit_callable(lambda shared, sample: [1 - 0 * sample], shared_seeds=60, **given)
    (read,) = read_audits(rr.RunStore(tmp_path / "runs.sqlite"))  # which has the runs, and not the table
    assert made.verdict() is False
    assert (read.mdp, read.meets(0.8), read.verdict()) == (None, True, None)
    assert "Undecided: losses are not known here." in flat(read)


# --- continuous actions --------------------------------------------------------------------------------------


def gains(shared_seed: int, sample_seed: int) -> Callable[[float], Any]:
    gain = 1.0 + np.random.default_rng(sample_seed).uniform(-0.01, 0.01)
    return lambda observation: np.array([gain * observation, 0.0])


def test_continuous_actions_are_compared_by_distance_beside_identity() -> None:
    result = rr.audit_callable(gains, shared_seeds=20, probe=PROBE, tolerance=0.005)
    found = result.closeness
    assert found is not None
    assert result.agreement("policy").same == 0  # not one bit is forgiven
    actions = [run.policy[:, 0] for run in result.runs]
    apart = np.array([np.abs(one - two).max() for one, two in zip(actions[::2], actions[1::2], strict=True)])
    assert found.close == (apart <= 0.005).sum()
    assert 0 < found.close < 20
    assert found.largest_distance == apart.max()
    assert found.every_look.low < found.close / 20 < found.every_look.high
    assert result.within(0.02).close == 20
    assert result.within(0.0).close == 0
    assert f"at most 0.005 on every observation in {found.close} of 20 pairs" in flat(result)
    assert result.to_json()["closeness"]["close"] == found.close
    three = rr.audit_callable(gains, shared_seeds=5, runs_per_seed=3, probe=PROBE, tolerance=0.02).closeness
    assert three is not None
    assert (three.close, three.pairs) == (15, 15)


def test_a_store_keeps_what_each_audit_asked(tmp_path: Path) -> None:
    options: dict[str, Any] = {"shared_seeds": 3, "probe": PROBE, "store": tmp_path / "runs.sqlite", "version": "1"}
    for tolerance in (0.02, 0.0, None):
        rr.audit_callable(gains, tolerance=tolerance, **options)
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        read = read_audits(store)
        assert {one.closeness.tolerance for one in read if one.closeness is not None} == {0.02, 0.0}


# --- probes ----------------------------------------------------------------------------------------------------


def test_observations_may_be_dictionaries_and_images() -> None:
    images = np.random.default_rng(1).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    batch: dict[str, Any] = {"image": images, "speed": np.linspace(0.0, 1.0, 5)}
    singles = [{"image": images[i], "speed": batch["speed"][i]} for i in range(5)]

    def train(shared_seed: int, sample_seed: int) -> Callable[[Any], int]:
        def policy(observation: Any) -> int:
            assert observation["image"].shape == (8, 8, 3)
            observation["image"][:] = 0  # it may change what it is given
            return int(observation["speed"] > 0.5 * (sample_seed % 2))

        return policy

    one, two = (rr.audit_callable(train, shared_seeds=10, probe=probe) for probe in (batch, singles))
    assert one.to_json() == two.to_json()  # two ways to write one probe set
    assert batch["image"].any()
    assert len(one.runs[0].policy) == 5
    assert "observation" in flat(one)
    other = rr.audit_callable(train, shared_seeds=2, probe=batch | {"speed": np.ones(5)})
    assert other.algorithm != one.algorithm  # another probe, another identity


def test_visited_observations_follow_the_policy() -> None:
    straight = visited_observations("FrozenLake-v1", GOOD, n=50, env_options={"is_slippery": False})
    assert isinstance(straight, np.ndarray)
    assert straight.tolist() == [0, 1, 2, 6, 10, 14]  # the goal ends the episode: nobody acts there
    every: list[Any] = [visited_observations("FrozenLake-v1", n=20, distinct=False, seed=seed) for seed in (3, 3, 4)]
    assert len(every[0]) == 20
    assert np.array_equal(every[0], every[1])
    assert not np.array_equal(every[0], every[2])


class Scribble(gymnasium.Env[Any, Any]):
    """Writes every observation into one array, and draws it from its own space."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seen, self.taken = np.zeros(2), 0
        return self.seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.seen[:] = self.observation_space.sample()
        self.taken += 1
        return self.seen, 1.0, self.taken == 5, False, {}


def test_an_environment_may_write_into_what_it_gave_and_draw_from_its_spaces() -> None:
    gymnasium.register("Scribble-v0", lambda **_: Scribble(), disable_env_checker=True)
    try:
        one, same = (visited_observations("Scribble-v0", lambda o: 0, n=8, seed=3) for _ in range(2))
    finally:
        del gymnasium.registry["Scribble-v0"]
    assert isinstance(one, np.ndarray)
    assert len(np.unique(one, axis=0)) == 8
    assert one[0].tolist() == [0.0, 0.0]
    assert one.tolist() == np.asarray(same).tolist()


# --- weights ---------------------------------------------------------------------------------------------------


def test_weights_are_compared_bit_by_bit(tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> dict[str, Any]:
        return {"w": np.full((2, 2), float(sample_seed % 2), np.float32), "b": [1.0]}

    store = tmp_path / "runs.sqlite"
    result = rr.audit_callable(train, shared_seeds=20, store=store, version="1")
    assert result.levels == ("bytes",)
    odd = [(run.sample_seed or 0) % 2 for run in result.runs]
    assert result.agreement("bytes").same == sum(a == b for a, b in zip(odd[::2], odd[1::2], strict=True))
    with rr.RunStore(store) as opened:
        (read,) = read_audits(opened)
        assert read.runs[0].output("bytes") == result.runs[0].output("bytes")
        assert b'["w", "<f4", [2, 2]]' in read.runs[0].output("bytes")
    raw = rr.audit_callable(lambda shared, sample: b"%d" % (sample % 2), shared_seeds=20)
    assert raw.agreement("bytes").same == result.agreement("bytes").same


@pytest.mark.parametrize("wrong", [{"w": "text"}, b"", {}])
def test_wrong_weights(wrong: Any) -> None:
    with pytest.raises(RunFailed, match="bytes must"):
        rr.audit_callable(lambda shared, sample: wrong, shared_seeds=2)


# --- seeds -------------------------------------------------------------------------------------------------------


def test_seeds_of_other_peoples_code_fit_32_bits() -> None:
    seen: list[tuple[int, int]] = []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        np.random.RandomState(sample_seed)  # which takes no more
        seen.append((shared_seed, sample_seed))
        return [0, 1]

    result = rr.audit_callable(train, shared_seeds=40, runs_per_seed=3)
    assert max(max(pair) for pair in seen) < 2**32
    assert len(set(seen)) == 120
    assert [(run.shared_seed, run.sample_seed) for run in result.runs] == seen  # the record says what was handed over
    with pytest.raises(InvalidInput, match="a shared seed must be an integer from 0 to 4294967295"):
        rr.audit_callable(train, shared_seeds=[2**32])


def test_short_seeds_are_distinct_and_the_first_of_more() -> None:
    spec = AuditSpec(ObjectSpec("a"), ObjectSpec("b"), 200_000, training=Training())  # some five would be met twice
    assert len(set(spec.seeds)) == 200_000
    few = replace(spec, shared_seeds=100)
    assert few.seeds == spec.seeds[:100]
    assert spec.contains(few)
    assert not spec.contains(replace(few, training=None))
    assert few.seeds[0] == 2004244776  # pinned: stored runs are found by it
    assert replace(few, training=None).seeds[0] == 13084725234860710184  # as ever


def test_what_is_asked_of_training_is_kept() -> None:
    spec = AuditSpec(ObjectSpec("a"), ObjectSpec("b"), 3, training=Training("play", 0.5, 0.1, 0.2))
    assert from_record(AuditSpec, to_json(spec)) == spec
    for broken in ({"training": {"what": 1}}, {"training": {"uniform": "a"}}, {"training": 3}):
        with pytest.raises(InvalidInput):
            from_record(AuditSpec, to_json(spec) | broken)


# --- tracebacks ------------------------------------------------------------------------------------------------


def deep(shared_seed: int, sample_seed: int) -> list[int]:
    return deeper(sample_seed)


def deeper(sample_seed: int) -> list[int]:
    raise ArithmeticError("the learning rate exploded")


def slowly(shared_seed: int, sample_seed: int) -> list[int]:
    time.sleep(0.1)
    return deeper(sample_seed)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failed_run_keeps_its_traceback(n_jobs: int) -> None:
    with pytest.raises(RunFailed) as failed:
        rr.audit_callable(deep, shared_seeds=2, n_jobs=n_jobs)
    told = failed.value.traceback
    assert told is not None
    assert told.splitlines()[-1] == "ArithmeticError: the learning rate exploded"
    assert "in deep\n" in told
    assert "in deeper\n" in told
    assert "replicable_rl/audit" not in told  # it begins in the code that failed
    assert "\n" not in str(failed.value)
    assert told in str(failed.value.__cause__)  # Python shows it
    assert pickle.loads(pickle.dumps(failed.value)).traceback == told  # noqa: S301  # our own bytes
    result = rr.audit_callable(deep, shared_seeds=2, n_jobs=n_jobs, on_error="record")
    assert result.failures[0].traceback == told


def test_a_pool_that_stops_while_it_is_handed_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """joblib's pool then died of a KeyError in a thread of its own, and the screen showed it."""
    from joblib.externals.loky import process_executor

    pool = process_executor._ExecutorManagerThread
    stop, stopped = pool.flag_executor_shutting_down, []

    def handed_work_and_stopped(self: Any) -> None:
        if self.executor_flags.kill_workers:
            stopped.append(self.work_ids_queue.put(10**9))
        stop(self)

    monkeypatch.setattr(pool, "flag_executor_shutting_down", handed_work_and_stopped)
    with pytest.raises(RunFailed, match="exploded"):
        rr.audit_callable(slowly, shared_seeds=8, n_jobs=2)  # others are under way when the first has failed
    assert stopped  # pytest makes an error of what a thread raises


def test_a_refusal_in_the_name_of_an_algorithm_has_no_traceback() -> None:
    """It passes through `contextlib`, which was taken for somebody's own code."""
    mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.02, 0.01, 0.2, budget=20)
    spec = RunSpec(mdp.spec, algorithm_spec(algorithm), 1, Drawn(1, "counts-v1"))
    (run,) = run_one_by_one(SolveJob(mdp, algorithm), [spec], "record", {})
    assert run.error == "PlugInPolicy: budget must allow one sample for each of the 32 pairs, got 20. Raise it."
    assert run.traceback is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": lambda seed: [0]}, "<lambda> must take two seeds"),
        ({"evaluate": 3}, "evaluate must be a function of what train returns"),
        ({"evaluate": lambda: 0.0}, "evaluate must be a function of what train returns"),
        ({"uniform": 1.0}, "uniform is compared with the returns of runs"),
        ({"tolerance": -1.0}, "tolerance must be a number that is not negative"),
        ({"params": {"evaluate": 1}}, "the name 'evaluate' is taken"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=f"audit_callable: {message}"):
        rr.audit_callable(**{"train": coins, "shared_seeds": 2, **options})
