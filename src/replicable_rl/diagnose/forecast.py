r"""Forecasts: how often two logs like this one decide alike, by resampling it.

*Bootstrap.* Two logs are drawn from the log's counts and decide with one shared seed. How often they agree, A_1, is
what two fresh logs would do if the process were the one that was estimated; but that is off by the noise of a log.
What such noise does to the forecast can be seen: draw a log, and two logs from that one. These agree with a share A_2,
and if one more round of noise moves the forecast by A_2 - A_1, the first round moved it by about as much:

    forecast = A_1 - (A_2 - A_1) = 2 A_1 - A_2

(the bias correction of the bootstrap; simulation-extrapolation with one step).

*Halves.* Two disjoint halves of the log decide. Each row is in one of them by a coin, so they are two independent logs
of the true process, and how often they agree is right on average, ties or not; but it is about logs of half the size.
For the plain best action exact ties are all that matters in the end, and there the bootstrap is too high: its forecast
is never above that of the halves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.evidence import derived_seed
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.diagnose.resampling import Rows
from replicable_rl.progress import track
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.rules import EmpiricalModel, Greedy
from replicable_rl.threads import Answer, Threads, result_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.algorithms import PlugInPolicy
    from replicable_rl.logs import Dataset

    Policies = tuple[NDArray[np.int64], ...]
    Models = tuple[EmpiricalModel, ...]

T = TypeVar("T")
S = TypeVar("S")
_MANY = 10_000  # outcomes of a log: with fewer, a decision is mostly Python
_SOME, _CLEAR = 20, 4.0  # a search goes on after so many draws, if their mean is so many standard errors off
_FEW = 4.0  # as if so many more had been off by one: no interval is a point


class Forecast:
    """Resampled logs, and what a plug-in policy decides on them: the same logs for every rule.

    ``differ`` is how often two logs differed in a state, and ``taken`` how often an action was taken there.
    """

    def __init__(self, data: Dataset, algorithm: PlugInPolicy, resamples: int, seed: int) -> None:
        self.data, self.algorithm, self.resamples, self.seed = data, algorithm, resamples, seed
        self.plan = algorithm.plan(data)
        self.differ = np.zeros(data.n_states)
        self.taken = np.zeros((data.n_states, data.n_actions))

    def decide(self, model: EmpiricalModel, shared: SharedRandomness) -> NDArray[np.int64]:
        """Return what a log decides."""
        policy: NDArray[np.int64] = self.algorithm.decide(model, self.plan, shared).decision.outputs["policy"]
        return policy

    def each(self, what: str, decide: Callable[[Models, SharedRandomness], T], scale: float = 1.0) -> Iterator[T]:
        """Yield what is decided on the models of resampled logs, with what they share.

        "logs": two drawn from the log, and two from one that was drawn from it. "halves": its halves.
        """
        from replicable_rl.compiled import THREADS

        rows, data = Rows.of(self.data), self.data

        def one(streams: tuple[np.random.Generator, SharedRandomness]) -> T:
            rng, shared = streams
            drawn: tuple[Rows, ...]
            if what == "halves":
                drawn = rows.halves(rng)
            else:
                other = rows.again(rng)
                drawn = *(rows.again(rng, scale) for _ in range(2)), *(other.again(rng, scale) for _ in range(2))
            return decide(tuple(EmpiricalModel(data, each.counts(data)) for each in drawn), shared)

        return in_order(one, self.streams(what), threads=THREADS if data.key.size >= _MANY else 1)

    def streams(self, what: str) -> Iterator[tuple[np.random.Generator, SharedRandomness]]:
        """Yield what draws the logs of every resample, and what they share."""
        for i in track(range(self.resamples), what):
            rng = sample_stream(derived_seed(f"diagnose/{what}", self.seed, i))
            yield rng, SharedRandomness(derived_seed(f"diagnose/shared/{what}", self.seed, i))

    def policies(self, what: str, scale: float = 1.0) -> Iterator[Policies]:
        """Yield what these logs decide."""
        return self.each(what, lambda models, shared: tuple(self.decide(model, shared) for model in models), scale)

    def reaches(self, target: float, scale: float) -> bool:
        """Whether logs, so many times as large, agree often enough; no more are drawn than tell clearly.

        Both the forecast and A_2 must say so. Much larger logs see the process clearly, and what is not known is which
        process that is: A_2 asks a process that is as far from this log as this log may be from the true one.
        """
        each: list[tuple[int, bool]] = []
        for found in self.policies("logs", scale):
            each.append((corrected(found), alike(*found[2:])))
            lowest = min(zip(*each, strict=True), key=np.mean)
            off = abs(float(np.mean(lowest)) - target)
            if len(each) >= _SOME and off > _CLEAR * _spread(list(lowest)):
                break
        return float(np.mean(each, axis=0).min()) >= target - 1e-9  # of a mean that is rounded

    def estimates(self, confidence: float) -> tuple[Estimate, Estimate]:
        """Return the forecast, and how often halves agree; note where logs differ."""
        each, everywhere = [], np.arange(self.data.n_states)
        for found in self.policies("logs"):
            each.append(corrected(found))
            self.differ += found[0] != found[1]
            for policy in found[:2]:
                self.taken[everywhere, policy] += 1.0
        halves = self.of_halves(confidence)
        return self.bounded(extrapolated(each, confidence), halves), halves

    def bounded(self, forecast: Estimate, halves: Estimate) -> Estimate:
        """Return the forecast; for the plain best action, that of the halves if it is lower."""
        return halves if self.is_plain and float(forecast) > float(halves) else forecast

    @property
    def is_plain(self) -> bool:
        """Whether the plain best action is taken, which exact ties make arbitrary."""
        return isinstance(self.algorithm.rule, Greedy)

    def of_halves(self, confidence: float) -> Estimate:
        """Return how often two disjoint halves agree."""
        same = sum(alike(*found) for found in self.policies("halves"))
        return Estimate(same / self.resamples, *clopper_pearson(same, self.resamples, confidence))


def in_order(compute: Callable[[T], S], items: Iterable[T], *, threads: int) -> Iterator[S]:
    """Yield what is computed of every item, in their order; a few are computed ahead, if there are several threads.

    >>> list(in_order(lambda x: x * x, range(5), threads=2))
    [0, 1, 4, 9, 16]
    """
    if threads < 2:
        yield from map(compute, items)
        return
    waiting: deque[Answer] = deque()
    with Threads(threads) as others:  # who has seen enough does not wait for the rest
        for item in items:
            waiting.append(others.submit(compute, item))
            if len(waiting) > threads:
                yield result_of(waiting.popleft())
        yield from map(result_of, waiting)


def alike(one: NDArray[np.int64], two: NDArray[np.int64]) -> bool:
    """Whether two policies are the same."""
    return bool(np.array_equal(one, two))


def corrected(found: Policies) -> int:
    """Return 2 [the first two agree] - [the other two agree], the forecast of one draw."""
    return 2 * alike(*found[:2]) - alike(*found[2:])


def extrapolated(each: list[int], confidence: float) -> Estimate:
    """Return the mean of the draws, in [0, 1], with an interval by the normal law.

    >>> print(extrapolated([1, 1, 2, 0] * 25, 0.95))
    1.000 (0.859–1.000)
    """
    mean = min(1.0, max(0.0, float(np.mean(each))))
    half = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * _spread(each)
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half))


def _spread(each: list[int]) -> float:
    """Return the standard error of a mean."""
    n = len(each)
    return math.sqrt((float(np.var(each)) * n + _FEW) / (n + _FEW) / n)
