r"""How often two runs agree, from classes of identical outputs, with an interval that holds at every look.

Under one shared seed, R runs fall into classes of n_1, n_2, ... identical outputs. Of the
R(R-1)/2 pairs of runs,

    u = sum_c n_c (n_c - 1) / (R (R - 1))

agree: an unbiased estimate of the probability that two runs with this shared seed do. Its mean
over J shared seeds is the **pairwise agreement**, an unbiased estimate of 1 - rho in
Definition 2.3 (``def:replicability``). Pairs under one shared seed are *not* independent (a
seed whose grid cuts between two answers spoils all of them), so the interval rests on the J values u.

The paper's figure shows the **modal share** (largest class / R) and the **unique share**
(classes / R), as means over seeds. They are given by these names and never called agreement: a modal share of
0.80 is an agreement of 0.60 if R = 2, of 0.64 to 0.68 under *one* shared seed with many runs, and of 0.64
to 0.80 as a mean over seeds with many runs.

A failed run agrees with nothing, not with another failure. What it would have returned is unknown, so it counts against
either verdict: the interval reaches up to where it agrees with the most common output under its seed.

**Logs.** Under each of J shared seeds every one of K logs decides. All K(K-1)/2 pairs under all J seeds go into the
estimate, but they are not independent: a log takes part in K - 1 pairs, and every pair comes back under every seed.
*Logs are the evidence*: two logs are one comparison, under however many seeds it is made. The interval rests on
disjoint pairs of logs, the first with the second, the third with the fourth, and so on, the i-th pair under the i-th
seed. These min(floor(K/2), J) values are independent, because no two of them have a log or a seed in common, and the
mean of each is the agreement. More logs, or more seeds, add values and change none of those before.

**The interval.** Whoever looks, adds values and looks again gives chance another turn each time. The interval of
:func:`mean_at_every_look` contains the mean at *all* numbers of values at once, with probability at least the
confidence (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"). To test whether the
mean of values in [0, 1] is m = cos²φ, choose a v in [0, 1], start with capital 1 and multiply it, for each value x, by

    x cos²(vφ)/cos²φ + (1 - x) sin²(vφ)/sin²φ.

*It is fair.* If m is the mean, a factor has mean cos²(vφ) + sin²(vφ) = 1 whatever came before, and none is negative:
the capital is a non-negative martingale, and so is its average K over a law of v that was fixed beforehand. (A factor
rises with x, so if the mean is below m, K is a supermartingale.) By Ville's inequality, K *ever* reaches 2/alpha with
probability at most alpha/2. The m where it does are rejected as too low; the same game on 1 - x and 1 - m rejects
those too high.

*One end each.* Every factor falls as m rises, so the rejected m are a half-line, and bisection finds its end.
To see it, let φ rise. At x = 1 the log of the factor has the derivative 2 tan φ - 2v tan(vφ) >= 0, and at x = 0 it has
2v cot(vφ) - 2 cot φ >= 0, as y cot y falls on [0, π/2]. In between, a factor is an average of the two.

*Contains the mean of the sample.* A factor is 1 + b(x - m) for some b >= 0, and log(1 + y) <= y: at the mean of the
sample no capital is above 1. *Nested.* K does not depend on the confidence, and a higher one rejects less. *No order.*
K is a mean of products: only the values matter, not which came first.

*Which law of v.* For values 0 and 1 a factor is the likelihood ratio of q = cos²(vφ) to m, and a uniform v makes q
follow Jeffreys' Beta(1/2, 1/2), restricted to q >= m. Its average is near the best q, whichever that is. It
serves values in between, too: a small v is a large stake, which pays where the variance is small. The law used here is
the Gauss-Legendre rule of 128 points. It is fixed beforehand, so all of the above is exact for it, and up to some
10^6 values it does as well as the uniform law.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, shown
from replicable_rl.wording import Displayed, described, short_repr, with_interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Outputs = Sequence[str | None]  # a fingerprint for every run, those of one shared seed together; None: it failed
_PRECISION = 1e-10  # of an end, outwards
_LOG_ROUNDING = 1e-6  # of the log of a capital: more than the rounding error of 10^9 products
_POINTS = 128


class Estimate(float, Displayed):
    """A number that is never without its interval.

    It is a float, and like an :class:`Agreement` it has ``.estimate``, ``.low`` and ``.high``.

    >>> share = Estimate(0.9, 0.8, 0.95)
    >>> print(share)
    0.900 (0.800–0.950)
    >>> share > 0.85, share.estimate, share.low, share.high
    (True, 0.9, 0.8, 0.95)
    """

    low: float
    high: float

    def __new__(cls, estimate: float, low: float, high: float) -> Estimate:
        """Build from the estimate and the ends of its interval."""
        self = super().__new__(cls, estimate)
        self.low, self.high = low, high
        return self

    @property
    def estimate(self) -> float:
        """The estimate without its interval."""
        return float(self)

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float]]:
        return Estimate, (float(self), self.low, self.high)

    def __str__(self) -> str:
        return with_interval(self, self.low, self.high)

    def __repr__(self) -> str:
        return f"Estimate({float(self)!r}, {self.low!r}, {self.high!r})"

    def to_json(self) -> dict[str, float]:
        """Return the JSON form."""
        return {"estimate": float(self), "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class Agreement(Displayed):
    """Pairwise agreement at one level, with its interval, and the shares of the paper's figure.

    Attributes
    ----------
    every_look : Estimate
        Pairwise agreement over shared seeds. Its interval holds however often more of them are added.
    same, pairs : int
        Pairs of runs with one shared seed that gave identical outputs, of how many.
    modal_share, unique_share : float
        Largest class and number of classes under one shared seed, divided by the runs; means over seeds.
    per_seed : (J,) floats
        The agreement under each shared seed.
    independent : int
        How many independent values the interval rests on: shared seeds, or disjoint pairs of logs.
    """

    level: str
    every_look: Estimate
    same: int
    pairs: int
    modal_share: float
    unique_share: float
    per_seed: NDArray[np.float64]
    independent: int

    @property
    def estimate(self) -> float:
        """The estimate without its interval."""
        return float(self.every_look)

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.every_look.low

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.every_look.high

    def __repr__(self) -> str:
        return described(self, f"{self.level}: {self.every_look}, {self.same} of {self.pairs} pairs the same")

    def __str__(self) -> str:
        return f"same {self.level} in {self.same} of {self.pairs} pairs: agreement {self.every_look}"


@dataclass(frozen=True, eq=False)
class StateAgreement:
    """Pairwise agreement of the action in every state.

    Attributes
    ----------
    per_state : (S,) floats
        In which share of the pairs of runs with one shared seed the action of a state is the same.
    differing : (k,) integers
        The states in which some pair of runs differs, least agreement first.
    """

    per_state: NDArray[np.float64]
    differing: NDArray[np.int64]

    __repr__ = short_repr


def measure(level: str, outputs: Outputs, runs_per_seed: int, confidence: float) -> Agreement:
    """Return the agreement of outputs.

    >>> print(measure("policy", ["a", "a", "a", "b", "c", "c"], 2, 0.95))
    same policy in 2 of 3 pairs: agreement 0.667 (0.043–0.998)
    """
    seeds, pairs = len(outputs) // runs_per_seed, math.comb(runs_per_seed, 2)
    numbers: dict[object, int] = {}
    labels = np.array([numbers.setdefault(i if out is None else out, len(numbers)) for i, out in enumerate(outputs)])
    seed_and_label = np.repeat(np.arange(seeds), runs_per_seed) * (len(numbers) + 1) + labels
    cells, sizes = np.unique(seed_and_label, return_counts=True)
    seed = cells // (len(numbers) + 1)
    same = np.bincount(seed, weights=sizes * (sizes - 1) // 2, minlength=seeds)
    largest = np.zeros(seeds)
    np.maximum.at(largest, seed, sizes)
    shares = float(largest.mean()) / runs_per_seed, cells.size / len(outputs)
    per_seed = same / pairs
    estimate = every_look(per_seed, confidence, _at_most(per_seed, outputs, runs_per_seed))
    return Agreement(level, estimate, int(same.sum()), seeds * pairs, *shares, per_seed, seeds)


def _at_most(per_seed: NDArray[np.float64], outputs: Outputs, runs_per_seed: int) -> NDArray[np.float64]:
    """Return what the values would be if every failed run had returned the most common output under its seed."""
    highest = per_seed.copy()
    for j in {i // runs_per_seed for i, output in enumerate(outputs) if output is None}:
        sizes = Counter(outputs[j * runs_per_seed : (j + 1) * runs_per_seed])
        failed, largest = sizes.pop(None), max(sizes.values(), default=0)
        highest[j] += (math.comb(largest + failed, 2) - math.comb(largest, 2)) / math.comb(runs_per_seed, 2)
    return highest


def measure_logs(level: str, outputs: Outputs, logs: int, confidence: float) -> Agreement:
    """Return the agreement of logs; ``outputs`` are those of all logs under one shared seed, then the next.

    >>> print(measure_logs("policy", ["a", "a"] * 60, 2, 0.95))  # one pair of logs, however many seeds
    same policy in 60 of 60 pairs: agreement 1.000 (0.013–1.000)
    """
    agreement = measure(level, outputs, logs, confidence)
    n = min(logs // 2, len(outputs) // logs)
    pairs = [(outputs[(logs + 2) * i], outputs[(logs + 2) * i + 1]) for i in range(n)]
    same = np.array([float(x is not None and x == y) for x, y in pairs])
    highest = np.array([float(x is None or y is None or x == y) for x, y in pairs])
    look, mean = every_look(same, confidence, highest), agreement.estimate
    return replace(agreement, every_look=Estimate(mean, min(look.low, mean), max(look.high, mean)), independent=n)


def measure_states(policies: Mapping[str, NDArray[Any]], outputs: Outputs, runs_per_seed: int) -> StateAgreement:
    """Compare policies state by state; ``policies`` holds the actions of every distinct fingerprint.

    A failed run (None) agrees with nothing in any state.
    """
    # Seeds whose runs fell into the same classes agree in the same states: each kind is compared once.
    groups = Counter(tuple(sorted(Counter(filter(None, group)).items())) for group in by_seed(outputs, runs_per_seed))
    total = np.zeros(len(next(iter(policies.values()))))
    for kind, seeds in groups.items():
        total += seeds * _same_action([(policies[policy], size) for policy, size in kind], total.size)
    per_state = total / (groups.total() * math.comb(runs_per_seed, 2))
    differing = np.flatnonzero(per_state < 1.0)
    return StateAgreement(per_state, differing[np.argsort(per_state[differing], kind="stable")])


def _same_action(classes: Sequence[tuple[NDArray[Any], int]], n_states: int) -> NDArray[np.float64]:
    """Return, for every state, how many pairs of runs take the same action; classes are (policy, runs)."""
    same = np.zeros(n_states)
    sizes = np.array([size for _, size in classes], dtype=np.float64)
    actions = np.stack([policy.reshape(n_states, -1) for policy, _ in classes]) if classes else np.empty((0, 0, 0))
    for i, size in enumerate(sizes):
        alike = (actions[:i] == actions[i]).all(axis=2)
        same += size * (size - 1.0) / 2.0 + size * (sizes[:i] @ alike)
    return same


def by_seed(outputs: Outputs, runs_per_seed: int) -> zip[tuple[str | None, ...]]:
    """Return the outputs of every shared seed.

    >>> list(by_seed(["a", "a", "b", None], 2))
    [('a', 'a'), ('b', None)]
    """
    return zip(*[iter(outputs)] * runs_per_seed, strict=True)


# --- intervals ----------------------------------------------------------------------------------------------------


def every_look(values: NDArray[np.float64], confidence: float, at_most: NDArray[np.float64] | None = None) -> Estimate:
    """Return the mean of i.i.d. values in [0, 1], with an interval that holds at every look.

    Where runs failed, the values count them as different, and ``at_most`` as agreeing: the interval holds for both.
    """
    low, high = mean_at_every_look(np.clip(values, 0.0, 1.0), confidence)
    if at_most is not None and not np.array_equal(at_most, values):
        _, high = mean_at_every_look(np.clip(at_most, 0.0, 1.0), confidence)
    mean = float(values.mean())
    return Estimate(mean, min(low, mean), max(high, mean))


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a binomial proportion, for one look (Clopper and Pearson).

    Parameters
    ----------
    successes, trials : int
        How many of how many independent trials succeeded.
    confidence : float
        The proportion lies in the interval with at least this probability.

    >>> low, high = clopper_pearson(57, 60)
    >>> round(low, 3), round(high, 3)
    (0.861, 0.99)
    """
    from scipy.special import betainccinv, betaincinv

    owner = "audit.clopper_pearson"
    n = check_integer(owner, "trials", trials, low=1, high=2**53)
    k = check_integer(owner, "successes", successes, low=0, high=n)
    tail = (1.0 - check_in_open_interval(owner, "confidence", confidence)) / 2.0
    low = float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    high = float(betainccinv(k + 1, n - k, tail)) if k < n else 1.0
    return low, high


