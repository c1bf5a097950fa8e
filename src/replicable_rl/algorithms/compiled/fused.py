"""Iterations of phased value iteration that a source runs as one compiled loop, without Python inside.

The bits are those of the loop that draws and asks step by step. A compiled loop knows a query
by its *grid*: the width of the bins, and the keys of the shared offsets at every address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.problem.sampler import MANY_BLOCKS, Counts, n_blocks, stream_words
from replicable_rl.problem.support import allowed_of
from replicable_rl.progress import report
from replicable_rl.theory import Units
from replicable_rl.theory.rstat import ARITHMETIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.queries.rounding import Grid
    from replicable_rl.theory.phased_vi import Schedule

Fused = Callable[["Schedule", float, np.random.Generator], "Iterations"]  # (schedule, log term of the margins, rng)

_MANY_STATES = 50_000  # states that are worth several threads
_ROWS_AT_ONCE = 1 << 20  # rows between two looks at the clock and at Ctrl-C: a fraction of a second


class Iterations(NamedTuple):
    """What the iterations came to.

    ``q`` is normalised; ``calls`` are those of every pair, in all. ``far`` says whether every mean was so far from the
    edges of its bin that another run's cannot be beyond, see `theory.rstat.seed_margin`.
    """

    q: NDArray[np.float64]
    calls: int
    far: bool


def fused_iterations(source: object, query: object) -> Fused | None:
    """Return the compiled iterations over a table with a query; None where there are none.

    A sampler of somebody's own may draw in its own way, which the compiled loop would pass by: it has none.
    """
    grid: Grid | None = getattr(query, "grid", None)
    if grid is None or type(source) is not Counts:
        return None
    problem, rows, conditional = source, source.mdp.rows, source.conditional

    def iterate(schedule: Schedule, log_term: float, rng: np.random.Generator) -> Iterations:
        from replicable_rl.algorithms.compiled import _phased
        from replicable_rl.compiled import Team

        units, known = Units.of(problem), problem.known_rewards
        nothing, pairs = np.empty(0), rows.indptr.size - 1
        outcome_reward = units.reward(rows.reward) if known is None else nothing
        pair_reward = nothing if known is None else units.reward(known).reshape(-1)
        table = rows.indptr, rows.next_state, conditional, outcome_reward, pair_reward, problem.gamma
        q, value = _start(pairs, pair_reward, schedule), np.empty(problem.n_states)
        if allowed_of(problem) is not None:
            q[np.diff(rows.indptr) == 0] = -np.inf
        blocks = n_blocks(rows.indptr)
        many, made, far = blocks >= MANY_BLOCKS, 0, True
        at_once = 1 if many else max(1, _ROWS_AT_ONCE // pairs)
        with Team(blocks, whole_below=MANY_BLOCKS) as each_block, Team(value.size, whole_below=_MANY_STATES) as each:
            for t in range(0, schedule.iterations, at_once):
                some = range(t, min(t + at_once, schedule.iterations))
                words, keys = stream_words(rng, len(some)), np.asarray(grid.keys(some), dtype=np.uint64)
                if keys.shape not in ((0, 2), (len(some), 2)):  # a compiled loop would read beyond their end
                    raise InvalidInput(f"Grid: keys must have two words for each of {len(some)} addresses.")
                steps = _steps(schedule, some, log_term if far else 0.0)
                drawn, calls = np.empty(len(some), dtype=np.int64), schedule.calls[t : some.stop]
                if not many:
                    far &= _phased.phased_iterations(
                        *table, np.ascontiguousarray(calls), steps, words, keys, problem.n_actions, q, drawn
                    )
                else:  # one iteration on all the cores: the blocks of rows have streams of their own
                    each(_phased.best_values, q, problem.n_actions, value)
                    spread = schedule.spread(float(value.max() - value.min()), problem.gamma, known is not None)
                    steps[0, _phased.SPREAD], drawn[0] = spread, schedule.calls_at(t, spread)
                    are_far = np.empty(blocks, dtype=np.bool_)
                    each_block(_phased.phased_blocks, *table, drawn[0], steps[0], words[0], keys, value, q, are_far)
                    far &= bool(are_far.all())
                made += sum(drawn.tolist())
                report("iterations", some.stop, schedule.iterations)
        return Iterations(q.reshape(problem.n_states, problem.n_actions), made, far)

    return iterate


def _start(pairs: int, pair_reward: NDArray[np.float64], schedule: Schedule) -> NDArray[np.float64]:
    return pair_reward.copy() if schedule.rising and pair_reward.size else np.zeros(pairs)


def _steps(schedule: Schedule, some: range, log_term: float) -> NDArray[np.float64]:
    """Return what compiled iterations must know of the schedule; the last column is theirs to fill."""
    steps, part = np.empty((len(some), 7)), slice(some.start, some.stop)
    for i, column in enumerate((schedule.widths, schedule.lowered, schedule.reach)):
        steps[:, i] = column[part]
    steps[:, 3:] = schedule.rising, log_term, ARITHMETIC, 0.0
    return steps
