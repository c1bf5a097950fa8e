"""Compiled sweeps over the rows of an MDP; sums run over a row in its stored order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


@compiled
def row_means(indptr: Integers, weight: NDArray[np.generic], x: Floats, out: Floats) -> None:
    """out[row] = sum of weight * x over the outcomes of the row."""
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += weight[k] * x[k]
        out[row] = total


@compiled
def backup(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    n_actions: int,
    value: Floats,
    q: Floats,
    first: int,
    last: int,
) -> None:
    """Q(s, a) = reward(s, a) + gamma * E V(s'), in the states from ``first`` up to ``last``."""
    for row in range(first * n_actions, last * n_actions):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += probability[k] * value[next_state[k]]
        q[row] = reward[row] + gamma * total


@compiled
def best_actions(n_actions: int, q: Floats, policy: Integers, best: Floats, first: int, last: int) -> None:
    """policy(s) = the lowest index among the maxima of q(s, .), and best(s) that maximum."""
    for s in range(first, last):
        policy[s] = 0
        best[s] = q[s * n_actions]
        for a in range(1, n_actions):
            if q[s * n_actions + a] > best[s]:
                policy[s] = a
                best[s] = q[s * n_actions + a]


@compiled
def policy_rows(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    policy: Integers,
    n_actions: int,
    chain_indptr: Integers,
    chain_next: NDArray[np.int32],
    chain_probability: Floats,
) -> None:
    """Copy the rows of a deterministic policy to where a sweep over them reads memory in one go."""
    k = 0
    for s in range(policy.size):
        row = s * n_actions + policy[s]
        chain_indptr[s] = k
        for i in range(indptr[row], indptr[row + 1]):
            chain_next[k] = next_state[i]
            chain_probability[k] = probability[i]
            k += 1
    chain_indptr[policy.size] = k


@compiled
def evaluation_sweeps(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    weight: Floats,
    n_actions: int,
    sweeps: int,
    value: Floats,
    out: Floats,
) -> None:
    """Back up along action probabilities, some times: ``out`` is the last backup, ``value`` the one before it."""
    for sweep in range(sweeps):
        if sweep > 0:
            value[:] = out
        for s in range(out.size):
            mixed = 0.0
            for row in range(s * n_actions, (s + 1) * n_actions):
                if weight[row] > 0.0:
                    total = 0.0
                    for k in range(indptr[row], indptr[row + 1]):
                        total += probability[k] * value[next_state[k]]
                    mixed += weight[row] * (reward[row] + gamma * total)
            out[s] = mixed
