"""The conformance suite: everything shipped passes it, and each check fails what it is there to fail."""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.problem import greedy
from replicable_rl.problem.source import Episodic, Generative, Wrapped
from replicable_rl.randomness import sample_stream
from replicable_rl.runs.run import freeze_array
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts
from replicable_rl.testing import Conformance, ConformanceError, PerSample, check_algorithm
from replicable_rl.testing.cases import global_states
from replicable_rl.testing.checks import CHECKS
from replicable_rl.testing.conformance import default_problems

NAMES = [check.name for check in CHECKS]

SHIPPED = [
    rr.PhasedVI(0.1, 0.01),
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2),
    rr.ApproximateMDP(0.1, 0.01),
    rr.ReplicableApproximateMDP(0.05, 0.001, 0.2),
    rr.RMax(0.05, 0.001, 60),
    rr.ReplicableRMax(0.05, 0.001, 0.2, 60),
    rr.PlugInPolicy(0.05, 0.001, 0.2),
    # far below what the theorems ask for, where much can be lost or left unseen
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=1),
    rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, calls=3, form="midpoint"),
    rr.ReplicableRMax(0.05, 0.001, 0.2, 10, episodes=2, rounds=5),
]

PROBLEM = rr.make("two-goals-v1")

pytestmark = pytest.mark.usefixtures("one_worker")


@dataclass(frozen=True)
class Honest(rr.Algorithm):
    """A few iterations of Phased Q-learning: the algorithm that every broken one below departs from."""

    calls: int = 100

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=5).solve(source, shared, rng)


def of(run: rr.Run, samples: int | None = None, **outputs: Any) -> rr.Run:
    """Return the run with other outputs, built again."""
    samples = run.samples if samples is None else samples
    return rr.Run.of({**run.outputs, **outputs}, samples=samples, status=run.status, claims=run.claims)


def claiming(run: rr.Run, **claim: Any) -> rr.Run:
    """Return the run with a claim."""
    said = {"about": "replicability", "kind": "stated", "statement": "two runs are the same", "source": "thm:mine"}
    return replace(run, claims=rr.Claims((rr.Claim(**{**said, **claim}),)))


def failures(algorithm: Any, *problems: Any, **options: Any) -> list[tuple[str, str]]:
    """Return the checks that fail, with the sentences."""
    with pytest.raises(ConformanceError) as caught:
        check_algorithm(algorithm, problems=problems or [PROBLEM], **options)
    return [(finding.check, finding.sentence) for finding in caught.value.findings]


def passed(report: Conformance, problem: str = "two-goals-v1") -> list[str]:
    return [finding.check for finding in report.passed if finding.problem == problem]


# --- what should pass ------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SHIPPED, ids=lambda algorithm: algorithm.id)
def test_everything_shipped_conforms(algorithm: Any) -> None:
    report = check_algorithm(algorithm)
    on_grid = set(passed(report))
    assert on_grid >= set(NAMES) - {"levels", "replicability"}
    claimed = rr.solve(PROBLEM, algorithm, shared_seed=1, sample_seed=1).claims.replicability is not None
    assert ("replicability" in on_grid) == claimed
    assert len({finding.problem for finding in report.passed}) == len(default_problems())


def test_the_algorithm_that_is_broken_below_conforms() -> None:
    assert passed(check_algorithm(Honest())) == [name for name in NAMES if name not in ("levels", "replicability")]


def test_the_suite_leaves_no_trace() -> None:
    def world() -> tuple[object, ...]:
        return global_states(), sys.getswitchinterval()

    before = world()
    check_algorithm(Honest(), problems=[PROBLEM])
    assert world() == before


class OnlyDraws(Wrapped, Generative):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        return PROBLEM.draw(calls, rng)


class OnlyEpisodes(Wrapped, Episodic):
    def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        return PROBLEM.play(policy, episodes, horizon, rng)


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        (Honest(), PerSample(PROBLEM)),
        (Honest(), OnlyDraws(PROBLEM)),
        (rr.RMax(0.1, 0.01, 10, episodes=9, rounds=3), OnlyEpisodes(PROBLEM)),
    ],
    ids=["both", "draws", "episodes"],
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

        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            assert self.size == self.calls
            return super().solve(source, shared, rng)

    assert "frozen" in passed(check_algorithm(Cached(), problems=[PROBLEM]))


