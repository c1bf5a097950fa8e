"""The compiled comparison of gaps with tolerances, in stored order."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def first_within(
    gap: Floats, weight: Floats, tolerance: Floats, order: Integers, policy: Integers, first: int, last: int
) -> float:
    """policy(s) = the first action of ``order`` with weight(s) gap(s, a) <= tolerance(s), or the last one.

    Returns how near a gap came to tolerance/weight, over the comparisons that decided.
    """
    nearest, final = np.inf, order.size - 1
    for s in range(first, last):
        chosen, own = order[final], tolerance[s] / max(weight[s], 1e-300)
        for i in range(final):
            a = order[i]
            nearest = min(nearest, abs(gap[s, a] - own))
            if gap[s, a] * weight[s] <= tolerance[s]:
                chosen = a
                break
        policy[s] = chosen
    return nearest
