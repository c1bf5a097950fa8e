r"""An interval of a mean that holds at every look: while values come in, stop or go on as you please.

The intervals of :mod:`~replicable_rl.audit.intervals` hold if the number of values was fixed beforehand. Whoever looks,
adds values and looks again gives chance another turn each time. The interval here contains the mean at *all* numbers
of values at once, with probability at least the confidence.

*The game.* To test whether the mean of values in [0, 1] is m = cos²φ, choose a v in [0, 1], start with capital 1
and multiply it, for each value x, by

    x cos²(vφ)/cos²φ + (1 - x) sin²(vφ)/sin²φ.

*It is fair.* If m is the mean, a factor has mean cos²(vφ) + sin²(vφ) = 1 whatever came before, and none is negative:
the capital is a non-negative martingale, and so is its average K over a law of v that was fixed beforehand. (A factor
rises with x, so if the mean is below m, K is a supermartingale.) By Ville's inequality, K *ever* reaches 2/alpha with
probability at most alpha/2. The m where it does are rejected as too low; the same game on 1 - x and 1 - m rejects
those too high.

*One end each.* Every factor falls as m rises, so the rejected m are a half-line, and bisection finds its end. To see
it, let φ rise. At x = 1 the log of the factor has the derivative 2 tan φ - 2v tan(vφ) >= 0, and at x = 0 it has
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
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.intervals import checked_values
from replicable_rl.errors import check_in_open_interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_POINTS = 128
_PRECISION = 1e-10  # of an end, outwards
_ROUNDING = 1e-6  # of the log of a capital: more than the rounding error of 10^9 products
_GRID = 1024  # more different values than this are moved to a grid: bounds time and memory


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
    x, times = _counted(checked_values(owner, values))
    return _low_end(x, times, alpha), 1.0 - _low_end(1.0 - x, times, alpha)


def _low_end(x: NDArray[np.float64], times: NDArray[np.float64], alpha: float) -> float:
    """Return the largest m, to ``_PRECISION``, that is rejected as too low; 0 if none is."""
    rejected, kept = 0.0, float(x @ times) / float(times.sum())
    target = math.log(2.0 / alpha) + _ROUNDING
    while kept - rejected > _PRECISION:
        m = (rejected + kept) / 2.0
        if _log_capital(x, times, m) >= target:
            rejected = m
        else:
            kept = m
    return rejected


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
