"""Compiled comparisons of gaps with tolerances."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def first_within(gap: Floats, tolerance: Floats, order: Integers, policy: Integers) -> None:
    """policy(s) = the first action of ``order`` with gap(s, a) <= tolerance(s); the last one if there is none."""
    last = order.size - 1
    for s in range(gap.shape[0]):
        policy[s] = order[last]
        for i in range(last):
            if gap[s, order[i]] <= tolerance[s]:
                policy[s] = order[i]
                break


@compiled
def first_within_weighted(
    gap: Floats, weight: Floats, tolerance: float, order: Integers, policy: Integers, first: int, last: int
) -> float:
    """As `first_within` for weight(s) gap(s, a) and one tolerance, and `nearest_gap` for tolerance/weight(s)."""
    nearest, final = np.inf, order.size - 1
    for s in range(first, last):
        policy[s] = order[final]
        for i in range(final):
            if gap[s, order[i]] * weight[s] <= tolerance:
                policy[s] = order[i]
                break
        own = tolerance / max(weight[s], 1e-300)
        for i in range(final):
            room = gap[s, order[i]] - own
            nearest = min(nearest, abs(room))
            if room <= 0.0:
                break
    return nearest


@compiled
def nearest_gap(gap: Floats, tolerance: Floats, order: Integers) -> float:
    """Return the smallest distance of a gap from its tolerance, over the comparisons that decided."""
    nearest = np.inf
    for s in range(gap.shape[0]):
        for i in range(order.size - 1):
            room = gap[s, order[i]] - tolerance[s]
            nearest = min(nearest, abs(room))
            if room <= 0.0:
                break
    return nearest


@compiled
def is_sure(gap: Floats, weight: Floats, tolerance: float, order: Integers, margin: Floats, stretch: float) -> bool:
    """Whether every comparison that decided comes out the same for gaps within ``margin`` and weights within a factor.

    Compared are weight(s) gap(s, a) and ``tolerance``; another run's weight is between weight/stretch and
    weight*stretch.
    """
    for s in range(gap.shape[0]):
        for i in range(order.size - 1):
            a = order[i]
            if (gap[s, a] - margin[s, a]) * weight[s] / stretch > tolerance:
                continue
            if (gap[s, a] + margin[s, a]) * weight[s] * stretch < tolerance:
                break
            return False
    return True
