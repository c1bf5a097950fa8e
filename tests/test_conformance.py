"""The conformance suites: what ships passes them, and each check fails what it is there to fail."""

from __future__ import annotations

import os
import pickle
import random
import re
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.problem.source import Episodic, Generative, Wrapped
from replicable_rl.runs import freeze_array
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts
from replicable_rl.testing import (
    Conformance,
    ConformanceError,
    PerSample,
    check_algorithm,
    check_rule,
    check_source,
)
from replicable_rl.testing.conformance import default_problems

ALWAYS = ["interface", "same seeds", "identity", "another process", "fresh samples", "sample count"]
PROBLEM = rr.make("two-goals-v1")
SHIPPED = [
    rr.PhasedVI(0.1, 0.01),
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2),
    rr.ReplicableApproximateMDP(0.05, 0.001, 0.2),
    rr.ReplicableRMax(0.05, 0.001, 0.2, 60),
    rr.PlugInPolicy(0.05, 0.001, 0.2),
    # far below what the theorems ask for, where much can be lost or left unseen
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=1),
    rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, calls=3, form="midpoint"),
    rr.ReplicableRMax(0.05, 0.001, 0.2, 10, episodes=2, rounds=5),
]

pytestmark = pytest.mark.usefixtures("one_worker")


@dataclass(frozen=True)
class Honest(rr.Algorithm):
    """A few iterations of Phased Q-learning: every broken algorithm below departs from it."""

    calls: int = 100

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=5).solve(source, shared, rng)


def of(run: rr.Run, **outputs: Any) -> rr.Run:
    return rr.Run.of({**run.outputs, **outputs}, samples=run.samples, status=run.status, claims=run.claims)


def failures(algorithm: Any, *problems: Any, **options: Any) -> list[tuple[str, str]]:
    """Return the checks that fail, with the sentences."""
    with pytest.raises(ConformanceError) as caught:
        check_algorithm(algorithm, problems=problems or [PROBLEM], **options)
    return [(finding.check, finding.sentence) for finding in caught.value.findings]


def passed(report: Conformance) -> list[str]:
    return [finding.check for finding in report.passed if finding.problem == "two-goals-v1"]


def skipped(report: Conformance) -> dict[str, str]:
    return {finding.check: finding.sentence for finding in report.skipped}


# --- what passes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SHIPPED, ids=lambda algorithm: algorithm.id)
def test_everything_shipped_conforms(algorithm: Any) -> None:
    report = check_algorithm(algorithm)
    assert set(passed(report)) >= set(ALWAYS)
    assert len({finding.problem for finding in report.passed}) == len(default_problems())


def test_the_suite_leaves_no_trace() -> None:
    before = random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002
    assert passed(check_algorithm(Honest(), problems=[PROBLEM])) == ALWAYS
    assert before == (random.getstate(), pickle.dumps(np.random.get_state()))  # noqa: NPY002


class OnlyDraws(Wrapped, Generative):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        return PROBLEM.draw(calls, rng)


class OnlyEpisodes(Wrapped, Episodic):
    def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        return PROBLEM.play(policy, episodes, horizon, rng)


@pytest.mark.parametrize("kind", [PerSample, OnlyDraws, OnlyEpisodes])
def test_sources(kind: Any) -> None:
    report = check_source(kind(PROBLEM), table=PROBLEM)
    assert {"fresh samples", "sample count"} <= set(passed(report))
    assert ("law" in passed(report)) == issubclass(kind, Generative)


class SameDraws(OnlyDraws):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        return PROBLEM.draw(calls, np.random.default_rng(0))


class OtherLaw(OnlyDraws):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        return rr.make("two-goals-v1", slip=0.4).draw(calls, rng)


