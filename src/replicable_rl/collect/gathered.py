r"""Counts of steps as they come, exactly: whatever pieces they come in, the same counts to the last bit.

Rewards that take few values are counted value by value. Where they take more than a thousand, those of a stretch
(:mod:`replicable_rl.data.stretches`) are added up: each as a whole number of 2**-k, cut into three pieces of 20 bits
that are added up apart,

    r 2^k  =  x_2 2^40 + x_1 2^20 + x_0        sums of integers do not depend on their order

and so up to 2**43 steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.data import Dataset, Process
from replicable_rl.data.stretches import changes, place, stretch, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST_STEPS = 2**43
_MANY_REWARDS = 1000  # different values: more are added up, as those of a log
_BITS, _PIECES = 20, 3
_WAITING = 1 << 16  # steps that are counted together, at least


@dataclass(frozen=True, eq=False)
class Gathered:
    """Transitions (s, a) -> s' with their rewards, how often each was seen; nothing in it ever changes.

    ``key`` is (s*A + a)*S + s'. Either ``reward`` holds the value of every outcome, or ``place`` the stretch of every
    outcome and ``sums`` what its rewards add up to. ``waiting`` are steps that were not counted yet.
    """

    process: Process
    key: Integers
    count: Integers
    reward: Floats | None
    sums: Integers | None = None
    place: Floats | None = None
    waiting: tuple[tuple[Integers, Floats], ...] = ()

    @classmethod
    def nothing(cls, process: Process) -> Gathered:
        """Return what is known before the first step."""
        return cls(process, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def after(self, key: Integers, reward: Floats) -> Gathered:
        """Return what is known after some more steps."""
        more = replace(self, waiting=(*self.waiting, (key, reward)))
        waiting = sum(key.size for key, _ in more.waiting)
        return more.settled() if waiting > max(_WAITING, self.key.size) else more

    def settled(self) -> Gathered:
        """Return the same with nothing waiting."""
        if not self.waiting:
            return self
        key, reward = (np.concatenate(parts) for parts in zip(*self.waiting, strict=True))
        return self.counting(key, reward, np.ones(key.size, dtype=np.int64))

    def counting(self, key: Integers, reward: Floats, count: Integers, *, add_up: bool = True) -> Gathered:
        """Return the same, with what was seen ``count`` times each, and nothing waiting."""
        if not key.size:
            return replace(self, waiting=())
        if self.reward is None:
            return self._summed(key, place(reward, self.width), _pieces(self.process, reward) * count, count)
        keys, rewards = np.concatenate([self.key, key]), np.concatenate([self.reward, reward + 0.0])
        counts = np.concatenate([self.count, count])
        order = np.lexsort((rewards, keys))
        keys, rewards = keys[order], rewards[order]
        first = _first(changes(keys), changes(rewards))
        merged = Gathered(self.process, keys[first], _added(counts[order], first), rewards[first])
        if add_up and np.unique(rewards[first]).size > _MANY_REWARDS:
            start = replace(Gathered.nothing(self.process), reward=None)
            return start.counting(merged.key, rewards[first], merged.count)
        return merged

    @property
    def width(self) -> float:
        """How long stretches are."""
        return stretch(*self.process.reward_range)

    def _summed(self, key: Integers, where: Floats, sums: Integers, count: Integers) -> Gathered:
        before = np.zeros((_PIECES, 0), np.int64) if self.sums is None else self.sums
        keys = np.concatenate([self.key, key])
        places = np.concatenate([np.zeros(0) if self.place is None else self.place, where])
        order = np.lexsort((places, keys))
        keys, places = keys[order], places[order]
        first = _first(changes(keys), changes(places))
        counts = _added(np.concatenate([self.count, count])[order], first)
        added = _added(np.hstack([before, sums])[:, order], first)
        return Gathered(self.process, keys[first], counts, None, added, places[first])

    @property
    def values(self) -> Floats:
        """The reward of every outcome, or the mean reward of its stretch."""
        if self.reward is not None:
            return self.reward
        if self.sums is None or self.place is None:
            return np.zeros(0)
        total = np.zeros(self.key.size)
        for i, piece in enumerate(self.sums):
            total += np.ldexp(piece.astype(np.float64), _BITS * i)
        mean: Floats = np.ldexp(total / self.count, -_scale(self.process))
        return np.clip(within(mean, self.place, self.width), *self.process.reward_range)

    def dataset(self, starts: Integers | None) -> Dataset:
        """Return what was seen as a data set."""
        all_of_it = self.settled()
        pair, states, actions = all_of_it.key // len(self.process.states), self.process.states, self.process.actions
        columns = pair // len(actions), pair % len(actions), all_of_it.key % len(states)
        return Dataset(
            self.process,
            *columns,
            all_of_it.values,
            all_of_it.count,
            starts=starts,
            width=self.width if all_of_it.sums is not None else 0.0,
        )


def _scale(process: Process) -> int:
    """Return k: whole numbers of 2**-k of the largest reward have 60 bits."""
    return _BITS * _PIECES - math.frexp(max(map(abs, process.reward_range)))[1]


def _pieces(process: Process, reward: Floats) -> Integers:
    """Return the three pieces of every reward; the highest has the sign."""
    whole = np.rint(np.ldexp(reward, _scale(process))).astype(np.int64)
    below = [(whole >> (_BITS * i)) & ((1 << _BITS) - 1) for i in range(_PIECES - 1)]
    return np.stack([*below, whole >> (_BITS * (_PIECES - 1))])


def _first(*differ: NDArray[np.bool_]) -> Integers:
    """Return where, among sorted things, a new one begins."""
    return np.flatnonzero(np.concatenate([[True], np.logical_or.reduce(differ)]))


def _added(counts: Integers, first: Integers) -> Integers:
    """Return the sums of what belongs together."""
    return np.add.reduceat(counts, first, axis=-1)
