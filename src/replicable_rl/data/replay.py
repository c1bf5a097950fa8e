"""A log as something to draw from: every row is handed out once, and when they are used up, that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.data.few import largest_threshold, taken_for_the_worst, threshold
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import pairs_of
from replicable_rl.sampling.counts import OutcomeCounts, check_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.dataset import Dataset
    from replicable_rl.randomness import SharedRandomness


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
        data.refuse_outside()
        self._data, self._left, self._pair = data, data.count.copy(), data.key // data.n_states
        self._places = places(self._pair)
        pairs = np.arange(data.n_states * data.n_actions)
        self._ended = (pairs // data.n_actions == data.n_states - 1) & data.process.ends  # they take no rows
        self._missing = np.zeros(pairs.size, bool) if data.allowed is None else ~data.allowed.reshape(-1)
        self._visits = np.where(self._ended, data.rows, data.visits.reshape(-1)).astype(np.float64)  # as in its counts
        self._most = largest_threshold(self._visits)
        asked = ~self._ended & ~self._missing
        counts = asked & (self._visits >= self._most)
        self.has_few = bool((asked & ~counts).any())  # whether some pairs may be taken for the worst
        rows = np.where(counts, self._visits, np.inf)
        self.scarcest, self.fewest = data.pair_names(int(np.argmin(rows))), int(rows.min()) if counts.any() else 0
        self.most_samples = self.fewest * pairs_of(data)  # as many are drawn of every pair
        self.left_out, self.fewest_counted = np.zeros(0, dtype=np.int64), 1.0
        self._arrange()

    def leave_out_few(self, shared: SharedRandomness, needed: int | None) -> None:
        """Take pairs with few rows for the worst: every row of theirs comes back, with the lowest reward.

        These are pairs with fewer rows than the shared random threshold, and those with fewer than are ``needed``, as
        long as the threshold might have been above them: whether a run is possible does not depend on the seed.
        """
        self.fewest_counted = threshold(self._visits, shared)
        if needed is not None:
            self.fewest_counted = max(self.fewest_counted, min(float(needed), self._most))
        few = (self._visits < self.fewest_counted) & ~self._ended & ~self._missing
        self.left_out = np.flatnonzero(few)
        self._arrange()

    def said_of_few(self) -> str:
        """Say which pairs are taken for the worst; "" if none are."""
        if not self.left_out.size:
            return ""
        pairs = pairs_of(self._data) - int(self._ended.sum())
        return taken_for_the_worst(self.left_out.tolist(), pairs, self.fewest_counted, self._data.pair_names)

    def _arrange(self) -> None:
        """Put the outcomes of the log, and what is known without it, in the order of pairs."""
        data, ended = self._data, np.flatnonzero(self._ended)
        stays = np.concatenate([ended, self.left_out])
        self._asked = ~(self._ended | self._missing)  # of which pairs rows are handed out
        self._asked[self.left_out] = False
        pair = np.concatenate([self._pair, stays])
        self._order = np.argsort(pair, kind="stable")
        successor = np.concatenate([data.key % data.n_states, stays // data.n_actions])[self._order]
        known = np.zeros(ended.size), np.full(self.left_out.size, data.reward_range[0])
        reward = np.concatenate([data.reward, *known])[self._order]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=self._asked.size))]).astype(np.int64)
        self._outcomes = indptr, successor.astype(np.int32), reward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Return ``calls`` rows of every pair that were not handed out before, at random."""
        calls = check_calls("Dataset", calls)
        left = np.bincount(self._pair, weights=self._left, minlength=self._asked.size).astype(np.int64)
        self._refuse_beyond(calls, np.where(self._asked, left, calls))
        wanted = np.where(self._asked, calls, 0)
        count = drawn_by_pair(self._pair, self._left, wanted, rng, ranks=self._places)
        self._left -= count
        after = np.full(self._order.size - count.size, calls)  # what stays where it is, for ever
        return OutcomeCounts(*self._outcomes, np.concatenate([count, after])[self._order], calls)

    @property
    def handed_out(self) -> int:
        """How many rows of a pair were handed out, of the pair with most; 0: nothing was drawn."""
        taken = np.bincount(self._pair, weights=self._data.count - self._left)
        return int(taken.max()) if taken.size else 0

    @property
    def rows_taken(self) -> int:
        """How many rows were handed out, of all pairs together.

        A plan counts as many of every pair. Pairs with few rows, and those after the end, take none.
        """
        return int((self._data.count - self._left).sum())

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
