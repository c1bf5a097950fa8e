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
    value: Floats,
    q: Floats,
) -> None:
    """Q(s, a) = reward(s, a) + gamma * E V(s')."""
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += probability[k] * value[next_state[k]]
        q[row] = reward[row] + gamma * total


@compiled
def best_actions(q: Floats, n_actions: int, policy: Integers, best: Floats) -> None:
    """policy(s) = the lowest index among the maxima of q(s, .), and best(s) that maximum."""
    for s in range(best.size):
        policy[s] = 0
        best[s] = q[s * n_actions]
        for a in range(1, n_actions):
            if q[s * n_actions + a] > best[s]:
                policy[s] = a
                best[s] = q[s * n_actions + a]


@compiled
def policy_sweep(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    reward: Floats,
    gamma: float,
    policy: Integers,
    n_actions: int,
    value: Floats,
    out: Floats,
) -> None:
    """Out = one synchronous backup of ``value`` along a deterministic policy."""
    for s in range(out.size):
        row = s * n_actions + policy[s]
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += probability[k] * value[next_state[k]]
        out[s] = reward[row] + gamma * total


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
