"""Two sources for tests: one draws a table's samples one by one, the other counts what is drawn from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.problem.source import Episodic, Generative, Wrapped, as_source
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts, check_calls, check_horizon

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


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
            drawn = np.searchsorted(cumulative, rng.random(calls) * cumulative[-1], side="right")
            count[outcomes] = np.bincount(drawn, minlength=cumulative.size)
        return self.own.drawn(count, calls)  # type: ignore[no-any-return]

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        episodes, horizon = check_calls("PerSample", episodes, "episodes"), check_horizon(horizon)
        actions = np.cumsum(self.support.probabilities("PerSample", policy), axis=1)
        rows = self.own.rows
        # Row r of cumulative probabilities lives in (r, r + 1], so that one search serves all rows.
        total = np.cumsum(rows.probability)
        outcomes = rows.row + total - np.concatenate([[0.0], total])[rows.indptr[:-1]][rows.row]
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


class CountedSource(Wrapped, Generative, Episodic):
    """A problem that counts what is drawn from it, whatever an algorithm says that it drew.

    ``draws`` holds the bits of every answer, with a function that draws as much again from another generator: the
    control that tells whether fresh samples could have looked different at all.

    >>> import numpy as np, replicable_rl as rr
    >>> problem = CountedSource(rr.make("chain-v1"))
    >>> rng = np.random.default_rng(1)
    >>> _ = problem.draw(100, rng), problem.play([0] * 5, 10, 7, rng)
    >>> problem.transitions  # 100 of each of 10 pairs, and 10 episodes of 7 steps
    1070
    """

    def __init__(self, problem: object) -> None:
        super().__init__(as_source(problem))
        self.transitions = 0
        self.draws: list[tuple[bytes, Callable[[np.random.Generator], bytes]]] = []

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw, and note how much."""
        counts: OutcomeCounts = self.own.draw(calls, rng)
        self.transitions += int(counts.calls) * self.support.pairs
        self.draws.append((bits(counts), lambda fresh: bits(self.own.draw(calls, fresh))))
        return counts

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play, and note how much."""
        kept = np.array(policy)  # a copy, for the algorithm may use its array again
        counts: EpisodeCounts = self.own.play(policy, episodes, horizon, rng)
        self.transitions += int(counts.steps)
        self.draws.append((bits(counts), lambda fresh: bits(self.own.play(kept, episodes, horizon, fresh))))
        return counts


def bits(counts: OutcomeCounts | EpisodeCounts) -> bytes:
    """Return the bits of counts, for comparison."""
    rewards = counts.reward if isinstance(counts, OutcomeCounts) else counts.reward_sum
    places = counts.indptr if isinstance(counts, OutcomeCounts) else counts.key
    arrays = places, counts.next_state, rewards, counts.count
    return b"\n".join(np.ascontiguousarray(array).tobytes() for array in arrays)
