"""Tables as sources of samples: fresh counts, exact in law, at a cost that does not depend on how many are drawn.

*Pairs.* m i.i.d. outcomes of a row, counted, have exactly the law of one multinomial draw: the binomial of the first
outcome, then of the second among what is left, and so on. Rows are drawn in blocks with a stream each, so the counts
of a seed are the same on any number of threads.

*Episodes.* Under a fixed policy the number of episodes in each state after h steps is a Markov chain of multinomials,

    N_{h+1} = sum over s of multinomial(N_h(s), P(.|s, policy(s))),

so m episodes are played by pushing counts along, in H * reached states * outcomes. What learning needs of a transition
is the pair it left, the state it reached and the reward, so that is what is kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.mdp import TabularMDP, action_probabilities, allowed_of, chosen_actions
from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts, check_calls, check_horizon, width_of
from replicable_rl.sampling.problem import BUDGET

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.records import ObjectSpec
    from replicable_rl.sampling.fused import Fused

MANY_BLOCKS = 100  # blocks of rows that are worth several threads
_CHUNK = 1 << 20  # samples drawn one by one at a time


class Table:
    """What every sampler of a `TabularMDP` says about it, and how it returns counts."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.n_states, self.n_actions, self.gamma = mdp.n_states, mdp.n_actions, mdp.gamma
        self.reward_range, self.initial, self.estimated = mdp.reward_range, mdp.initial, mdp.estimated
        self.allowed = mdp.allowed

    @property
    def known_rewards(self) -> NDArray[np.float64] | None:
        """The (S, A) table of rewards if each pair has one reward, else None."""
        return self.mdp.known_rewards

    @property
    def spec(self) -> ObjectSpec:
        """The identity of the table."""
        return self.mdp.spec

    @cached_property
    def _transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys of the table's transitions, and the transition that each outcome belongs to."""
        rows = self.mdp.rows
        row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
        return np.unique(row * self.n_states + rows.next_state, return_inverse=True)

    def _drawn(self, count: NDArray[np.int64], calls: int) -> OutcomeCounts:
        rows = self.mdp.rows
        return OutcomeCounts(rows.indptr, rows.next_state, rows.reward, count, calls)

    def _nothing_yet(self, episodes: int, horizon: int) -> EpisodeCounts:
        """Return the counts of no transition, to add to."""
        key, steps, low = self._transitions[0], episodes * horizon, self.reward_range[0]
        more: dict[str, Any] = {"low": low, "width": width_of(self.reward_range)}
        more |= {"squares": np.zeros(key.size) if self._several_rewards else None}
        count, excess = np.zeros(key.size), np.zeros(key.size)
        return EpisodeCounts(self.n_states, self.n_actions, key, count, excess, episodes, steps, **more)

    @cached_property
    def _several_rewards(self) -> bool:
        """Whether some transition has rewards of several sizes, which are outcomes of their own."""
        (key, transition), reward = self._transitions, self.mdp.rows.reward
        last = np.empty(key.size)
        last[transition] = reward
        return bool((last[transition] != reward).any())


