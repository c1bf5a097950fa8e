"""From counted transitions to a model: the part that ApproximateMDP and R-max share.

A row asks S indicator queries, "was the successor s'?", and is then divided by its sum; rewards that
are not known are one more query. A successor that was never seen has mean 0, and the zero-preserving form
answers 0: rows stay as sparse as the data.

Offsets are addressed by (s, a, s') and by (s, a), never by when a row was learned: two runs that learn a
pair in different rounds still round it on the same grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import Rows, TabularMDP
from replicable_rl.queries import rstat
from replicable_rl.sampling.counts import sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.sampling import TransitionCounts
    from replicable_rl.theory.rstat import Form

__all__ = ["LearnedModel", "PlainRows", "RoundedRows", "RowQuery"]

_MAX_DENSE = 10**8  # entries of dense rows, in the midpoint form


class RowQuery(Protocol):
    """How the means of a row are answered."""

    @property
    def dense(self) -> bool:
        """Whether successors that were never seen are asked about."""
        ...

    def probabilities(self, key: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answer the means of the transitions ``key`` = (s*A + a)*S + s'."""
        ...

    def rewards(self, pair: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answer the mean rewards, scaled to [0, 1], of the pairs s*A + a."""
        ...


@dataclass(frozen=True)
class PlainRows:
    """The empirical means themselves."""

    dense: bool = False

    def probabilities(self, key: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the means."""
        return mean

    def rewards(self, pair: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the means."""
        return mean


@dataclass(frozen=True)
class RoundedRows:
    """rSTAT with offsets at ``label``/offset and ``label``/reward."""

    shared: SharedRandomness
    label: str
    width: float
    form: Form = "zero-preserving"

    @property
    def dense(self) -> bool:
        """Whether 0 is rounded to something else."""
        return self.form == "midpoint"

    def probabilities(self, key: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Round on the grid of each transition."""
        offset = self.shared.uniform_at(f"{self.label}/offset", index=key)
        return rstat(mean, offset, self.width, form=self.form).answer

    def rewards(self, pair: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Round on the grid of each pair."""
        return rstat(mean, self.shared.uniform_at(f"{self.label}/reward", index=pair), self.width).answer


class LearnedModel:
    """A model that grows pair by pair; what is not known yet is a self-loop with reward ``unknown_reward``."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        reward_range: tuple[float, float],
        unknown_reward: float,
        known_rewards: NDArray[np.float64] | None,
    ) -> None:
        self._n_states, self._n_actions = n_states, n_actions
        self._range = reward_range
        self._known_rewards = None if known_rewards is None else known_rewards.reshape(-1)
        pairs = n_states * n_actions
        self.known = np.zeros(pairs, dtype=bool)
        self.self_loops = 0  # rows that rounding left without any probability
        self.most_successors = 0  # that any learned pair was seen to have
        self._reward = np.full(pairs, unknown_reward)
        self._key = np.arange(pairs) * n_states + np.arange(pairs) // n_actions
        self._probability = np.ones(pairs)

    def learn(self, pairs: NDArray[np.int64], seen: TransitionCounts, query: RowQuery) -> None:
        """Replace the rows of ``pairs`` by what was seen of them."""
        S = self._n_states
        is_new = np.zeros(self.known.size, dtype=bool)
        is_new[pairs] = True
        visits = seen.visits
        key, count = self._queries(pairs, is_new, seen, query)
        self.most_successors = max(self.most_successors, int(np.bincount(key[count > 0.0] // S, minlength=1).max()))
        answer = query.probabilities(key, count / visits[key // S])
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
        self._reward[pairs] = self._rewards(pairs, visits, seen, query)
        self.known[pairs] = True

    def to_mdp(self, gamma: float, initial: NDArray[np.float64] | None) -> TabularMDP:
        """Return the model as it stands."""
        row = self._key // self._n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.known.size))])
        successor = (self._key % self._n_states).astype(np.int32)
        rows = Rows(indptr, successor, self._probability, self._reward[row])
        low, high = self._range
        return TabularMDP(
            rows,
            n_actions=self._n_actions,
            gamma=gamma,
            initial=initial,
            reward_range=(min(low, float(self._reward.min())), max(high, float(self._reward.max()))),
        )

    def _queries(
        self, pairs: NDArray[np.int64], is_new: NDArray[np.bool_], seen: TransitionCounts, query: RowQuery
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the transitions to ask about, and their counts."""
        chosen = is_new[seen.row] & (seen.count > 0.0)
        key, count = seen.key[chosen], seen.count[chosen]
        if not query.dense:
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
        self, pairs: NDArray[np.int64], visits: NDArray[np.float64], seen: TransitionCounts, query: RowQuery
    ) -> NDArray[np.float64]:
        if self._known_rewards is not None:
            return self._known_rewards[pairs]
        low, high = self._range
        scale = (high - low) or 1.0
        mean = (seen.rewards[pairs] / visits[pairs] - low) / scale
        return np.clip(low + (high - low) * query.rewards(pairs, np.clip(mean, 0.0, 1.0)), low, high)
