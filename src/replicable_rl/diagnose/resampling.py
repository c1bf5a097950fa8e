r"""Another log like this one, from its counts alone.

    another log    c'(s, a, s', r) ~ Poisson(scale * c(s, a, s', r))        first states likewise
    two halves     c' ~ binomial(c, 1/2),  c'' = c - c'

Counts make this free: a new log of any size takes a fraction of a millisecond. The first is the bootstrap of rows (its
Poisson form: also the number of rows is random, as it is where somebody behaves and the log records it). It says what
another log would say if the process were the one that was estimated. The halves are independent logs of the true
process, of half the size.

Where outcomes are very many, both are drawn by the compiled sampler, by the same law: of every pair Poisson many rows,
split among its outcomes; and of two outcomes with 1/2 each, as many as there are rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.sampling.tables import conditional_probabilities, stream_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data import Dataset
    from replicable_rl.sampling.counts import EpisodeCounts


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
    """How often every outcome of a data set occurs in a log, and in which states its episodes begin.

    ``ends`` says where the outcomes of a pair end, and those of the next begin, where outcomes are very many.
    """

    count: NDArray[np.int64]
    starts: NDArray[np.int64] | None
    ends: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, data: Dataset) -> Rows:
        """Return those of the data set itself."""
        if data.key.size < _VERY_MANY:
            return cls(data.count, data.starts)
        pair = data.key // data.n_states
        return cls(data.count, data.starts, np.append(np.flatnonzero(np.diff(pair, prepend=-1)), pair.size))

    def again(self, rng: np.random.Generator, scale: float = 1.0) -> Rows:
        """Return another log with about ``scale`` times as many rows."""
        starts = self._starts_again(rng, scale)
        if self.ends is None:
            return Rows(rng.poisson(self.count * scale), starts)
        each, conditional = self._by_pair
        return Rows(_split(self.ends, conditional, rng.poisson(each * scale), rng), starts, self.ends)

    @cached_property
    def _by_pair(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """How many rows every pair has, and the conditional probabilities of its outcomes."""
        assert self.ends is not None, "asked for where outcomes are very many"
        each = np.add.reduceat(self.count, self.ends[:-1])
        share = self.count / np.repeat(np.maximum(each, 1), np.diff(self.ends))
        return each, conditional_probabilities(self.ends, share)

    def _starts_again(self, rng: np.random.Generator, scale: float) -> NDArray[np.int64] | None:
        starts = self.starts
        if starts is None or not starts.sum():
            return starts
        episodes = max(1, round(float(starts.sum()) * scale))
        return rng.multinomial(episodes, starts / starts.sum()).astype(np.int64)

    def halves(self, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """Return two disjoint parts of the log, each row in one of them by a coin."""
        if self.ends is None:
            one = rng.binomial(self.count, 0.5)
        else:
            coins = np.tile([0.5, -0.0], self.count.size)  # the second side takes what is left
            one = _split(np.arange(0, coins.size + 1, 2), coins, self.count, rng)[::2]
        return Rows(one, self.starts, self.ends), Rows(self.count - one, self.starts, self.ends)

    def counts(self, data: Dataset) -> EpisodeCounts:
        """Return them as counts of transitions."""
        return data.counts_of(self.count, self.starts)


def _split(
    ends: NDArray[np.int64],
    conditional: NDArray[np.float64],
    rows: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return so many rows of every pair, or of whatever ``ends`` divides, as counts of their outcomes."""
    from replicable_rl.sampling._kernels import multinomial_rows

    count = np.empty(conditional.size, dtype=np.int64)
    multinomial_rows(ends, conditional, rows, stream_words(rng, 1)[0], count)
    return count
