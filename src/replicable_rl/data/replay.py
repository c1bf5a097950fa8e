"""A log as something to draw from: every row is handed out once, and when they are used up, that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.sampling.counts import OutcomeCounts, check_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.dataset import Dataset


class Replay:
    """What one run draws from a data set: for algorithms that ask for n successors of every pair, once or many times.

    It says all that the data set says; algorithms that need one batch take its ``counts`` as they are.
    """

    def __init__(self, data: Dataset) -> None:
        self._data, self._left = data, data.count.copy()
        real = data.visits[: data.n_states - int(data.process.ends)]  # what comes after the end takes no rows
        mask = None if data.allowed is None else data.allowed[: len(real)]
        self.fewest = int((real if mask is None else real[mask]).min())
        self.most_samples = self.fewest * data.n_states * data.n_actions  # as many are drawn of every pair

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Return ``calls`` rows of every pair that were not handed out before, at random."""
        data, calls = self._data, check_calls("Dataset", calls)
        pairs = data.n_states * data.n_actions
        pair = data.key // data.n_states
        left = np.bincount(pair, weights=self._left, minlength=pairs).astype(np.int64)
        ended = np.arange(pairs) // data.n_actions == data.n_states - 1 if data.process.ends else np.zeros(pairs, bool)
        missing = np.zeros(pairs, bool) if data.allowed is None else ~data.allowed.reshape(-1)  # nobody asks for them
        self._refuse_beyond(calls, np.where(ended | missing, calls, left))
        first = np.searchsorted(pair, np.arange(pairs))
        place, wanted = np.arange(pair.size) - first[pair], np.full(pairs, calls, dtype=np.int64)
        count = np.zeros(pair.size, dtype=np.int64)
        for i in range(int(place.max()) + 1 if place.size else 0):
            here = np.flatnonzero(place == i)
            of = pair[here]
            rest = left[of] - self._left[here]
            drawn = rng.hypergeometric(self._left[here], rest, wanted[of])
            count[here], left[of] = drawn, rest
            wanted[of] -= drawn
        self._left -= count
        return self._outcomes(count, calls, np.flatnonzero(ended))

    def _outcomes(self, count: NDArray[np.int64], calls: int, ended: NDArray[np.int64]) -> OutcomeCounts:
        """Return counts with what comes after the end: nothing, for ever."""
        data = self._data
        pair = np.concatenate([data.key // data.n_states, ended])
        order = np.argsort(pair, kind="stable")
        successor = np.concatenate([data.key % data.n_states, np.full(ended.size, data.n_states - 1)])[order]
        reward = np.concatenate([data.reward, np.zeros(ended.size)])[order]
        counts = np.concatenate([count, np.full(ended.size, calls)])[order]
        lengths = np.bincount(pair, minlength=data.n_states * data.n_actions)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return OutcomeCounts(indptr, successor.astype(np.int32), reward, counts, calls)

    def _refuse_beyond(self, calls: int, left: NDArray[np.int64]) -> None:
        short = left < calls
        if not short.any():
            return
        data, worst = self._data, int(np.argmin(left))
        where = data.pair_names(worst)
        raise InvalidInput(
            f"Dataset: {calls} successors of every pair are asked for, and {int(short.sum())} of {short.size} pairs "
            f"have fewer rows left: {where} has {left[worst]}. Ask for fewer, or use PlugInPolicy, which takes what "
            "there is."
        )
