"""Any training code: what it may return, what is refused, how failures are kept, and how its runs are named."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput

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
    assert "what train draws from shared_seed" in " ".join(result.table().split())


def test_action_values_have_two_levels() -> None:
    result = rr.audit_callable(q_table, shared_seeds=20)
    assert result.levels == ("value", "policy")
    record = result.records[0]
    assert result.store.array(record.value or "").shape == (2, 2)
    assert result.store.array(record.policy or "").tolist() == [1, 1 - record.sample_seed % 2]


def test_the_zero_with_a_sign_is_zero() -> None:
    result = rr.audit_callable(lambda shared, sample: [[0.0 if sample % 2 else -0.0, -1.0]], shared_seeds=20)
    assert result.agreement("value").estimate == 1.0


def test_a_solution_has_its_own_levels_samples_and_status() -> None:
    algorithm = rr.ApproximateMDP(0.3, 0.1, calls=50)

    def train(shared_seed: int, sample_seed: int) -> rr.Solution:
        return rr.solve(CHAIN, algorithm, shared_seed=shared_seed, sample_seed=sample_seed)

    result = rr.audit_callable(train, shared_seeds=3, problem=CHAIN)
    assert result.levels == ("model", "value", "policy")
    assert result.samples == 6 * 50 * 10
    assert {record.status.code for record in result.records if record.status} == {rr.StatusCode.COMPLETED}


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
    assert "act alike in 0." in " ".join(result.table().split())
    assert "of the 11 observations" in " ".join(result.table().split())


def test_functions_may_say_that_they_are_vectorized() -> None:
    class Policy:
        vectorized = True

        def __call__(self, observations: Any) -> Any:
            assert observations.shape == PROBE.shape
            return np.stack([observations, observations**2], axis=1)  # continuous actions of two numbers

    result = rr.audit_callable(lambda shared, sample: Policy(), shared_seeds=3, probe=PROBE)
    assert result.agreement("policy").estimate == 1.0
    assert result.store.array(result.records[0].policy or "").shape == (11, 2)


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "options", "message"),
    [
        ([[0.0, np.nan]], {}, r"action values must be numbers, got NaN in state 0, action 1"),
        ([0.5, 1.5], {}, r"must return a policy .*; got an array of float64 of shape \(2,\)"),
        ([[[1.0]]], {}, r"got an array of float64 of shape \(1, 1, 1\)"),
        ([True, False], {}, r"got an array of bool of shape \(2,\)"),
        ([], {}, r"got an array of float64 of shape \(0,\)"),
        ([[1.0, 2.0], [3.0]], {}, r"must return a policy .*got \[\[1.0, 2.0\], \[3.0\]\]"),
        (None, {}, "got None"),
        ("left", {}, "got 'left'"),
        (3, {}, "got 3"),
        ([1, 2, 3], {"problem": CHAIN}, r"the problem has 5 states and 2 actions, .*got a policy of shape \(3,\)"),
        (np.zeros((5, 3)), {"problem": CHAIN}, r"action values \(5, 2\); got action values of shape \(5, 3\)"),
        ([0, 1, 0, 1, 2], {"problem": CHAIN}, r"actions must lie in 0..1, got 2"),
        ([0, 1, 0, 1, -1], {"problem": CHAIN}, r"actions must lie in 0..1, got -1"),
        (np.array([2**63], dtype=np.uint64), {}, "fit 64 bits with a sign"),
        ([[0, 1], [1, 0]], {}, r"got an array of int64 of shape \(2, 2\)"),  # several actions a state?
        (
            lambda observation: 0.5,
            {"probe": range(5), "problem": CHAIN},
            r"actions must be integers in 0..1, got float64",
        ),
        (lambda observation: 0, {}, r"returned a function of observations. Pass probe="),
        (lambda observation: np.nan, {"probe": PROBE}, "actions must be numbers, got NaN"),
        (lambda observation: "left", {"probe": PROBE}, "must return one action for each of the 11 observations"),
        (lambda observation: [0] * (1 + (observation > 0)), {"probe": PROBE}, "have several shapes"),
    ],
)
def test_wrong_outputs(returned: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(rr.RunFailed, match=message) as failed:
        rr.audit_callable(lambda shared, sample: returned, shared_seeds=3, **options)
    assert str(failed.value).startswith("audit: run 1 of 6 ")
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 3}, "train must be a function of"),
        ({"train": dict}, "train must be a function of"),
        ({"problem": "chain-v1"}, "problem must be a TabularMDP, got str"),
        ({"probe": []}, "probe must be an array of one observation or more"),
        ({"probe": "all"}, "probe must be an array"),
        ({"probe": [np.nan]}, "probe must hold numbers, got NaN"),
        ({"rho": 1.5}, "rho must lie strictly between 0 and 1"),
        ({"runs_per_seed": 1}, "audit_callable: runs_per_seed must be at least 2"),
        ({"params": {"net": object()}}, "parameter 'net' must be a number, text, list or mapping"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rr.audit_callable(**{"train": coin, "shared_seeds": 2, **options})


def test_shapes_must_stay_what_they_were() -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [0] * (2 if sample_seed % 5 else 3)

    first = rr.audit_callable(lambda shared, sample: [0, 0], shared_seeds=20).records[0].sample_seed
    assert first % 5  # so the first run returns two
    with pytest.raises(
        rr.RunFailed, match=r"the first run returned a policy of shape \(2,\), this one a policy of shape \(3,\)"
    ):
        rr.audit_callable(train, shared_seeds=20)
    result = rr.audit_callable(train, shared_seeds=20, on_error="record")
    assert {record.key for record in result.failures} == {r.key for r in result.records if r.sample_seed % 5 == 0}


# --- failures --------------------------------------------------------------------------------------------


def fails_on_run_37(log: Path, shared_seed: int, sample_seed: int) -> list[int]:
    with log.open("a") as stream:
        stream.write(f"{sample_seed}\n")
    if len(log.read_text().splitlines()) == 37 or (log.parent / "always").exists():
        raise ArithmeticError("the learning rate\nexploded")
    return [sample_seed % 2]


def test_a_failing_run_leaves_the_others_and_the_same_call_resumes(tmp_path: Path) -> None:
    train = functools.partial(fails_on_run_37, tmp_path / "log")
    options: dict[str, Any] = {"shared_seeds": 30, "store": tmp_path / "runs.sqlite", "name": "train"}
    options |= {"params": {"log": "log", "arg0": "log"}}
    with pytest.raises(rr.RunFailed) as failed:
        rr.audit_callable(train, **options)
    message = str(failed.value)
    assert "run 37 of 60" in message
    assert "failed: ArithmeticError: the learning rate exploded (test_audit_callable.py, line " in message
    assert "on_error='record'" in message
    assert f"finished runs are kept in {tmp_path / 'runs.sqlite'}, and the same call resumes" in message
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        assert [runs for _, _, runs in store.families()] == [36]
    result = rr.audit_callable(train, **options)
    assert len((tmp_path / "log").read_text().splitlines()) == 61  # 36 + the failure + 24
    whole = rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=30)
    assert result.agreement("policy").value == whole.agreement("policy").value
    assert not result.failures


def test_failures_are_recorded_and_count_as_different(tmp_path: Path) -> None:
    train = functools.partial(fails_on_run_37, tmp_path / "log")
    options: dict[str, Any] = {"shared_seeds": 30, "store": tmp_path / "runs.sqlite", "name": "train"}
    options |= {"params": {"arg0": "log"}, "on_error": "record"}
    result = rr.audit_callable(train, **options)
    (failure,) = result.failures
    assert failure.error is not None
    assert failure.error.startswith("ArithmeticError: the learning rate exploded")
    assert result.records.index(failure) == 36
    whole = rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=30)
    pair = 36 // 2
    expected = whole.agreement("policy").per_seed.copy()
    expected[pair] = 0.0
    assert result.agreement("policy").per_seed.tolist() == expected.tolist()
    text = " ".join(result.table().split())
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
    assert "every run failed" in str(result)
    with pytest.raises(InvalidInput, match="had no run that did not fail"):
        result.table()


# --- names -----------------------------------------------------------------------------------------------


def test_runs_are_found_by_the_text_of_the_function(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"

    def first(shared_seed: int, sample_seed: int) -> list[int]:
        return [0]

    def second(shared_seed: int, sample_seed: int) -> list[int]:
        return [1]

    one = rr.audit_callable(first, shared_seeds=2, store=store, name="train")
    two = rr.audit_callable(second, shared_seeds=2, store=store, name="train")
    assert one.algorithm != two.algorithm  # the code changed, so nothing is reused
    assert one.classes("policy") != two.classes("policy")
    again = rr.audit_callable(first, shared_seeds=2, store=store, name="train", params={"alpha": 0.1})
    assert again.algorithm not in (one.algorithm, two.algorithm)
    assert one.algorithm.id == "train"
    assert rr.audit_callable(first, shared_seeds=2).algorithm.id == "first"
    probes = [rr.audit_callable(first, shared_seeds=2, probe=p).algorithm for p in ([0.0], [1.0])]
    assert probes[0] != probes[1]


def test_partial_arguments_are_settings() -> None:
    def train(shared_seed: int, sample_seed: int, *, alpha: float) -> list[int]:
        return [0]

    specs = [rr.audit_callable(functools.partial(train, alpha=a), shared_seeds=1).algorithm for a in (0.1, 0.2)]
    assert [spec.params["alpha"] for spec in specs] == [0.1, 0.2]
    assert {spec.id for spec in specs} == {"train"}


def closing_over(value: Any) -> Any:
    return lambda shared_seed, sample_seed: [value, sample_seed % 2][:1] if value is not None else [0]


class Trainer:
    def __init__(self, value: int) -> None:
        self.value = value

    def __call__(self, shared_seed: int, sample_seed: int) -> list[int]:
        return [self.value]

    def method(self, shared_seed: int, sample_seed: int) -> list[int]:
        return [self.value]


def decorated(value: int) -> Any:
    @functools.wraps(coin)
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [value]

    return train


def with_default(value: int) -> Any:
    def train(shared_seed: int, sample_seed: int, value: int = value) -> list[int]:
        return [value]

    return train


def takes(value: int, shared_seed: int, sample_seed: int, **ignored: Any) -> list[int]:
    return [value]


def calls_helper(shared_seed: int, sample_seed: int) -> list[int]:
    return [helper()]


def helper() -> int:
    return 0


def cached(value: int) -> Any:
    @functools.lru_cache
    def answer() -> int:
        return value

    return lambda shared_seed, sample_seed: [answer()]


PAIRS_OF_PROGRAMS: dict[str, tuple[Any, Any]] = {
    "cached": (cached(0), cached(1)),
    "closure": (closing_over(0), closing_over(1)),
    "instance": (Trainer(0), Trainer(1)),
    "method": (Trainer(0).method, Trainer(1).method),
    "decorator": (decorated(0), decorated(1)),
    "default": (with_default(0), with_default(1)),
    "one line": (lambda shared, sample: [0], lambda shared, sample: [1]),
    "partial": (functools.partial(takes, 0), functools.partial(takes, 1)),
    "array": (closing_over(np.int64(0)), closing_over(np.int64(1))),
}


@pytest.mark.parametrize("name", PAIRS_OF_PROGRAMS)
def test_a_store_never_gives_one_program_the_runs_of_another(name: str, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    one, two = (
        rr.audit_callable(train, shared_seeds=2, store=store, name="train") for train in PAIRS_OF_PROGRAMS[name]
    )
    assert one.algorithm != two.algorithm
    assert one.classes("policy") != two.classes("policy")
    again = rr.audit_callable(PAIRS_OF_PROGRAMS[name][0], shared_seeds=2, store=store, name="train")
    assert again.records == one.records  # found, not run again: the time is the same


def test_a_changed_helper_is_another_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = rr.audit_callable(calls_helper, shared_seeds=2, store=tmp_path / "runs.sqlite")
    monkeypatch.setitem(globals(), "helper", lambda: 1)
    two = rr.audit_callable(calls_helper, shared_seeds=2, store=tmp_path / "runs.sqlite")
    assert one.classes("policy") != two.classes("policy")


def test_what_has_no_exact_form_must_be_named(tmp_path: Path) -> None:
    train = closing_over(iter([]))  # some object

    def uses(shared_seed: int, sample_seed: int) -> list[int]:
        return [0] if train else [1]

    rr.audit_callable(uses, shared_seeds=2)  # without a store nothing can be mistaken
    with pytest.raises(InvalidInput, match=r"train uses value, whose content has no exact form, .* params=\{\.\.\.\}"):
        rr.audit_callable(uses, shared_seeds=2, store=tmp_path / "runs.sqlite")
    rr.audit_callable(uses, shared_seeds=2, store=tmp_path / "runs.sqlite", params={"value": "empty"})
    with pytest.raises(InvalidInput, match="the name 'code' is taken"):
        rr.audit_callable(coin, shared_seeds=2, params={"code": 1})
    with pytest.raises(InvalidInput, match="params must be a mapping"):
        rr.audit_callable(coin, shared_seeds=2, params=[1])  # type: ignore[arg-type]


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
    kinds = {(record.error or "ok").split(":")[0].split(" ")[0] for record in result.records}
    assert kinds == {"SystemExit", "Unspeakable", "ok"}


def test_claimed_rho_is_judged() -> None:
    text = rr.audit_callable(lambda shared, sample: [0], shared_seeds=30, rho=0.2).table()
    assert "1−ρ = 0.8 met" in text
    text = rr.audit_callable(lambda shared, sample: [0], shared_seeds=20, rho=0.1).table()
    assert "1−ρ = 0.9 undecided" in " ".join(text.split())
    assert "1−ρ = 0.9 not met" in rr.audit_callable(coin, shared_seeds=30, rho=0.1).table()
