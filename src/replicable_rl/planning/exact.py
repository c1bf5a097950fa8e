r"""Exact planning, with an error bound that is certified and not merely a stopping tolerance.

For any v, let v' = Tv be its Bellman backup and d = v' - v. Then (MacQueen 1966)

    Q* lies within  Tq(v) + gamma/(1-gamma) * [min d, max d]   entry by entry,

where Tq(v)(s, a) = r(s, a) + gamma * E v(s'). The midpoint of the interval is returned,
and half its length, plus a bound on the rounding of one backup carried to the fixed
point, is the certified error. The bound needs nothing from the way v was found: it is
checked on the last backup alone.

Planning works on rewards above the bottom of their range: a constant in all rewards, which changes no
decision, costs no digits. What it is worth, low/(1-gamma), is added to the values that are returned. Rows are
distributions: where rounding has put their sum a little beside 1, they stand for themselves divided by it.

v is found by modified policy iteration (Puterman 1994, section 6.5): one full backup, then
cheap sweeps along its greedy policy until their differences d lie close together, compared with
those of the backup: the closer, the fewer states have changed their action, since a policy that
will not last is not worth the work. A constant in d needs no sweeps, for T(v + c) = Tv + gamma * c tells
what comes of it, so well mixing processes need few sweeps whatever gamma is.

Large processes whose successors are mostly near in number (grids, queues, chains) are swept in
the way of Gauss and Seidel, as one block, or as a fixed number of blocks where threads share them:
news travel through a block in one sweep and not by one state. Sweeps along a policy go against its
flow, from where it leads to where it comes from, and move values a little further than they should
(successive over-relaxation).

Work is bounded. Where gamma is so near 1 that sweeps take too long (10 000 rounds, or 10 000 sweeps that read 5e8
outcomes), the equations of the greedy policy are solved by elimination, and so on with the greedy policy of what comes
out (Howard 1960). With more than 1000 states that would take too long itself: there planning ends after 5e10 outcomes
with the error that it can certify, and ``converged`` says so.

Nothing depends on the number of threads, so the same model gives the same bits on every machine.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_numbers, shown
from replicable_rl.theory.units import Units

if TYPE_CHECKING:
    from replicable_rl.planning._kernels import PlanningTable
    from replicable_rl.problem.table import TabularMDP

_RELATIVE_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Optimum:
    """Optimal action values with a certified error.

    ``|q - Q*| <= error`` holds entry by entry, rounding included; an action that is not allowed has the value -inf.
    ``converged`` says
    whether ``error`` came below the tolerance asked for; where 64-bit arithmetic cannot
    reach it, the best that can be certified is returned.
    """

    q: NDArray[np.float64]
    policy: NDArray[np.int64]
    error: float
    sweeps: int
    converged: bool

    __repr__ = short_repr

    @property
    def value(self) -> NDArray[np.float64]:
        """max_a q(s, a), within ``error`` of V*."""
        # Faster than max(axis=1), by far.
        value: NDArray[np.float64] = self.q.reshape(-1)[np.arange(0, self.q.size, self.q.shape[1]) + self.policy]
        return value


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of a policy with a certified error, and its return from the first state."""

    value: NDArray[np.float64]
    initial: NDArray[np.float64] = field(repr=False)
    error: float
    sweeps: int
    converged: bool

    __repr__ = short_repr

    @property
    def expected_return(self) -> float:
        """The value of the first state, in the mean."""
        return math.fsum(self.initial * self.value)