def mean_at_every_look(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval of the mean of independent values of one law on [0, 1] that holds at every look.

    Parameters
    ----------
    values : (n,) array_like
        The values so far. More may be added, and whether they are may depend on these.
    confidence : float
        The mean lies in the intervals at n = 1, 2, 3, ..., in all of them, with at least this probability.

    Returns
    -------
    low, high : float
        The interval, rounded outwards. It contains the mean of the sample, and that of a higher
        confidence contains it.

    >>> low, high = mean_at_every_look([1.0] * 60)
    >>> round(low, 3), high
    (0.927, 1.0)
    >>> low, high = mean_at_every_look([1.0, 0.8, 1.0, 0.6] * 15)
    >>> round(low, 3), round(high, 3)
    (0.773, 0.914)
    """
    owner = "audit.mean_at_every_look"
    alpha = 1.0 - check_in_open_interval(owner, "confidence", confidence)
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not sample.size or not ((sample >= 0.0) & (sample <= 1.0)).all():
        raise InvalidInput(f"{owner}: values must be one or more numbers from 0 to 1 in a row, got {shown(values)}.")
    x, times = np.unique(sample, return_counts=True)
    return _end_at_every_look(x, times, alpha), 1.0 - _end_at_every_look(1.0 - x, times, alpha)


def _end_at_every_look(x: NDArray[np.float64], times: NDArray[np.int64], alpha: float) -> float:
    """Return the largest m below the mean of the sample, to ``_PRECISION``, that is rejected as too low, or 0."""
    target = math.log(2.0 / alpha) + _LOG_ROUNDING
    rejected, kept = 0.0, float(x @ times) / float(times.sum())
    while kept - rejected > _PRECISION:
        m = (rejected + kept) / 2.0
        if _log_capital(x, times, m) >= target:
            rejected = m
        else:
            kept = m
    return rejected


def _log_capital(x: NDArray[np.float64], times: NDArray[np.int64], m: float) -> float:
    """Return the log of K for values x, each so many times, if the mean is m."""
    v, weights = _law()
    phi = math.acos(math.sqrt(m))
    at_one, at_zero = np.cos(v * phi) ** 2 / m, np.sin(v * phi) ** 2 / (1.0 - m)
    factors = x[:, None] * at_one + (1.0 - x[:, None]) * at_zero
    logs = np.log(weights) + (times[:, None] * np.log(factors)).sum(axis=0)
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()))


@functools.cache
def _law() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what v can be, and with which probabilities."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    return (points + 1.0) / 2.0, weights / weights.sum()
