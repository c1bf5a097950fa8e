"""Episodes as counts: m episodes of H steps under a policy, from the initial distribution.

Steps h = 0 ... H-1 are counted, so every counted step has a successor. Under a fixed policy the
number of episodes in each state after h steps is a Markov chain of multinomials,

    N_{h+1} = sum over s of multinomial(N_h(s), P(.|s, policy(s))),

so a table is simulated by pushing counts along: exact in law, at a cost of H * reached states *
outcomes, whatever m is. What learning needs of a transition is the pair it left, the state it
reached and the reward, so that is what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from replicable_rl.errors import InvalidInput, check_integer
from replicable_rl.mdp import TabularMDP, action_probabilities, chosen_actions
from replicable_rl.sampling.counts import TransitionCounts, check_calls, sums
from replicable_rl.sampling.generative import FromTable, conditional_probabilities, stream_words
from replicable_rl.sampling.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


__all__ = ["EpisodeCounts", "EpisodicModel", "EpisodicTable", "PerTrajectorySampler", "as_episodic", "check_horizon"]


@dataclass(frozen=True, eq=False)
class EpisodeCounts(TransitionCounts):
    """The transitions that some episodes saw."""

    episodes: int
    steps: int

    def __add__(self, other: EpisodeCounts) -> EpisodeCounts:
        if (self.n_states, self.n_actions) != (other.n_states, other.n_actions):
            raise InvalidInput(
                f"EpisodeCounts: only counts of one problem add up, got (S, A) = {(self.n_states, self.n_actions)} and "
                f"{(other.n_states, other.n_actions)}."
            )
        if self.key is other.key:  # two rounds on one table
            key, count, reward_sum = self.key, self.count + other.count, self.reward_sum + other.reward_sum
        else:
            key, inverse = np.unique(np.concatenate([self.key, other.key]), return_inverse=True)
            count = sums(inverse, np.concatenate([self.count, other.count]), key.size)
            reward_sum = sums(inverse, np.concatenate([self.reward_sum, other.reward_sum]), key.size)
        episodes, steps = self.episodes + other.episodes, self.steps + other.steps
        return EpisodeCounts(self.n_states, self.n_actions, key, count, reward_sum, episodes, steps)


@runtime_checkable
class EpisodicModel(Problem, Protocol):
    """What an algorithm in the episodic setting needs of a problem."""

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        ...


class _EpisodicTable(FromTable):
    """A `TabularMDP` played in episodes: transitions of the table, merged by successor."""

    def __init__(self, mdp: TabularMDP) -> None:
        super().__init__(mdp)
        rows = mdp.rows
        row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
        self._key, self._transition = np.unique(row * mdp.n_states + rows.next_state, return_inverse=True)

    def _nothing_yet(self, episodes: int, horizon: int) -> EpisodeCounts:
        """Return the counts of no transition, to add to."""
        count, reward_sum, steps = np.zeros(self._key.size), np.zeros(self._key.size), episodes * horizon
        return EpisodeCounts(self.n_states, self.n_actions, self._key, count, reward_sum, episodes, steps)


class EpisodicTable(_EpisodicTable):
    """Plays a `TabularMDP` by count propagation; exact in law, at a cost that does not depend on m.

    >>> from replicable_rl.envs import riverswim
    >>> from replicable_rl.randomness import sample_stream
    >>> seen = EpisodicTable(riverswim()).play([1] * 6, episodes=10**15, horizon=20, rng=sample_stream(1))
    >>> int(seen.visits.sum())
    20000000000000000
    """

    def __init__(self, mdp: TabularMDP) -> None:
        super().__init__(mdp)
        self._conditional = conditional_probabilities(mdp.rows.indptr, mdp.rows.probability)
        self._first = np.flatnonzero(mdp.initial)
        self._initial = conditional_probabilities(np.array([0, self._first.size]), mdp.initial[self._first])

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        from replicable_rl.sampling import _kernels

        episodes, horizon = check_calls("EpisodicTable", episodes, "episodes"), check_horizon(horizon)
        rows, seen = self._mdp.rows, self._nothing_yet(episodes, horizon)
        table = (self._first, self._initial, rows.indptr, rows.next_state, self._conditional)
        decisions = _decisions(policy, self.n_states, self.n_actions)
        played = *table, *decisions, episodes, horizon, stream_words(rng, 1)[0]
        _kernels.propagate(*played, self._transition, rows.reward, seen.count, seen.reward_sum)
        return seen


def _decisions(policy: ArrayLike, n_states: int, n_actions: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the action of every state, -1 where it is left to chance, and the conditional probabilities if any is."""
    actions = chosen_actions("EpisodicTable", policy, n_states, n_actions)
    if actions is not None:
        return actions, np.empty(0)
    weights = action_probabilities("EpisodicTable", policy, n_states, n_actions)
    sure = weights.max(axis=1) == 1.0
    first = np.arange(0, weights.size + 1, n_actions)
    return np.where(sure, weights.argmax(axis=1), -1), conditional_probabilities(first, weights.reshape(-1))


class PerTrajectorySampler(_EpisodicTable):
    """Plays every episode of a `TabularMDP` one step at a time: the reference for tests and benchmarks."""

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        from replicable_rl.sampling import _kernels

        episodes, horizon = check_calls("PerTrajectorySampler", episodes, "episodes"), check_horizon(horizon)
        weights = action_probabilities("PerTrajectorySampler", policy, self.n_states, self.n_actions)
        rows = self._mdp.rows
        # Row r of cumulative probabilities lives in (r, r + 1], so that one search serves all rows.
        row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
        total = np.cumsum(rows.probability)
        outcomes = row + total - np.concatenate([[0.0], total[rows.indptr[1:-1] - 1]])[row]
        actions = np.cumsum(weights, axis=1)
        count = np.zeros(rows.probability.size)
        state = rng.choice(self.n_states, size=episodes, p=self._mdp.initial / self._mdp.initial.sum())
        for _ in range(horizon):
            action = (rng.random((episodes, 1)) * actions[state, -1:] >= actions[state]).sum(axis=1)
            pair = state * self.n_actions + np.minimum(action, self.n_actions - 1)
            drawn = np.searchsorted(outcomes, pair + rng.random(episodes), side="right")
            drawn = np.clip(drawn, rows.indptr[pair], rows.indptr[pair + 1] - 1)
            count += np.bincount(drawn, minlength=count.size)
            state = rows.next_state[drawn]
        seen = self._nothing_yet(episodes, horizon)
        _kernels.merge(self._transition, rows.reward, count, seen.count, seen.reward_sum)
        return seen


def as_episodic(problem: TabularMDP | EpisodicModel) -> EpisodicModel:
    """Return the problem as an episodic model; a `TabularMDP` is played by counts."""
    if isinstance(problem, TabularMDP):
        return EpisodicTable(problem)
    if isinstance(problem, EpisodicModel):
        return problem
    hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
    raise InvalidInput(
        "problem must be a TabularMDP, an EpisodicEnv or another object with the methods of EpisodicModel, "
        f"got {type(problem).__name__}.{hint}"
    )


def check_horizon(horizon: int) -> int:
    """Return the number of steps of an episode."""
    return check_integer("episodes", "horizon", horizon, low=1, high=2**31 - 1)