def optimal_values(mdp: TabularMDP, *, tolerance: float | None = None, rewards: ArrayLike | None = None) -> Optimum:
    """Return Q*, the greedy policy and a certified sup-norm error.

    ``tolerance`` is in the units of the values; the default is 1e-10 of the largest
    difference two values can have, (r_hi - r_lo)/(1 - gamma). ``rewards`` are (S, A) rewards of 0 or more to plan with
    instead of the table's own.

    >>> from replicable_rl.problem import chain
    >>> best = optimal_values(chain(n_states=5, slip=0.0, gamma=0.5, small_reward=0.2))
    >>> best.value.round(4).tolist(), best.policy.tolist()
    ([0.4, 0.4, 0.5, 1.0, 2.0], [1, 1, 0, 0, 0])
    """
    from replicable_rl.planning._kernels import PlanningTable

    own = _check_tolerance("optimal_values", mdp, tolerance)
    rows, reward_range = mdp.rows, mdp.reward_range
    if rewards is None:
        reward = _expected_rewards(mdp)
    else:
        reward, reward_range = _check_rewards(mdp, rewards)
        own = own if tolerance is not None else _RELATIVE_TOLERANCE * (reward_range[1] or 1.0) / (1.0 - mdp.gamma)
    tolerance, reward = own, mdp.support.settle(reward)
    table = PlanningTable(rows.indptr, rows.next_state, rows.probability, reward, mdp.gamma, mdp.n_actions)
    q, policy, error, sweeps = _solve(table, reward_range, tolerance)
    return Optimum(q.reshape(mdp.n_states, mdp.n_actions), policy, error, sweeps, converged=error <= tolerance)


def evaluate_policy(mdp: TabularMDP, policy: ArrayLike, *, tolerance: float | None = None) -> Evaluation:
    """Return the value of a policy with a certified sup-norm error.

    ``policy`` holds one action per state, or an (S, A) table of action probabilities.
    """
    tolerance = _check_tolerance("evaluate_policy", mdp, tolerance)
    value, _, error, sweeps = _solve(_followed(mdp, policy), mdp.reward_range, tolerance)
    return Evaluation(value, mdp.initial, error, sweeps, converged=error <= tolerance)


@functools.lru_cache(maxsize=16)
def gain(mdp: TabularMDP) -> float:
    """Return what the best policy gains over the uniform one, from the first state on, in values normalised to [0, 1].

    At most: the certified errors of planning are added. A loss that is allowed to be as large asks for nothing.

    >>> from replicable_rl.problem import riverswim
    >>> round(gain(riverswim()), 3)
    0.231
    """
    return gain_of(mdp, optimal_values(mdp))


def gain_of(mdp: TabularMDP, best: Optimum) -> float:
    """Return what the best policy gains over the uniform one, from the first state on, in values in [0, 1], at most."""
    uniform = evaluate_policy(mdp, mdp.support.uniform())
    gained = math.fsum(mdp.initial * (best.value - uniform.value)) + best.error + uniform.error
    return max(0.0, Units.of(mdp).share(gained))


def _followed(mdp: TabularMDP, policy: ArrayLike) -> PlanningTable:
    """Return the process under a policy: a table with one action."""
    from replicable_rl.planning._kernels import PlanningTable
    from replicable_rl.sampling._kernels import row_means

    rows, reward, n_states, n_actions = mdp.rows, _expected_rewards(mdp), mdp.n_states, mdp.n_actions
    first = np.arange(0, n_states * n_actions + 1, n_actions)  # the first row of every state
    actions = mdp.support.actions("evaluate_policy", policy)
    if actions is None:
        weight = mdp.support.probabilities("evaluate_policy", policy)
        actions = weight.argmax(axis=1) if (weight.max(axis=1) == 1.0).all() else None
    if actions is not None:
        row_of = first[:-1] + actions
        length = np.diff(rows.indptr)[row_of]
        indptr = np.concatenate(([0], np.cumsum(length)))
        outcome = np.arange(indptr[-1]) + np.repeat(rows.indptr[row_of] - indptr[:-1], length)
        return PlanningTable(indptr, rows.next_state[outcome], rows.probability[outcome], reward[row_of], mdp.gamma, 1)
    mean = np.empty(n_states)
    row_means(first, weight.reshape(-1), reward, 0.0, mean, 0, n_states)
    probability = rows.probability * np.repeat(weight.reshape(-1), np.diff(rows.indptr))
    return PlanningTable(rows.indptr[first], rows.next_state, probability, mean, mdp.gamma, 1)


