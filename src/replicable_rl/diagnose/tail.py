r"""States that a log never reached, and larger logs may.

A log cannot say that a state is out of reach. Its tail says how likely that is. Let its rarest states have n_1 <= n_2
<= n_3 rows. From one to the next the rows fall by about g = sqrt(n_1/n_3), and if that goes on, the next one, which the
log did not reach, has lambda = n_1 g rows on average. Let it be out of reach with probability 1/2, and else have an
exponential number of rows on average, with mean lambda. Given that none was seen,

    it can be reached with probability 1/(2 + lambda),  and then has lambda/(1 + lambda) rows in the mean.

Where the rarest state has many rows, there is a gap in the tail and nothing beyond it. Where it has few, larger logs
will reach more states, and what they decide there this log cannot tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.logs import Dataset

_ROWS = 1000.0  # of a state, for two logs to decide alike there: enough on most problems
_LEAST = 0.02  # rows: a state that is rarer is left at its default by logs of any size that is named


def times_for_the_next(data: Dataset, target: float = 0.95) -> float:
    """Return how many times as large a log must be to decide in the next state that this one did not reach.

    It is 1 where there is none, or where it is out of reach with probability ``target`` at least.

    >>> import replicable_rl as rr
    >>> log = {"state": [0] * 40 + [1] * 20 + [2] * 10, "action": [0] * 70, "reward": [0.0] * 70}
    >>> log["next_state"] = [0] * 70
    >>> seen = rr.from_transitions(log, gamma=0.9, states=[0, 1, 2])
    >>> more = rr.from_transitions(log, gamma=0.9, states=[0, 1, 2, 3])
    >>> times_for_the_next(seen), round(times_for_the_next(more))
    (1.0, 1200)
    """
    left = data.visits.sum(axis=1)
    rows = np.sort(left[left > 0])[:3].astype(np.float64)
    if not rows.size or not _never_reached(data, left).any():
        return 1.0
    steps = rows.size - 1
    falls = (rows[0] / rows[-1]) ** (1.0 / steps) if steps else 0.5
    expected = float(rows[0] * falls)
    if 1.0 / (2.0 + expected) <= 1.0 - target or expected < _LEAST:
        return 1.0
    return max(1.0, _ROWS * (1.0 + expected) / expected)


def _never_reached(data: Dataset, left: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the states of which the log knows nothing but their names; others end it, or a row leads there."""
    known = left > 0
    known[data.key % data.n_states] = True
    if data.process.ends:
        known[-1] = True
    if data.initial is not None:
        known |= data.initial > 0.0
    if data.support.given is not None:
        known |= data.support.given.sum(axis=1) < 2  # there is nothing to decide
    return ~known
