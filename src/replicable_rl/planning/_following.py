r"""Where a policy leads, and what it loses on the way.

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled, compiled_loop
from replicable_rl.planning._sweeps import (
    MANY_STATES,
    Chain,
    Floats,
    Integers,
    PlanningTable,
    extremes,
    follow,
    have_near_successors,
    policy_rows,
    team,
)

if TYPE_CHECKING:
    from replicable_rl.problem.table import TabularMDP

_MOST_WORK = 4e7  # outcomes that are followed, about: a fraction of the time that planning takes
_OUTCOMES = 8  # of a pair, where the work is estimated beforehand
_SWEEPS = 40  # where these do not tell, other ways are faster
_AT_FIRST, _CLOSER = 4.0, 0.25  # how far apart bounds may be when they are first looked at, in limits, and then
_LEAST = 1e-30  # more than underflow can lose
_ROUNDED = 0.01  # with more than that, errors of rounding may grow faster than in proportion


class Following:
    """Follows policies through one table; those that differ little share the work.

    >>> from replicable_rl.problem import riverswim
    >>> Following(riverswim()).shares(np.full((6, 2), 0.5))[0].round(3).tolist()
    [0.561, 0.279, 0.081, 0.024, 0.007, 0.002]
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self.initial, self.n_states, self.table = mdp.initial, mdp.n_states, PlanningTable.of(mdp, np.empty(0))
        affordable = int(_MOST_WORK / (_OUTCOMES * mdp.n_states * mdp.n_actions))
        self.steps = max(2, min(math.ceil(3.0 / (1.0 - mdp.gamma)), affordable))

    def shares(
        self,
        policy: Integers | Floats,
        cost: Floats | None = None,
        enough: float = math.inf,
        times: int = 1,
        first: Floats | None = None,
    ) -> tuple[Floats, float, float]:
        """Return the shares under actions or their (S, A) probabilities, what is left, and shares times ``cost``.

        They are followed ``times`` as many steps as are usual, from the first state of the process or from ``first``,
        and no longer than until the sum is ``enough``.
        The shares are rounded down, if anything: those of all steps are these and, spread over some states, what is
        left.
        """
        share, now = np.zeros(self.n_states), (self.initial if first is None else first).copy()
        costs = np.zeros(self.n_states) if cost is None else cost
        first_row = np.arange(0, self.n_states * self.table.n_actions, self.table.n_actions)
        chosen: Integers = (first_row + policy if policy.ndim == 1 else np.empty(0)).astype(np.int64, copy=False)
        weight: Floats = np.empty(0) if policy.ndim == 1 else policy.astype(np.float64, copy=False).reshape(-1)
        arguments = chosen, weight, times * self.steps, now, np.empty_like(now), share, costs, enough
        return share, *follow_shares(self.table, *arguments)

    def noise(self, policy: Integers, noise: Floats) -> Floats:
        """Return the root of the mean square of the gaps (S, A) that noise in the rewards, (S*A, K), makes."""
        value, square = np.zeros((self.n_states, noise.shape[1])), np.empty(len(noise))
        follow_noise(self.table, policy, noise, self.steps, value, np.empty_like(value), square)
        return np.sqrt(square).reshape(self.n_states, -1)

    def total(self, lost: Floats, over: str) -> float:
        """Return what is lost in the worst state, or from the first state on."""
        return float(lost.max()) if over == "worst" else weighted_sum(self.initial, lost)

    @cached_property
    def pays(self) -> bool:
        """Whether a few sweeps may tell losses: there are many states, and what happens in one is soon felt in all."""
        return self.n_states >= MANY_STATES and not have_near_successors(self.table)

    @cached_property
    def _room(self) -> tuple[Chain, int, NDArray[Any]]:
        """The rows of the last policy, how many outcomes the longest may have, and which rows they are."""
        chain = Chain.room_for(self.table, solve=False)
        kind = np.int32 if self.table.indptr.size < 2**31 else np.int64
        return chain, int(np.diff(chain.indptr).max()), np.full(self.n_states, -1, dtype=kind)

    def losses_between(self, policy: Integers, gap: Floats, limit: float, over: str) -> tuple[float, float]:
        """Return bounds on the loss of a policy: both on one side of ``limit``, if some sweeps can tell.

        ``gap``, (S,), is what the action of every state loses.
        """
        (chain, longest, copied), unit, n_actions = self._room, float(gap.max()), self.table.n_actions
        precision, horizon = chain.weight.dtype, self.table.horizon
        rounding = float(np.finfo(precision).eps) * (longest + 4)
        if unit == 0.0:
            return 0.0, 0.0
        if rounding * (_SWEEPS + 1) > _ROUNDED:
            return 0.0, math.inf
        row_of = (np.arange(0, gap.size * n_actions, n_actions) + policy).astype(copied.dtype)
        difference, new = (gap / unit).astype(precision), np.empty(gap.size, dtype=precision)
        total, wanted, count = difference.copy(), _AT_FIRST * limit, 0
        with team(gap.size) as each:
            each(policy_rows, self.table, row_of, False, copied, chain)
            while True:
                low, high, _ = extremes(each(follow, chain, difference, new, total, 1, 0.0))
                difference, new, count = new, difference, count + 1
                if unit * horizon * (high - low) > wanted and count < _SWEEPS:
                    continue
                so_far, off = self.total(total.astype(np.float64), over), rounding * (count + 1)
                least = unit * (so_far + horizon * low) * (1.0 - off) - _LEAST
                most = unit * (so_far + horizon * high) * (1.0 + off) + _LEAST
                if least > limit or most <= limit or count >= _SWEEPS:
                    return least, most
                wanted *= _CLOSER


