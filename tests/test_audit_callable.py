"""Any training code: what it may return, what is refused, how failures are kept, and how its runs are named."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, RunFailed, read_audits
from replicable_rl.errors import InvalidInput
from replicable_rl.runs import LEVELS

CHAIN = rr.make("chain-v1")  # 5 states, 2 actions
PROBE = np.linspace(-1.0, 1.0, 11)


def coin(shared_seed: int, sample_seed: int) -> list[int]:
    return [shared_seed % 2, sample_seed % 2]


def q_table(shared_seed: int, sample_seed: int) -> np.ndarray[Any, Any]:
    return np.array([[0.0, 1.0], [float(sample_seed % 2), 0.5]])


# --- what may be returned --------------------------------------------------------------------------------


def test_a_policy_has_one_level() -> None:
    result = rr.audit_callable(coin, shared_seeds=50)
    assert result.levels == ("policy",)
    assert result.states.per_state[0] == 1.0  # decided by the shared seed
    assert 0.2 < result.states.per_state[1] < 0.8
    assert result.states.differing.tolist() == [1]
    assert sum(result.actions(1).values()) == 100
    assert result.samples is None
    assert result.policies is None


def test_action_values_have_two_levels() -> None:
    result = rr.audit_callable(q_table, shared_seeds=20)
    assert result.levels == ("value", "policy")
    run = result.runs[0]
    assert run.sample_seed is not None
    assert run.q.shape == (2, 2)
    assert run.policy.tolist() == [1, 1 - run.sample_seed % 2]


def test_the_zero_with_a_sign_is_zero() -> None:
    result = rr.audit_callable(lambda shared, sample: [[0.0 if sample % 2 else -0.0, -1.0]], shared_seeds=20)
    assert result.agreement("value").estimate == 1.0


def test_a_run_has_its_own_levels_samples_status_and_claims() -> None:
    algorithm = rr.ApproximateMDP(0.3, 0.1, calls=50)

    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.solve(CHAIN, algorithm, shared_seed=shared_seed, sample_seed=sample_seed)

    result = rr.audit_callable(train, shared_seeds=3, problem=CHAIN)
    assert result.levels == ("model", "value", "policy")
    assert result.samples == 6 * 50 * 10
    assert {run.status.code for run in result.runs if run.status} == {rr.StatusCode.COMPLETED}
    first = result.runs[0]
    direct = train(first.shared_seed, first.sample_seed or 0)
    assert (first.status, first.fingerprints) == (direct.status, direct.fingerprints)
    assert first.claims == direct.claims.stated_by("train")
    assert first.spec != direct.spec  # it is a run of the training code, whatever that calls
    assert first.spec == result.spec.runs[0]


@pytest.fixture
def weights() -> Iterator[str]:
    """A level of one's own: what a policy follows from."""
    level = rr.Level("weights-of-a-test", implies=("policy",))
    rr.register(level)
    yield level.name
    del LEVELS[level.name]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_run_may_have_levels_of_its_own(weights: str, n_jobs: int, tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        output = np.array([[sample_seed % 3, 0.5]])
        return rr.Run.of({weights: output, "policy": [int(sample_seed % 3 > 0)]}, samples=10)

    store = tmp_path / "runs.sqlite"
    result = rr.audit_callable(train, shared_seeds=30, store=store, version="1", rho=0.5, n_jobs=n_jobs)
    assert result.levels == (weights, "policy")
    assert result.samples == 600
    remainders = [(run.sample_seed or 0) % 3 for run in result.runs]
    pairs = list(zip(remainders[::2], remainders[1::2], strict=True))
    assert result.agreement(weights).same == sum(one == two for one, two in pairs)
    assert result.agreement("policy").same == sum((one > 0) == (two > 0) for one, two in pairs)
    assert result.agreement(weights).estimate < result.agreement("policy").estimate
    assert [run.outputs[weights].tolist() for run in result.runs] == [[[remainder, 0.5]] for remainder in remainders]
    assert {float(output[0, 0]) for output in result.outputs(weights).values()} == {0.0, 1.0, 2.0}
    with rr.RunStore(store) as opened:
        (read,) = read_audits(opened)
        assert read.levels == result.levels
        assert read.runs == result.runs
        assert read.runs[0].output(weights).tolist() == [[remainders[0], 0.5]]
    assert result.claim(weights).level == weights


def test_a_level_alone_is_enough(weights: str) -> None:
    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.Run.of({weights: [shared_seed % 2]})

    result = rr.audit_callable(train, shared_seeds=3, problem=CHAIN)
    assert result.levels == (weights,)
    assert result.agreement(weights).estimate == 1.0
    assert result.policies is None
    assert weights in str(result)
    assert result.agreement() == result.agreement(weights)  # what else could be meant
    assert result.outputs().keys() == result.outputs(weights).keys()
    with pytest.raises(InvalidInput, match=f"there is no policy to compare; train produces {weights}"):
        result.agreement("policy")


def test_a_level_that_nobody_registered_is_refused() -> None:
    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.Run.of({"polcy": [0]})

    with pytest.raises(RunFailed, match=r"level must be one of .*, got 'polcy'. Did you mean 'policy'"):
        rr.audit_callable(train, shared_seeds=3)


def test_a_function_is_compared_on_the_probe_set() -> None:
    def train(shared_seed: int, sample_seed: int) -> Callable[[float], int]:
        threshold = (sample_seed % 1000) / 1000.0
        return lambda observation: int(observation > threshold)

    result = rr.audit_callable(train, shared_seeds=60, probe=PROBE)
    assert result.levels == ("policy",)
    actions = result.states
    assert actions.per_state[:5].tolist() == [1.0] * 5  # no threshold is below 0
    assert 0.5 < float(actions.overall) < 1.0
    assert actions.overall.low < float(actions.overall) < actions.overall.high
    assert result.agreement("policy").estimate < float(actions.overall)
    assert "of the 11 observations" in str(result)


def test_functions_may_say_that_they_are_vectorized() -> None:
    class Policy:
        vectorized = True

        def __call__(self, observations: Any) -> Any:
            assert observations.shape == PROBE.shape
            return np.stack([observations, observations**2], axis=1)  # continuous actions of two numbers

    result = rr.audit_callable(lambda shared, sample: Policy(), shared_seeds=3, probe=PROBE)
    assert result.agreement("policy").estimate == 1.0
    assert result.runs[0].policy.shape == (11, 2)


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "options", "message"),
    [
        ([[0.0, np.nan]], {}, r"action values must be numbers, got NaN in state 0, action 1"),
        ([[1.0, 2.0], [3.0]], {}, r"must return a policy .*got \[\[1.0, 2.0\], \[3.0\]\]"),
        (3, {}, "got 3"),
        ([1, 2, 3], {"problem": CHAIN}, r"the problem has 5 states and 2 actions, .*got a policy of shape \(3,\)"),
        (np.zeros((5, 3)), {"problem": CHAIN}, r"action values \(5, 2\); got action values of shape \(5, 3\)"),
        ([0, 1, 0, 1, 2], {"problem": CHAIN}, r"actions must lie in 0..1, got 2"),
        (np.array([2**63], dtype=np.uint64), {}, "fit 64 bits with a sign"),
        ([[0, 1], [1, 0]], {}, r"got an array of int64 of shape \(2, 2\)"),  # several actions a state?
        (
            lambda observation: 0.5,
            {"probe": range(5), "problem": CHAIN},
            r"actions must be integers in 0..1, got float64",
        ),
        (lambda observation: 0, {}, r"returned a function of observations. Pass probe="),
        (lambda observation: np.nan, {"probe": PROBE}, "actions must be numbers, got NaN"),
        (lambda observation: [0] * (1 + (observation > 0)), {"probe": PROBE}, "have several shapes"),
    ],
)
def test_wrong_outputs(returned: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RunFailed, match=message) as failed:
        rr.audit_callable(lambda shared, sample: returned, shared_seeds=3, **options)
    assert str(failed.value).startswith("audit: run 1 of 6 ")
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 3}, "train must be a function of"),
        ({"problem": "chain-v1"}, "problem must be a TabularMDP, got str"),
        ({"probe": []}, "probe must be an array of one observation or more"),
        ({"probe": [np.nan]}, "probe must hold numbers, got NaN"),
        ({"rho": 1.5}, "rho must lie strictly between 0 and 1"),
        ({"params": {"net": object()}}, "parameter 'net' must be a number, text, list or mapping"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rr.audit_callable(**{"train": coin, "shared_seeds": 2, **options})


def test_shapes_must_stay_what_they_were() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [0] * (2 if sample_seed % 5 else 3)

    first = rr.audit_callable(lambda shared, sample: [0, 0], shared_seeds=20).runs[0].sample_seed
    assert first is not None
    assert first % 5  # so the first run returns two
    with pytest.raises(
        RunFailed, match=r"the first run returned a policy of shape \(2,\), this one a policy of shape \(3,\)"
    ):
        rr.audit_callable(train, shared_seeds=20)
    result = rr.audit_callable(train, shared_seeds=20, on_error="record")
    misshapen = [run for run in result.runs if run.sample_seed is not None and run.sample_seed % 5 == 0]
    assert [run.key for run in result.failures] == [run.key for run in misshapen]


def test_shapes_are_compared_when_an_audit_is_resumed(tmp_path: Path) -> None:
    store, length = tmp_path / "runs.sqlite", [2]

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [0] * length[0]

    def audit(shared_seeds: int, **options: Any) -> AuditResult:
        return rr.audit_callable(train, shared_seeds=shared_seeds, store=store, version="1", **options)

    audit(2)
    length[0] = 3
    for _ in range(2):  # the second time, all of them are there
        with pytest.raises(RunFailed, match=r"run 5 of 8 .* the first run returned a policy of shape \(2,\), this one"):
            audit(4)
        audit(4, on_error="record")
    assert [run.error is None for run in audit(4, on_error="record").runs] == [True] * 4 + [False] * 4


# --- failures --------------------------------------------------------------------------------------------


def fails_on_run_37(log: Path, shared_seed: int, sample_seed: int) -> list[int]:
    if not log.with_name(str(os.getpid())).exists():
        return [sample_seed % 2]  # made again, in another process
    with log.open("a") as stream:
        stream.write(f"{sample_seed}\n")
    if len(log.read_text().splitlines()) == 37 or (log.parent / "always").exists():
        raise ArithmeticError("the learning rate\nexploded")
    return [sample_seed % 2]


def test_a_failing_run_leaves_the_others_and_the_same_call_resumes(tmp_path: Path) -> None:
    (tmp_path / str(os.getpid())).touch()
    train = functools.partial(fails_on_run_37, tmp_path / "log")
    options: dict[str, Any] = {"shared_seeds": 30, "store": tmp_path / "runs.sqlite", "name": "train"}
    options |= {"version": "1", "params": {"argument 1": "log"}}
    with pytest.raises(RunFailed) as failed:
        rr.audit_callable(train, **options)
    message = str(failed.value)
    assert "run 37 of 60" in message
    assert "failed: ArithmeticError: the learning rate exploded (test_audit_callable.py, line " in message
    assert "on_error='record'" in message
    assert f"finished runs are kept in {tmp_path / 'runs.sqlite'}, and the same call resumes" in message
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        assert [runs for _, runs in store.families()] == [36]
    result = rr.audit_callable(train, **options)
    assert len((tmp_path / "log").read_text().splitlines()) == 61  # 36 + the failure + 24
    whole = rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=30)
    assert result.agreement("policy").value == whole.agreement("policy").value
    assert not result.failures


