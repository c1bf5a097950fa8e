"""Statistical tests with a declared false-alarm rate.

Every stochastic assertion fails a correct library with probability at most ALPHA. Seeds are fixed
in CI; ``REPLICABLE_RL_TEST_SEED`` rotates them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from replicable_rl.problem.source import Episodic, Generative, Wrapped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.problem.table import TabularMDP
    from replicable_rl.sampling import EpisodeCounts, OutcomeCounts

ALPHA = 1e-6
SEED = 1_000_003 * int(os.environ.get("REPLICABLE_RL_TEST_SEED", "20231"))  # far from those of another rotation


def pool_small(expected: NDArray[np.float64], least: float = 10.0) -> list[NDArray[np.int64]]:
    """Group cells so that every group expects at least ``least``, smallest cells first."""
    groups: list[list[int]] = [[]]
    total = 0.0
    for cell in np.argsort(expected):
        groups[-1].append(int(cell))
        total += expected[cell]
        if total >= least:
            groups.append([])
            total = 0.0
    if len(groups) > 1:
        last = groups.pop()
        groups[-1].extend(last)
    return [np.array(group) for group in groups]


def goodness_of_fit(observed: ArrayLike, expected: ArrayLike) -> float:
    """Return the p-value of the chi-square test of counts against expected counts."""
    seen, want = np.asarray(observed, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    groups = pool_small(want)
    o = np.array([seen[group].sum() for group in groups])
    e = np.array([want[group].sum() for group in groups])
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), max(len(groups) - 1, 1)))


def same_law(first: Sequence[object], second: Sequence[object]) -> float:
    """Return the p-value of the chi-square test that two samples of labels have one law."""
    labels = {label: i for i, label in enumerate(sorted(set(first) | set(second), key=repr))}
    table = np.zeros((2, len(labels)))
    for row, sample in enumerate((first, second)):
        np.add.at(table[row], [labels[label] for label in sample], 1)
    groups = pool_small(table.sum(axis=0))
    if len(groups) < 2:
        return 1.0
    pooled = np.stack([table[:, group].sum(axis=1) for group in groups], axis=1)
    return float(stats.chi2_contingency(pooled, correction=False).pvalue)


def binomial_p(successes: int, trials: int, p: float) -> float:
    """Return the p-value of the exact two-sided binomial test."""
    return float(stats.binomtest(successes, trials, p).pvalue)


class Like(Wrapped, Generative, Episodic):
    """Somebody's own source, which samples as a table does."""

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        counts: OutcomeCounts = self.own.draw(calls, rng)
        return counts

    def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        seen: EpisodeCounts = self.own.play(policy, episodes, horizon, rng)
        return seen


def sampled_log(mdp: TabularMDP, samples: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return a log with so many samples of every pair, in random order."""
    rng, rows = np.random.Generator(np.random.PCG64DXSM(seed)), mdp.rows
    count = np.zeros(rows.probability.size, dtype=np.int64)
    for pair in np.flatnonzero(mdp.allowed).tolist():
        share = rows.probability[rows.of_row(pair)]
        count[rows.of_row(pair)] = rng.multinomial(samples, share / share.sum())
    outcome = rng.permutation(np.repeat(np.arange(count.size), count))
    row, successor = rows.row[outcome], rows.next_state[outcome].astype(np.int64)
    pair_of = {"state": row // mdp.n_actions, "action": row % mdp.n_actions}
    return pair_of | {"reward": rows.reward[outcome], "next_state": successor}
