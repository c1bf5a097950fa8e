"""A log as something to draw from: every row is handed out once, and when they are used up, that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.sampling.counts import OutcomeCounts, check_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.dataset import Dataset


def places(pair: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the first outcomes of all pairs, the second ones, and so on; ``pair`` is that of every outcome, in order.

    >>> [one.tolist() for one in places(np.array([0, 0, 1, 2, 2]))]
    [[0, 2, 3], [1, 4]]
    """
    place = np.arange(pair.size) - np.searchsorted(pair, pair)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.cumsum(np.bincount(place))[:-1]) if pair.size else []


def drawn_by_pair(
    pair: NDArray[np.int64],
    have: NDArray[np.int64],
    wanted: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    again: bool = False,
    ranks: list[NDArray[np.int64]] | None = None,
) -> NDArray[np.int64]:
    """Return rows of every pair at random, as counts of their outcomes.

    Parameters
    ----------
    pair : (K,) integers
        The pair of every outcome, in order.
    have : (K,) integers
        How many rows of every outcome there are.
    wanted : (N,) integers
        How many rows of every pair are drawn; none of a pair without outcomes.
    rng : numpy.random.Generator
        What they follow from.
    again : bool
        Whether a row may be drawn again: each is put back.
    ranks : list of arrays, optional
        What :func:`places` says of the pairs, where it is known already.
    """
    wanted, left = wanted.copy(), np.bincount(pair, weights=have, minlength=wanted.size).astype(np.int64)
    count = np.zeros(pair.size, dtype=np.int64)
    for here in places(pair) if ranks is None else ranks:
        of = pair[here]
        rest = left[of] - have[here]
        if again:
            drawn = rng.binomial(wanted[of], have[here] / np.maximum(left[of], 1))
        else:
            drawn = rng.hypergeometric(have[here], rest, wanted[of])
        count[here], left[of] = drawn, rest
        wanted[of] -= drawn
    return count


class Replay:
    """What one run draws from a data set: for algorithms that ask for n successors of every pair, once or many times.

    It says all that the data set says; algorithms that need one batch take its ``counts`` as they are.
    """

    def __init__(self, data: Dataset) -> None:
        self._data, self._left = data, data.count.copy()
        real = data.visits[: data.n_states - int(data.process.ends)]  # what comes after the end takes no rows
        mask = None if data.allowed is None else data.allowed[: len(real)]
        rows = real if mask is None else np.where(mask, real, np.iinfo(np.int64).max)
        self.scarcest, self.fewest = data.pair_names(int(np.argmin(rows))), int(rows.min())
        self.most_samples = self.fewest * data.n_states * data.n_actions  # as many are drawn of every pair
        pairs, self._pair = np.arange(data.n_states * data.n_actions), data.key // data.n_states
        self._places = places(self._pair)
        ended = pairs // data.n_actions == data.n_states - 1 if data.process.ends else np.zeros(pairs.size, bool)
        missing = np.zeros(pairs.size, bool) if data.allowed is None else ~data.allowed.reshape(-1)
        self._free = ended | missing  # nobody asks for rows of them
        stays = np.flatnonzero(ended)
        pair = np.concatenate([self._pair, stays])
        self._order = np.argsort(pair, kind="stable")
        successor = np.concatenate([data.key % data.n_states, np.full(stays.size, data.n_states - 1)])[self._order]
        reward = np.concatenate([data.reward, np.zeros(stays.size)])[self._order]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=pairs.size))]).astype(np.int64)
        self._outcomes = indptr, successor.astype(np.int32), reward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Return ``calls`` rows of every pair that were not handed out before, at random."""
        calls, pairs = check_calls("Dataset", calls), self._free.size
        left = np.bincount(self._pair, weights=self._left, minlength=pairs).astype(np.int64)
        self._refuse_beyond(calls, np.where(self._free, calls, left))
        wanted = np.full(pairs, calls, dtype=np.int64)
        count = drawn_by_pair(self._pair, self._left, wanted, rng, ranks=self._places)
        self._left -= count
        after = np.full(self._order.size - count.size, calls)  # the end: nothing, for ever
        return OutcomeCounts(*self._outcomes, np.concatenate([count, after])[self._order], calls)

    @property
    def handed_out(self) -> int:
        """How many rows of a pair were handed out, of the pair with most; 0: nothing was drawn."""
        taken = np.bincount(self._pair, weights=self._data.count - self._left)
        return int(taken.max()) if taken.size else 0

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
