"""The reference: every sample of a table, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.problem.source import Episodic, Generative, Wrapped
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts, check_calls, check_horizon

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_CHUNK = 1 << 20  # samples drawn at a time


class PerSample(Wrapped, Generative, Episodic):
    """A source of a table's samples that are drawn one by one, by inversion, as the paper has it.

    It costs m, and has the law of `TabularMDP.draw`: the reference to test that and other sources against.

    >>> import replicable_rl as rr
    >>> rr.solve(PerSample(rr.make("chain-v1")), rr.PhasedVI(0.1, 0.1, calls=100), shared_seed=1).samples
    240000
    """

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls = check_calls("PerSample", calls)
        rows = self.own.rows
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
        return self.own.drawn(count, calls)  # type: ignore[no-any-return]

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        episodes, horizon = check_calls("PerSample", episodes, "episodes"), check_horizon(horizon)
        weights = self.support.probabilities("PerSample", policy)
        rows = self.own.rows
        # Row r of cumulative probabilities lives in (r, r + 1], so that one search serves all rows.
        row = rows.row
        total = np.cumsum(rows.probability)
        outcomes = row + total - np.concatenate([[0.0], total])[rows.indptr[:-1]][row]
        actions = np.cumsum(weights, axis=1)
        count = np.zeros(rows.probability.size)
        state = rng.choice(self.n_states, size=episodes, p=self.own.initial / self.own.initial.sum())
        for _ in range(horizon):
            action = (rng.random((episodes, 1)) * actions[state, -1:] >= actions[state]).sum(axis=1)
            pair = state * self.n_actions + np.minimum(action, self.n_actions - 1)
            drawn = np.searchsorted(outcomes, pair + rng.random(episodes), side="right")
            drawn = np.clip(drawn, rows.indptr[pair], rows.indptr[pair + 1] - 1)
            count += np.bincount(drawn, minlength=count.size)
            state = rows.next_state[drawn]
        return self.own.played(count, episodes, horizon)  # type: ignore[no-any-return]
