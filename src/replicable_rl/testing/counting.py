"""A problem that counts what is drawn from it, whatever the algorithm says it drew."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from replicable_rl.canonical import array_digest
from replicable_rl.problem.source import Episodic, Generative, Source, Wrapped, as_source
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts

Redraw = Callable[[np.random.Generator], str]  # a draw with the same arguments -> digest of its counts


@dataclass
class Tap:
    """What went through a counting problem: transitions in all, and every draw.

    With the digest of the counts of a draw goes a function that draws as much again from another generator: the
    control that tells whether fresh samples could have looked different at all.
    """

    transitions: int = 0
    draws: list[tuple[str, Redraw]] = field(default_factory=list)

    def record(self, transitions: int, digest: str, redraw: Redraw) -> None:
        """Note one draw."""
        self.transitions += int(transitions)
        self.draws.append((digest, redraw))


def counting(problem: Source) -> tuple[Any, Tap]:
    """Return the problem behind a counter, and the counter.

    >>> from replicable_rl.problem import chain
    >>> from replicable_rl.randomness import sample_stream
    >>> problem, tap = counting(chain())
    >>> _ = problem.draw(100, sample_stream(1)), problem.play([0] * 5, 10, 7, sample_stream(1))
    >>> tap.transitions  # 100 of each of 10 pairs, and 10 episodes of 7 steps
    1070
    """
    tap, source = Tap(), as_source(problem)
    draws, plays = isinstance(source, Generative), isinstance(source, Episodic)
    kind = _CountedBoth if draws and plays else _CountedDraws if draws else _CountedEpisodes
    return kind(tap, source), tap


class _Counted(Wrapped):
    def __init__(self, tap: Tap, source: Any) -> None:
        super().__init__(source)
        self._tap = tap


class _CountedDraws(_Counted, Generative):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        inside = self.own
        counts: OutcomeCounts = inside.draw(calls, rng)
        self._tap.record(
            counts.calls * self.support.pairs,
            _outcomes_digest(counts),
            lambda other: _outcomes_digest(inside.draw(calls, other)),
        )
        return counts


class _CountedEpisodes(_Counted, Episodic):
    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        inside, played = self.own, np.array(policy)  # a copy: the algorithm may reuse its array
        seen: EpisodeCounts = inside.play(policy, episodes, horizon, rng)
        self._tap.record(
            seen.steps,
            _episodes_digest(seen),
            lambda other: _episodes_digest(inside.play(played, episodes, horizon, other)),
        )
        return seen


class _CountedBoth(_CountedDraws, _CountedEpisodes):
    """Both ways of sampling, for problems that have both."""


def _outcomes_digest(counts: OutcomeCounts) -> str:
    return array_digest("draw", counts.indptr, counts.next_state, counts.reward, counts.count)


def _episodes_digest(seen: EpisodeCounts) -> str:
    return array_digest("play", seen.key, seen.count, seen.reward_sum)
