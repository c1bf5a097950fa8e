r"""Confidence intervals that are proved at every sample size: for one look, and for every look.

*A proportion, one look* (Clopper and Pearson). Each end is the p at which the number of successes seen, or a
more extreme one, has probability alpha/2. Exact: no p is covered less often than 1 - alpha.

*A mean of values in [0, 1], one look* (Waudby-Smith and Ramdas, "Estimating means of bounded random variables
by betting"). To test whether the mean is m, start with capital 1 and stake the fraction f of it on
each value x in turn, at odds that are fair if m is the mean and good if the mean is higher:

    K_0 = 1,    K_t = K_{t-1} (1 - f + f x_t/m),    0 <= f <= 1.

If m is the mean, K is a non-negative martingale, and so is an average of several such K; by Ville's
inequality it ever reaches 2/alpha with probability at most alpha/2. The m where it does are rejected
as too low; the same game on 1 - x and 1 - m rejects those too high. What is left is the interval.

Any f fixed in advance is valid, a good one makes the interval short. For n values of variance v that
is f = m sqrt(2 ln(2/alpha)/(n v)), at most 1. Nobody knows v, except that it is at most m(1 - m), which
is attained by values 0 and 1 only. Hence two players and the average of their capitals: one trusts
v = m(1 - m), the other stakes ``BOLD`` times as much. If all values are 1 and n >= 0.8 ln(2/alpha), both stake
everything at the end of the interval: K_n = m^-n, and that end is Clopper and Pearson's, (alpha/2)^(1/n).

*One end each.* K falls as m rises, so the rejected m are a half-line and bisection finds its end.
With f = 1 a factor is x/m. Otherwise it is 1 + b (x - m)/sqrt(m(1 - m)) for some b: its derivative is linear
in x, and negative at x = 0 and at x = 1 (there the factor is 1 - b sqrt(m/(1-m)), or 1 + b sqrt((1-m)/m)).

*Nested.* Let L = ln(2/alpha), and let a higher confidence have L' = r^2 L. Its stakes are s f with
1 <= s <= r, and the log of a factor is concave in the stake, so a capital K becomes at most K^s. Where the
average of two is below e^L, it becomes at most (2 e^L)^r / 2 < e^L', as L > ln 2: what the higher
confidence rejects, the lower one rejects too.

*A mean, every look.* Whoever looks, adds values and looks again gives chance another turn each time. The interval of
:func:`mean_at_every_look` contains the mean at *all* numbers of values at once, with probability at least the
confidence. To test whether the mean of values in [0, 1] is m = cos²φ, choose a v in [0, 1], start with capital 1
and multiply it, for each value x, by

    x cos²(vφ)/cos²φ + (1 - x) sin²(vφ)/sin²φ.

*It is fair.* If m is the mean, a factor has mean cos²(vφ) + sin²(vφ) = 1 whatever came before, and none is negative:
the capital is a non-negative martingale, and so is its average K over a law of v that was fixed beforehand. (A factor
rises with x, so if the mean is below m, K is a supermartingale.) By Ville's inequality, K *ever* reaches 2/alpha with
probability at most alpha/2. The m where it does are rejected as too low; the same game on 1 - x and 1 - m rejects
those too high.

*One end each, again.* Every factor falls as m rises, so the rejected m are a half-line, and bisection finds its end.
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
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BOLD = 2.5  # of 1.5 to 4 the shortest intervals, on average over 0/1 and three-valued laws, n = 20 to 200
_PRECISION = 1e-10  # of an end, outwards
_ROUNDING = 1.0 + 1e-9  # more than the rounding error of a million products
_LOG_ROUNDING = 1e-6  # of the log of a capital: more than the rounding error of 10^9 products
_POINTS = 128
_GRID = 1024  # more different values than this are moved to a grid: bounds time and memory


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a binomial proportion.

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


def bounded_mean(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return a finite-sample interval of the mean of independent values of one law on [0, 1].

    Parameters
    ----------
    values : (n,) array_like
        The values, in an order that does not depend on them (such as that of the shared seeds):
        the interval depends on the order, and its promise does not hold for one chosen afterwards.
    confidence : float
        The mean lies in the interval with at least this probability.

    Returns
    -------
    low, high : float
        The interval, rounded outwards. It contains the mean of the sample, and that of a higher
        confidence contains it.

    >>> low, high = bounded_mean([1.0] * 60)
    >>> round(low, 3), high
    (0.94, 1.0)
    >>> low, high = bounded_mean([1.0, 0.8, 1.0, 0.6] * 15)
    >>> round(low, 3), round(high, 3)
    (0.781, 0.907)
    """
    owner = "audit.bounded_mean"
    alpha = 1.0 - check_in_open_interval(owner, "confidence", confidence)
    x = _checked(owner, values)
    return _bold_end(x, alpha), 1.0 - _bold_end(1.0 - x, alpha)


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

    >>> low, high = mean_at_every_look([1.0] * 60)  # at one look, from 0.940
    >>> round(low, 3), high
    (0.927, 1.0)
    >>> low, high = mean_at_every_look([1.0, 0.8, 1.0, 0.6] * 15)
    >>> round(low, 3), round(high, 3)
    (0.773, 0.914)
    """
    owner = "audit.mean_at_every_look"
    alpha = 1.0 - check_in_open_interval(owner, "confidence", confidence)
    x, times = _counted(_checked(owner, values))
    return _end_at_every_look(x, times, alpha), 1.0 - _end_at_every_look(1.0 - x, times, alpha)


def _lowest_kept(mean: float, rejects: Callable[[float], bool]) -> float:
    """Return the largest m below the sample mean, to ``_PRECISION``, that is rejected as too low; 0 if none is.

    A game may reject even m = the mean: the interval is then extended to contain it.
    """
    rejected, kept = 0.0, mean
    while kept - rejected > _PRECISION:
        m = (rejected + kept) / 2.0
        if rejects(m):
            rejected = m
        else:
            kept = m
    return rejected


def _bold_end(x: NDArray[np.float64], alpha: float) -> float:
    """Return the lower end for one look."""
    scale = 2.0 * math.log(2.0 / alpha) / x.size
    target = 2.0 * (2.0 / alpha) * _ROUNDING  # of the sum of two players

    def rejects(m: float) -> bool:
        stake = math.sqrt(scale * m / (1.0 - m))
        capital = _capital(x, m, min(1.0, stake))
        capital += _capital(x, m, min(1.0, BOLD * stake))
        return bool((capital >= target).any())

    with np.errstate(over="ignore", invalid="ignore"):  # inf is above the target; what follows it does not matter
        return _lowest_kept(float(x.mean()), rejects)


def _capital(x: NDArray[np.float64], m: float, f: float) -> NDArray[np.float64]:
    """Return K_1, ..., K_n of a player who stakes the fraction f each time."""
    factors = (f / m) * x
    factors += 1.0 - f
    return factors.cumprod(out=factors)  # in place: three times as fast on a long sample


def _end_at_every_look(x: NDArray[np.float64], times: NDArray[np.float64], alpha: float) -> float:
    """Return the lower end for every look."""
    target = math.log(2.0 / alpha) + _LOG_ROUNDING
    return _lowest_kept(float(x @ times) / float(times.sum()), lambda m: _log_capital(x, times, m) >= target)


def _log_capital(x: NDArray[np.float64], times: NDArray[np.float64], m: float) -> float:
    """Return the log of K for values x, each so many times, if the mean is m."""
    v, weights = _law()
    phi = math.acos(math.sqrt(m))
    at_one, at_zero = np.cos(v * phi) ** 2 / m, np.sin(v * phi) ** 2 / (1.0 - m)
    factors = x[:, None] * at_one + (1.0 - x[:, None]) * at_zero
    logs = np.log(weights) + (times[:, None] * np.log(factors)).sum(axis=0)
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()))


def _counted(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the different values and how often each occurs; where they are many, on a grid.

    A value between two points of the grid is shared out to them, so that the mean stays. The log of a factor is concave
    in the value, so no capital grows by it: what is rejected then is rejected indeed.
    """
    values, times = np.unique(x, return_counts=True)
    if values.size <= _GRID + 1:
        return values, times.astype(np.float64)
    below = np.minimum((values * _GRID).astype(np.int64), _GRID - 1)
    upper = times * (values * _GRID - below)
    shared = np.zeros(_GRID + 1)
    np.add.at(shared, below, times - upper)
    np.add.at(shared, below + 1, upper)
    return np.arange(_GRID + 1) / _GRID, shared


@functools.cache
def _law() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what v can be, and with which probabilities."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    return (points + 1.0) / 2.0, weights / weights.sum()


def _checked(owner: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return the values as an array if they are one or more numbers in [0, 1] in a row."""
    rule = f"{owner}: values must be a non-empty one-dimensional array of numbers from 0 to 1"
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{rule}, got rows of different lengths.") from None
    if array.dtype.kind not in "biuf" or array.ndim != 1 or array.size == 0:
        raise InvalidInput(f"{rule}, got shape {array.shape} of {array.dtype}.")
    x = array.astype(np.float64)
    outside = np.flatnonzero(~((x >= 0.0) & (x <= 1.0)))  # NaN is outside, too
    if outside.size:
        raise InvalidInput(f"{rule}, got {array[outside[0]].item()!r} at index {outside[0]}.")
    return x
