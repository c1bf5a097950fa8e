"""The problems that several sections share."""

from __future__ import annotations

import math

import numpy as np

from replicable_rl.problem.shipped import garnet, gridworld
from replicable_rl.problem.table import Rows, TabularMDP
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.testing import PerSample

__all__ = ["CALLS", "Multinomial", "grid", "table_of_400", "with_gamma"]

CALLS = 13_000  # m of the paper's experiment, of the order of magnitude


def table_of_400(n_states: int = 100) -> TabularMDP:
    """Return a Garnet of 4 actions and 3 outcomes a row: 400 rows unless told otherwise."""
    return garnet(n_states, 4, 3, gamma=0.9)


def grid(n_states: int, gamma: float) -> TabularMDP:
    """Return an empty square grid of about so many cells with a goal in one corner."""
    width = max(2, math.isqrt(n_states))
    return gridworld(["G" + "." * (width - 1), *["." * width] * (width - 1)], gamma=gamma)


def with_gamma(mdp: TabularMDP, gamma: float) -> TabularMDP:
    """Return the same process with another discount."""
    return TabularMDP(Rows(*mdp.rows), n_actions=mdp.n_actions, gamma=gamma, reward_range=mdp.reward_range)


class Multinomial(PerSample):
    """Counts by numpy's ``Generator.multinomial``, all rows in one call; they must have one length."""

    def __init__(self, mdp: TabularMDP) -> None:
        super().__init__(mdp)
        self._rows = mdp.rows
        self._table = mdp.rows.probability.reshape(mdp.n_states * mdp.n_actions, -1)
        self._numpy = np.random.default_rng(1)  # numpy's own choice of a generator

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` successors of every pair and return their counts."""
        count = self._numpy.multinomial(calls, self._table).reshape(-1)
        return OutcomeCounts(self._rows.indptr, self._rows.next_state, self._rows.reward, count, calls)


Multinomial.__module__ = PerSample.__module__  # as if ours: no time is lost with looking at what it returns
