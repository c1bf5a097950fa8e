r"""Another log like this one: new counts from the empirical model, at the same number of samples of every pair.

    c'(s, a, .) ~ multinomial(n(s, a), c(s, a, .)/n(s, a))        first states likewise

Counts make this free: a new log of any size takes a fraction of a millisecond. What it says is what another log would
say if the process were the one that was estimated (the parametric bootstrap). Where two actions are exactly as good in
truth, the estimated process has no exact ties, and its logs agree more often than those of the true one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.sampling.counts import EpisodeCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data import Dataset


class Resampler:
    """Draws new counts like those of a data set, of its size or of another one.

    Parameters
    ----------
    data : Dataset
        The log.
    """

    def __init__(self, data: Dataset) -> None:
        self.data = data
        pair = data.key // data.n_states
        self._first = (
            np.flatnonzero(np.concatenate([[True], np.diff(pair) != 0])) if pair.size else np.zeros(0, np.int64)
        )
        length = np.diff(np.concatenate([self._first, [pair.size]]))
        self._visits = np.add.reduceat(data.count, self._first) if pair.size else data.count
        # Outcome j of its pair, given that none of the earlier ones occurred; by their place in the pair.
        before = np.cumsum(data.count) - data.count
        left = np.repeat(self._visits + before[self._first], length) - before
        self._conditional = data.count / left
        place = np.arange(pair.size) - np.repeat(self._first, length)
        order = np.argsort(place, kind="stable")
        self._by_place = np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if pair.size else []
        self._pair = np.repeat(np.arange(self._first.size), length)

    def draw(self, rng: np.random.Generator, scale: float = 1.0) -> EpisodeCounts:
        """Return the counts of a new log with ``scale`` times as many samples of every pair."""
        data = self.data
        left = np.maximum(np.rint(self._visits * scale), 1.0).astype(np.int64)
        count = np.zeros(data.key.size, dtype=np.int64)
        for outcomes in self._by_place:
            of = self._pair[outcomes]
            drawn = rng.binomial(left[of], np.minimum(self._conditional[outcomes], 1.0))
            count[outcomes] = drawn
            left[of] -= drawn
        return data.counts_of(count, self._starts(rng, scale))

    def _starts(self, rng: np.random.Generator, scale: float) -> NDArray[np.int64] | None:
        starts = self.data.starts
        if starts is None or not starts.sum():
            return starts
        many = max(1, round(float(starts.sum()) * scale))
        return rng.multinomial(many, starts / starts.sum()).astype(np.int64)

    def halves(self, rng: np.random.Generator) -> tuple[EpisodeCounts, EpisodeCounts]:
        """Return the counts of two disjoint parts of the log, each row in one of them by a coin."""
        data = self.data
        one = rng.binomial(data.count, 0.5)
        return data.counts_of(one, data.starts), data.counts_of(data.count - one, data.starts)
