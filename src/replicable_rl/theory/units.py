"""Normalised values: the scale on which the theorems speak.

Algorithms work on rewards r~ = (1 - gamma)(r - r_lo)/(r_hi - r_lo), so that V~ and Q~ lie
in [0, 1]; epsilon, tolerances and bin widths are in these units. The way back is
V = (r_hi - r_lo)/(1 - gamma) * V~ + r_lo/(1 - gamma).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.theory.rstat import Floats


@dataclass(frozen=True)
class Units:
    """The two scales of a problem with discount ``gamma`` and rewards from ``low`` to ``high``.

    >>> units = Units(gamma=0.9, low=-1.0, high=1.0)
    >>> round(units.span, 12), units.value_to_user(np.array([0.0, 1.0])).round(12).tolist()
    (20.0, [-10.0, 10.0])
    """

    gamma: float
    low: float
    high: float

    def __post_init__(self) -> None:
        largest, width = max(abs(self.low), abs(self.high)), self.high - self.low
        if not math.isfinite(8.0 * largest / (1.0 - self.gamma) ** 2):
            raise InvalidInput(
                f"rewards of {largest:g} with gamma={self.gamma:g} have values beyond 64-bit numbers. "
                "Divide the rewards by a constant."
            )
        if width > 0.0 and max(largest * 2.0**-52, 2.0**-1074) > 1e-9 * width:
            raise InvalidInput(
                f"rewards between {self.low!r} and {self.high!r} have values that 64-bit numbers can hardly tell "
                "apart. Subtract a constant from the rewards, or multiply them by one."
            )

    @classmethod
    def of(cls, problem: Any) -> Units:
        """Return the units of a problem, from its ``gamma`` and ``reward_range``."""
        return _kept(problem.gamma, *problem.reward_range)

    @property
    def span(self) -> float:
        """The largest difference two values can have, (r_hi - r_lo)/(1 - gamma): one normalised unit."""
        return (self.high - self.low) / (1.0 - self.gamma)

    def share(self, difference: float) -> float:
        """Return a difference of two values, normalised; 0 when every reward is the same."""
        return difference / self.span if self.span > 0.0 else 0.0

    def reward(self, reward: Floats) -> Floats:
        """Return normalised rewards, in [0, 1 - gamma]; all 0 when every reward is the same."""
        width = self.high - self.low
        if width == 0.0:
            return reward * 0.0
        return (1.0 - self.gamma) * ((reward - self.low) / width)

    def value_to_user(self, value: Floats) -> Floats:
        """Return values in the units of the problem's rewards; -inf, of what is not allowed, stays -inf."""
        bottom = self.low / (1.0 - self.gamma)
        if self.span == 0.0:  # times -inf it would be no number
            return np.where(np.isneginf(value), value, bottom)
        return self.span * value + bottom


_kept = lru_cache(64)(Units)  # every run asks for those of its problem, some of them twice
