r"""Confidence intervals whose coverage is proved at every sample size that was fixed beforehand.

Who looks, adds values and looks again needs :mod:`~replicable_rl.audit.every_look`.

*A proportion* (Clopper and Pearson). Each end is the p at which the number of successes seen, or a
more extreme one, has probability alpha/2. Exact: no p is covered less often than 1 - alpha.

*A mean of values in [0, 1]* (Waudby-Smith and Ramdas, "Estimating means of bounded random variables
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
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BOLD = 2.5  # of 1.5 to 4 the shortest intervals, on average over 0/1 and three-valued laws, n = 20 to 200
_PRECISION = 1e-10  # of an end, outwards
_ROUNDING = 1.0 + 1e-9  # more than the rounding error of a million products


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
    x = checked_values(owner, values)
    return _low_end(x, alpha), 1.0 - _low_end(1.0 - x, alpha)


def _low_end(x: NDArray[np.float64], alpha: float) -> float:
    """Return the largest m below the sample mean, to ``_PRECISION``, that is rejected as too low; 0 if none is."""
    # Values that fall with time can reject even m = their mean: there the interval is extended to contain it.
    rejected, kept = 0.0, float(x.mean())
    scale = 2.0 * math.log(2.0 / alpha) / x.size
    target = 2.0 * (2.0 / alpha) * _ROUNDING  # of the sum of two players
    with np.errstate(over="ignore", invalid="ignore"):  # inf is above the target; what follows it does not matter
        while kept - rejected > _PRECISION:
            m = (rejected + kept) / 2.0
            stake = math.sqrt(scale * m / (1.0 - m))
            capital = _capital(x, m, min(1.0, stake))
            capital += _capital(x, m, min(1.0, BOLD * stake))
            if (capital >= target).any():
                rejected = m
            else:
                kept = m
    return rejected


def _capital(x: NDArray[np.float64], m: float, f: float) -> NDArray[np.float64]:
    """Return K_1, ..., K_n of a player who stakes the fraction f each time."""
    factors = (f / m) * x
    factors += 1.0 - f
    return factors.cumprod(out=factors)  # in place: three times as fast on a long sample


def checked_values(owner: str, values: ArrayLike) -> NDArray[np.float64]:
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