def test_failures_are_recorded_and_count_as_different(tmp_path: Path) -> None:
    (tmp_path / str(os.getpid())).touch()
    train = functools.partial(fails_on_run_37, tmp_path / "log")
    options: dict[str, Any] = {"shared_seeds": 30, "store": tmp_path / "runs.sqlite", "name": "train"}
    options |= {"version": "1", "params": {"argument 1": "log"}, "on_error": "record"}
    result = rr.audit_callable(train, **options)
    (failure,) = result.failures
    assert failure.error is not None
    assert failure.error.startswith("ArithmeticError: the learning rate exploded")
    assert result.runs.index(failure) == 36
    whole = rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=30)
    pair = 36 // 2
    expected = whole.agreement("policy").per_seed.copy()
    expected[pair] = 0.0
    assert result.agreement("policy").per_seed.tolist() == expected.tolist()
    text = " ".join(result.text(details=True).split())
    assert "1 of 60 runs failed and count as different from every other." in text
    assert result.to_json()["failures"][0]["error"] == failure.error
    assert result.class_sizes("policy")[failure.shared_seed] == (1, 1)
    # recorded failures are not tried again, unless failures are to be raised
    assert rr.audit_callable(train, **options).to_json() == result.to_json()
    assert len((tmp_path / "log").read_text().splitlines()) == 60
    assert not rr.audit_callable(train, **options | {"on_error": "raise"}).failures


