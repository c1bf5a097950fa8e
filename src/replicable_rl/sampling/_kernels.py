"""Compiled multinomial counts over the rows of an MDP: the binomial of the first outcome, then of the second, ...

Rows are drawn in blocks, so that many binomials are drawn at once. Every block has a stream of its own: which thread
draws it, and when, changes nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled, compiled_loop, inlined
from replicable_rl.sampling._binomial import (
    AT,
    AT_ONCE,
    DRAWN,
    END,
    Floats,
    Index,
    Integers,
    N,
    P,
    Stream,
    Words,
    binomials,
    stream_of,
    workspace,
)

ROWS_PER_BLOCK = AT_ONCE  # another number would draw other counts from the same seed


@compiled
def row_means(
    indptr: Integers, weight: NDArray[np.generic], x: Floats, low: float, out: Floats, first: int, last: int
) -> None:
    """out[row] = sum of weight * (x - low) over the outcomes of the row, for the rows from ``first`` up to ``last``."""
    for row in range(first, last):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += weight[k] * (x[k] - low)
        out[row] = total


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
def are_canonical(
    indptr: Integers, next_state: NDArray[np.int32], probability: Floats, reward: Floats, n_states: int
) -> bool:
    """Whether every row has an outcome, and bringing the rows to canonical form would change no bit."""
    if indptr[0] != 0 or indptr[-1] != next_state.size:
        return False
    for row in range(indptr.size - 1):
        begin, end = indptr[row], indptr[row + 1]
        if not 0 <= begin < end <= next_state.size:
            return False
        total = 0.0
        for k in range(begin, end):
            if not (0 <= next_state[k] < n_states and 0.0 < probability[k] <= 1.0 and math.isfinite(reward[k])):
                return False
            if reward[k] == 0.0 and math.copysign(1.0, reward[k]) < 0.0:
                return False
            if k > begin:
                step = next_state[k] - next_state[k - 1]
                if step < 0 or (step == 0 and reward[k] <= reward[k - 1]):
                    return False
            total += probability[k]
        # However the sum is rounded, it is then within as many units of 1 as there are outcomes.
        if abs(total - 1.0) > (2.0**-52 if end - begin > 1 else 0.0):
            return False
    return True


@compiled
def draw_rows(
    start: Integers,
    stop: Integers,
    left: Integers,
    first: Index,
    last: Index,
    conditional: Floats,
    stream: Stream,
    position: Index,
    integers: Integers,
    floats: Floats,
    out: Integers,
) -> Index:
    """out[start[i]:stop[i]] = the counts of left[i] outcomes of row i, for a block of rows, from ``first`` to ``last``.

    Takes numbers of the stream from ``position`` on, and returns the first one that is left. ``integers`` and
    ``floats`` are a `workspace`.
    """
    open_rows = np.uint64(0)
    for i in range(np.uint64(first), np.uint64(last)):
        integers[AT, open_rows], integers[END, open_rows], integers[N, open_rows] = start[i], stop[i], left[i]
        if start[i] < stop[i]:  # a row without outcomes, of an action that is not allowed, takes nothing
            open_rows += np.uint64(_goes_on(start[i], stop[i], left[i], out))
    while open_rows > 0:
        for j in range(open_rows):
            floats[P, j] = conditional[np.uint64(integers[AT, j])]
        position = binomials(np.int64(open_rows), stream, position, integers, floats)
        still_open = np.uint64(0)
        for j in range(open_rows):
            at, end, drawn = integers[AT, j], integers[END, j], integers[DRAWN, j]
            out[np.uint64(at)] = drawn
            remaining = integers[N, j] - drawn
            integers[AT, still_open], integers[END, still_open], integers[N, still_open] = at + 1, end, remaining
            still_open += np.uint64(_goes_on(at + 1, end, remaining, out))
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
    integers: Integers,
    floats: Floats,
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
    stream, zero = stream_of(words, block), np.int64(0)
    draw_rows(start, stop, left, zero, np.int64(size), of_block, stream, zero, integers, floats, out)
    return size


@compiled
def multinomial_blocks(
    indptr: Integers, conditional: Floats, calls: int, words: Words, out: Integers, first: int, last: int
) -> None:
    """Fill ``out`` with the counts of ``calls`` outcomes of every row in the blocks from ``first`` to ``last``."""
    integers, floats = workspace(indptr.size - 1)
    bounds = np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    for block in range(first, last):
        of_block = out[indptr[block * ROWS_PER_BLOCK] :]
        draw_block(indptr, conditional, calls, words, block, integers, floats, bounds, of_block)


@compiled_loop("horizon")
def propagate(
    first_state: Integers,
    first_conditional: Floats,
    indptr: Integers,
    next_state: NDArray[np.int32],
    conditional: Floats,
    action: Integers,
    choice: Floats,
    episodes: int,
    horizon: int,
    words: Words,
    count: Floats,
) -> None:
    """Add to ``count`` the outcomes that occur in ``horizon`` steps of ``episodes`` episodes.

    ``here[s]`` episodes are in state s; they take ``action[s]``, or where that is -1 choose by the conditional
    probabilities ``choice``, and move on together. Only states that some episode has reached are touched.
    """
    n_states, n_pairs = action.size, indptr.size - 1
    n_actions = n_pairs // n_states
    integers, floats = workspace(max(n_pairs, first_state.size))
    drawn = np.empty(conditional.size, dtype=np.int64)
    rows, choices = np.empty((3, n_pairs + 1), dtype=np.int64), np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    start, stop, left = rows[0], rows[1], rows[2]
    maybe_start, maybe_stop, maybe_left = choices[0], choices[1], choices[2]
    chosen = np.empty(choice.size, dtype=np.int64)
    here, reached = np.zeros(n_states, dtype=np.int64), np.empty(n_states + 1, dtype=np.int64)
    start[0], stop[0], left[0] = 0, first_state.size, episodes
    zero, one = np.int64(0), np.int64(1)
    stream = stream_of(words, horizon)
    draw_rows(start, stop, left, zero, one, first_conditional, stream, zero, integers, floats, reached)
    here[first_state] = reached[: first_state.size]
    n_reached = np.int64(first_state.size)
    reached[:n_reached] = first_state
    for h in range(horizon):
        stream = stream_of(words, h)
        position: Index = zero
        n_rows = np.uint64(0)
        for at in range(0, n_reached, ROWS_PER_BLOCK):
            undecided = np.uint64(0)
            for i in range(np.uint64(at), np.uint64(at + _at_most(n_reached - at))):
                s = np.uint64(reached[i])
                if action[s] >= 0:
                    pair = s * np.uint64(n_actions) + np.uint64(action[s])
                    start[n_rows], stop[n_rows], left[n_rows] = indptr[pair], indptr[pair + np.uint64(1)], here[s]
                    n_rows += np.uint64(1)
                else:
                    pair = s * np.uint64(n_actions)
                    maybe_start[undecided], maybe_stop[undecided] = pair, pair + np.uint64(n_actions)
                    maybe_left[undecided] = here[s]
                    undecided += np.uint64(1)
                here[s] = 0
            if undecided > 0:
                size = np.int64(undecided)
                position = draw_rows(
                    maybe_start, maybe_stop, maybe_left, zero, size, choice, stream, position, integers, floats, chosen
                )
            for i in range(undecided):
                for k in range(maybe_start[i], maybe_stop[i]):
                    start[n_rows], stop[n_rows], left[n_rows] = indptr[k], indptr[k + 1], chosen[k]
                    n_rows += np.uint64(chosen[k] > 0)
        arrived = np.uint64(0)
        for at in range(0, np.int64(n_rows), ROWS_PER_BLOCK):
            end = at + _at_most(np.int64(n_rows) - at)
            position = draw_rows(
                start, stop, left, np.int64(at), end, conditional, stream, position, integers, floats, drawn
            )
            for i in range(np.uint64(at), np.uint64(end)):
                for k in range(np.uint64(start[i]), np.uint64(stop[i])):
                    successor, times = np.uint32(next_state[k]), drawn[k]
                    before = here[successor]
                    here[successor] = before + times
                    reached[arrived] = successor
                    arrived += np.uint64((before == 0) & (times > 0))
                    count[k] += times
        n_reached = np.int64(arrived)


@inlined
def _at_most(rows: Index) -> Index:
    """Return how many of so many rows the next block takes."""
    return rows if rows < ROWS_PER_BLOCK else np.int64(ROWS_PER_BLOCK)
