"""Compiled sweeps over the rows of an MDP; sums run over a row in its stored order.

Inner loops index with unsigned integers: a signed index costs a test for counting from the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


@compiled
def row_means(indptr: Integers, weight: NDArray[np.generic], x: Floats, out: Floats, first: int, last: int) -> None:
    """out[row] = sum of weight * x over the outcomes of the row, for the rows from ``first`` up to ``last``."""
    for row in range(first, last):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += weight[k] * x[k]
        out[row] = total


@inlined
def _expected(indptr: Integers, next_state: NDArray[np.int32], probability: Floats, value: Floats, row: int) -> float:
    """E V(s') for the outcomes of a row."""
    total = 0.0
    for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += probability[k] * value[np.uint32(next_state[k])]
    return total


@compiled
def backup(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    n_actions: int,
    value: Floats,
    out: Floats,
    row_of: NDArray[np.int32],
    first: int,
    last: int,
) -> tuple[float, float, float]:
    """out(s) = max over a of reward(s, a) + gamma * E V(s'), for the states from ``first`` up to ``last``.

    ``row_of`` takes the rows where the maxima are, the first among equals. Returns the smallest and
    the largest difference ``out - value``, and the largest magnitude of a value.
    """
    low, high, largest = np.inf, -np.inf, 0.0
    for s in range(first, last):
        best, chosen = -np.inf, s * n_actions
        for row in range(s * n_actions, (s + 1) * n_actions):
            total = reward[row] + gamma * _expected(indptr, next_state, probability, value, row)
            # Selections and not jumps: half of them would be guessed wrong, with loads in flight.
            chosen = row if total > best else chosen
            best = total if total > best else best
        out[s] = best
        row_of[s] = chosen
        change = best - value[s]
        low = change if change < low else low
        high = change if change > high else high
        magnitude = abs(value[s])
        largest = magnitude if magnitude > largest else largest
    return low, high, largest


@compiled
def action_values(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    n_actions: int,
    value: Floats,
    shift: float,
    q: Floats,
    policy: Integers,
    first: int,
    last: int,
) -> None:
    """q(s, a) = what `backup` maximises, plus ``shift``; and the first action where it is largest."""
    for s in range(first, last):
        best, chosen = -np.inf, 0
        for a in range(n_actions):
            row = s * n_actions + a
            total = reward[row] + gamma * _expected(indptr, next_state, probability, value, row) + shift
            q[row] = total
            chosen = a if total > best else chosen
            best = total if total > best else best
        policy[s] = chosen


@compiled
def policy_rows(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    row_of: NDArray[np.int32],
    copied: NDArray[np.int32],
    chain_indptr: Integers,
    chain_next: NDArray[np.int32],
    chain_probability: Floats,
    chain_reward: Floats,
    first: int,
    last: int,
) -> None:
    """Copy the rows of a policy to where a sweep over them reads memory in one go.

    ``chain_indptr`` leaves room for the longest row of every state, so that it serves every
    policy and the states can be copied in parts; what is left of it gets probability 0. ``copied``
    are the rows that were copied last (-1: none): policies soon differ in few states.
    """
    for s in range(first, last):
        row, k = row_of[s], chain_indptr[s]
        if row == copied[s]:
            continue
        copied[s] = row
        chain_reward[s] = reward[row]
        for i in range(indptr[row], indptr[row + 1]):
            chain_next[k] = next_state[i]
            chain_probability[k] = probability[i]
            k += 1
        for unused in range(k, chain_indptr[s + 1]):
            chain_next[unused] = s
            chain_probability[unused] = 0.0


@compiled
def follow(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    value: Floats,
    out: Floats,
    limit: int,
    enough: float,
    first: int,
    last: int,
) -> tuple[float, float, int]:
    """Sweep along one row per state until the differences of a sweep lie within ``enough`` of each other.

    At most ``limit`` times, and more than once only if ``first`` to ``last`` are all the states.
    The arrays change places after every sweep. Returns the smallest and the largest difference
    of the last sweep, and the number of sweeps.
    """
    low, high, sweeps = np.inf, -np.inf, 0
    while sweeps < limit and (sweeps == 0 or high - low > enough):
        low, high = np.inf, -np.inf
        for s in range(first, last):
            total = reward[s] + gamma * _expected(indptr, next_state, probability, value, s)
            out[s] = total
            change = total - value[s]
            low = change if change < low else low
            high = change if change > high else high
        value, out = out, value
        sweeps += 1
    return low, high, sweeps


@compiled
def relax(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    n_actions: int,
    value: Floats,
    out: Floats,
    row_of: NDArray[np.int32],
    width: int,
    backward: bool,
    first: int,
    last: int,
) -> tuple[float, float]:
    """A Gauss-Seidel sweep inside blocks of ``width`` states; other blocks are read as they were before it.

    A state whose action may stay in place is solved for, v = (r + gamma * E v(others)) / (1 - gamma * P(stay)):
    a goal that is never left has its value after one sweep. Fills ``row_of`` unless it is empty.
    """
    low, high = np.inf, -np.inf
    for start in range(first, last, width):
        end = min(start + width, last)
        out[start:end] = value[start:end]
        for i in range(end - start):
            s = end - 1 - i if backward else start + i
            best, chosen = -np.inf, s * n_actions
            for row in range(s * n_actions, (s + 1) * n_actions):
                total, stay = 0.0, 0.0
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                    j = np.uint32(next_state[k])
                    if j == s:
                        stay += probability[k]
                    else:
                        total += probability[k] * (out[j] if start <= j < end else value[j])
                total = reward[row] + gamma * total
                if stay > 0.0:
                    total /= 1.0 - gamma * min(stay, 1.0)  # rounding may have put the sum above 1
                chosen = row if total > best else chosen
                best = total if total > best else best
            out[s] = best
            if row_of.size > 0:
                row_of[s] = chosen
            change = best - value[s]
            low = change if change < low else low
            high = change if change > high else high
    return low, high
