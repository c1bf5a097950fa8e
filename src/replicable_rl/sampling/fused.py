"""Iterations of phased value iteration that a source runs as one compiled loop, without Python inside.

Speed is the sampler's: a source that can offers ``fused(query)``, and an algorithm asks for it with
:func:`fused_iterations`. The bits are those of the loop that draws and asks step by step. A compiled loop knows a query
by its *grid*: the width of the bins, and the keys of the shared offsets at every address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.progress import report
from replicable_rl.sampling.tables import MANY_BLOCKS, n_blocks, stream_words
from replicable_rl.theory import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import Rows
    from replicable_rl.sampling.problem import Problem

Fused = Callable[[int, int, np.random.Generator], "NDArray[np.float64]"]  # (calls, iterations, rng) -> Q, normalised

_MANY_STATES = 50_000  # states that are worth several threads
_ROWS_AT_ONCE = 1 << 20  # rows between two looks at the clock and at Ctrl-C: a fraction of a second


class Grid(NamedTuple):
    """What a compiled loop must know of a query: it rounds to the middle of bins, or with no keys not at all."""

    width: float
    keys: Callable[[range], NDArray[np.uint64]]  # addresses t -> keys of the generators of their offsets, (n, 2)


def fused_iterations(source: object, query: object) -> Fused | None:
    """Return the compiled iterations that a source offers for a query; None where it offers none."""
    offer = getattr(source, "fused", None)
    compiled: Fused | None = None if offer is None else offer(query)
    return compiled


def fuse(problem: Problem, rows: Rows, conditional: NDArray[np.float64], query: object) -> Fused | None:
    """Return compiled iterations over a table; None if the query says no grid."""
    grid: Grid | None = getattr(query, "grid", None)
    if grid is None:
        return None

    def iterate(calls: int, iterations: int, rng: np.random.Generator) -> NDArray[np.float64]:
        from replicable_rl.compiled import Team
        from replicable_rl.sampling import _phased

        units, known = Units(problem.gamma, *problem.reward_range), problem.known_rewards
        nothing, pairs = np.empty(0), rows.indptr.size - 1
        outcome_reward = units.reward(rows.reward) if known is None else nothing
        pair_reward = nothing if known is None else units.reward(known).reshape(-1)
        table = (rows.indptr, rows.next_state, conditional, outcome_reward, pair_reward, problem.gamma)
        asked = *table, calls, grid.width
        q, value = np.zeros(pairs), np.empty(problem.n_states)
        blocks = n_blocks(rows.indptr)
        many = blocks >= MANY_BLOCKS
        at_once = 1 if many else max(1, _ROWS_AT_ONCE // pairs)
        with Team(blocks, whole_below=MANY_BLOCKS) as each_block, Team(value.size, whole_below=_MANY_STATES) as each:
            for t in range(0, iterations, at_once):
                some = range(t, min(t + at_once, iterations))
                words, keys = stream_words(rng, len(some)), grid.keys(some)
                if not many:
                    _phased.phased_iterations(*asked, words, keys, problem.n_actions, q)
                else:  # one iteration on all the cores: the blocks of rows have streams of their own
                    each(_phased.best_values, q, problem.n_actions, value)
                    each_block(_phased.phased_blocks, *asked, words[0], keys, value, q)
                report("iterations", some.stop, iterations)
        return q.reshape(problem.n_states, problem.n_actions)

    return iterate
