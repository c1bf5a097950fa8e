"""The compiled comparison of gaps with tolerances, in stored order."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def first_within(
    gap: Floats, weight: Floats, tolerance: Floats, order: Integers, policy: Integers, first: int, last: int
) -> None:
    """policy(s) = the first action of ``order`` with weight(s) gap(s, a) <= tolerance(s), or the last one."""
    for s in range(first, last):
        i = 0
        while i < order.size - 1 and not gap[s, order[i]] * weight[s] <= tolerance[s]:
            i += 1
        policy[s] = order[i]
