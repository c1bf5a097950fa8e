"""Compiled loops along a policy: where it leads, and what noise does on the way."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled, compiled_loop

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def weighted_sum(weight: Floats, x: Floats) -> float:
    """Return the sum of weight * x, compensated (Neumaier 1974): its error does not grow with the number of terms."""
    total, lost = 0.0, 0.0
    for i in range(x.size):
        term = weight[i] * x[i]
        new = total + term
        lost += (total - new) + term if abs(total) >= abs(term) else (term - new) + total
        total = new
    return total + lost


@compiled_loop("steps")
def follow_shares(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    gamma: float,
    weight: Floats,
    steps: int,
    now: Floats,
    then: Floats,
    share: Floats,
) -> float:
    """Add to ``share`` the discounted shares of the states in so many steps from ``now``; ``then`` is for work.

    Returns the share of all later steps.
    """
    n_actions = weight.size // now.size
    factor = 1.0 - gamma
    for step in range(steps):
        last = step == steps - 1  # nobody asks where it leads
        then[:] = 0.0
        for s in range(now.size):
            here = now[s]
            if here == 0.0:
                continue
            share[s] += factor * here
            for row in range(s * n_actions, s * n_actions if last else (s + 1) * n_actions):
                moved = here * weight[row]
                if moved != 0.0:
                    for k in range(indptr[row], indptr[row + 1]):
                        then[np.uint32(next_state[k])] += moved * probability[k]
        now, then = then, now
        factor *= gamma
    return factor / (1.0 - gamma)


@compiled_loop("steps")
def follow_actions(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    gamma: float,
    policy: Integers,
    steps: int,
    now: Floats,
    then: Floats,
    share: Floats,
    cost: Floats,
    enough: float,
) -> tuple[float, float]:
    """As `follow_shares`, for a policy with one action in every state; it ends where shares times ``cost`` are enough.

    Returns the share of all steps that were not followed, and the sum of shares times ``cost``.
    """
    n_actions = (indptr.size - 1) // now.size
    factor, total = 1.0 - gamma, 0.0
    for step in range(steps):
        for s in range(now.size):
            share[s] += factor * now[s]
            total += factor * now[s] * cost[s]
        factor *= gamma
        if total > enough or step == steps - 1:
            break
        then[:] = 0.0
        for s in range(now.size):
            here = now[s]
            if here != 0.0:
                row = s * n_actions + policy[s]
                for k in range(indptr[row], indptr[row + 1]):
                    then[np.uint32(next_state[k])] += here * probability[k]
        now, then = then, now
    return factor / (1.0 - gamma), total


@compiled_loop("steps")
def follow_noise(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    gamma: float,
    policy: Integers,
    n_actions: int,
    noise: Floats,
    steps: int,
    value: Floats,
    then: Floats,
    out: Floats,
) -> None:
    """out(s, a)^2 = mean over columns of (q(s, a) - v(s))^2, where v is what noise in the rewards does to the values.

    ``noise`` is (S*A, K), a column for every trial; ``value`` and ``then`` are (S, K), for work, ``value`` zero.
    """
    n_states, trials = value.shape
    for _ in range(steps):
        for s in range(n_states):
            row = s * n_actions + policy[s]
            for i in range(trials):
                then[s, i] = noise[row, i]
            for k in range(indptr[row], indptr[row + 1]):
                p, after = gamma * probability[k], np.uint32(next_state[k])
                for i in range(trials):
                    then[s, i] += p * value[after, i]
        value, then = then, value
    for row in range(n_states * n_actions):
        s, total = row // n_actions, 0.0
        for i in range(trials):
            q = noise[row, i]
            for k in range(indptr[row], indptr[row + 1]):
                q += gamma * probability[k] * value[np.uint32(next_state[k]), i]
            total += (q - value[s, i]) * (q - value[s, i])
        out[row] = total / trials
