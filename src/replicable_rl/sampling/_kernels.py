"""Compiled multinomial counts over the rows of an MDP: the binomial of the first outcome, then of the second, ...

Rows are drawn in blocks, so that many binomials are drawn at once. Every block has a stream of its own: which thread
draws it, and when, changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled, inlined
from replicable_rl.sampling._binomial import AT_ONCE, binomials, stream_of, workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.sampling._binomial import Stream

    Index = int | np.int64  # a plain 0 would be a type of its own to the compiler, and everything compiled twice
    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]
    Room = tuple[Integers, Floats, tuple[Integers, Floats]]

ROWS_PER_BLOCK = AT_ONCE  # another number would draw other counts from the same seed


@compiled
def conditional_rows(indptr: Integers, probability: Floats, out: Floats) -> None:
    """out[k] = Pr[outcome k | no earlier one of its row] = p if p <= 1/2, else -(1 - p)."""
    for row in range(indptr.size - 1):
        after = 0.0
        for k in range(indptr[row + 1] - 1, indptr[row] - 1, -1):
            total = probability[k] + after
            if total == 0.0:  # impossible, and so is everything after it
                out[k] = 0.0
            else:
                out[k] = probability[k] / total if probability[k] <= after else -(after / total)
            after = total


@compiled
def row_workspace() -> Room:
    """Return room for `draw_rows` to work in."""
    return np.zeros((3, ROWS_PER_BLOCK), dtype=np.int64), np.zeros(ROWS_PER_BLOCK), workspace()


@compiled
def draw_rows(
    start: Integers,
    stop: Integers,
    left: Integers,
    size: Index,
    conditional: Floats,
    stream: Stream,
    position: Index,
    room: Room,
    out: Integers,
) -> Index:
    """out[start[i]:stop[i]] = the counts of left[i] outcomes of row i, for a block of rows; ``left`` is used up.

    Takes numbers of the stream from ``position`` on, and returns the first one that is left.
    """
    integers, p, binomial_room = room
    at, end, drawn = integers[0], integers[1], integers[2]
    open_rows = np.int64(0)
    for i in range(size):
        at[open_rows], end[open_rows], left[open_rows] = start[i], stop[i], left[i]
        open_rows += _goes_on(start[i], stop[i], left[i], out)
    while open_rows > 0:
        for j in range(open_rows):
            p[j] = conditional[at[j]]
        position = binomials(left, p, open_rows, stream, position, binomial_room, drawn)
        still_open = np.int64(0)
        for j in range(open_rows):
            out[at[j]] = drawn[j]
            following, last, remaining = at[j] + 1, end[j], left[j] - drawn[j]
            at[still_open], end[still_open], left[still_open] = following, last, remaining
            still_open += _goes_on(following, last, remaining, out)
        open_rows = still_open
    return position


@inlined
def _goes_on(first: int, stop: int, left: int, out: Integers) -> bool:
    """Return whether there is something to draw; if not, the last outcome of a row takes what is left."""
    if left > 0 and first + 1 < stop:
        return True
    for k in range(first, stop - 1):
        out[k] = 0
    out[stop - 1] = left
    return False


@compiled
def draw_block(
    indptr: Integers,
    conditional: Floats,
    calls: int,
    words: Words,
    block: int,
    room: Room,
    bounds: Integers,
    out: Integers,
) -> int:
    """Draw ``calls`` outcomes of every row of a block and return how many rows it has.

    Row i of the block then has the counts ``out[bounds[0, i]:bounds[1, i]]``.
    """
    first = block * ROWS_PER_BLOCK
    size = min(ROWS_PER_BLOCK, indptr.size - 1 - first)
    start, stop, left = bounds[0], bounds[1], bounds[2]
    for i in range(size):
        start[i], stop[i] = indptr[first + i] - indptr[first], indptr[first + i + 1] - indptr[first]
        left[i] = calls
    of_block = conditional[indptr[first] : indptr[first + size]]
    draw_rows(start, stop, left, size, of_block, stream_of(words, block), np.int64(0), room, out)
    return size


@compiled
def multinomial_blocks(
    indptr: Integers, conditional: Floats, calls: int, words: Words, out: Integers, first: int, last: int
) -> None:
    """Fill ``out`` with the counts of ``calls`` outcomes of every row in the blocks from ``first`` to ``last``."""
    room = row_workspace()
    bounds = np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    for block in range(first, last):
        draw_block(indptr, conditional, calls, words, block, room, bounds, out[indptr[block * ROWS_PER_BLOCK] :])


@compiled
def propagate(
    first_state: Integers,
    first_conditional: Floats,
    indptr: Integers,
    next_state: NDArray[np.int32],
    conditional: Floats,
    policy: Floats,
    episodes: int,
    horizon: int,
    words: Words,
    count: Floats,
) -> None:
    """Add to ``count`` the outcomes of ``horizon`` steps of ``episodes`` episodes.

    ``here[s]`` episodes are in state s; they choose actions by the table ``policy`` and move on together. Only states
    that some episode has reached are touched, and only choices that are not sure take random numbers.
    """
    n_states, n_actions = policy.shape
    choice = np.empty(policy.size)
    conditional_rows(np.arange(0, policy.size + 1, n_actions), policy.reshape(policy.size), choice)
    room, bounds = row_workspace(), np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    start, stop, left = bounds[0], bounds[1], bounds[2]
    chosen, drawn = np.empty(policy.size, dtype=np.int64), np.empty(count.size, dtype=np.int64)
    row, moving = np.empty(policy.size, dtype=np.int64), np.empty(policy.size, dtype=np.int64)
    here, reached = np.zeros(n_states, dtype=np.int64), np.empty(n_states + 1, dtype=np.int64)
    start[0], stop[0], left[0] = 0, first_state.size, episodes
    draw_rows(start, stop, left, 1, first_conditional, stream_of(words, horizon), np.int64(0), room, reached)
    here[first_state] = reached[: first_state.size]
    n_reached = first_state.size
    reached[:n_reached] = first_state
    for h in range(horizon):
        stream = stream_of(words, h)
        position: Index = np.int64(0)
        n_rows = 0
        for at in range(0, n_reached, ROWS_PER_BLOCK):
            undecided = np.int64(0)
            for s in reached[at : min(at + ROWS_PER_BLOCK, n_reached)]:
                action = _sure_action(policy[s])
                if action >= 0:
                    row[n_rows], moving[n_rows] = s * n_actions + action, here[s]
                    n_rows += 1
                else:
                    start[undecided], stop[undecided], left[undecided] = s * n_actions, (s + 1) * n_actions, here[s]
                    undecided += 1
                here[s] = 0
            if undecided > 0:
                position = draw_rows(start, stop, left, undecided, choice, stream, position, room, chosen)
            for i in range(undecided):
                for pair in range(start[i], stop[i]):
                    if chosen[pair] > 0:
                        row[n_rows], moving[n_rows] = pair, chosen[pair]
                        n_rows += 1
        n_reached = 0
        for at in range(0, n_rows, ROWS_PER_BLOCK):
            size = min(ROWS_PER_BLOCK, n_rows - at)
            for i in range(size):
                start[i], stop[i], left[i] = indptr[row[at + i]], indptr[row[at + i] + 1], moving[at + i]
            position = draw_rows(start, stop, left, size, conditional, stream, position, room, drawn)
            for i in range(size):
                for k in range(start[i], stop[i]):
                    successor = next_state[k]
                    reached[n_reached] = successor
                    n_reached += (here[successor] == 0) & (drawn[k] > 0)
                    here[successor] += drawn[k]
                    count[k] += drawn[k]


@inlined
def _sure_action(weights: Floats) -> int:
    """Return the action of weight 1, or -1 if there is none."""
    for a in range(weights.size):
        if weights[a] == 1.0:
            return a
    return -1
