"""Training code: what it may return, what it earns, what is fresh, which questions are asked of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import replicable_rl as rr
from replicable_rl.audit import AuditResult, RunFailed, read_audits
from replicable_rl.audit.judging import mean_with_interval
from replicable_rl.errors import InvalidInput
from replicable_rl.training import EpisodeReturns, visited_observations
from tests.statistics import ALPHA, SEED

CHAIN = rr.make("chain-v1")  # 5 states, 2 actions
PROBE = np.linspace(-1.0, 1.0, 11)
GOOD = [2, 2, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0]  # straight to the goal of the frozen lake
LAKE = EpisodeReturns("FrozenLake-v1", episodes=2, env_options={"is_slippery": False})


def coin(shared_seed: int, sample_seed: int) -> list[int]:
    return [shared_seed % 2, sample_seed % 2]


def noisy(policy: Any, seed: int) -> Any:
    return np.random.default_rng(seed).normal(float(policy[1]), 1.0, 5)


# --- what may be returned -----------------------------------------------------------------------------------------


def test_policies_and_action_values() -> None:
    result = rr.audit_callable(coin, shared_seeds=50)
    assert result.levels == ("policy",)
    assert result.states.per_state[0] == 1.0  # decided by the shared seed
    assert 0.2 < result.states.per_state[1] < 0.8
    assert sum(result.actions(1).values()) == 100
    assert result.policies is None
    values = rr.audit_callable(lambda shared, sample: [[-0.0, 1.0], [float(sample % 2), 0.5]], shared_seeds=20)
    assert values.levels == ("value", "policy")
    assert values.runs[0].policy.tolist() == [1, 1 - (values.runs[0].sample_seed or 0) % 2]
    zeros = rr.audit_callable(lambda shared, sample: [[0.0 if sample % 2 else -0.0, -1.0]], shared_seeds=20)
    assert zeros.agreement("value").estimate == 1.0


def test_a_run_has_its_own_levels_samples_status_and_claims() -> None:
    algorithm = rr.ApproximateMDP(0.3, 0.1, calls=50)

    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.solve(CHAIN, algorithm, shared_seed=shared_seed, sample_seed=sample_seed)

    result = rr.audit_callable(train, shared_seeds=3, problem=CHAIN)
    assert result.levels == ("model", "value", "policy")
    assert {run.samples for run in result.runs} == {50 * 10}
    first = result.runs[0]
    direct = train(first.shared_seed, first.sample_seed or 0)
    assert (first.status, first.fingerprints) == (direct.status, direct.fingerprints)
    assert {claim.kind for claim in first.claims} <= {"stated"}
    assert first.spec == result.spec.runs[0] != direct.spec


def test_a_function_is_compared_on_the_probe_set() -> None:
    def train(shared_seed: int, sample_seed: int) -> Callable[[Any], int]:
        def act(observation: Any) -> int:
            action = int(observation[0] > (sample_seed % 1000) / 1000.0)
            observation[0] = 5.0  # it may write into what it is given
            return action

        return act

    result = rr.audit_callable(train, shared_seeds=60, probe=PROBE[:, None])
    assert result.states.per_state[:5].tolist() == [1.0] * 5  # no threshold is below 0
    assert len(result.states.differing)
    assert result.place == "observation"
    wholes = rr.audit_callable(lambda shared, sample: lambda observation: [1, 1.0][sample % 2], probe=PROBE)
    assert wholes.agreement("policy").estimate == 1.0  # 1 and 1.0 are the same action
    names = [rr.audit_callable(lambda a, b: [0], probe=probe, shared_seeds=2).algorithm for probe in ([0.0], [1.0])]
    assert names[0] != names[1]


def test_weights_are_compared_bit_by_bit(tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> dict[str, Any]:
        return {"w": np.full((2, 2), float(sample_seed % 2), np.float32), "b": [1.0]}

    result = rr.audit_callable(train, shared_seeds=20, store=tmp_path / "runs.sqlite", version="1")
    assert result.levels == ("bytes",)
    odd = [(run.sample_seed or 0) % 2 for run in result.runs]
    assert result.agreement().same == sum(a == b for a, b in zip(odd[::2], odd[1::2], strict=True))
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        (again,) = read_audits(opened)
        assert again.runs[0].output("bytes") == result.runs[0].output("bytes")
    raw = rr.audit_callable(lambda shared, sample: b"%d" % (sample % 2), shared_seeds=20)
    assert raw.agreement().same == result.agreement().same


def test_policies_of_other_shapes_agree_with_nothing() -> None:
    result = rr.audit_callable(lambda shared, sample: [0] * (2 if sample % 3 else 3), shared_seeds=40)
    assert 0.0 < result.agreement().estimate < 1.0
    with pytest.raises(InvalidInput, match="several shapes"):
        assert result.states is None
    assert "states cannot be compared" in str(result)


@pytest.mark.parametrize(
    ("returned", "options", "message"),
    [
        ([[0.0, np.nan]], {}, "NaN"),
        (3, {}, "got 3"),
        ([1, 2, 3], {"problem": CHAIN}, r"5 states .*\(3,\)"),
        (np.zeros((5, 3)), {"problem": CHAIN}, r"\(5, 3\)"),
        ([0, 1, 0, 1, 2], {"problem": CHAIN}, r"0\.\.1, got 2"),
        ([[0, 1], [1, 0]], {}, r"int64 of shape \(2, 2\)"),
        ({"w": "text"}, {}, "under 'w'"),
        (b"", {}, "bytes"),
        (lambda observation: 0, {}, "probe="),
        (lambda observation: np.nan, {"probe": PROBE}, "a number, for each of the 11"),
    ],
)
def test_wrong_outputs(returned: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RunFailed, match=rf"run 1 of 6 .*{message}"):
        rr.audit_callable(lambda shared, sample: returned, shared_seeds=3, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 3}, "train must be"),
        ({"train": lambda seed: [0]}, "two seeds"),
        ({"problem": "chain-v1"}, "problem must be a TabularMDP"),
        ({"probe": []}, "probe must be"),
        ({"probe": [np.nan]}, "probe must be"),
        ({"rho": 1.5}, "rho must lie"),
        ({"train": functools.partial(lambda shared, sample, probe: [0], probe=1)}, "'probe' is taken"),
        ({"evaluate": lambda policy: 1.0}, "evaluate must be"),
        ({"epsilon": 0.1}, "problem="),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rr.audit_callable(**{"train": coin, "shared_seeds": 2, **options})


# --- failures -----------------------------------------------------------------------------------------------------


def test_a_failing_run_leaves_the_others_and_the_same_call_resumes(tmp_path: Path) -> None:
    calls: list[int] = []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        calls.append(sample_seed)
        if len(calls) == 37:
            raise ArithmeticError("the learning rate\nexploded")
        return [sample_seed % 2]

    options: dict[str, Any] = {"shared_seeds": 30, "store": tmp_path / "runs.sqlite", "version": "1"}
    with pytest.raises(
        RunFailed, match=r"run 37 of 60 .*the learning rate exploded \(test_training.py, line"
    ) as failed:
        rr.audit_callable(train, **options)
    assert "raise ArithmeticError" in (failed.value.traceback or "")
    result = rr.audit_callable(train, **options)
    assert len(calls) == 61  # 36 + the failure + 24
    whole = rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=30)
    assert result.agreement().every_look == whole.agreement().every_look


def test_failures_are_recorded_and_count_as_different() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if sample_seed % 5 == 0:
            raise SystemExit(3)
        return [0]

    result = rr.audit_callable(train, shared_seeds=30, on_error="record", evaluate=lambda policy, seed: 1.0)
    failed = [run.error is not None for run in result.runs]
    assert 0 < sum(failed) == len(result.failures) < 60
    assert result.agreement().same == 30 - len({i // 2 for i, bad in enumerate(failed) if bad})
    assert "SystemExit" in (result.failures[0].error or "")
    assert result.returns is not None
    assert [mean is None for mean in result.returns.per_run] == failed
    nothing = rr.audit_callable(lambda shared, sample: dict[int, int]()[0], shared_seeds=2, on_error="record")
    assert (nothing.levels, nothing.verdict()) == ((), None)
    assert "Every run failed" in str(nothing)


# --- returns and losses -------------------------------------------------------------------------------------------


def test_returns_of_runs_and_their_mean(tmp_path: Path) -> None:
    options: dict[str, Any] = {"evaluate": noisy, "shared_seeds": 20, "store": tmp_path / "runs.sqlite", "version": "1"}
    returns = rr.audit_callable(coin, **options).returns
    assert returns is not None
    assert len(returns.per_run) == 40
    assert float(returns.mean) == pytest.approx(np.mean([float(run or 0) for run in returns.per_run]))
    assert returns.mean.low < 0.5 < returns.mean.high
    assert returns.uniform is None
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        (again,) = read_audits(opened)
    assert again.returns is not None
    assert again.returns.per_run == returns.per_run
    with pytest.raises(RunFailed, match="finite numbers"):
        rr.audit_callable(coin, evaluate=lambda policy, seed: np.inf, shared_seeds=2)


def test_the_interval_of_the_mean_covers_it() -> None:
    rng = np.random.default_rng(SEED)
    ends = [mean_with_interval(rng.normal(size=8), 0.95) for _ in range(2000)]
    assert stats.binom.cdf(sum(mean.low <= 0.0 <= mean.high for mean in ends), 2000, 0.95) > ALPHA


def test_the_verdict_judges_epsilon_as_well_as_rho(tmp_path: Path) -> None:
    def lazy(shared_seed: int, sample_seed: int) -> list[int]:
        return [1] * 5 if shared_seed % 2**31 else [sample_seed % 2] * 5

    best = rr.optimal_values(CHAIN).q.argmax(axis=1).tolist()
    options: dict[str, Any] = {"problem": CHAIN, "shared_seeds": 60, "rho": 0.2, "epsilon": 0.01, "delta": 0.05}
    good = rr.audit_callable(lambda shared, sample: [*best, 0 * sample][:5], **options)
    bad = rr.audit_callable(lazy, store=tmp_path / "runs.sqlite", version="1", **options)
    assert (good.meets(0.8), good.verdict()) == (True, True)
    assert (bad.meets(0.8), bad.verdict()) == (True, False)
    assert bad.accuracy is not None
    assert (bad.accuracy.kept, bad.accuracy.met) == (0, False)
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        (again,) = read_audits(opened)
        assert again.verdict() is False


def test_a_store_without_the_table_does_not_say_that_epsilon_is_met(tmp_path: Path) -> None:
    table = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.0)], [(1.0, 0, 1.0)]]], gamma=0.5)
    options: dict[str, Any] = {"problem": table, "rho": 0.2, "epsilon": 0.1, "version": "1", "shared_seeds": 60}
    result = rr.audit_callable(lambda shared, sample: [1 + sample % 1], store=tmp_path / "runs.sqlite", **options)
    assert result.verdict() is True
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        (again,) = read_audits(opened)
    assert (again.accuracy, again.verdict()) == (None, None)


# --- doubts -------------------------------------------------------------------------------------------------------


def doubts(train: Any, **options: Any) -> AuditResult:
    return rr.audit_callable(train, **{"shared_seeds": 60, "rho": 0.2, **options})


def reads(shared_seed: int, sample_seed: int) -> list[int]:
    return [sample_seed % 1, 1]


def test_an_audit_in_which_nothing_was_fresh_shows_nothing() -> None:
    nothing: list[AuditResult] = [
        doubts(lambda shared, sample: [shared % 2, 1]),
        doubts(lambda shared, sample: rr.Run.of({"policy": [sample % 1, 1]}, samples=0)),
    ]
    for result in nothing:
        assert result.warnings[0].startswith("Nothing was fresh, for ")
        assert result.fresh.startswith("nothing, for ")
        assert (result.meets(0.8), result.verdict(), result.agreement().same) == (None, None, 60)
    shown = doubts(reads)
    assert (shown.verdict(), shown.unsampled) == (True, "")
    random = np.random.default_rng(SEED)
    unseeded = doubts(lambda shared, sample: random.integers(0, 9, 3))
    assert unseeded.unsampled.startswith("Nothing was fresh")


def test_runs_that_learn_nothing_are_doubted() -> None:
    returns = doubts(lambda shared, sample: [sample % 4] * 16, evaluate=LAKE, shared_seeds=4)
    assert any("uniform policy" in warning for warning in returns.warnings)
    grid = rr.make("two-goals-v1")
    known = doubts(lambda shared, sample: np.random.default_rng(sample).integers(0, 4, 8), problem=grid)
    assert any("no better than the uniform" in warning for warning in known.warnings)


# --- identity -----------------------------------------------------------------------------------------------------


def weighs(shared_seed: int, sample_seed: int, layers: Any = None) -> list[int]:
    return [0]


def test_arguments_of_a_partial_are_its_name(tmp_path: Path) -> None:
    def spec(layers: Any, **options: Any) -> Any:
        return rr.audit_callable(functools.partial(weighs, layers=layers), shared_seeds=2, **options).algorithm

    assert spec([1, 2]).params == {"layers": [1, 2]}
    assert spec(np.array([1.0])) != spec(np.array([2.0]))
    with pytest.raises(InvalidInput, match="layers="):
        spec(object(), store=tmp_path / "runs.sqlite", version="1")


# --- episodes in an environment -----------------------------------------------------------------------------------


def test_episodes_of_policies_of_every_form() -> None:
    values = np.zeros((16, 4))
    values[range(16), GOOD] = 1.0
    for policy in (GOOD, np.array(GOOD), values, lambda cell: GOOD[cell], rr.Run.of({"policy": GOOD})):
        assert LAKE(policy, seed=1).tolist() == [1.0, 1.0]
    assert LAKE([0] * 16, seed=1).tolist() == [0.0, 0.0]  # the time limit ends it


def test_the_seed_of_episodes_decides_them() -> None:
    pole = EpisodeReturns("CartPole-v1", episodes=3)
    first, same, other = (pole(lambda observation: int(observation[2] > 0), seed).tolist() for seed in (1, 1, 2))
    assert first == same != other
    assert 10 < pole.uniform().mean() < 40
    probes = [visited_observations("CartPole-v1", n=20, seed=seed) for seed in (3, 3, 4)]
    assert probes[0].shape == (20, 4)
    assert np.array_equal(probes[0], probes[1])
    assert not np.array_equal(probes[0], probes[2])
    straight = visited_observations("FrozenLake-v1", GOOD, n=50, env_options={"is_slippery": False})
    assert straight.tolist() == [0, 1, 2, 6, 10, 14]  # the goal ends the episode: nobody acts there


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EpisodeReturns("FrozenLak-v1"), "FrozenLake-v1"),
        (lambda: EpisodeReturns("FrozenLake-v1", 0), "episodes must be"),
        (lambda: LAKE([0, 1], seed=1), "a row for every state"),
        (lambda: LAKE("left", seed=1), "policy must be"),
        (lambda: LAKE(lambda cell: 0.7, seed=1), r"Discrete\(4\), got .*0.7"),
        (lambda: LAKE(GOOD, seed=2**32), "seed must be"),
        (lambda: visited_observations("FrozenLake-v1", n=0), "n must be"),
    ],
)
def test_bad_games(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
