"""The loop of phased value iteration over a table, compiled; the same bits as the loop in ``algorithms.phased_vi``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled, inlined
from replicable_rl.randomness._kernels import fill_uniform
from replicable_rl.sampling._binomial import workspace
from replicable_rl.sampling._kernels import ROWS_PER_BLOCK, draw_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Index = int | np.int64
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
    words: Words,
    keys: Words,
    n_actions: int,
    q: Floats,
) -> None:
    """Run one iteration for every row of ``words``, with all the blocks of rows one after another."""
    n_blocks = -(-q.size // ROWS_PER_BLOCK)
    value = np.empty(q.size // n_actions)
    for t in range(words.shape[0]):
        best_values(q, n_actions, value, np.int64(0), value.size)
        key = keys[t if keys.shape[0] > 0 else 0 :]
        phased_blocks(
            indptr, next_state, conditional, outcome_reward, pair_reward, gamma, calls, width, words[t], key, value, q,
            np.int64(0), n_blocks,
        )  # fmt: skip


@compiled
def best_values(q: Floats, n_actions: int, value: Floats, first: Index, last: Index) -> None:
    """value[s] = the largest q(s, a), for the states from ``first`` to ``last``."""
    for s in range(first, last):
        best = q[s * n_actions]
        for a in range(1, n_actions):
            best = max(best, q[s * n_actions + a])
        value[s] = best


@compiled
def phased_blocks(
    indptr: Integers,
    next_state: NDArray[np.int32],
    conditional: Floats,
    outcome_reward: Floats,
    pair_reward: Floats,
    gamma: float,
    calls: int,
    width: float,
    words: Words,
    keys: Words,
    value: Floats,
    q: Floats,
    first: Index,
    last: Index,
) -> None:
    """One iteration for the blocks of rows from ``first`` to ``last``: draw, take the mean, round it, update q.

    Rewards are known, and in ``pair_reward``, or learned with the samples, and in ``outcome_reward``; the other
    is empty. ``keys[0]`` is that of the shared offsets, and ``width`` that of the bins; without keys the means are
    not rounded. Counts and offsets are made and used block by block, and never stored as a whole.
    """
    known, rounded = pair_reward.size > 0, keys.shape[0] > 0
    integers, floats = workspace(q.size)
    offset, answer = np.empty(ROWS_PER_BLOCK), np.empty(ROWS_PER_BLOCK)
    bounds = np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    longest = 0
    for block in range(first, last):
        row = block * ROWS_PER_BLOCK
        longest = max(longest, indptr[min(row + ROWS_PER_BLOCK, q.size)] - indptr[row])
    count = np.empty(longest, dtype=np.int64)
    for block in range(first, last):
        row = block * ROWS_PER_BLOCK
        size = draw_block(indptr, conditional, calls, words, block, integers, floats, bounds, count)
        if rounded:
            fill_uniform(keys[0], row, size, offset)
        of_block = np.uint64(indptr[row])
        for i in range(size):
            total = 0.0
            for k in range(np.uint64(bounds[0, i]), np.uint64(bounds[1, i])):  # unsigned: no counting from the end
                x = value[np.uint32(next_state[of_block + k])]
                total += count[k] * (x if known else outcome_reward[of_block + k] + gamma * x)
            answer[i] = total
        for i in range(size):  # loops of their own, which become vector instructions
            answer[i] /= float(calls)
        if rounded:
            for i in range(size):
                answer[i] = round_to_bin(answer[i], width * offset[i], width)
        for i in range(size):
            q[row + i] = pair_reward[row + i] + gamma * answer[i] if known else answer[i]


@inlined
def round_to_bin(mean: float, shift: float, width: float) -> float:
    """rSTAT: the middle of the bin that contains the mean; see ``queries.rounding``."""
    k = np.floor((min(max(mean, 0.0), 1.0) - shift) / width)
    low = min(max(shift + k * width, 0.0), 1.0)
    high = min(max(shift + (k + 1.0) * width, 0.0), 1.0)
    return float(low + (high - low) / 2.0)