def test_an_algorithm_that_draws_nothing() -> None:
    """It plans on the table itself, which a problem behind a counter does not show."""

    @dataclass(frozen=True)
    class Oracle(rr.Algorithm):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            if not isinstance(source, rr.TabularMDP):
                raise TypeError("there is no table to plan on")
            best = rr.optimal_values(PROBLEM)
            status = rr.Status(rr.StatusCode.COMPLETED, "planned on the truth")
            return rr.Run.of({"value": best.q, "policy": best.policy}, samples=0, status=status)

    skipped = {f.check: f.sentence for f in check_algorithm(Oracle(), problems=[PROBLEM]).skipped}
    assert skipped["fresh samples"] == "the algorithm reports no samples"
    assert skipped["sample count"] == "on a source that counts, solve raises TypeError: there is no table to plan on."


def test_samples_recorded_elsewhere_are_not_counted() -> None:
    class Recorded(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            rng.random()
            return super().solve(PROBLEM, shared, rng)

    skipped = {f.check: f.sentence for f in check_algorithm(Recorded(), problems=[PROBLEM]).skipped}
    assert skipped["sample count"] == "the algorithm does not sample by draw or play"


# --- what should fail: each bug, and the one check that names it -------------------------------------


class Entropy(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + np.random.default_rng().random())


class Clock(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        ended = rr.Status(rr.StatusCode.COMPLETED, f"ended at {time.perf_counter_ns()}")
        return replace(super().solve(source, shared, rng), status=ended)


class GlobalNumpy(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + np.random.random())  # noqa: NPY002


class GlobalPython(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + random.random())


class Reseeding(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        np.random.seed(0)  # noqa: NPY002
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + np.random.random())  # noqa: NPY002


class WarmStart(Honest):
    LAST: ClassVar[dict[str, int]] = {}

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        warm = self.LAST.get("seed", shared.seed) != shared.seed
        self.LAST["seed"] = shared.seed
        return of(run, value=run.q + float(warm))


class OneBuffer(Honest):
    BUFFER: ClassVar[dict[Any, Any]] = {}

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        buffer = self.BUFFER.setdefault(run.q.shape, np.empty(run.q.shape))
        buffer[:] = run.q
        return replace(run, outputs={**run.outputs, "value": buffer})


class Scratch(Honest):
    SCRATCH: ClassVar[dict[str, int]] = {}

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        self.SCRATCH["seed"] = shared.seed
        time.sleep(0.002)
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + self.SCRATCH["seed"])


class TextHash(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + hash("abc") % 1_000_003)


class ProcessNumber(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        ended = rr.Status(rr.StatusCode.COMPLETED, f"ended in process {os.getpid()}")
        return replace(super().solve(source, shared, rng), status=ended)


class OrderOfASet(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        names = {f"state {i}" for i in range(20)}
        return replace(super().solve(source, shared, rng), history={"order": np.array([int(n[6:]) for n in names])})


class EmptyId(Honest):
    id: ClassVar[str] = ""


@dataclass(frozen=True)
class FunctionParameter(Honest):
    shape: Callable[..., float] = abs


@dataclass(frozen=True)
class NaNParameter(Honest):
    rate: float = 0.0


class Counter(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        object.__setattr__(self, "runs", getattr(self, "runs", 0) + 1)
        return super().solve(source, shared, rng)


@dataclass(frozen=True)
class GrowingList(Honest):
    seen: tuple[list[int], ...] = ()

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        self.seen[0].append(1)
        return super().solve(source, shared, rng)


@dataclass(frozen=True)
class HiddenParameter(Honest):
    _: KW_ONLY
    secret: InitVar[float] = 0.0

    def __post_init__(self, secret: float) -> None:
        object.__setattr__(self, "_secret", secret)

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=run.q + self._secret)  # type: ignore[attr-defined]


class SharedSamples(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return super().solve(source, shared, sample_stream(shared.seed))


class SharedSamplesInDisguise(SharedSamples):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        rng.random()
        return super().solve(source, shared, rng)


class SharedSamplesLater(Honest):
    """A first small draw is fresh, what the result is made of is not."""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        first = source.draw(1, rng).calls * source.n_states * source.n_actions
        run = super().solve(source, shared, np.random.default_rng(shared.seed))
        return replace(run, samples=run.samples + first)


class SharedSamplesAtTheEnd(Honest):
    """The last of many draws is not fresh."""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        fresh = [source.draw(self.calls, rng).calls for _ in range(40)]
        last = source.draw(self.calls, np.random.default_rng(shared.seed))
        run = super().solve(source, shared, rng)
        samples = (sum(fresh) + last.calls) * source.n_states * source.n_actions
        return replace(run, samples=run.samples + samples)


class OneSampleMore(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return replace(run, samples=1 + (run.samples or 0))


class CallsOnly(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return replace(super().solve(source, shared, rng), samples=self.calls)


class PolicyOfSomethingElse(Honest):
    """Reports a rounded q and the policy of the q that was not rounded."""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return of(run, value=np.zeros_like(run.q))


class ValueOfSomethingElse(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return of(super().solve(source, shared, rng), model=PROBLEM)


class EmptyPromise(Honest):
    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return claiming(super().solve(source, shared, rng), bound=0.2)


BROKEN: list[tuple[Any, str, str]] = [
    (
        Entropy(),
        "same seeds",
        r"a second run with shared seed 2023 and sample seed 1 differs from the first in value\.",
    ),
    (Clock(), "same seeds", r"differs from the first in status\. Take every random number"),
    (GlobalNumpy(), "global randomness", r"differ in value after random\.seed and np\.random\.seed"),
    (GlobalPython(), "global randomness", r"differ in value after random\.seed and np\.random\.seed"),
    (Reseeding(), "global randomness", r"changes the state of np\.random\. Take"),
    (WarmStart(), "memory", r"after runs with other seeds differs from the first in value\. Keep no caches"),
    (OneBuffer(), "memory", r"overwrote the arrays of an earlier run\. Return copies"),
    (Scratch(), "threads", r"in one of 4 threads differs in value from the same run alone\. Keep"),
    (
        TextHash(),
        "another process",
        r"in another process differs in value from the same run here\. Let nothing depend on",
    ),
    (ProcessNumber(), "another process", r"in another process differs in status from the same run here"),
    (OrderOfASet(), "another process", r"differs in history .* no hash\(\) of a text, no order of a set"),
    (EmptyId(), "identity", r"the id must be a text that is not empty, got ''"),
    (FunctionParameter(shape=len), "identity", "JSON cannot say 'shape'"),
    (NaNParameter(rate=float("nan")), "identity", "JSON cannot say 'rate'"),
    (Counter(), "frozen", r"changes the attribute 'runs'\. Make the class a frozen dataclass"),
    (GrowingList(seen=([],)), "frozen", r"changes the attribute 'seen'"),
    (
        HiddenParameter(secret=1.0),
        "copies",
        r"a copy by dataclasses\.replace gives a run .* that differs in value\. Make",
    ),
    (SharedSamples(), "fresh samples", r"reports 16000 samples and never used rng\. Draw every sample from rng"),
    (SharedSamplesInDisguise(), "fresh samples", r"9 different sample seeds draw the same samples in draw 1 of 5\."),
    (
        SharedSamplesLater(),
        "fresh samples",
        r"the same samples in draw 2 of 6\. Pass the rng of solve on to every draw",
    ),
    (SharedSamplesAtTheEnd(), "fresh samples", r"the same samples in draw 41 of 46\."),
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


@pytest.mark.parametrize(("algorithm", "check", "sentence"), BROKEN, ids=[type(row[0]).__name__ for row in BROKEN])
def test_each_bug_fails_its_check_and_no_other(algorithm: Any, check: str, sentence: str) -> None:
    found = failures(algorithm)
    assert [name for name, _ in found] == [check], found
    assert re.search(sentence, found[0][1]), found


def altered(value: Any, **changes: Any) -> Any:
    """Replace fields, whatever their types."""
    return replace(value, **changes)


def holding(run: rr.Run, **outputs: Any) -> rr.Run:
    """Replace outputs, whatever their types, and leave the fingerprints."""
    return replace(run, outputs={**run.outputs, **outputs})


INTERFACE: dict[str, tuple[Callable[[rr.Run], Any], str]] = {
    "nothing": (lambda run: None, r"solve returns NoneType, not a Run\. Build it with Run\.of\.$"),
    "no outputs": (lambda run: altered(run, outputs={}), r"the run has no output at any level\. Build it with Run\.of"),
    "policy as a list": (lambda run: holding(run, policy=run.policy.tolist()), r"policy must be an array, got list"),
    "policy as floats": (
        lambda run: holding(run, policy=run.policy * 1.0),
        r"policy must hold integers of shape \(8,\)",
    ),
    "policy too short": (lambda run: holding(run, policy=run.policy[:-1]), r"shape \(8,\), got int64 of shape \(7,\)"),
    "no such action": (lambda run: holding(run, policy=run.policy + 4), r"actions 0 to 3, got \d to \d"),
    "q of another shape": (lambda run: holding(run, value=run.q.T), r"value must hold floats of shape \(8, 4\)"),
    "q is NaN": (lambda run: holding(run, value=run.q * np.nan), r"value must be finite"),
    "model": (lambda run: holding(run, model="chain-v1"), r"a model must be a TabularMDP, got str"),
    "samples < 0": (lambda run: altered(run, samples=-1), r"samples must be an int >= 0, got -1"),
    "samples as a float": (lambda run: altered(run, samples=16000.0), r"got 16000\.0\. Convert it with int\(\)"),
    "samples as a bool": (lambda run: altered(run, samples=True), r"samples must be an int >= 0, got True"),
    "no samples": (lambda run: altered(run, samples=None), r"samples must be an int >= 0, got None"),
    "status": (lambda run: altered(run, status="done"), r"status must be a Status with a StatusCode, got 'done'"),
    "no status": (lambda run: altered(run, status=None), r"status must be a Status with a StatusCode, got None"),
    "status code": (
        lambda run: altered(run, status=altered(run.status, code="done")),
        r"must be a Status with a StatusCode",
    ),
    "status sentence": (lambda run: altered(run, status=altered(run.status, sentence=" ")), r"Say how the run ended"),
    "claims": (
        lambda run: altered(run, claims=None),
        r"claims must be Claims, got None\. Claim nothing with Claims\(\)",
    ),
    "fingerprints": (lambda run: holding(run, value=run.q + 1.0), r"the fingerprints are not those of the outputs"),
    "model fingerprint": (lambda run: holding(run, model=PROBLEM), r"the fingerprints are not those of the outputs"),
    "history": (lambda run: altered(run, history={"loss": np.array([np.nan])}), r"cannot be saved: .* finite numbers"),
}


@dataclass(frozen=True)
class Altered(Honest):
    what: str = ""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run: rr.Run = INTERFACE[self.what][0](super().solve(source, shared, rng))
        return run


@pytest.mark.parametrize("what", INTERFACE)
def test_interface_names_what_is_wrong_with_the_run(what: str) -> None:
    ((check, sentence),) = failures(Altered(what=what))
    assert check == "interface"
    assert sentence.startswith("of a run with shared seed 2023 and sample seed 1: ")
    assert re.search(INTERFACE[what][1], sentence), sentence


CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"kind": "sure"}, r"kind must be 'stated', got 'sure'"),
    "measured": ({"kind": "measured"}, r"kind must be 'stated', got 'measured'"),
    "statement": ({"statement": " "}, r"a claim says what holds and names its source; one of the two is empty"),
    "source": ({"source": ""}, r"a claim says what holds and names its source; one of the two is empty"),
    "rho": ({"bound": 1.5}, r"bound must be a number from 0 to 1, got 1\.5"),
    "epsilon": ({"about": "accuracy", "bound": "0.1"}, r"bound must be a number from 0 to inf, got '0\.1'"),
    "delta": ({"about": "accuracy", "failure": 2.0}, r"failure must be a number from 0 to 1, got 2\.0"),
}


@dataclass(frozen=True)
class Claiming(Honest):
    what: str = ""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return claiming(super().solve(source, shared, rng), **{"bound": 0.2, **CLAIMS[self.what][0]})


@pytest.mark.parametrize("what", CLAIMS)
def test_interface_names_what_is_wrong_with_a_claim(what: str) -> None:
    ((check, sentence),) = failures(Claiming(what=what))
    assert check == "interface"
    assert re.search(f"InvalidInput: Claim: .*{CLAIMS[what][1]}", sentence), sentence


def test_memory_of_another_problem() -> None:
    last: dict[str, Any] = {}

    class LastProblem(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            other = last.get("problem", source.spec) != source.spec
            last["problem"] = source.spec
            return of(run, value=run.q + float(other))

    check_algorithm(LastProblem(), problems=[PROBLEM])  # alone, there is nothing else to remember
    assert failures(LastProblem(), PROBLEM, rr.make("chain-v1"))[0][0] == "memory"


def test_later_draws_must_be_fresh_too() -> None:
    """The first draw looks the same from every generator, and tells nothing."""

    @dataclass(frozen=True)
    class SecondDraw(Honest):
        fresh: bool = True

        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            safe = source.play([0, 0], 5, 3, rng)
            risky = source.play([1, 1], 50, 10, rng if self.fresh else sample_stream(shared.seed))
            run = super().solve(PROBLEM, shared, sample_stream(1))
            q = (safe + risky).visits.reshape(2, 2)
            return of(run, value=q, policy=greedy(q), samples=515)

    P = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    problem = rr.TabularMDP.from_dense(P, np.ones((2, 2)), gamma=0.5, layout="sas", initial=[1.0, 0.0])
    assert "fresh samples" in {f.check for f in check_algorithm(SecondDraw(), problems=[problem]).passed}
    assert [check for check, _ in failures(SecondDraw(fresh=False), problem)] == ["fresh samples"]


def test_a_certain_draw_after_fresh_ones_is_no_fraud() -> None:
    """The runs went different ways before it, and it looks the same from every generator."""

    class CertainLater(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            certain = source.play([0, 0], 5, 3, rng)
            return replace(run, samples=run.samples + certain.steps)

    P = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    problem = rr.TabularMDP.from_dense(P, np.ones((2, 2)), gamma=0.5, layout="sas", initial=[1.0, 0.0])
    assert "fresh samples" in {f.check for f in check_algorithm(CertainLater(), problems=[problem]).passed}


# --- another process ---------------------------------------------------------------------------------


def test_the_other_process_is_told_of_levels_that_are_registered_here() -> None:
    rr.register(rr.Level("visits", freeze=lambda name, output: freeze_array(name, output)))

    class Visits(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            return of(run, visits=np.full(run.q.shape, self.calls))

    assert {"another process", "interface"} <= set(passed(check_algorithm(Visits(), problems=[PROBLEM])))


def skipped(algorithm: Any, problem: Any = PROBLEM) -> str:
    report = check_algorithm(algorithm, problems=[problem])
    return {finding.check: finding.sentence for finding in report.skipped}["another process"]


def test_what_cannot_be_sent_is_not_run_in_another_process() -> None:
    lock = threading.Lock()

    class Locked(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            with lock:
                return super().solve(source, shared, rng)

    class LockedProblem(PerSample):
        def __init__(self) -> None:
            super().__init__(PROBLEM)
            self.lock = lock

    sentence = "this cannot be sent to another process: TypeError: cannot pickle '_thread.lock' object."
    assert skipped(Locked()) == sentence
    assert skipped(Honest(), LockedProblem()) == sentence


@dataclass(frozen=True)
class OnlyHere(Honest):
    home: int = 0
    crash: bool = False

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        if os.getpid() != self.home:
            if self.crash:
                os._exit(1)
            raise NotPicklable("not here", "at all")
        return super().solve(source, shared, rng)


class NotPicklable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def test_a_run_that_ends_in_another_process_alone_is_a_failure() -> None:
    ((check, sentence),) = failures(OnlyHere(home=os.getpid()))
    assert check == "another process"
    assert "in another process ends with NotPicklable: not here at all. Let nothing depend" in sentence


# --- what a promise is held to -----------------------------------------------------------------------


@dataclass(frozen=True)
class Coin(Honest):
    """Two runs differ in value with probability 1/2, in policy never."""

    rho: float = 0.5

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        q = np.zeros_like(run.q) + float(rng.random() < 0.5)
        return claiming(of(run, value=q, policy=greedy(q)), bound=self.rho)


def test_a_promise_is_refuted_only_where_the_runs_refute_it() -> None:
    assert "replicability" in passed(check_algorithm(Coin(rho=0.5), problems=[PROBLEM]))
    assert [check for check, _ in failures(Coin(rho=0.05))] == ["replicability"]


def test_a_promise_is_held_to_its_level() -> None:
    report = check_algorithm(Coin(rho=0.05), problems=[PROBLEM], level="policy")
    assert "replicability" in passed(report)
    report = check_algorithm(Coin(rho=0.05), problems=[PROBLEM], level="model")
    assert [f.sentence for f in report.skipped if f.check == "replicability"] == ["the run has no model"]


def test_a_promise_that_some_runs_do_not_make() -> None:
    class Sometimes(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            return claiming(run, bound=0.2) if shared.seed % 2 else run

    report = check_algorithm(Sometimes(), problems=[PROBLEM])
    assert [f.sentence for f in report.skipped if f.check == "replicability"] == [
        "some runs claim nothing about a second run"
    ]


@pytest.mark.parametrize("share", [1e-3, 0.01, 0.1, 0.3])
def test_samples_that_happen_to_be_the_same_are_no_fraud(share: float) -> None:
    """One call of nearly deterministic pairs: many runs see the same, and so do draws made for comparison."""
    P = np.array([[[1 - share, share], [share, 1 - share]]]).reshape(2, 1, 2)
    check_algorithm(Honest(calls=1), problems=[rr.TabularMDP.from_dense(P, np.ones((2, 1)), gamma=0.5)])


# --- how it is said ----------------------------------------------------------------------------------


def test_every_failure_is_listed_and_equal_ones_once() -> None:
    class Both(OneSampleMore):
        id: ClassVar[str] = ""

    with pytest.raises(ConformanceError) as caught:
        check_algorithm(Both(), problems=[PROBLEM, rr.make("chain-v1")])
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("does not conform:")
    assert [line.split(":")[0] for line in lines] == [
        "  identity (two-goals-v1; chain-v1)",
        "  sample count (two-goals-v1)",
        "  sample count (chain-v1)",
    ]
    assert len(caught.value.findings) == 4


def test_a_crash_is_a_failure_with_its_cause() -> None:
    class Crash(Honest):
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            return super().solve(source.draw(1, rng), shared, rng)

    with pytest.raises(
        ConformanceError,
        match=r"solve raises AttributeError: .* It gets a source of samples: draw\(calls, rng\) or play",
    ) as caught:
        check_algorithm(Crash())
    assert {finding.check for finding in caught.value.findings} == {"interface"}
    assert isinstance(caught.value.__cause__, AttributeError)


@dataclass(frozen=True)
class Picky(Honest):
    most: int = 5

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        if source.n_states > self.most:
            raise rr.InvalidInput(f"Picky: at most {self.most} states.")
        return super().solve(source, shared, rng)


def test_an_algorithm_may_refuse_some_problems_but_not_those_it_is_given() -> None:
    report = check_algorithm(Picky())
    assert [f.problem for f in report.skipped if f.check == "interface"] == ["two-goals-v1"]
    assert "does not apply, the algorithm refuses the problem: InvalidInput: Picky: at most 5 states." in str(report)
    assert failures(Picky())[0] == (
        "interface",
        "the algorithm refuses the problem: InvalidInput: Picky: at most 5 states.",
    )


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        (Honest, {}, r"got .*Honest"),
        ("phased-vi-v1", {}, r"got .*phased-vi-v1"),
        (Honest(), {"problems": []}, r"a list of at least one problem, got \[\]"),
        (Honest(), {"problems": PROBLEM}, r"a list of at least one problem, got TabularMDP"),
        (Honest(), {"problems": "chain-v1"}, r"a list of at least one problem, got 'chain-v1'"),
        (Honest(), {"problems": ["chain-v1"]}, r"got 'chain-v1'\. Use replicable_rl\.make"),
        (Honest(), {"level": "q"}, r"level must be one of model, value, bytes, policy, got 'q'"),
    ],
)
def test_bad_arguments(algorithm: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"check_algorithm: .*{message}"):
        check_algorithm(algorithm, **options)
