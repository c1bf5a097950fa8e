"""Counts of outcomes: the sufficient statistic that every source returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_integer, check_numbers
from replicable_rl.theory import MAX_CALLS

if TYPE_CHECKING:
    from replicable_rl.problem.source import Source


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DRAWS = "the source's draws are independent and of one law for each pair, with rewards in the declared range"
STARTS = "the first states of its episodes are independent and of one law"


@dataclass(frozen=True)
class Trust:
    """What is known of how counts came about: a source has it, and the library stamps it on what the source returns.

    ``conditions`` are what must be true of the source and nobody can check, so that every claim about its runs says
    so; there are none where a table's own numbers are the law. ``merged``: an outcome may stand for rewards of several
    sizes by their mean. ``estimated``: the problem was itself estimated from data.
    """

    conditions: tuple[str, ...] = (DRAWS, STARTS)
    merged: bool = True
    estimated: bool = False


STATED = Trust()  # nothing is known


@dataclass(frozen=True, eq=False)
class OutcomeCounts:
    """How often each outcome of each pair occurred in ``calls`` calls.

    Row s*A + a owns the slice ``indptr[row]:indptr[row + 1]``; its counts sum to ``calls``
    (the exact process is the probabilities with one call). ``reward`` is the reward of an
    outcome, or the mean reward observed with it; then ``squares`` is the sum of the squares of how far they were from
    it, in units of the width of the reward range. Without ``squares``, each outcome has one reward.
    """

    indptr: Integers
    next_state: NDArray[np.int32]
    reward: Floats
    count: Integers | Floats
    calls: int
    squares: Floats | None = field(default=None, kw_only=True)
    trust: Trust = field(default=STATED, kw_only=True)

    @property
    def row(self) -> Integers:
        """The pair s*A + a of every outcome."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def mean(self, outcome_values: Floats) -> Floats:
        """Return, for every row, the empirical mean of a function of the outcome.

        ``outcome_values`` holds the function's value at every outcome, for example
        ``V[counts.next_state]``.
        """
        return self._sum(outcome_values) / float(self.calls)

    def variance(self, outcome_values: Floats, mean: Floats) -> Floats:
        """Return, for every row, the sample variance of a function of the outcome whose mean is known.

        Only where an outcome stands for one value: of rewards that were merged to their mean it says too little.
        """
        deviation = outcome_values - np.repeat(mean, np.diff(self.indptr))
        return self._sum(deviation * deviation) / float(self.calls - 1)

    def _sum(self, outcome_values: Floats) -> Floats:
        from replicable_rl.sampling import _kernels

        values = check_numbers("OutcomeCounts", "outcome_values", outcome_values)
        ends, outcomes = self.indptr, self.next_state.size
        if not (ends[0] == 0 and (np.diff(ends) >= 0).all() and ends[-1] == outcomes == self.count.size):
            raise InvalidInput("OutcomeCounts: indptr must rise from 0 to the number of outcomes, each with its count.")
        if values.shape != (outcomes,):  # a compiled loop would read beyond them
            rule = f"one number for each of the {outcomes} outcomes, such as V[counts.next_state] of V for each state"
            raise InvalidInput(f"OutcomeCounts: outcome_values must have {rule}, got shape {values.shape}.")
        total = np.empty(ends.size - 1)
        _kernels.row_means(ends, self.count, values, 0.0, total, 0, total.size)
        return total

    def transitions(self, n_states: int, n_actions: int, low: float = 0.0) -> TransitionCounts:
        """Return the same counts, merged by successor; rewards are summed above ``low``."""
        key, inverse = np.unique(self.row * n_states + self.next_state, return_inverse=True)
        count = sums(inverse, self.count.astype(np.float64), key.size)
        excess = sums(inverse, self.count * (self.reward - low), key.size)
        return TransitionCounts(n_states, n_actions, key, count, excess, low=low, trust=self.trust)


@dataclass(frozen=True, eq=False)
class TransitionCounts:
    """For each transition (s, a) -> s': how often it was seen, and the sum of its rewards.

    ``key`` = (s*A + a)*S + s' is sorted and free of repetitions. Counts are floats: whole numbers, exact
    up to 2**53 and rounded to 53 bits beyond, because m episodes of H steps may pass 2**63.

    Rewards are summed above ``low``: ``excess`` is the sum of r - low. With the bottom of the reward range for ``low``
    a large constant in all rewards costs no digits; with 0 it is the plain sum. Where a transition has rewards of
    several sizes, ``squares`` is the sum of the squares of how far they are from their mean, in units of ``width``,
    that of the reward range.
    """

    n_states: int
    n_actions: int
    key: Integers
    count: Floats
    excess: Floats
    low: float = field(default=0.0, kw_only=True)
    width: float = field(default=1.0, kw_only=True)
    squares: Floats | None = field(default=None, kw_only=True)
    trust: Trust = field(default=STATED, kw_only=True)

    @property
    def row(self) -> Integers:
        """The pair s*A + a of every transition."""
        return self.key // self.n_states

    @property
    def next_state(self) -> Integers:
        """The successor of every transition."""
        return self.key % self.n_states

    @property
    def visits(self) -> Floats:
        """How often each pair s*A + a was visited."""
        return sums(self.row, self.count, self.n_states * self.n_actions)

    @property
    def reward_sum(self) -> Floats:
        """The sum of the rewards of every transition."""
        return self.excess + self.low * self.count

    def rewards_above(self, low: float) -> Floats:
        """Return the sum of r - low over the rewards of each pair s*A + a."""
        return sums(self.row, self.excess, self.n_states * self.n_actions) + (self.low - low) * self.visits


