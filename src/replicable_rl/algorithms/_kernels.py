"""The loop of phased value iteration over a table, compiled; the same bits as the loop in ``phased_vi``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled
from replicable_rl.randomness._kernels import fill_uniform
from replicable_rl.sampling._kernels import binomial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]


@compiled
def phased_iterations(
    indptr: Integers,
    next_state: NDArray[np.int32],
    conditional: Floats,
    outcome_reward: Floats,
    pair_reward: Floats,
    gamma: float,
    calls: int,
    width: float,
    streams: Words,
    keys: Words,
    n_actions: int,
    q: Floats,
) -> None:
    """Run one iteration for every row of ``streams``, the states of the sampler's generator.

    Rewards are known, and in ``pair_reward``, or learned with the samples, and in ``outcome_reward``; the other
    is empty. ``keys`` are those of the shared offsets, and ``width`` that of the bins; without keys the means are
    not rounded.
    """
    n_rows = indptr.size - 1
    known = pair_reward.size > 0
    value = np.empty(n_rows // n_actions)
    offset = np.empty(n_rows if keys.size > 0 else 0)
    for t in range(streams.shape[0]):
        for s in range(value.size):
            best = q[s * n_actions]
            for a in range(1, n_actions):
                best = max(best, q[s * n_actions + a])
            value[s] = best
        if keys.size > 0:
            fill_uniform(keys[t], offset)
        stream = streams[t]
        for row in range(n_rows):
            total = 0.0
            left = calls
            last = indptr[row + 1] - 1
            for k in range(indptr[row], last + 1):
                drawn = binomial(left, conditional[k], stream) if k < last else left
                left -= drawn
                x = value[next_state[k]]
                total += drawn * (x if known else outcome_reward[k] + gamma * x)
            answer = total / float(calls)
            if keys.size > 0:
                answer = round_to_bin(answer, width * offset[row], width)
            q[row] = pair_reward[row] + gamma * answer if known else answer


@compiled
def round_to_bin(mean: float, shift: float, width: float) -> float:
    """rSTAT: the middle of the bin that contains the mean; see ``queries.rounding``."""
    k = math.floor((min(max(mean, 0.0), 1.0) - shift) / width)
    low = min(max(shift + k * width, 0.0), 1.0)
    high = min(max(shift + (k + 1.0) * width, 0.0), 1.0)
    return low + (high - low) / 2.0