@compiled
def weighted_sum(weight: Floats, x: Floats) -> float:
    """Return the sum of weight * x, compensated (Neumaier 1974): its error does not grow with the number of terms."""
    total, lost = 0.0, 0.0
    for i in range(x.size):
        term = weight[i] * x[i]
        new = total + term
        lost += (total - new) + term if abs(total) >= abs(term) else (term - new) + total
        total = new
    return total + lost


@compiled_loop("steps")
def follow_shares(
    table: PlanningTable,
    chosen: Integers,
    weight: Floats,
    steps: int,
    now: Floats,
    then: Floats,
    share: Floats,
    cost: Floats,
    enough: float,
) -> tuple[float, float]:
    """Add to ``share`` the discounted shares of the states in so many steps from ``now``; ``then`` is for work.

    The policy takes the ``chosen`` row of every state, or all rows by their ``weight`` where none is chosen. It ends
    where shares times ``cost`` are ``enough``. Returns the share of all steps that were not followed, and the sum of
    shares times ``cost``.
    """
    indptr, next_state, probability, _, gamma, n_actions = table
    factor, total = 1.0 - gamma, 0.0
    for step in range(steps):
        for s in range(now.size):
            share[s] += factor * now[s]
            total += factor * now[s] * cost[s]
        factor *= gamma
        if total > enough or step == steps - 1:
            break
        then[:] = 0.0
        for s in range(now.size):
            here = now[s]
            if here == 0.0:
                continue
            begin = s * n_actions if chosen.size == 0 else chosen[s]
            for row in range(begin, begin + n_actions if chosen.size == 0 else begin + 1):
                moved = here * weight[row] if chosen.size == 0 else here
                if moved != 0.0:
                    for k in range(indptr[row], indptr[row + 1]):
                        then[np.uint32(next_state[k])] += moved * probability[k]
        now, then = then, now
    return factor / (1.0 - gamma), total


@compiled_loop("steps")
def follow_noise(
    table: PlanningTable, policy: Integers, noise: Floats, steps: int, value: Floats, then: Floats, out: Floats
) -> None:
    """out(s, a)^2 = mean over columns of (q(s, a) - v(s))^2, where v is what noise in the rewards does to the values.

    ``noise`` is (S*A, K), a column for every trial; ``value`` and ``then`` are (S, K), for work, ``value`` zero.
    """
    indptr, next_state, probability, _, gamma, n_actions = table
    n_states, trials = value.shape
    for _ in range(steps):
        for s in range(n_states):
            row = s * n_actions + policy[s]
            for i in range(trials):
                then[s, i] = noise[row, i]
            for k in range(indptr[row], indptr[row + 1]):
                p, after = gamma * probability[k], np.uint32(next_state[k])
                for i in range(trials):
                    then[s, i] += p * value[after, i]
        value, then = then, value
    for row in range(n_states * n_actions):
        s, total = row // n_actions, 0.0
        for i in range(trials):
            q = noise[row, i]
            for k in range(indptr[row], indptr[row + 1]):
                q += gamma * probability[k] * value[np.uint32(next_state[k]), i]
            total += (q - value[s, i]) * (q - value[s, i])
        out[row] = total / trials
