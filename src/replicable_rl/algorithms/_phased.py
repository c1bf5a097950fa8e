"""The loop of phased value iteration over a table, compiled; the same bits as the loop in ``algorithms.phased_vi``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled, compiled_loop, inlined
from replicable_rl.randomness._kernels import fill_uniform
from replicable_rl.sampling._kernels import ROWS_PER_BLOCK, Floats, Index, Integers, Words, draw_block, workspace


class DrawnRows(NamedTuple):
    """The rows of a table, ready to be drawn from, with normalised rewards.

    Rewards are known, and those of pairs, or learned with the samples, and those of outcomes; the other is empty.
    """

    indptr: Integers
    next_state: NDArray[np.int32]
    conditional: Floats
    outcome_reward: Floats
    pair_reward: Floats
    gamma: float


@compiled_loop("words")
def phased_iterations(
    table: DrawnRows,
    calls: Integers,
    widths: Floats,
    lowered: Floats,
    reach: Floats,
    rising: bool,
    log_term: float,
    arithmetic: float,
    words: Words,
    keys: Words,
    n_actions: int,
    q: Floats,
    drawn: Integers,
) -> bool:
    """Run one iteration for every row of ``words``, with all the blocks of rows one after another.

    Return whether all means were far from the edges.
    """
    n_blocks = -(-q.size // ROWS_PER_BLOCK)
    value, clear, all_clear = np.empty(q.size // n_actions), np.empty(n_blocks, dtype=np.bool_), True
    for t in range(words.shape[0]):
        best_values(q, n_actions, value, np.int64(0), value.size)
        spread = value.max() - value.min()
        spread = spread if table.pair_reward.size > 0 else (1.0 - table.gamma) + table.gamma * spread
        drawn[t] = calls_of(calls[t], spread, reach[t])
        key, log = keys[t if keys.shape[0] > 0 else 0 :], log_term if all_clear else 0.0
        step = widths[t], lowered[t], spread, rising, log, arithmetic
        phased_blocks(table, drawn[t], *step, words[t], key, value, q, clear, np.int64(0), n_blocks)
        all_clear = all_clear and bool(clear.all())
    return all_clear


@inlined
def calls_of(calls: int, spread: float, reach: float) -> int:
    """The calls of an iteration; see ``theory.phased_vi``."""
    if reach == 0.0:
        return calls
    share = spread / reach
    return max(2, int(np.ceil(float(calls) * (share * share))))


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
    table: DrawnRows,
    calls: int,
    width: float,
    lowered: float,
    spread: float,
    rising: bool,
    log_term: float,
    arithmetic: float,
    words: Words,
    keys: Words,
    value: Floats,
    q: Floats,
    clear: NDArray[np.bool_],
    first: Index,
    last: Index,
) -> None:
    """One iteration for the blocks of rows from ``first`` to ``last``: draw, take the mean, round it, update q.

    ``keys[0]`` is that of the shared numbers u; without keys the means are not rounded. Counts and numbers are made and
    used block by block, and never stored as a whole. ``clear`` says whether all the means of a block are as far from
    the edges as they must be; where the log term is 0, nobody looks. A row without outcomes is an action that is not
    allowed: its value is -inf.
    """
    indptr, next_state, conditional, outcome_reward, pair_reward, gamma = table
    rewards_known, rounded = pair_reward.size > 0, keys.shape[0] > 0
    integers, floats = workspace(q.size)
    u, answer = np.empty(ROWS_PER_BLOCK), np.empty(ROWS_PER_BLOCK)
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
            fill_uniform(keys[0], row, size, u)
        of_block, empty = np.uint64(indptr[row]), 0
        for i in range(size):
            total = 0.0
            empty += bounds[0, i] == bounds[1, i]
            for k in range(np.uint64(bounds[0, i]), np.uint64(bounds[1, i])):  # unsigned: no counting from the end
                x = value[np.uint32(next_state[of_block + k])]
                total += count[k] * (x if rewards_known else outcome_reward[of_block + k] + gamma * x)
            answer[i] = total
        for i in range(size):  # loops of their own, which become vector instructions
            answer[i] /= float(calls)
        clear[block] = rounded and log_term > 0.0 and calls > 1
        if clear[block]:
            largest = 0.2501 * (float(calls) / float(calls - 1)) * (spread * spread)  # of all variances
            enough = margin_needed(largest, float(calls), spread, log_term) + arithmetic
            for i in range(size):
                v, below, above = bin_of(answer[i], width * u[i], width)
                room = min(v - below if below > 0.0 else np.inf, above - v if above <= 1.0 else np.inf)
                if room > enough or bounds[0, i] == bounds[1, i]:
                    continue
                total = 0.0
                for k in range(np.uint64(bounds[0, i]), np.uint64(bounds[1, i])):
                    x = value[np.uint32(next_state[of_block + k])]
                    off = (x if rewards_known else outcome_reward[of_block + k] + gamma * x) - answer[i]
                    total += count[k] * (off * off)
                needed = margin_needed(total / float(calls - 1), float(calls), spread, log_term)
                if room - needed <= arithmetic:
                    clear[block] = False
                    break
        if rounded:
            for i in range(size):
                _, below, above = bin_of(answer[i], width * u[i], width)
                low, high = min(max(below, 0.0), 1.0), min(max(above, 0.0), 1.0)
                answer[i] = low + (high - low) / 2.0
        for i in range(size):
            answer[i] -= lowered
            new = pair_reward[row + i] + gamma * answer[i] if rewards_known else answer[i]
            q[row + i] = max(q[row + i], new) if rising else new
        for i in range(size if empty else 0):
            if bounds[0, i] == bounds[1, i]:
                q[row + i] = -np.inf


@inlined
def margin_needed(variance: float, samples: float, spread: float, log_term: float) -> float:
    """How far from an edge a mean must be; see ``theory.rstat.seed_margin``."""
    sigma = np.sqrt(variance) + spread * np.sqrt(2.0 * log_term / (samples - 1.0))
    return float(np.sqrt(4.0 * log_term / samples) * sigma + spread * log_term / (3.0 * samples))


@inlined
def bin_of(mean: float, offset: float, width: float) -> tuple[float, float, float]:
    """A mean within [0, 1], and the edges of its bin; see ``queries.rstat``."""
    v = min(max(mean, 0.0), 1.0)
    k = np.floor((v - offset) / width)
    return v, offset + k * width, offset + (k + 1.0) * width