def _solve(
    table: PlanningTable, reward_range: tuple[float, float], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], float, int]:
    """Return the optimal values of all rows, their greedy policy, the certified error, and the number of sweeps.

    The table holds rewards above the bottom of their range.
    """
    from replicable_rl.planning._sweeps import BlockSweeps, sweeps_over

    width, bottom = reward_range[1] - reward_range[0], reward_range[0] / (1.0 - table.gamma)
    added = 5.0 * 2.0**-53 * abs(bottom) + 2.0**-1074 if bottom else 0.0  # what rounding may lose with the bottom
    certify, stop = True, math.inf
    with sweeps_over(table, (0.0, width)) as sweeps:
        longest = sweeps.longest
        while True:
            tired = sweeps.tire()
            if tired or certify or not isinstance(sweeps, BlockSweeps):
                low, high, largest = sweeps.backup()
                shift, spread, rounding = _macqueen(table, longest, width, largest, low, high)
                stop = max(tolerance - rounding - added, rounding)
                if spread <= stop or (tired and not sweeps.solve()):
                    return *sweeps.action_values(shift + bottom), spread + rounding + added, sweeps.count
                if tired:
                    continue
            else:
                low, high = sweeps.relax()
            # A full backup with differences as close as ``last`` would be the last.
            new, last = sweeps.improve(), stop / table.horizon
            target = last if table.n_actions == 1 else max(new * (high - low), last)
            low, high = sweeps.follow(low, high, target)
            certify = table.n_actions == 1 or (not certify and high - low <= 2.0 * last)


def _macqueen(
    table: PlanningTable, longest: int, width: float, largest: float, low: float, high: float
) -> tuple[float, float, float]:
    """Return midpoint and half length of MacQueen's interval, and the allowance for rounding."""
    # One backup of a row with k outcomes errs by less than (k + 6) units of 2**-53 of the
    # magnitudes it adds, and a row sum is within k units of 2**-52 of 1; four times that, carried
    # to the fixed point, leaves room for the rounding of this bound itself. (A policy's probability
    # of an outcome is a product of two, and its rows are as long as those of all actions together.)
    # The values that are returned include the shift, so the magnitude does. 2**-1074 is what
    # underflow can lose.
    horizon = table.horizon
    magnitude = width + largest + horizon * max(abs(low), abs(high))
    unit = 2.0**-52 * magnitude + 2.0**-1074 if magnitude > 0.0 else 0.0
    rounding = 4.0 * (longest + table.n_actions + 5) * unit / (1.0 - table.gamma)
    return horizon * (low + high) / 2.0, horizon * (high - low) / 2.0, rounding


def _expected_rewards(mdp: TabularMDP) -> NDArray[np.float64]:
    """Return the expected reward of every row above the bottom of the range."""
    from replicable_rl.planning._sweeps import team
    from replicable_rl.sampling._kernels import row_means

    reward = np.empty(mdp.rows.indptr.size - 1)
    with team(reward.size) as each:
        each(row_means, mdp.rows.indptr, mdp.rows.probability, mdp.rows.reward, mdp.reward_range[0], reward)
    return reward


def _check_rewards(mdp: TabularMDP, rewards: ArrayLike) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Return other rewards, row by row, and their range."""
    table = check_numbers("optimal_values", "rewards", rewards)
    if table.shape == mdp.support.mask.shape:
        table = mdp.support.settle(table, 0.0)  # what is written elsewhere means nothing
    if table.shape != (mdp.n_states, mdp.n_actions) or not ((table >= 0.0) & (table <= 1e300)).all():
        raise InvalidInput(
            f"optimal_values: rewards must be (S, A) = {(mdp.n_states, mdp.n_actions)} numbers of 0 or more, got "
            f"{shown(rewards)}."
        )
    return np.ascontiguousarray(table).reshape(-1), (0.0, float(table.max()))


def _check_tolerance(owner: str, mdp: TabularMDP, tolerance: float | None) -> float:
    """Return the tolerance of a process, which is one, and whose values are numbers."""
    from replicable_rl.problem.table import TabularMDP

    if not isinstance(mdp, TabularMDP):
        raise InvalidInput(f"{owner}: mdp must be a TabularMDP, got {shown(mdp)}.")
    largest = max(map(abs, mdp.reward_range))
    if not math.isfinite(8.0 * largest / (1.0 - mdp.gamma) ** 2):
        raise InvalidInput(
            f"{owner}: rewards of {largest:g} with gamma={mdp.gamma:g} have values beyond 64-bit numbers. "
            "Divide the rewards by a constant."
        )
    if tolerance is not None:
        return check_in_open_interval(owner, "tolerance", tolerance, 0.0, math.inf)
    low, high = mdp.reward_range
    return _RELATIVE_TOLERANCE * ((high - low) or abs(high)) / (1.0 - mdp.gamma)
