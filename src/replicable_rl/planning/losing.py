r"""What policies lose on a large table, from the gaps of their actions, as closely as a question needs.

The loss of a policy is what its actions lose, followed along it, with g(s) = V*(s) - Q*(s, policy(s)):

    L = g + gamma P g + (gamma P)^2 g + ...

After k terms, whose last one is d, the rest lies within gamma/(1-gamma) * [min d, max d]. Nothing is negative, so
rounding changes no term by more than a small part of itself: sums in single precision are good enough, and how good
is known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.planning import _kernels
from replicable_rl.planning._following import weighted_sum
from replicable_rl.planning._kernels import PlanningTable
from replicable_rl.planning._sweeps import (
    MANY_STATES,
    extremes,
    have_near_successors,
    longest_row,
    room_for_policies,
    team,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.table import TabularMDP

    Floats = NDArray[np.float64]

_SWEEPS = 40  # where these do not tell, other ways are faster
_AT_FIRST, _CLOSER = 4.0, 0.25  # how far apart bounds may be when they are first looked at, in limits, and then
_LEAST = 1e-30  # more than underflow can lose
_ROUNDED = 0.01  # with more than that, errors of rounding may grow faster than in proportion


def pays(mdp: TabularMDP) -> bool:
    """Whether a few sweeps may tell: there are many states, and what happens in one is soon felt in all."""
    return mdp.n_states >= MANY_STATES and not have_near_successors(_without_rewards(mdp))


class PolicyLosses:
    """Compares what policies lose on one table with a limit; policies that differ little share the work."""

    def __init__(self, mdp: TabularMDP) -> None:
        self._table = _without_rewards(mdp)
        self._initial = mdp.initial
        self._chain = room_for_policies(self._table, solve=False)
        index = np.int32 if self._table.indptr.size < 2**31 else np.int64
        self._copied = np.full(mdp.n_states, -1, dtype=index)
        self._longest = longest_row(self._chain)

    def between(self, policy: NDArray[np.int64], gap: Floats, limit: float, over: str) -> tuple[float, float]:
        """Return bounds on the loss of a policy: both on one side of ``limit``, if some sweeps can tell.

        ``gap``, (S,), is what the action of every state loses.
        """
        unit, n_actions = float(gap.max()), self._table.n_actions
        if unit == 0.0:
            return 0.0, 0.0
        row_of = (np.arange(0, gap.size * n_actions, n_actions) + policy).astype(self._copied.dtype)
        precision = self._chain.weight.dtype
        difference, new = (gap / unit).astype(precision), np.empty(gap.size, dtype=precision)
        total, wanted, count = difference.copy(), _AT_FIRST * limit, 0
        horizon, rounding = self._table.horizon, float(np.finfo(precision).eps) * (self._longest + 4)
        if rounding * (_SWEEPS + 1) > _ROUNDED:
            return 0.0, math.inf
        with team(gap.size) as each:
            each(_kernels.policy_rows, self._table, row_of, False, self._copied, self._chain)
            while True:
                low, high, _ = extremes(each(_kernels.follow, self._chain, difference, new, total, 1, 0.0))
                difference, new, count = new, difference, count + 1
                if unit * horizon * (high - low) > wanted and count < _SWEEPS:
                    continue
                so_far = self._of(total, over)
                off = rounding * (count + 1)
                least = unit * (so_far + horizon * low) * (1.0 - off) - _LEAST
                most = unit * (so_far + horizon * high) * (1.0 + off) + _LEAST
                if least > limit or most <= limit or count >= _SWEEPS:
                    return least, most
                wanted *= _CLOSER

    def _of(self, lost: NDArray[np.floating[Any]], over: str) -> float:
        """Return the loss of the worst state, or from the first state on."""
        return float(lost.max()) if over == "worst" else weighted_sum(self._initial, lost.astype(np.float64))


def _without_rewards(mdp: TabularMDP) -> PlanningTable:
    rows = mdp.rows
    return PlanningTable(rows.indptr, rows.next_state, rows.probability, np.empty(0), mdp.gamma, mdp.n_actions)
