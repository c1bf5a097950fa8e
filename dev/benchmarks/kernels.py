"""Compiled loops to compare with: a generator of random words, and trajectories one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    State = NDArray[np.uint64]


@compiled
def _rotate(x: np.uint64, k: np.uint64) -> np.uint64:
    return (x << k) | (x >> (np.uint64(64) - k))


@compiled
def _next_word(state: State) -> np.uint64:
    """Advance xoshiro256++ (Blackman and Vigna 2019) by one word."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    word: np.uint64 = _rotate(s0 + s3, np.uint64(23)) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    state[0], state[1], state[2], state[3] = s0, s1, s2 ^ t, _rotate(s3, np.uint64(45))
    return word


@compiled
def fill(state: State, out: NDArray[np.uint64]) -> None:
    """Fill an array with random words."""
    for i in range(out.size):
        out[i] = _next_word(state)


@compiled
def trajectories(
    indptr: NDArray[np.int64],
    next_state: NDArray[np.int32],
    cumulative: NDArray[np.float64],
    row_of: NDArray[np.int64],
    start: int,
    episodes: int,
    horizon: int,
    state: State,
    count: NDArray[np.int64],
) -> None:
    """Play every episode step by step from ``start``; ``row_of[s]`` is the row that the policy takes in s."""
    for _ in range(episodes):
        s = start
        for _ in range(horizon):
            u = float(_next_word(state) >> np.uint64(11)) * 2.0**-53
            k = indptr[row_of[s]]
            last = indptr[row_of[s] + 1] - 1
            while k < last and u >= cumulative[k]:
                k += 1
            count[k] += 1
            s = next_state[k]