class Counts(Table):
    """The sampler of tables: counts of fresh samples, drawn as counts.

    Parameters
    ----------
    mdp : TabularMDP
        The table.

    Examples
    --------
    >>> from replicable_rl.envs import riverswim
    >>> from replicable_rl.randomness import sample_stream
    >>> river = Counts(riverswim())
    >>> counts = river.draw(10**16, sample_stream(1))
    >>> int(counts.count[counts.indptr[0] : counts.indptr[1]].sum())
    10000000000000000
    >>> int(river.play([1] * 6, episodes=10**15, horizon=20, rng=sample_stream(1)).visits.sum())
    20000000000000000
    """

    id: ClassVar[str] = "counts-v1"

    @cached_property
    def _conditional(self) -> NDArray[np.float64]:
        return conditional_probabilities(self.mdp.rows.indptr, self.mdp.rows.probability)

    @cached_property
    def _start(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The states that an episode may start in, and their conditional probabilities."""
        first = np.flatnonzero(self.initial)
        return first, conditional_probabilities(np.array([0, first.size]), self.initial[first])

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        from replicable_rl.compiled import Team
        from replicable_rl.sampling import _kernels

        calls = check_calls("Counts", calls)
        indptr = self.mdp.rows.indptr
        count = np.empty(self._conditional.size, dtype=np.int64)
        arguments = (indptr, self._conditional, calls, stream_words(rng, 1)[0], count)
        with Team(n_blocks(indptr), whole_below=MANY_BLOCKS) as each:
            each(_kernels.multinomial_blocks, *arguments)
        return self._drawn(count, calls)

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        from replicable_rl.sampling import _kernels

        episodes, horizon = check_calls("Counts", episodes, "episodes"), check_horizon(horizon)
        rows, seen = self.mdp.rows, self._nothing_yet(episodes, horizon)
        table = (*self._start, rows.indptr, rows.next_state, self._conditional)
        decisions = _decisions(policy, self.n_states, self.n_actions, allowed_of(self))
        played = *table, *decisions, episodes, horizon, stream_words(rng, 1)[0]
        _kernels.propagate(*played, self._transitions[1], rows.reward, *_to_add_to(seen))
        return seen

    def fused(self, query: object) -> Fused | None:
        """Return iterations of phased value iteration with this query, compiled; None for queries it does not know.

        A subclass may draw in its own way, which the compiled loop would pass by: it has none.
        """
        from replicable_rl.sampling.fused import fuse

        return fuse(self, self.mdp.rows, self._conditional, query) if type(self) is Counts else None


class PerSample(Table):
    """The reference: draws every sample one by one, by inversion, as the paper has it, at a cost proportional to m."""

    id: ClassVar[str] = "per-sample-v1"
    most_samples: ClassVar[int] = BUDGET  # of one run

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls = check_calls("PerSample", calls)
        rows = self.mdp.rows
        count = np.zeros(rows.probability.size, dtype=np.int64)
        for row in range(rows.indptr.size - 1):
            outcomes = rows.of_row(row)
            if outcomes.start == outcomes.stop:  # an action that is not allowed
                continue
            cumulative = np.cumsum(rows.probability[outcomes])
            for start in range(0, calls, _CHUNK):
                u = rng.random(min(_CHUNK, calls - start)) * cumulative[-1]
                drawn = np.searchsorted(cumulative, u, side="right")
                count[outcomes] += np.bincount(drawn, minlength=cumulative.size)
        return self._drawn(count, calls)

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        from replicable_rl.sampling import _kernels

        episodes, horizon = check_calls("PerSample", episodes, "episodes"), check_horizon(horizon)
        weights = action_probabilities("PerSample", policy, self.n_states, self.n_actions, allowed_of(self))
        rows = self.mdp.rows
        # Row r of cumulative probabilities lives in (r, r + 1], so that one search serves all rows.
        row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
        total = np.cumsum(rows.probability)
        outcomes = row + total - np.concatenate([[0.0], total])[rows.indptr[:-1]][row]
        actions = np.cumsum(weights, axis=1)
        count = np.zeros(rows.probability.size)
        state = rng.choice(self.n_states, size=episodes, p=self.initial / self.initial.sum())
        for _ in range(horizon):
            action = (rng.random((episodes, 1)) * actions[state, -1:] >= actions[state]).sum(axis=1)
            pair = state * self.n_actions + np.minimum(action, self.n_actions - 1)
            drawn = np.searchsorted(outcomes, pair + rng.random(episodes), side="right")
            drawn = np.clip(drawn, rows.indptr[pair], rows.indptr[pair + 1] - 1)
            count += np.bincount(drawn, minlength=count.size)
            state = rows.next_state[drawn]
        seen = self._nothing_yet(episodes, horizon)
        _kernels.merge(self._transitions[1], rows.reward, count, *_to_add_to(seen))
        return seen


_NONE = np.empty(0)


def _to_add_to(
    seen: EpisodeCounts,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64], float]:
    """Return what a kernel adds to."""
    return seen.count, seen.excess, seen.low, _NONE if seen.squares is None else seen.squares, seen.width


def _decisions(
    policy: ArrayLike, n_states: int, n_actions: int, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the action of every state, -1 where it is left to chance, and the conditional probabilities if any is."""
    actions = chosen_actions("Counts", policy, n_states, n_actions, allowed)
    if actions is not None:
        return actions, np.empty(0)
    weights = action_probabilities("Counts", policy, n_states, n_actions, allowed)
    sure = weights.max(axis=1) == 1.0
    first = np.arange(0, weights.size + 1, n_actions)
    return np.where(sure, weights.argmax(axis=1), -1), conditional_probabilities(first, weights.reshape(-1))


def n_blocks(indptr: NDArray[np.int64]) -> int:
    """Return the number of blocks that the rows are drawn in."""
    from replicable_rl.sampling import _kernels

    return -(-(indptr.size - 1) // _kernels.ROWS_PER_BLOCK)


def stream_words(rng: np.random.Generator, how_many: int) -> NDArray[np.uint64]:
    """Return fresh words for so many calls of the kernels, two each, from which their own streams follow.

    Draws are then the same under every version of numpy, whose Generator methods promise no such thing.
    """
    return rng.bit_generator.random_raw(2 * how_many).astype(np.uint64, copy=False).reshape(how_many, 2)


def conditional_probabilities(indptr: NDArray[np.int64], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for every outcome, its probability given that no earlier one of its row occurred.

    Where that probability p exceeds 1/2 the entry is -(1 - p), so that probabilities near 1
    keep their full precision.
    """
    from replicable_rl.sampling import _kernels

    conditional = np.empty(probability.size)
    _kernels.conditional_rows(indptr, probability, conditional)
    return conditional
