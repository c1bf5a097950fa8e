r"""Another log like this one, from its counts alone.

    another log    c'(s, a, s', r) ~ Poisson(scale * c(s, a, s', r))        first states likewise
    two halves     c' ~ binomial(c, 1/2),  c'' = c - c'

Counts make this free: a new log of any size takes a fraction of a millisecond. The first is the bootstrap of rows (its
Poisson form: also the number of rows is random, as it is where somebody behaves and the log records it). It says what
another log would say if the process were the one that was estimated. Where two actions are exactly as good in truth,
the estimated process has no exact ties, and its logs agree more often than those of the true one. The halves
are independent logs of the true process, of half the size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from replicable_rl.data import Dataset
    from replicable_rl.sampling.counts import EpisodeCounts


def another_log(data: Dataset, rng: np.random.Generator, scale: float = 1.0) -> EpisodeCounts:
    """Return the counts of a new log with about ``scale`` times as many rows."""
    count = rng.poisson(data.count * scale)
    starts = data.starts
    if starts is not None and starts.sum():
        episodes = max(1, round(float(starts.sum()) * scale))
        starts = rng.multinomial(episodes, starts / starts.sum()).astype(np.int64)
    return data.counts_of(count, starts)


def halves(data: Dataset, rng: np.random.Generator) -> tuple[EpisodeCounts, EpisodeCounts]:
    """Return the counts of two disjoint parts of the log, each row in one of them by a coin."""
    one = rng.binomial(data.count, 0.5)
    return data.counts_of(one, data.starts), data.counts_of(data.count - one, data.starts)
