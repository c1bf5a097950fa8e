"""From counted transitions to a model: the part that ApproximateMDP and R-max share.

A row asks S indicator queries, "was the successor s'?", and is then divided by its sum; rewards that
are not known are one more query. A successor that was never seen has mean 0: where a query keeps 0, it is not even
asked about, and rows stay as sparse as the data.

Offsets are addressed by (s, a, s') and by (s, a), never by when a row was learned: two runs that learn a
pair in different rounds still round it on the same grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.support import allowed_of
from replicable_rl.problem.table import TabularMDP
from replicable_rl.queries import Estimate, Query
from replicable_rl.sampling.counts import sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.source import Problem
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.sampling import TransitionCounts
    from replicable_rl.theory.rstat import Form

_MAX_DENSE = 10**8  # entries of dense rows, where 0 is rounded to something else


class RowQueries(NamedTuple):
    """The two queries of a row: of its transitions, element (s*A + a)*S + s', and of its reward, element s*A + a."""

    transitions: Query
    rewards: Query

    @classmethod
    def of(cls, estimate: Estimate, shared: SharedRandomness, label: str, width: float, form: Form) -> RowQueries:
        """Return the queries with offsets at ``label``/offset and ``label``/reward."""
        rewards = estimate.bind(shared, f"{label}/reward", width, "midpoint")
        return cls(estimate.bind(shared, f"{label}/offset", width, form), rewards)


class LearnedModel:
    """A model of a problem that grows pair by pair; what is not known is a self-loop with reward ``unknown_reward``.

    Pairs that are not allowed are no part of it: they are neither known nor unknown.
    """

    def __init__(self, problem: Problem, unknown_reward: float) -> None:
        self._problem = problem
        self._n_states, self._n_actions = problem.n_states, problem.n_actions
        pairs = self._n_states * self._n_actions
        self.known = np.zeros(pairs, dtype=bool)
        self.self_loops = 0  # rows that rounding left without any probability
        self.most_successors = 0  # that any learned pair was seen to have
        self._reward = np.full(pairs, unknown_reward)
        self._allowed = allowed_of(problem)
        every = np.arange(pairs) if self._allowed is None else np.flatnonzero(self._allowed)
        self._key = every * self._n_states + every // self._n_actions
        self._probability = np.ones(every.size)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which pairs there still are to learn."""
        return ~self.known if self._allowed is None else self._allowed.reshape(-1) & ~self.known

    def learn(self, pairs: NDArray[np.int64], seen: TransitionCounts, queries: RowQueries) -> None:
        """Replace the rows of ``pairs`` by what was seen of them."""
        S = self._n_states
        is_new = np.zeros(self.known.size, dtype=bool)
        is_new[pairs] = True
        visits = seen.visits
        key, count = self._asked(pairs, is_new, seen, dense=not queries.transitions.keeps_zero)
        self.most_successors = max(self.most_successors, int(np.bincount(key[count > 0.0] // S, minlength=1).max()))
        answer = queries.transitions.answer(count / visits[key // S], index=key)
        key, answer = key[answer > 0.0], answer[answer > 0.0]
        total = sums(key // S, answer, self.known.size)
        lost = pairs[total[pairs] == 0.0]
        self.self_loops += lost.size
        old = ~is_new[self._key // S]
        key, answer = (
            np.concatenate([self._key[old], key, lost * S + lost // self._n_actions]),
            np.concatenate([self._probability[old], answer / total[key // S], np.ones(lost.size)]),
        )
        order = np.argsort(key)
        self._key, self._probability = key[order], answer[order]
        self._reward[pairs] = self._rewards(pairs, visits, seen, queries.rewards)
        self.known[pairs] = True

    def to_mdp(self) -> TabularMDP:
        """Return the model as it stands: a table that was estimated, and says so."""
        row = self._key // self._n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.known.size))])
        successor = (self._key % self._n_states).astype(np.int32)
        (low, high), reward = self._problem.reward_range, self._reward[row]
        return TabularMDP(
            Rows(indptr, successor, self._probability, reward),
            n_actions=self._n_actions,
            gamma=self._problem.gamma,
            initial=self._problem.initial,
            reward_range=(min(low, float(reward.min())), max(high, float(reward.max()))),
            estimated=True,
            allowed=self._allowed,
        )

    def _asked(
        self, pairs: NDArray[np.int64], is_new: NDArray[np.bool_], seen: TransitionCounts, *, dense: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the transitions to ask about, and their counts."""
        chosen = is_new[seen.row] & (seen.count > 0.0)
        key, count = seen.key[chosen], seen.count[chosen]
        if not dense:
            return key, count
        if pairs.size * self._n_states > _MAX_DENSE:
            raise InvalidInput(
                f"model: the midpoint form makes {pairs.size * self._n_states:.3g} entries of dense rows, more than "
                f"{_MAX_DENSE:.0e}. Use form='zero-preserving'."
            )
        every = (np.sort(pairs)[:, None] * self._n_states + np.arange(self._n_states)).reshape(-1)
        counts = np.zeros(every.size)
        counts[np.searchsorted(every, key)] = count
        return every, counts

    def _rewards(
        self, pairs: NDArray[np.int64], visits: NDArray[np.float64], seen: TransitionCounts, query: Query
    ) -> NDArray[np.float64]:
        if self._problem.known_rewards is not None:
            return self._problem.known_rewards.reshape(-1)[pairs]
        low, high = self._problem.reward_range
        scale = (high - low) or 1.0
        mean = seen.rewards_above(low)[pairs] / visits[pairs] / scale
        return np.clip(low + (high - low) * query.answer(np.clip(mean, 0.0, 1.0), index=pairs), low, high)
