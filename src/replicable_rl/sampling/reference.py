"""The per-sample sampler of tables: what the paper describes, at a cost proportional to m.

Kept as the reference for the law of the counts, in tests and benchmarks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from replicable_rl.mdp import action_probabilities
from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts, check_calls, check_horizon
from replicable_rl.sampling.tables import Table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["PerSample"]

_CHUNK = 1 << 20


class PerSample(Table):
    """Draws every sample of a `TabularMDP` one by one, by inversion, and counts them."""

    id: ClassVar[str] = "per-sample-v1"

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls = check_calls("PerSample", calls)
        rows = self._mdp.rows
        count = np.zeros(rows.probability.size, dtype=np.int64)
        for row in range(rows.indptr.size - 1):
            outcomes = rows.of_row(row)
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
        weights = action_probabilities("PerSample", policy, self.n_states, self.n_actions)
        rows = self._mdp.rows
        # Row r of cumulative probabilities lives in (r, r + 1], so that one search serves all rows.
        row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
        total = np.cumsum(rows.probability)
        outcomes = row + total - np.concatenate([[0.0], total[rows.indptr[1:-1] - 1]])[row]
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
        _kernels.merge(self._transitions[1], rows.reward, count, seen.count, seen.reward_sum)
        return seen
