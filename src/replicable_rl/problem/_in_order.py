"""One compiled pass that tells whether rows are in canonical form already, as those of an estimate mostly are."""

import math

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled
from replicable_rl.problem.rows import Rows

_KINDS = tuple(map(np.dtype, (np.int64, np.int32, np.float64, np.float64)))


def are_in_order(rows: Rows, n_states: int, n_actions: int) -> bool:
    """Whether every row has an outcome, all is as it should be, and bringing it to canonical form would change no bit.

    False only means that it has to be looked at more closely.
    """
    n_outcomes = rows.probability.size
    if tuple(array.dtype for array in rows) != _KINDS or rows.indptr.shape != (n_states * n_actions + 1,):
        return False
    if any(array.shape != (n_outcomes,) for array in rows[1:]):
        return False
    return bool(_in_order(*rows, n_states))


@compiled
def _in_order(
    indptr: NDArray[np.int64],
    next_state: NDArray[np.int32],
    probability: NDArray[np.float64],
    reward: NDArray[np.float64],
    n_states: int,
) -> bool:
    if indptr[0] != 0 or indptr[-1] != next_state.size:
        return False
    for row in range(indptr.size - 1):
        first, last = indptr[row], indptr[row + 1]
        if not 0 <= first < last <= next_state.size:
            return False
        total = 0.0
        for k in range(first, last):
            if not (0 <= next_state[k] < n_states and 0.0 < probability[k] <= 1.0 and math.isfinite(reward[k])):
                return False
            if reward[k] == 0.0 and math.copysign(1.0, reward[k]) < 0.0:
                return False
            if k > first:
                step = next_state[k] - next_state[k - 1]
                if step < 0 or (step == 0 and reward[k] <= reward[k - 1]):
                    return False
            total += probability[k]
        # However the sum is rounded, it is then within as many units of 1 as there are outcomes.
        if abs(total - 1.0) > (2.0**-52 if last - first > 1 else 0.0):
            return False
    return True