@pytest.mark.parametrize(("kind", "check"), [(SameDraws, "fresh samples"), (OtherLaw, "law")])
def test_bad_sources(kind: Any, check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_source(kind(PROBLEM), table=PROBLEM)
    assert [finding.check for finding in caught.value.findings] == [check]


@pytest.mark.parametrize("rule", [rr.rules.Greedy(), rr.rules.AffordableTolerance()])
def test_rules(rule: Any) -> None:
    assert set(passed(check_rule(rule, problems=[PROBLEM]))) >= set(ALWAYS)


# --- what fails: each bug, and the one check that names it --------------------------------------------


def adding(number: Any) -> Any:
    """Return an algorithm that adds to all values what ``number(self, shared)`` says."""

    class Adding(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            return of(run, value=run.q + number(self, shared))

    return Adding()


class Clock(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        ended = rr.Status(rr.StatusCode.COMPLETED, f"ended at {time.perf_counter_ns()}")
        return replace(super().solve(source, shared, rng), status=ended)


class WarmStart(Honest):
    LAST: ClassVar[dict[str, int]] = {}

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        warm = self.LAST.get("seed", shared.seed) != shared.seed
        self.LAST["seed"] = shared.seed
        return of(run, value=run.q + float(warm))


class EmptyId(Honest):
    id: ClassVar[str] = ""


@dataclass(frozen=True)
class Parameter(Honest):
    value: Any = 0.0


class SharedSamplesAtTheEnd(Honest):
    """The last of many draws is not fresh."""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        fresh = [source.draw(self.calls, rng).calls for _ in range(40)]
        last = source.draw(self.calls, np.random.default_rng(shared.seed))
        run = super().solve(source, shared, rng)
        return replace(run, samples=run.samples + (sum(fresh) + last.calls) * source.n_states * source.n_actions)


class CallsOnly(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return replace(super().solve(source, shared, rng), samples=self.calls)


class PolicyOfSomethingElse(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=np.zeros_like(run.q))


BROKEN: dict[str, tuple[Any, str, str]] = {
    "entropy": (adding(lambda *_: np.random.default_rng().random()), "same seeds", "value"),
    "clock": (Clock(), "same seeds", "status"),
    "numpy": (adding(lambda *_: np.random.random()), "same seeds", "value"),  # noqa: NPY002
    "python": (adding(lambda *_: random.random()), "same seeds", "value"),
    "warm start": (WarmStart(), "same seeds", "value"),
    "hash": (adding(lambda *_: hash("abc") % 1_000_003), "another process", "value"),
    "process": (adding(lambda *_: os.getpid()), "another process", "value"),
    "id": (EmptyId(), "identity", "''"),
    "function": (Parameter(value=len), "identity", "'value'"),
    "NaN": (Parameter(value=float("nan")), "identity", "'value'"),
    "shared at the end": (SharedSamplesAtTheEnd(), "fresh samples", "draw 41 of 46"),
    "calls": (CallsOnly(), "sample count", "100 samples and drew 16000"),
    "levels": (PolicyOfSomethingElse(), "levels", "the same value but not the same policy"),
}


@pytest.mark.parametrize("bug", BROKEN)
def test_each_bug_fails_its_check(bug: str) -> None:
    algorithm, check, names = BROKEN[bug]
    ((failed, sentence),) = failures(algorithm)
    assert failed == check
    assert re.search(names, sentence), sentence


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda run: None, "Run"),
        (lambda run: replace(run, outputs={}), "outputs"),
        (lambda run: of(run, policy=run.policy[:-1]), "policy"),
        (lambda run: of(run, policy=run.policy + 4), "policy"),
        (lambda run: replace(run, claims=None), "'NoneType'"),
        (lambda run: replace(run, history={"loss": np.array([np.nan])}), "nan"),
    ],
)
def test_interface_names_what_is_wrong_with_the_run(change: Any, names: str) -> None:
    class Changed(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run: rr.Run = change(super().solve(source, shared, rng))
            return run

    ((check, sentence),) = failures(Changed())
    assert check == "interface"
    assert re.search(names, sentence), sentence


def test_a_crash_is_a_failure_with_its_cause() -> None:
    class Crash(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            return super().solve(source.draw(1, rng), shared, rng)

    with pytest.raises(ConformanceError, match="AttributeError") as caught:
        check_algorithm(Crash())
    assert {finding.check for finding in caught.value.findings} == {"interface"}
    assert isinstance(caught.value.__cause__, AttributeError)


@pytest.mark.parametrize("share", [1e-3, 0.01, 0.1, 0.3])
def test_samples_that_happen_to_be_the_same_are_no_fraud(share: float) -> None:
    """One call of nearly deterministic pairs: many runs see the same, and so do draws made for comparison."""
    P = np.array([[[1 - share, share], [share, 1 - share]]]).reshape(2, 1, 2)
    check_algorithm(Honest(calls=1), problems=[rr.TabularMDP.from_dense(P, np.ones((2, 1)), gamma=0.5)])


# --- another process -------------------------------------------------------------------------------


def test_the_other_process_is_told_of_levels_that_are_registered_here() -> None:
    rr.register(rr.Level("visits", freeze=lambda name, output: freeze_array(name, output)))

    class Visits(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            return of(run, visits=np.full(run.q.shape, self.calls))

    assert "another process" in passed(check_algorithm(Visits(), problems=[PROBLEM]))


def test_what_cannot_be_sent_is_not_run_in_another_process() -> None:
    lock = threading.Lock()

    class Locked(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            with lock:
                return super().solve(source, shared, rng)

    assert "pickle" in skipped(check_algorithm(Locked(), problems=[PROBLEM]))["another process"]


def test_a_run_that_ends_in_another_process_alone_is_a_failure() -> None:
    class OnlyHere(Honest):
        home: ClassVar[int] = os.getpid()

        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            if os.getpid() != self.home:
                sys.stderr.flush()
                raise ArithmeticError("not here")
            return super().solve(source, shared, rng)

    ((check, sentence),) = failures(OnlyHere())
    assert check == "another process"
    assert "ArithmeticError: not here" in sentence


# --- refusals --------------------------------------------------------------------------------------


def test_an_algorithm_may_refuse_some_problems_but_not_those_it_is_given() -> None:
    class Picky(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            if source.n_states > 5:
                raise rr.InvalidInput("Picky: at most 5 states.")
            return super().solve(source, shared, rng)

    report = check_algorithm(Picky())
    assert [f.problem for f in report.skipped if f.check == "interface"] == ["two-goals-v1"]
    assert "at most 5 states" in str(report)
    assert failures(Picky())[0][0] == "interface"


@pytest.mark.parametrize(
    ("algorithm", "options", "names"),
    [
        (Honest, {}, "Honest"),
        ("phased-vi-v1", {}, "phased-vi-v1"),
        (Honest(), {"problems": []}, "problems"),
        (Honest(), {"problems": "chain-v1"}, "problems.*chain-v1"),
    ],
)
def test_bad_arguments(algorithm: Any, options: dict[str, Any], names: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"check_algorithm: .*{names}"):
        check_algorithm(algorithm, **options)
