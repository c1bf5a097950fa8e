r"""Another log like this one, from its counts alone.

    another log    c'(s, a, s', r) ~ Poisson(scale * c(s, a, s', r))        first states likewise
    two halves     c' ~ binomial(c, 1/2),  c'' = c - c'

Counts make this free: a new log of any size takes a fraction of a millisecond. The first is the bootstrap of rows (its
Poisson form: also the number of rows is random, as it is where somebody behaves and the log records it). It says what
another log would say if the process were the one that was estimated. The halves are independent logs of the true
process, of half the size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.logs import Dataset
    from replicable_rl.sampling import EpisodeCounts


_VERY_MANY = 100_000  # outcomes
_USUAL, _LEAST = 200, 50  # pairs of logs


def usual_resamples(outcomes: int) -> int:
    """Return how many pairs of logs are drawn, so that a large log is diagnosed in seconds.

    >>> usual_resamples(1000), usual_resamples(330_000), usual_resamples(10**7)
    (200, 60, 50)
    """
    return _USUAL if outcomes <= _VERY_MANY else max(_LEAST, _USUAL * _VERY_MANY // outcomes)


@dataclass(frozen=True, eq=False)
class Rows:
    """How often every outcome of a data set occurs in a log, and in which states its episodes begin."""

    count: NDArray[np.int64]
    starts: NDArray[np.int64] | None

    @classmethod
    def of(cls, data: Dataset) -> Rows:
        """Return those of the data set itself."""
        return cls(data.count, data.starts)

    def again(self, rng: np.random.Generator, scale: float = 1.0) -> Rows:
        """Return another log with about ``scale`` times as many rows."""
        starts = self.starts
        if starts is not None and starts.sum():
            episodes = max(1, round(float(starts.sum()) * scale))
            starts = rng.multinomial(episodes, starts / starts.sum()).astype(np.int64)
        return Rows(rng.poisson(self.count * scale), starts)

    def halves(self, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """Return two disjoint parts of the log, each row in one of them by a coin."""
        one = rng.binomial(self.count, 0.5)
        return Rows(one, self.starts), Rows(self.count - one, self.starts)

    def counts(self, data: Dataset) -> EpisodeCounts:
        """Return them as counts of transitions."""
        return data.counts_of(self.count, self.starts)
