r"""Where a policy leads, and what it loses on the way. Kernels are compiled code: import this where it is needed.

*Shares.* o(s) = (1 - gamma) * sum over t < T of gamma^t Pr[the state after t steps is s]. T ends the sum where little
is left of it, about 3/(1 - gamma), and earlier for very large tables: a share is a weight here, never a value. It
depends on sizes and discount alone, so that two runs end alike.

*Losses.* The loss of a policy is what its actions lose, followed along it, with g(s) = V*(s) - Q*(s, policy(s)):

    L = g + gamma P g + (gamma P)^2 g + ...

After k terms, whose last one is d, the rest lies within gamma/(1-gamma) * [min d, max d]. Nothing is negative, so
rounding changes no term by more than a small part of itself: sums in single precision are good enough, and how good
is known.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.planning import _kernels
from replicable_rl.planning._kernels import Chain, Floats, Integers, PlanningTable
from replicable_rl.planning._sweeps import (
    MANY_STATES,
    extremes,
    have_near_successors,
    room_for_policies,
    team,
)
from replicable_rl.problem.table import TabularMDP

_MOST_WORK = 4e7  # outcomes that are followed, about: a fraction of the time that planning takes
_OUTCOMES = 8  # of a pair, where the work is estimated beforehand
_SWEEPS = 40  # where these do not tell, other ways are faster
_AT_FIRST, _CLOSER = 4.0, 0.25  # how far apart bounds may be when they are first looked at, in limits, and then
_LEAST = 1e-30  # more than underflow can lose
_ROUNDED = 0.01  # with more than that, errors of rounding may grow faster than in proportion


def discounted_steps(n_states: int, n_actions: int, gamma: float) -> int:
    """Return T, the steps that are followed.

    >>> discounted_steps(100, 4, 0.95), discounted_steps(10**6, 4, 0.95)
    (60, 2)
    """
    affordable = int(_MOST_WORK / (_OUTCOMES * n_states * n_actions))
    return max(2, min(math.ceil(3.0 / (1.0 - gamma)), affordable))


class Shares(NamedTuple):
    """The discounted share of every state in the steps that were followed, what is left, and what these steps cost."""

    share: Floats
    left: float
    cost: float


class Following:
    """Follows policies through one table; those that differ little share the work.

    >>> from replicable_rl.problem import riverswim
    >>> Following(riverswim()).shares(np.full((6, 2), 0.5)).round(3).tolist()
    [0.561, 0.279, 0.081, 0.024, 0.007, 0.002]
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self.initial, self.n_states, self.table = mdp.initial, mdp.n_states, PlanningTable.of(mdp, np.empty(0))
        self.steps = discounted_steps(mdp.n_states, mdp.n_actions, mdp.gamma)

    def shares(self, weight: Floats) -> Floats:
        """Return the discounted share of every state under the (S, A) action probabilities ``weight``."""
        share, now = np.zeros(self.n_states), self.initial.copy()
        _kernels.follow_shares(self.table, weight.reshape(-1), self.steps, now, np.empty_like(now), share)
        return share

    def shares_of_actions(
        self, policy: Integers, cost: Floats, enough: float = math.inf, times: int = 1, first: Floats | None = None
    ) -> Shares:
        """Return where a policy leads, and the sum of shares times ``cost``; it ends early where that is ``enough``.

        It is followed ``times`` as many steps as are usual, from the first state of the process or from ``first``.
        The shares are rounded down, if anything: those of all steps are these and, spread over some states, what is
        left.
        """
        share, now = np.zeros(self.n_states), (self.initial if first is None else first).copy()
        steps, then = times * self.steps, np.empty_like(now)
        return Shares(share, *_kernels.follow_actions(self.table, policy, steps, now, then, share, cost, enough))

    def noise(self, policy: Integers, noise: Floats) -> Floats:
        """Return the root of the mean square of the gaps (S, A) that noise in the rewards, (S*A, K), makes."""
        value, square = np.zeros((self.n_states, noise.shape[1])), np.empty(len(noise))
        _kernels.follow_noise(self.table, policy, noise, self.steps, value, np.empty_like(value), square)
        return np.sqrt(square).reshape(self.n_states, -1)

    def total(self, lost: Floats, over: str) -> float:
        """Return what is lost in the worst state, or from the first state on."""
        return float(lost.max()) if over == "worst" else self.weighted(self.initial, lost)

    @staticmethod
    def weighted(weight: Floats, x: Floats) -> float:
        """Return the sum of weight * x, whose error does not grow with the number of states."""
        return _kernels.weighted_sum(weight, x)

    @cached_property
    def pays(self) -> bool:
        """Whether a few sweeps may tell losses: there are many states, and what happens in one is soon felt in all."""
        return self.n_states >= MANY_STATES and not have_near_successors(self.table)

    @cached_property
    def _chain(self) -> Chain:
        return room_for_policies(self.table, solve=False)

    @cached_property
    def _longest(self) -> int:
        return self._chain.longest

    @cached_property
    def _copied(self) -> NDArray[Any]:
        return np.full(self.n_states, -1, dtype=np.int32 if self.table.indptr.size < 2**31 else np.int64)

    def losses_between(self, policy: Integers, gap: Floats, limit: float, over: str) -> tuple[float, float]:
        """Return bounds on the loss of a policy: both on one side of ``limit``, if some sweeps can tell.

        ``gap``, (S,), is what the action of every state loses.
        """
        unit, n_actions, precision = float(gap.max()), self.table.n_actions, self._chain.weight.dtype
        horizon, rounding = self.table.horizon, float(np.finfo(precision).eps) * (self._longest + 4)
        if unit == 0.0:
            return 0.0, 0.0
        if rounding * (_SWEEPS + 1) > _ROUNDED:
            return 0.0, math.inf
        row_of = (np.arange(0, gap.size * n_actions, n_actions) + policy).astype(self._copied.dtype)
        difference, new = (gap / unit).astype(precision), np.empty(gap.size, dtype=precision)
        total, wanted, count = difference.copy(), _AT_FIRST * limit, 0
        with team(gap.size) as each:
            each(_kernels.policy_rows, self.table, row_of, False, self._copied, self._chain)
            while True:
                low, high, _ = extremes(each(_kernels.follow, self._chain, difference, new, total, 1, 0.0))
                difference, new, count = new, difference, count + 1
                if unit * horizon * (high - low) > wanted and count < _SWEEPS:
                    continue
                so_far, off = self.total(total.astype(np.float64), over), rounding * (count + 1)
                least = unit * (so_far + horizon * low) * (1.0 - off) - _LEAST
                most = unit * (so_far + horizon * high) * (1.0 + off) + _LEAST
                if least > limit or most <= limit or count >= _SWEEPS:
                    return least, most
                wanted *= _CLOSER
