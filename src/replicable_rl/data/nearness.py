"""Rewards that are nearly the same: one log kept 0.1 in 32 bits, another in 64, or sums were taken in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEAR = 1e-6  # of the largest reward: numbers of 32 bits have some seven digits


class Snapped(NamedTuple):
    """Rewards of which those that were nearly the same are the same, and how far they were apart.

    ``apart`` is a share of the largest reward.
    """

    reward: NDArray[np.float64]
    apart: float


def snapped(reward: NDArray[np.float64]) -> Snapped | None:
    """Return rewards without differences that are tiny; None where there are none, or no gaps between the others.

    >>> snapped(np.array([0.1, 1.0, np.float32(0.1), 0.1]))
    Snapped(reward=array([0.1, 1. , 0.1, 0.1]), apart=1.4901161138336505e-09)
    >>> snapped(np.array([0.1, 1.0])) is None, snapped(np.linspace(1.0, 1.01, 10**5)) is None
    (True, True)
    """
    values, place = np.unique(reward, return_inverse=True)
    largest = float(np.abs(values).max()) if values.size else 0.0
    if values.size < 2 or not largest:
        return None
    shares = values / largest  # differences of these cannot be too large for a float
    begins = np.concatenate([[True], np.diff(shares) > _NEAR])
    first = np.flatnonzero(begins)[np.cumsum(begins) - 1]
    apart = float((shares - shares[first]).max())
    return Snapped(values[first][place], apart) if 0.0 < apart <= _NEAR else None