def test_when_every_run_fails() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        raise OSError("no data")

    result = rr.audit_callable(train, shared_seeds=3, on_error="record")
    assert len(result.failures) == 6
    assert result.levels == ()
    assert "Every run failed" in str(result)
    with pytest.raises(InvalidInput, match="had no run that did not fail"):
        result.agreement()


# --- odd outputs and odd ends ------------------------------------------------------------------------------


def test_a_policy_may_change_the_observation_it_is_given() -> None:
    def train(shared_seed: int, sample_seed: int) -> Callable[[Any], float]:
        def policy(observation: Any) -> float:
            observation -= 0.5
            return float(observation.sum())

        return policy

    probe = np.ones((3, 2))
    assert rr.audit_callable(train, shared_seeds=4, probe=probe).agreement("policy").estimate == 1.0
    assert (probe == 1.0).all()


def test_one_and_one_point_zero_are_the_same_action() -> None:
    def train(shared_seed: int, sample_seed: int) -> Callable[[Any], float]:
        return lambda observation: 1 if sample_seed % 2 else 1.0

    assert rr.audit_callable(train, shared_seeds=10, probe=PROBE).agreement("policy").estimate == 1.0


def test_exits_and_unspeakable_errors_are_recorded() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if sample_seed % 3 == 0:
            sys.exit(3)
        if sample_seed % 3 == 1:
            raise Unspeakable
        return [0]

    result = rr.audit_callable(train, shared_seeds=10, on_error="record")
    kinds = {(run.error or "ok").split(":")[0].split(" ")[0] for run in result.runs}
    assert kinds == {"SystemExit", "Unspeakable", "ok"}


def test_claimed_rho_is_judged() -> None:
    for train, rho, seeds, word in ((same, 0.2, 30, "Met"), (same, 0.1, 20, "Undecided"), (coin, 0.1, 30, "Not met")):
        result = rr.audit_callable(train, shared_seeds=seeds, rho=rho)
        assert f"{word}: " in str(result)


def same(shared_seed: int, sample_seed: int) -> list[int]:
    return [0 * sample_seed]
