"""Compiled loops over the rows of an empirical model; sums run over a row in its stored order."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def row_deviations(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    added: Floats,
    factor: float,
    value: Floats,
    out: Floats,
    first: int,
    last: int,
) -> None:
    """out[row] = the variance of added + factor * value(s') over the outcomes of the row."""
    for row in range(first, last):
        mean = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            mean += probability[k] * (added[k] + factor * value[np.uint32(next_state[k])])
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            off = added[k] + factor * value[np.uint32(next_state[k])] - mean
            total += probability[k] * off * off
        out[row] = total


@compiled
def soften(gap: Floats, factor: float, squares: int, weight: Floats, first: int, last: int) -> None:
    """weight(s, a) in proportion to (1 + factor gap)^-(2^squares), by products alone; they sum to 1 in every state."""
    for s in range(first, last):
        total = 0.0
        for a in range(gap.shape[1]):
            soft = 1.0 + factor * gap[s, a]
            for _ in range(squares):
                soft *= soft
            weight[s, a] = 1.0 / soft
            total += weight[s, a]
        for a in range(gap.shape[1]):
            weight[s, a] /= total
