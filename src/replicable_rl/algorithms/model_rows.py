"""From counted transitions to a model: the part that ApproximateMDP and R-max share.

A row asks S indicator queries, "was the successor s'?", and is then divided by its sum; rewards that
are not known are one more query. A successor that was never seen has mean 0: where a query keeps 0, it is not even
asked about, and rows stay as sparse as the data.

Offsets are addressed by (s, a, s') and by (s, a), never by when a row was learned: two runs that learn a
pair in different rounds still round it on the same grid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.planning.exact import Optimum, optimal_values
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.table import TabularMDP
from replicable_rl.queries import Mechanism, Query
from replicable_rl.sampling.counts import sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.source import Source
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.sampling import TransitionCounts
    from replicable_rl.theory.rstat import Form

_MAX_DENSE = 10**8  # entries of dense rows, where 0 is rounded to something else


class RowQueries(NamedTuple):
    """The two queries of a row: of its transitions, element (s*A + a)*S + s', and of its reward, element s*A + a."""

    transitions: Query
    rewards: Query

    @classmethod
    def of(cls, estimate: Mechanism, shared: SharedRandomness, label: str, width: float, form: Form) -> RowQueries:
        """Return the queries with offsets at ``label``/offset and ``label``/reward."""
        rewards = estimate.bind(shared, f"{label}/reward", width, "midpoint")
        return cls(estimate.bind(shared, f"{label}/offset", width, form), rewards)


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """A model of a problem that grows pair by pair; what is not known is a self-loop with reward R_max.

    Pairs that are not allowed are no part of it: they are neither known nor unknown.
    """

    problem: Source
    known: NDArray[np.bool_]
    key: NDArray[np.int64]  # of its transitions, sorted
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]  # of its pairs
    self_loops: int = 0  # rows that rounding left without any probability
    most_successors: int = 0  # that any learned pair was seen to have

    @classmethod
    def empty(cls, problem: Source, r_max: float) -> LearnedModel:
        """Return the model of which no pair is known."""
        S, A, every = problem.n_states, problem.n_actions, np.flatnonzero(problem.support.mask)
        key, reward = every * S + every // A, np.full(S * A, r_max)
        return cls(problem, np.zeros(S * A, dtype=bool), key, np.ones(every.size), reward)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which pairs there still are to learn."""
        return self.problem.support.of_rows & ~self.known

    def learned(self, pairs: NDArray[np.int64], seen: TransitionCounts, queries: RowQueries) -> LearnedModel:
        """Return the model with the rows of ``pairs`` replaced by what was seen of them."""
        S, A, visits = self.problem.n_states, self.problem.n_actions, seen.visits
        known, reward = self.known.copy(), self.reward.copy()
        is_new = np.zeros(known.size, dtype=bool)
        known[pairs] = is_new[pairs] = True
        key, count = self._transitions(pairs, is_new, seen, dense=not queries.transitions.keeps_zero)
        successors = int(np.bincount(key[count > 0.0] // S, minlength=1).max())
        answer = queries.transitions.answer(count / visits[key // S], index=key)
        key, answer = key[answer > 0.0], answer[answer > 0.0]
        total = sums(key // S, answer, known.size)
        lost = pairs[total[pairs] == 0.0]
        old = ~is_new[self.key // S]
        key, probability = (
            np.concatenate([self.key[old], key, lost * S + lost // A]),
            np.concatenate([self.probability[old], answer / total[key // S], np.ones(lost.size)]),
        )
        order = np.argsort(key)
        reward[pairs] = self._rewards(pairs, visits, seen, queries.rewards)
        return replace(
            self,
            known=known,
            key=key[order],
            probability=probability[order],
            reward=reward,
            self_loops=self.self_loops + lost.size,
            most_successors=max(self.most_successors, successors),
        )

    @cached_property
    def table(self) -> TabularMDP:
        """The model as it stands: a table that was estimated, and says so."""
        problem, row = self.problem, self.key // self.problem.n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.known.size))])
        successor = (self.key % problem.n_states).astype(np.int32)
        (low, high), reward = problem.reward_range, self.reward[row]
        return TabularMDP(
            Rows(indptr, successor, self.probability, reward),
            n_actions=problem.n_actions,
            gamma=problem.gamma,
            initial=problem.initial,
            reward_range=(min(low, float(reward.min())), max(high, float(reward.max()))),
            estimated=True,
            allowed=problem.support.given,
        )

    @cached_property
    def planned(self) -> Optimum:
        """The exact plan on it: a function of the model alone, without a warm start."""
        return optimal_values(self.table)

    def _transitions(
        self, pairs: NDArray[np.int64], is_new: NDArray[np.bool_], seen: TransitionCounts, *, dense: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the keys of the transitions that are queried, and their counts."""
        chosen = is_new[seen.row] & (seen.count > 0.0)
        key, count, S = seen.key[chosen], seen.count[chosen], self.problem.n_states
        if not dense:
            return key, count
        if pairs.size * S > _MAX_DENSE:
            raise InvalidInput(
                f"model: the midpoint form makes {pairs.size * S:.3g} entries of dense rows, more than "
                f"{_MAX_DENSE:.0e}. Use form='zero-preserving'."
            )
        every = (np.sort(pairs)[:, None] * S + np.arange(S)).reshape(-1)
        counts = np.zeros(every.size)
        counts[np.searchsorted(every, key)] = count
        return every, counts

    def _rewards(
        self, pairs: NDArray[np.int64], visits: NDArray[np.float64], seen: TransitionCounts, query: Query
    ) -> NDArray[np.float64]:
        (low, high), known = self.problem.reward_range, self.problem.known_rewards
        if known is not None:
            return known.reshape(-1)[pairs]
        mean = seen.rewards_above(low)[pairs] / visits[pairs] / ((high - low) or 1.0)
        return np.clip(low + (high - low) * query.answer(np.clip(mean, 0.0, 1.0), index=pairs), low, high)