@dataclass(frozen=True, eq=False)
class EpisodeCounts(TransitionCounts):
    """The transitions that some episodes saw; steps h = 0 ... H-1 are counted, so every one has a successor.

    ``starts`` says how many episodes began in each state; None where the first state's distribution is known anyway.
    """

    episodes: int
    steps: int
    starts: Integers | None = field(default=None, kw_only=True)

    def __add__(self, other: EpisodeCounts) -> EpisodeCounts:
        key, place = self.key, np.tile(np.arange(self.key.size), 2)
        if key is not other.key:  # which it is in two rounds on one table
            key, place = np.unique(np.concatenate([self.key, other.key]), return_inverse=True)
        count = np.concatenate([self.count, other.count])
        excess = np.concatenate([self.excess, other.excess + (other.low - self.low) * other.count])
        squares = None
        if self.squares is not None and other.squares is not None and self.width == other.width:
            squares = np.concatenate([self.squares, other.squares])
        count, excess, squares = pooled(place, count, excess, squares, self.width, key.size)
        starts = None if self.starts is None or other.starts is None else self.starts + other.starts
        total = replace(self, key=key, count=count, excess=excess, squares=squares, starts=starts)
        return replace(total, episodes=self.episodes + other.episodes, steps=self.steps + other.steps)


def pooled(
    place: Integers, count: Floats, excess: Floats, squares: Floats | float | None, width: float, size: int
) -> tuple[Floats, Floats, Floats | None]:
    """Return counts, sums and squares of groups of parts: squares within the parts, and between their means.

    >>> place, once = np.zeros(2, dtype=np.int64), np.ones(2)
    >>> [total.tolist() for total in pooled(place, once, np.array([1.0, 3.0]), 0.0, 4.0, 1)]
    [[2.0], [4.0], [0.125]]
    """
    total, summed = sums(place, count, size), sums(place, excess, size)
    if squares is None:
        return total, summed, None
    deviation = excess / np.maximum(count, 1.0) - (summed / np.maximum(total, 1.0))[place]
    return total, summed, sums(place, squares + count * (deviation / width) ** 2, size)


# Counts on their way: keys of transitions, how often, the sums of their rewards, and how far these are apart.
Tally = tuple[Integers, Integers, Floats, Floats]


def tally(key: Integers, count: Integers, excess: Floats, squares: Floats | float, width: float) -> Tally:
    """Return the distinct keys, sorted, with the sums of their counts and rewards, and how far these are apart."""
    unique, inverse = np.unique(key, return_inverse=True)
    counts = np.zeros(unique.size, dtype=np.int64)
    np.add.at(counts, inverse, count)
    _, summed, apart = pooled(inverse, count.astype(np.float64), excess, squares, width, unique.size)
    return unique, counts, summed, np.zeros(0) if apart is None else apart


def tally_of(
    key: Integers,
    reward: Floats,
    reward_range: tuple[float, float],
    times: int | Integers = 1,
) -> Tally:
    """Return the tally of transitions that were each seen so many times, with one reward.

    >>> key, count, excess, squares = tally_of(np.array([7, 7]), np.array([1.0, 3.0]), (1.0, 5.0))
    >>> key.tolist(), count.tolist(), excess.tolist(), squares.tolist()
    ([7], [2], [2.0], [0.125])
    """
    count = np.full(key.size, times, dtype=np.int64)
    return tally(key, count, times * (reward - reward_range[0]), 0.0, width_of(reward_range))


def width_of(reward_range: tuple[float, float]) -> float:
    """Return the width of a reward range, and 1 where there is one reward only."""
    return (reward_range[1] - reward_range[0]) or 1.0


def episode_counts(problem: Source, played: Tally, episodes: int, steps: int, starts: Integers) -> EpisodeCounts:
    """Return what episodes saw."""
    key, count, excess, squares = played
    sizes = problem.n_states, problem.n_actions, key, count.astype(np.float64), excess, episodes, steps
    low, width = problem.reward_range[0], width_of(problem.reward_range)
    return EpisodeCounts(*sizes, low=low, width=width, squares=squares, trust=problem.trust, starts=starts)


def merge_tallies(tallies: Iterator[Tally], reward_range: tuple[float, float]) -> Tally:
    """Merge tallies as they come, so that memory is bounded by the distinct transitions."""
    merged = next(tallies)
    for new in tallies:
        key, count, reward, squares = (np.concatenate(pair) for pair in zip(merged, new, strict=True))
        merged = tally(key, count, reward, squares, width_of(reward_range))
    return merged


def sums(index: Integers, weight: Floats, size: int) -> Floats:
    """Return the sums of the weights with index 0, 1, ... size-1, added in their order."""
    return np.bincount(index, weights=weight, minlength=size).astype(np.float64, copy=False)


def check_calls(owner: str, calls: int, name: str = "calls") -> int:
    """Return ``calls`` if it is a count that 64 bits can hold."""
    return check_integer(owner, name, calls, low=1, high=MAX_CALLS)


def check_horizon(horizon: int) -> int:
    """Return the number of steps of an episode."""
    return check_integer("episodes", "horizon", horizon, low=1, high=2**31 - 1)
