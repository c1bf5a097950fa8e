"""Phased value iteration over a table, compiled: the bits of the listing in ``algorithms.phased_vi``, sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.problem.sampler import MANY_BLOCKS, n_blocks, stream_words
from replicable_rl.progress import report
from replicable_rl.theory import Units
from replicable_rl.theory.rstat import ARITHMETIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from replicable_rl.problem.table import TabularMDP
    from replicable_rl.theory.phased_vi import Schedule

    Floats = NDArray[np.float64]

_MANY_STATES = 50_000  # states that are worth several threads
_ROWS_AT_ONCE = 1 << 20  # rows between two looks at the clock and at Ctrl-C: a fraction of a second


class Iterated(NamedTuple):
    """What all iterations came to: Q_T in normalised units, the calls of every pair, and whether the seed was good.

    It was, if every mean was so far from the edges of its bin that another run's cannot be beyond, see
    `theory.rstat.seed_margin`.
    """

    q: Floats
    calls: int
    good_seed: bool


def compiled_iterations(
    source: TabularMDP, schedule: Schedule, keys: Callable[[range], Any], rng: np.random.Generator, log_term: float
) -> Iterated:
    """Run all iterations with plain means, or with rSTAT in its midpoint form with the offsets of ``keys``."""
    from replicable_rl.algorithms.compiled import _phased
    from replicable_rl.compiled import Team

    units, known, rows, n_actions = Units.of(source), source.known_rewards, source.rows, source.n_actions
    outcome_reward = units.reward(rows.reward) if known is None else np.empty(0)
    pair_reward = np.empty(0) if known is None else units.reward(known).reshape(-1)
    parts = rows.indptr, rows.next_state, source.conditional, outcome_reward, pair_reward, source.gamma
    table, pairs, blocks = _phased.DrawnRows(*parts), rows.indptr.size - 1, n_blocks(rows.indptr)
    q = source.support.settle(pair_reward.copy() if schedule.rising and known is not None else np.zeros(pairs))
    value, total, good_seed, threaded = np.empty(source.n_states), 0, True, blocks >= MANY_BLOCKS
    at_once = 1 if threaded else max(1, _ROWS_AT_ONCE // pairs)
    with Team(blocks, whole_below=MANY_BLOCKS) as each_block, Team(value.size, whole_below=_MANY_STATES) as each:
        for t in range(0, schedule.iterations, at_once):
            chunk = range(t, min(t + at_once, schedule.iterations))
            words, offsets = stream_words(rng, len(chunk)), keys(chunk)
            columns = schedule.calls, schedule.widths, schedule.lowered, schedule.reach
            calls, widths, lowered, reach = (np.array(column[t : chunk.stop]) for column in columns)
            fixed = schedule.rising, log_term if good_seed else 0.0, ARITHMETIC
            if not threaded:
                drawn = np.empty(len(chunk), dtype=np.int64)
                steps = calls, widths, lowered, reach, *fixed, words, offsets
                good_seed &= _phased.phased_iterations(table, *steps, n_actions, q, drawn)
                total += sum(drawn.tolist())
            else:  # one iteration on all the cores: the blocks of rows have streams of their own
                each(_phased.best_values, q, n_actions, value)
                spread = schedule.spread(float(value.max() - value.min()), source.gamma, known is not None)
                samples, clear = schedule.calls_at(t, spread), np.empty(blocks, dtype=np.bool_)
                step = float(widths[0]), float(lowered[0]), spread, *fixed
                each_block(_phased.phased_blocks, table, samples, *step, words[0], offsets, value, q, clear)
                good_seed &= bool(clear.all())
                total += samples
            report("iterations", chunk.stop, schedule.iterations)
    return Iterated(q.reshape(source.n_states, n_actions), total, good_seed)
