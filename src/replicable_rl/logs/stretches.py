r"""Rewards that take very many values: the line is cut into stretches, and what falls into one is added up.

A log of measured profits has nearly as many rewards as rows. Counting each apart would count nothing, and one mean for
every transition would hide that rewards vary. So each stretch of a transition is an outcome of its own, with the mean
of its rewards. Stretches are as long as a power of two and begin at its multiples: those of two logs lie within each
other, whatever their rewards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STRETCHES = 256  # that cover the range, about
_EXACT = 2.0**8  # stretches from 0 up to which 44 bits of a place within one are kept
_FEW_BITS = 60  # of the largest reward, as a whole number
_LARGEST_EXPONENT = 1000  # of the scale, or it is no float
_SHORTEST = -1000  # exponent: or it is no float with all its bits


def stretch(low: float, high: float) -> float:
    """Return the length of a stretch where rewards lie in a range.

    >>> stretch(0.0, 1.0), stretch(-3.0, 100.0)
    (0.00390625, 0.5)
    """
    mantissa, exponent = math.frexp(high / STRETCHES - low / STRETCHES)
    return math.ldexp(1.0, max(exponent - (mantissa == 0.5), _SHORTEST))


def scale(low: float, high: float) -> float:
    """Return what rewards in a range are multiplied with to become whole numbers of few bits: a power of two.

    >>> scale(-3.0, 100.0) == 2.0**53
    True
    """
    largest = max(abs(low), abs(high))
    exponent = math.frexp(largest)[1] if largest else 0
    return math.ldexp(1.0, min(_FEW_BITS - exponent, _LARGEST_EXPONENT))


def place(reward: Floats, width: float) -> Floats:
    """Return in which stretch each reward lies; all in one, where stretches are endless."""
    return np.zeros_like(reward) if math.isinf(width) else np.floor(reward / width)


def into_stretches(mean: Floats, where: Floats, width: float) -> Floats:
    """Return means in their stretches: rounding must not put one into the next."""
    last = np.where(np.abs(where) < _EXACT, where + (1.0 - 2.0**-44), np.nextafter(where + 1.0, -np.inf))
    inside: Floats = np.clip(mean, where * width, last * width)
    return inside
