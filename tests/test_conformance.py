"""The conformance suite: everything shipped passes it, and each check fails what it is there to fail."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodicTable, PerSampleSampler, as_generative
from replicable_rl.testing import Conformance, ConformanceError, check_algorithm
from replicable_rl.testing.checks import CHECKS, FALSE_ALARM, PAIRS
from replicable_rl.testing.conformance import default_problems

NAMES = [check.name for check in CHECKS]

SHIPPED = [
    rr.PhasedVI(0.1, 0.01),
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2),
    rr.ApproximateMDP(0.1, 0.01),
    rr.ReplicableApproximateMDP(0.05, 0.001, 0.2),
    rr.RMax(0.05, 0.001, 60),
    rr.ReplicableRMax(0.05, 0.001, 0.2, 60),
    # far below what the theorems ask for, where much can be lost or left unseen
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=1),
    rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, calls=3, form="midpoint"),
    rr.ReplicableRMax(0.05, 0.001, 0.2, 10, episodes=2, rounds=5),
]

PROBLEM = rr.make("two-goals-v1")


@dataclass(frozen=True)
class Honest:
    """A few iterations of Phased Q-learning: the algorithm that every broken one below departs from."""

    calls: int = 100

    def solve(self, problem: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Solution:
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=5).solve(problem, shared, rng)


def with_q(solution: rr.Solution, q: Any, policy: Any = None, **changes: Any) -> rr.Solution:
    """Return the solution with other values."""
    kept = {name: getattr(solution, name) for name in ("samples", "status", "guarantee", "model")}
    return rr.Solution.from_q(q, solution.policy if policy is None else policy, **{**kept, **changes})


def promising(solution: rr.Solution, rho: float) -> rr.Solution:
    """Return the solution with a claim."""
    return replace(solution, guarantee=rr.Guarantee("proved", "thm:mine", "two runs are the same", rho=rho))


def failures(algorithm: Any, *problems: Any, **options: Any) -> list[tuple[str, str]]:
    """Return the checks that fail, with the sentences."""
    with pytest.raises(ConformanceError) as caught:
        check_algorithm(algorithm, problems=problems or [PROBLEM], **options)
    return [(finding.check, finding.sentence) for finding in caught.value.findings]


def passed(report: Conformance, problem: str = "two-goals-v1") -> list[str]:
    return [finding.check for finding in report.passed if finding.problem == problem]


# --- what should pass ------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SHIPPED, ids=str)
def test_everything_shipped_conforms(algorithm: Any) -> None:
    report = check_algorithm(algorithm)
    on_grid = set(passed(report))
    assert on_grid >= set(NAMES) - {"levels", "replicability"}
    claimed = rr.solve(PROBLEM, algorithm, shared_seed=1, sample_seed=1).guarantee.rho is not None
    assert ("replicability" in on_grid) == claimed
    assert len({finding.problem for finding in report.passed}) == len(default_problems())


def test_all_registered_algorithms_are_tested() -> None:
    from replicable_rl.registry import ALGORITHMS

    assert {type(algorithm) for algorithm in SHIPPED} == set(ALGORITHMS.values())


def test_the_algorithm_that_is_broken_below_conforms() -> None:
    assert passed(check_algorithm(Honest())) == [name for name in NAMES if name not in ("levels", "replicability")]


def test_the_report_can_be_read() -> None:
    report = check_algorithm(Honest(), problems=[PROBLEM, rr.make("chain-v1")])
    assert str(report).splitlines() == [
        "tests.test_conformance.Honest conforms",
        "two-goals-v1; chain-v1",
        "  passed: " + ", ".join(NAMES[:-2]),
        "  levels: does not apply, no two of 9 runs with other samples had an equal model or value",
        "  replicability: does not apply, the run claims no rho",
    ]
    assert {finding.check for finding in report.skipped} == {"levels", "replicability"}


def test_the_suite_leaves_no_trace() -> None:
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist(), sys.getswitchinterval()  # type: ignore[index,union-attr]
    check_algorithm(Honest(), problems=[PROBLEM])
    after = random.getstate(), np.random.get_state()[1].tolist(), sys.getswitchinterval()  # type: ignore[index,union-attr]
    assert before == after


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [(Honest(), PerSampleSampler(PROBLEM)), (rr.RMax(0.1, 0.01, 10, episodes=9, rounds=3), EpisodicTable(PROBLEM))],
    ids=["draws", "episodes"],
)
def test_problems_that_are_no_tables(algorithm: Any, problem: Any) -> None:
    report = check_algorithm(algorithm, problems=[problem])
    assert {"fresh samples", "sample count"} <= {finding.check for finding in report.passed}
    assert "threads" in {finding.check for finding in report.skipped}


def test_a_cache_in_the_object_is_no_change() -> None:
    class Cached(Honest):
        @cached_property
        def size(self) -> int:
            return self.calls

        def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
            assert self.size == self.calls
            return super().solve(problem, shared, rng)

    assert "frozen" in passed(check_algorithm(Cached(), problems=[PROBLEM]))


def test_an_algorithm_that_draws_nothing() -> None:
    """It plans on the table itself, which a problem behind a counter does not show."""

    @dataclass(frozen=True)
    class Oracle:
        def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
            best = rr.optimal_values(problem)
            status = rr.Status(rr.StatusCode.COMPLETED, "planned on the truth")
            measured = rr.Guarantee("measured", "", "nothing was drawn")
            return rr.Solution.from_q(best.q, best.policy, samples=0, status=status, guarantee=measured)

    skipped = {f.check: f.sentence for f in check_algorithm(Oracle(), problems=[PROBLEM]).skipped}
    assert skipped["fresh samples"] == "the algorithm reports no samples"
    assert "not a table solve raises" in skipped["sample count"]


def test_samples_recorded_elsewhere_are_not_counted() -> None:
    class Recorded(Honest):
        def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
            rng.random()
            return super().solve(PROBLEM, shared, rng)

    skipped = {f.check: f.sentence for f in check_algorithm(Recorded(), problems=[PROBLEM]).skipped}
    assert skipped["sample count"] == "the algorithm does not sample by draw or play"


# --- what should fail: each bug, and the one check that names it -------------------------------------


class Entropy(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + np.random.default_rng().random())


class Clock(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        ended = rr.Status(rr.StatusCode.COMPLETED, f"ended at {time.perf_counter_ns()}")
        return replace(super().solve(problem, shared, rng), status=ended)


class GlobalNumpy(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + np.random.random())


class GlobalPython(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + random.random())


class Reseeding(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        np.random.seed(0)
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + np.random.random())


class WarmStart(Honest):
    LAST: ClassVar[dict[str, int]] = {}

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        warm = self.LAST.get("seed", shared.seed) != shared.seed
        self.LAST["seed"] = shared.seed
        return with_q(solution, solution.q + float(warm))


class LastProblem(Honest):
    LAST: ClassVar[list[Any]] = [PROBLEM]

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        other = self.LAST[-1] != problem.spec and not isinstance(self.LAST[-1], rr.TabularMDP)
        self.LAST.append(problem.spec)
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + float(other))


class OneBuffer(Honest):
    BUFFER: ClassVar[dict[Any, Any]] = {}

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        buffer = self.BUFFER.setdefault(solution.q.shape, np.empty(solution.q.shape))
        buffer[:] = solution.q
        return replace(solution, q=buffer)


class Scratch(Honest):
    SCRATCH: ClassVar[dict[str, int]] = {}

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        self.SCRATCH["seed"] = shared.seed
        time.sleep(0.002)
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + self.SCRATCH["seed"])


class NoRepr:
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        return Honest().solve(problem, shared, rng)


class BorrowedId(Honest):
    id: ClassVar[str] = "phased-vi-v1"


class EmptyId(Honest):
    id: ClassVar[str] = ""


@dataclass(frozen=True)
class FunctionParameter(Honest):
    shape: Callable[[float], float] = abs


@dataclass(frozen=True)
class NaNParameter(Honest):
    rate: float = 0.0


class Counter(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        object.__setattr__(self, "runs", getattr(self, "runs", 0) + 1)
        return super().solve(problem, shared, rng)


@dataclass(frozen=True)
class GrowingList(Honest):
    seen: tuple[list[int], ...] = ()

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        self.seen[0].append(1)
        return super().solve(problem, shared, rng)


@dataclass(frozen=True)
class SlottedCounter:
    __slots__ = ("runs",)

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        object.__setattr__(self, "runs", getattr(self, "runs", 0) + 1)
        return Honest().solve(problem, shared, rng)


@dataclass(frozen=True)
class HiddenParameter(Honest):
    _: KW_ONLY
    secret: InitVar[float] = 0.0

    def __post_init__(self, secret: float) -> None:
        object.__setattr__(self, "_secret", secret)

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        return with_q(solution, solution.q + self._secret)  # type: ignore[attr-defined]


class NameOfTheObject:
    """Its repr changes from copy to copy, without looking like an address."""

    def __repr__(self) -> str:
        return f"NameOfTheObject({id(self)})"

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        return Honest().solve(problem, shared, rng)


class SharedSamples(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        return super().solve(problem, shared, sample_stream(shared.seed))


class SharedSamplesInDisguise(SharedSamples):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        rng.random()
        return super().solve(problem, shared, rng)


class SharedSamplesAfterTheFirst(Honest):
    """The first draw of R-max is real here but looks the same from every generator; the others are not real."""

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        table = rr.TabularMDP.from_dense(np.ones((1, 1, 1)), np.ones((1, 1)), gamma=0.5)
        as_generative(table).draw(1, rng)
        return rr.RMax(0.1, 0.01, 10, episodes=50, rounds=5).solve(problem, shared, sample_stream(shared.seed))


class OneSampleMore(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        return replace(solution, samples=solution.samples + 1)


class CallsOnly(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        return replace(super().solve(problem, shared, rng), samples=self.calls)


class PolicyOfSomethingElse(Honest):
    """Reports a rounded q and the policy of the q that was not rounded."""

    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        solution = super().solve(problem, shared, rng)
        return with_q(solution, np.zeros_like(solution.q))


class ValueOfSomethingElse(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        return with_q(solution := super().solve(problem, shared, rng), solution.q, model=PROBLEM)


class EmptyPromise(Honest):
    def solve(self, problem: Any, shared: Any, rng: Any) -> rr.Solution:
        return promising(super().solve(problem, shared, rng), rho=0.2)


BROKEN: list[tuple[Any, str, str]] = [
    (Entropy(), "same seeds", r"a second run with shared seed 2023 and sample seed 1 differs from the first in q\."),
    (Clock(), "same seeds", r"differs from the first in status\. Take every random number"),
    (GlobalNumpy(), "global randomness", r"differ in q after random\.seed and np\.random\.seed"),
    (GlobalPython(), "global randomness", r"differ in q after random\.seed and np\.random\.seed"),
    (Reseeding(), "global randomness", r"changes the state of np\.random\. Take"),
    (WarmStart(), "memory", r"after runs with other seeds differs from the first in q\. Keep no caches"),
    (OneBuffer(), "memory", r"overwrote the arrays of an earlier solution\. Return copies"),
    (Scratch(), "threads", r"in one of 4 threads differs in q from the same run alone\. Keep"),
    (NoRepr(), "identity", r"holds a memory address, 0x[0-9a-f]+, .*Make it a frozen dataclass"),
    (BorrowedId(), "identity", r"the id 'phased-vi-v1' belongs to PhasedVI\. Give your class its own id"),
    (EmptyId(), "identity", r"the id must be a text that is not empty, got ''"),
    (FunctionParameter(shape=len), "identity", r"raises InvalidInput: .*parameter 'shape' must be a number"),
    (NaNParameter(rate=float("nan")), "identity", r"raises InvalidInput: canonical JSON"),
    (Counter(), "frozen", r"changes the attribute 'runs'\. Make the class a frozen dataclass"),
    (GrowingList(seen=([],)), "frozen", r"changes the attribute 'seen'"),
    (SlottedCounter(), "frozen", r"changes the attribute 'runs'"),
    (NameOfTheObject(), "copies", r"a copy by copy\.deepcopy is recorded as .*Let the identity depend on"),
    (SharedSamples(), "fresh samples", r"reports 16000 samples and never used rng\. Draw every sample from rng"),
    (SharedSamplesInDisguise(), "fresh samples", r"9 different sample seeds draw the same samples\. Pass the rng"),
    (SharedSamplesAfterTheFirst(), "fresh samples", r"9 different sample seeds draw the same samples\. Pass the rng"),
    (OneSampleMore(), "sample count", r"reports 16001 samples and drew 16000\. Count calls for every pair"),
    (CallsOnly(), "sample count", r"reports 100 samples and drew 16000"),
    (
        PolicyOfSomethingElse(),
        "levels",
        r"two of 9 runs with shared seed 2023 have the same value but not the same pol",
    ),
    (ValueOfSomethingElse(), "levels", r"have the same model but not the same value\. Compute the value from the mod"),
    (EmptyPromise(), "replicability", r"rho=0\.2 is claimed, but 40 of 40 pairs .*probability 1e-28\. Claim rho only"),
]


@pytest.mark.parametrize(("algorithm", "check", "sentence"), BROKEN, ids=lambda value: type(value).__name__)
def test_each_bug_fails_its_check_and_no_other(algorithm: Any, check: str, sentence: str) -> None:
    import re

    found = failures(algorithm)
    assert [name for name, _ in found] == [check], found
    assert re.search(sentence, found[0][1]), found


def test_every_check_has_a_bug_that_it_finds() -> None:
    assert {check for _, check, _ in BROKEN} | {"interface"} == set(NAMES)
