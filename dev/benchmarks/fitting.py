"""How time grows: the slope of log time against the log of a size, with an interval.

A slope is fitted to every round by itself, so that what is slow for a whole round cancels; the rounds
then give a t interval for their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from dev.benchmarks.timing import Measurement

__all__ = ["Slope", "fit", "fit_curve"]


class Slope(NamedTuple):
    """The exponent of growth with an interval; NaN ends where one round has none."""

    estimate: float
    low: float
    high: float
    rounds: int

    @property
    def flat(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0.0 <= self.high


def fit(sizes: Sequence[float], times: Sequence[Sequence[float]], confidence: float = 0.95) -> Slope:
    """Fit a slope; ``times[i]`` are the times at ``sizes[i]``, one a round. Only full rounds count."""
    rounds = min(map(len, times))
    x = np.log(np.asarray(sizes, dtype=np.float64))
    y = np.log(np.array([list(row[:rounds]) for row in times], dtype=np.float64))
    x -= x.mean()
    slopes = x @ y / (x @ x)
    estimate = float(slopes.mean())
    if rounds < 2:
        return Slope(estimate, math.nan, math.nan, rounds)
    half = float(stats.t.ppf(0.5 + confidence / 2.0, rounds - 1) * slopes.std(ddof=1) / math.sqrt(rounds))
    return Slope(estimate, estimate - half, estimate + half, rounds)


def fit_curve(curve: Sequence[Measurement]) -> Slope:
    """Fit the measurements of one contender along one size."""
    return fit([float(point.at[point.against]) for point in curve], [point.values for point in curve])
