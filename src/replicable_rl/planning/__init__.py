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

Work is bounded. Where gamma is so near 1 that sweeps take too long, planning ends with the error that it can certify,
and ``converged`` says so.

Nothing depends on the number of threads, so the same model gives the same bits on every machine.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_numbers, shown
from replicable_rl.problem.table import TabularMDP
from replicable_rl.theory.numbers import Units
from replicable_rl.wording import short_repr

_RELATIVE_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Optimum:
    """Optimal action values with a certified error.

    ``|q - Q*| <= error`` holds entry by entry, rounding included; an action that is not allowed has the value -inf.
    ``converged`` says whether ``error`` came below the tolerance; where 64-bit arithmetic cannot reach it, the best
    that can be certified is returned.
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
    from replicable_rl.planning import _sweeps

    tolerance, reward, reward_range = _checked("optimal_values", mdp, tolerance, rewards)
    reward = mdp.support.settle(_sweeps.expected_rewards(mdp) if reward is None else reward)
    q, policy, error, sweeps = _sweeps.solve(_sweeps.PlanningTable.of(mdp, reward), reward_range, tolerance)
    return Optimum(q.reshape(mdp.n_states, mdp.n_actions), policy, error, sweeps, converged=error <= tolerance)


def evaluate_policy(mdp: TabularMDP, policy: ArrayLike, *, tolerance: float | None = None) -> Evaluation:
    """Return the value of a policy with a certified sup-norm error.

    ``policy`` holds one action per state, or an (S, A) table of action probabilities.
    """
    from replicable_rl.planning import _sweeps

    tolerance, _, reward_range = _checked("evaluate_policy", mdp, tolerance)
    value, _, error, sweeps = _sweeps.solve(_sweeps.followed(mdp, policy), reward_range, tolerance)
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


def _checked(
    owner: str, mdp: TabularMDP, tolerance: float | None, rewards: ArrayLike | None = None
) -> tuple[float, NDArray[np.float64] | None, tuple[float, float]]:
    """Return the tolerance, other rewards row by row, and the range of rewards; refuse what has no values."""
    if not isinstance(mdp, TabularMDP):
        raise InvalidInput(f"{owner}: mdp must be a TabularMDP, got {shown(mdp)}.")
    low, high = mdp.reward_range
    largest, table = max(abs(low), abs(high)), None
    if not math.isfinite(8.0 * largest / (1.0 - mdp.gamma) ** 2):
        raise InvalidInput(
            f"{owner}: rewards of {largest:g} with gamma={mdp.gamma:g} have values beyond 64-bit numbers. "
            "Divide the rewards by a constant."
        )
    if rewards is not None:
        table, shape = check_numbers(owner, "rewards", rewards), mdp.support.mask.shape
        if table.shape == shape:
            table = mdp.support.settle(table, 0.0)  # what is written elsewhere means nothing
        if table.shape != shape or not ((table >= 0.0) & (table <= 1e300)).all():
            raise InvalidInput(f"{owner}: rewards must be (S, A) = {shape} numbers of 0 or more, got {shown(rewards)}.")
        low, high, table = 0.0, float(table.max()), np.ascontiguousarray(table).reshape(-1)
    if tolerance is not None:
        return check_in_open_interval(owner, "tolerance", tolerance, 0.0, math.inf), table, (low, high)
    return _RELATIVE_TOLERANCE * ((high - low) or abs(high) or 1.0) / (1.0 - mdp.gamma), table, (low, high)
