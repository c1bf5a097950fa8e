"""A problem that counts what is drawn from it, whatever the algorithm says it drew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.canonical import array_digest
from replicable_rl.mdp import TabularMDP
from replicable_rl.sampling import EpisodicModel, GenerativeModel, as_episodic, as_generative

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.sampling import EpisodeCounts, OutcomeCounts

__all__ = ["AnyProblem", "Tap", "counting"]

AnyProblem = TabularMDP | GenerativeModel | EpisodicModel
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


def counting(problem: AnyProblem) -> tuple[AnyProblem, Tap]:
    """Return the problem behind a counter, and the counter.

    >>> from replicable_rl.envs import chain
    >>> from replicable_rl.randomness import sample_stream
    >>> problem, tap = counting(chain())
    >>> _ = problem.draw(100, sample_stream(1)), problem.play([0] * 5, 10, 7, sample_stream(1))
    >>> tap.transitions  # 100 of each of 10 pairs, and 10 episodes of 7 steps
    1070
    """
    tap = Tap()
    drawn = as_generative(problem) if isinstance(problem, TabularMDP | GenerativeModel) else None
    played = as_episodic(problem) if isinstance(problem, TabularMDP | EpisodicModel) else None
    if drawn is not None and played is not None:
        return _CountedBoth(tap, drawn, played), tap
    return (_CountedEpisodes if drawn is None else _CountedDraws)(tap, drawn, played), tap


class _Counted:
    """What every problem tells, taken from the problem inside."""

    def __init__(self, tap: Tap, generative: GenerativeModel | None, episodic: EpisodicModel | None) -> None:
        self._tap, self._generative, self._episodic = tap, generative, episodic
        model = episodic if generative is None else generative
        assert model is not None
        self.n_states, self.n_actions, self.gamma = model.n_states, model.n_actions, model.gamma
        self.reward_range, self.known_rewards, self.spec = model.reward_range, model.known_rewards, model.spec
        if hasattr(model, "initial"):
            self.initial = model.initial


class _CountedDraws(_Counted):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        inside = self._generative
        assert inside is not None
        counts = inside.draw(calls, rng)
        self._tap.record(
            counts.calls * self.n_states * self.n_actions,
            _outcomes_digest(counts),
            lambda other: _outcomes_digest(inside.draw(calls, other)),
        )
        return counts


class _CountedEpisodes(_Counted):
    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        inside, played = self._episodic, np.array(policy)  # a copy: the algorithm may reuse its array
        assert inside is not None
        seen = inside.play(policy, episodes, horizon, rng)
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
