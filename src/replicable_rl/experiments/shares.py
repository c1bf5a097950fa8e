r"""The two shares of the paper's Figure 2 under *one* shared seed, with exact intervals.

R runs under one shared seed r are R independent draws from the law p of the output given r. The paper
reports the share of the largest class and the number of classes divided by R. What do they estimate?

*Modal share*: the probability q = max_c p_c of the likeliest output. Let M be the size of the largest class.

* The likeliest output itself occurs N times, N ~ Bin(R, q), and M >= N. So Pr[M <= k] <= Pr[Bin(R, q) <= k], and
  Clopper and Pearson's upper end for M successes is valid.
* Pr[M >= k] <= sum_c Pr[Bin(R, p_c) >= k]. On p <= (k-1)/(R-1) the tail is convex in p and 0 at 0, so tail/p grows,
  and with all p_c <= q and sum p_c = 1 the sum is at most Pr[Bin(R, q) >= k]/q. Every q with
  Pr[Bin(R, q) >= M]/q < alpha/2 is rejected as too small.

*Unique share*: the expected number of different outputs, divided by R. The number D of different values among R
independent draws is self-bounding (take one draw away: D falls by at most 1, and by 1 for at most D of the
draws), hence (Boucheron, Lugosi and Massart 2000) with E = E[D]

    Pr[D <= E - t] <= exp(-t^2/(2E)),        Pr[D >= E + t] <= exp(-t^2/(2E + 2t/3)).

Both intervals hold for every R, given r. What they say about *another* r is nothing: that is pairwise agreement.
"""

import math
from collections.abc import Callable, Sequence

from replicable_rl.audit import Estimate
from replicable_rl.audit.intervals import clopper_pearson

_STEPS = 60  # of bisection: more than the digits of a float


def modal_share(sizes: Sequence[int], confidence: float) -> Estimate:
    """Return the share of the largest class, and an interval of the probability of the likeliest output.

    >>> print(modal_share([120, 20, 10], 0.95))
    0.800 (0.722–0.861)
    >>> print(modal_share([1] * 150, 0.95))
    0.007 (0.000–0.037)
    """
    runs, largest = sum(sizes), max(sizes)
    _, high = clopper_pearson(largest, runs, confidence)
    low = 0.0 if largest < 2 else _low_end(largest, runs, (1.0 - confidence) / 2.0)
    return Estimate(largest / runs, low, high)


def _low_end(largest: int, runs: int, tail: float) -> float:
    from scipy.special import betainc

    # The bound is proved, and grows, up to (k-1)/(R-1); a q there is rejected by hardly any sample.
    last = (largest - 1) / (runs - 1)
    return _crossing(lambda q: float(betainc(largest, runs - largest + 1, q)) / q < tail, 0.0, last)


def unique_share(sizes: Sequence[int], confidence: float) -> Estimate:
    """Return the number of classes by the number of runs, and an interval of its expectation.

    >>> print(unique_share([120, 20, 10], 0.95))
    0.020 (0.007–0.084)
    """
    runs, found = sum(sizes), len(sizes)
    needed = math.log(2.0 / (1.0 - confidence))

    def too_small(expected: float) -> bool:
        t = found - expected
        return t > 0.0 and t * t / (2.0 * expected + 2.0 * t / 3.0) > needed

    def not_too_large(expected: float) -> bool:
        t = expected - found
        return t * t / (2.0 * expected) <= needed

    low = max(_crossing(too_small, 0.0, float(found)), 1.0)  # there is always one
    high = _crossing(not_too_large, float(found), float(runs))
    return Estimate(found / runs, min(low, found) / runs, high / runs)


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a property that holds from ``low`` on ends, or ``high`` if it does not."""
    if holds(high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
