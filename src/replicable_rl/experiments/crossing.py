"""Where an agreement that rises with the samples passes a target, with an interval.

Pairs are counted at a few sample sizes. Agreement rises with the samples, so the counts are first made monotone
(isotonic regression: the least-squares rising curve), and the crossing is read off between two sizes, on a
logarithmic axis. The interval needs no curve: its low end is the largest size that is *shown* to be too small,
its high end the smallest that is *shown* to be enough, by Clopper and Pearson with the error shared out over
the sizes. An end beyond the sizes tried is None.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from replicable_rl.audit.intervals import clopper_pearson


class Crossing(NamedTuple):
    """Samples at which a target is passed; None where that is beyond what was tried."""

    samples: float | None
    low: float | None
    high: float | None

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the three numbers as columns of a table."""
        return {name: self.samples, f"{name}_low": self.low, f"{name}_high": self.high}


def crossing(
    sizes: Sequence[float], same: Sequence[int], pairs: Sequence[int], target: float, confidence: float
) -> Crossing:
    """Find where the agreement passes ``target``; sizes must rise.

    >>> found = crossing([1e2, 1e4, 1e6], [10, 50, 95], [100, 100, 100], 0.8, 0.95)
    >>> round(found.samples), found.low, found.high
    (215443, 10000.0, 1000000.0)
    """
    from scipy.optimize import isotonic_regression

    shares = [s / n for s, n in zip(same, pairs, strict=True)]
    curve = isotonic_regression(shares, weights=pairs).x.tolist()
    each = 1.0 - (1.0 - confidence) / len(sizes)
    ends = [clopper_pearson(s, n, each) for s, n in zip(same, pairs, strict=True)]
    too_few = [float(x) for x, (_, high) in zip(sizes, ends, strict=True) if high < target]
    enough = [float(x) for x, (low, _) in zip(sizes, ends, strict=True) if low >= target]
    low, high = max(too_few, default=None), min(enough, default=None)
    return Crossing(_passes(sizes, curve, target), low, high)


def _passes(sizes: Sequence[float], curve: Sequence[float], target: float) -> float | None:
    if curve[0] >= target or curve[-1] < target:
        return None
    i = next(i for i, share in enumerate(curve) if share >= target)
    part = (target - curve[i - 1]) / (curve[i] - curve[i - 1])
    return math.exp(math.log(sizes[i - 1]) + part * math.log(sizes[i] / sizes[i - 1]))
