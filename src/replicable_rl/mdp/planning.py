r"""Exact planning, with an error bound that is certified and not merely a stopping tolerance.

For any v, let v' = Tv be its Bellman backup and d = v' - v. Then (MacQueen 1966)

    Q* lies within  Tq(v) + gamma/(1-gamma) * [min d, max d]   entry by entry,

where Tq(v)(s, a) = r(s, a) + gamma * E v(s'). The midpoint of the interval is returned,
and half its length, plus a bound on the rounding of one backup carried to the fixed
point, is the certified error. The bound needs nothing from the way v was found: it is
checked on the last backup alone.

v is found by modified policy iteration (Puterman 1994, section 6.5): one full backup, then
cheap sweeps along its greedy policy, until their differences d lie close together compared with
those of the backup. A constant in d is no news, since T(v + c) = Tv + gamma * c, so well mixing
processes need few sweeps whatever gamma is.

Large processes whose successors are mostly near in number (grids, queues, chains) are swept in
the way of Gauss and Seidel inside a fixed number of blocks, forward and backward in turns: news
travel through a block in one sweep and not by one state. A block reads the others as they were
before the sweep.

Nothing depends on the number of threads: they divide states or whole blocks between them, and
only minima and maxima are put together. Sums run in a fixed order. So the same model gives the
same bits on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput, check_in_open_interval
from replicable_rl.mdp.policies import action_probabilities

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.compiled import Team
    from replicable_rl.mdp.tabular import TabularMDP

    Floats = NDArray[np.float64]
    _Chain = tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats]  # one row per state, as in _Table

__all__ = ["Evaluation", "Optimum", "evaluate_policy", "optimal_values"]

_SWEEPS = 25  # sweeps along the greedy policy between two full backups, at most
_BLOCK_SWEEPS = 8  # the same for sweeps in blocks, which do more
_ENOUGH = 0.1  # the policy is followed until its differences spread this much of those of the backup
_PATIENCE = 1000  # the same where there is one action, and no policy to improve
_RELATIVE_TOLERANCE = 1e-10
_BLOCKS = 32  # fixed, so that the bits are; more threads than this find no work
_BLOCKS_FROM = 50_000  # below, plain sweeps take no time and keep symmetric states exactly equal
_MANY_STATES = 50_000  # below, starting threads takes longer than they save


@dataclass(frozen=True, eq=False)
class Optimum:
    """Optimal action values with a certified error.

    ``|q - Q*| <= error`` holds entry by entry, rounding included. ``converged`` says
    whether ``error`` came below the tolerance asked for; where 64-bit arithmetic cannot
    reach it, the best that can be certified is returned.
    """

    q: NDArray[np.float64]
    policy: NDArray[np.int64]
    error: float
    sweeps: int
    converged: bool

    @property
    def value(self) -> NDArray[np.float64]:
        """max_a q(s, a), within ``error`` of V*."""
        value: NDArray[np.float64] = self.q.max(axis=1)
        return value


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of a policy with a certified error, and its return from the first state."""

    value: NDArray[np.float64]
    expected_return: float
    error: float
    sweeps: int
    converged: bool


def optimal_values(mdp: TabularMDP, *, tolerance: float | None = None) -> Optimum:
    """Return Q*, the greedy policy and a certified sup-norm error.

    ``tolerance`` is in the units of the values; the default is 1e-10 of the largest
    difference two values can have, (r_hi - r_lo)/(1 - gamma).

    >>> from replicable_rl.envs import chain
    >>> best = optimal_values(chain(n_states=5, slip=0.0, gamma=0.5, small_reward=0.2))
    >>> best.value.round(4).tolist(), best.policy.tolist()
    ([0.4, 0.4, 0.5, 1.0, 2.0], [1, 1, 0, 0, 0])
    """
    tolerance = _check_tolerance("optimal_values", mdp, tolerance)
    rows = mdp.rows
    table = _Table(rows.indptr, rows.next_state, rows.probability, _expected_rewards(mdp), mdp.gamma, mdp.n_actions)
    found = _solve(table, mdp.reward_range, tolerance)
    q = found.q.reshape(mdp.n_states, mdp.n_actions)
    return Optimum(q, found.policy, found.error, found.sweeps, converged=found.error <= tolerance)


def evaluate_policy(mdp: TabularMDP, policy: ArrayLike, *, tolerance: float | None = None) -> Evaluation:
    """Return the value of a policy with a certified sup-norm error.

    ``policy`` holds one action per state, or an (S, A) table of action probabilities.
    """
    tolerance = _check_tolerance("evaluate_policy", mdp, tolerance)
    weight = action_probabilities("evaluate_policy", policy, mdp.n_states, mdp.n_actions)
    found = _solve(_followed(mdp, weight), mdp.reward_range, tolerance)
    expected_return = math.fsum(mdp.initial * found.q)
    return Evaluation(found.q, expected_return, found.error, found.sweeps, converged=found.error <= tolerance)


class _Table(NamedTuple):
    """The rows of a process, with the expected reward of each."""

    indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    gamma: float
    n_actions: int


class _Certified(NamedTuple):
    """Values of all rows, within ``error`` of the optimal ones."""

    q: NDArray[np.float64]
    policy: NDArray[np.int64]  # greedy for these very numbers
    error: float
    sweeps: int


def _followed(mdp: TabularMDP, weight: NDArray[np.float64]) -> _Table:
    """Return the process under action probabilities: a table with one action."""
    from replicable_rl.mdp import _kernels

    rows, reward, n_states, n_actions = mdp.rows, _expected_rewards(mdp), mdp.n_states, mdp.n_actions
    first = np.arange(0, n_states * n_actions + 1, n_actions)  # the first row of every state
    if (weight.max(axis=1) == 1.0).all():
        chain = _room_for_policies(rows.indptr, n_actions)
        row_of = (first[:-1] + weight.argmax(axis=1)).astype(_row_type(rows.indptr))
        with _team(n_states) as each:
            each(_kernels.policy_rows, *rows[:3], reward, row_of, np.full_like(row_of, -1), *chain)
        return _Table(*chain, mdp.gamma, 1)
    mean = np.empty(n_states)
    _kernels.row_means(first, weight.reshape(-1), reward, mean, 0, n_states)
    probability = rows.probability * np.repeat(weight.reshape(-1), np.diff(rows.indptr))
    return _Table(rows.indptr[first], rows.next_state, probability, mean, mdp.gamma, 1)


def _row_type(indptr: NDArray[np.int64]) -> type[np.signedinteger[Any]]:
    """Return the type of a row's number: half the memory, unless there are more rows than it can count."""
    return np.int32 if indptr.size < 2**31 else np.int64


def _room_for_policies(indptr: NDArray[np.int64], n_actions: int) -> _Chain:
    """Return arrays that hold the rows of any policy: in every state there is room for its longest row."""
    longest = np.diff(indptr).reshape(-1, n_actions).max(axis=1)
    chain_indptr = np.zeros(longest.size + 1, dtype=np.int64)
    np.cumsum(longest, out=chain_indptr[1:])
    size = int(chain_indptr[-1])
    return chain_indptr, np.empty(size, dtype=np.int32), np.empty(size), np.empty(longest.size)


def _solve(table: _Table, reward_range: tuple[float, float], tolerance: float) -> _Certified:
    """Return the optimal values of all rows, by the method of the module's docstring."""
    from replicable_rl.mdp import _kernels

    gamma, n_actions = table.gamma, table.n_actions
    n_states, horizon = (table.indptr.size - 1) // n_actions, gamma / (1.0 - gamma)
    value = np.full(n_states, reward_range[0] / (1.0 - gamma))  # from below: the iterates only rise
    index = _row_type(table.indptr)
    out, row_of, copied = np.empty(n_states), np.empty(n_states, dtype=index), np.full(n_states, -1, dtype=index)
    chain = table[:4] if n_actions == 1 else _room_for_policies(table.indptr, n_actions)
    width = _block_width(n_states) if _has_near_successors(table) else 0
    sweeps, stop, certify, backward = 0, math.inf, True, False
    longest = int(np.diff(chain[0]).max())
    with _team(n_states) as each:
        while True:
            if certify:
                low, high, largest = _extremes(each(_kernels.backup, *table, value, out, row_of))
                shift, spread, rounding = _macqueen(table, longest, reward_range, largest, low, high)
                stop = max(tolerance - rounding, rounding)
                if spread <= stop:
                    del chain, out  # large, and of no more use
                    q, policy = np.empty(n_states * n_actions), np.empty(n_states, dtype=np.int64)
                    each(_kernels.action_values, *table, value, shift, q, policy)
                    return _Certified(q, policy, spread + rounding, sweeps + 1)
            else:
                low, high = _extremes(each(_kernels.relax, *table, value, out, row_of, width, backward))
                backward = not backward  # or policies would improve in one direction only
            value, out = out, value
            if n_actions > 1:
                each(_kernels.policy_rows, *table[:4], row_of, copied, *chain)
            # A full backup with differences this close would be the last.
            target = max(_ENOUGH * (high - low) if n_actions > 1 else 0.0, stop / horizon)
            limit = _PATIENCE if n_actions == 1 else _BLOCK_SWEEPS if width > 0 else _SWEEPS
            follow = _follow_in_blocks if width > 0 else _follow
            low, high, times = follow(each, (*chain, gamma), value, out, limit, target, width)
            if times % 2 == 1:
                value, out = out, value
            if width > 0 and low > 0.0:
                value += horizon * low  # still below, for T keeps up with it
            sweeps += 1 + times
            certify = width == 0 or n_actions == 1 or (not certify and horizon * (high - low) <= 2.0 * stop)


def _follow(
    each: Team, chain: tuple[Any, ...], value: Floats, out: Floats, limit: int, target: float, _width: int
) -> tuple[float, float, int]:
    """Sweep along a policy until the differences lie within ``target``; the arrays change places every time.

    Returns the least and the largest difference of the last sweep, and the number of sweeps.
    """
    from replicable_rl.mdp import _kernels

    low, high, times = 0.0, math.inf, 0
    while times < limit and high - low > target:
        low, high, more = _extremes(each(_kernels.follow, *chain, value, out, limit if each.is_one else 1, target))
        times += more
        if more % 2 == 1:
            value, out = out, value
    return low, high, times


def _follow_in_blocks(
    each: Team, chain: tuple[Any, ...], value: Floats, out: Floats, limit: int, target: float, width: int
) -> tuple[float, float, int]:
    """Like :func:`_follow`, with Gauss-Seidel sweeps and a last plain one, whose differences bound the error."""
    from replicable_rl.mdp import _kernels

    nothing = np.empty(0, dtype=np.int32)
    low, high, times = 0.0, math.inf, 0
    while times < limit and high - low > target:
        low, high = _extremes(each(_kernels.relax, *chain, 1, value, out, nothing, width, times % 2 == 1))
        times += 1
        value, out = out, value
    low, high, _ = _extremes(each(_kernels.follow, *chain, value, out, 1, target))
    return low, high, times + 1


def _team(n_states: int) -> Team:
    """Return threads that divide the states by whole blocks."""
    from replicable_rl.compiled import Team

    return Team(n_states, whole_below=_MANY_STATES, step=_block_width(n_states))


def _block_width(n_states: int) -> int:
    return -(-n_states // _BLOCKS)


def _extremes(parts: list[Any]) -> tuple[Any, ...]:
    """Return the smallest of the first results of all parts, and the largest of the others."""
    if len(parts) == 1:
        return tuple(parts[0])
    low, *largest = zip(*parts, strict=True)
    return min(low), *map(max, largest)


def _has_near_successors(table: _Table) -> bool:
    """Whether Gauss-Seidel sweeps pay: there are many states, and most outcomes stay inside a block."""
    n_states = (table.indptr.size - 1) // table.n_actions
    if n_states < _BLOCKS_FROM:
        return False
    outcome = np.arange(0, table.next_state.size, table.next_state.size // 10_000 + 1)
    state = (np.searchsorted(table.indptr, outcome, side="right") - 1) // table.n_actions
    width = _block_width(n_states)
    return bool(2 * np.count_nonzero(state // width == table.next_state[outcome] // width) > outcome.size)


def _macqueen(
    table: _Table,
    longest: int,
    reward_range: tuple[float, float],
    largest: float,
    low: float,
    high: float,
) -> tuple[float, float, float]:
    """Return midpoint and half length of MacQueen's interval, and the allowance for rounding."""
    horizon = table.gamma / (1.0 - table.gamma)
    # One backup of a row with k outcomes errs by less than (k + 5) units of 2**-53 of the
    # magnitudes it adds, and a row sum is within k units of 2**-52 of 1; four times that, carried
    # to the fixed point, leaves room for the rounding of this bound itself. (A policy's probability
    # of an outcome is a product of two, and its rows are as long as those of all actions together.)
    # The values that are returned include the shift, so the magnitude does. 2**-1074 is what
    # underflow can lose.
    magnitude = max(map(abs, reward_range)) + largest + horizon * max(abs(low), abs(high))
    unit = 2.0**-52 * magnitude + 2.0**-1074 if magnitude > 0.0 else 0.0
    rounding = 4.0 * (longest + table.n_actions + 5) * unit / (1.0 - table.gamma)
    return horizon * (low + high) / 2.0, horizon * (high - low) / 2.0, rounding


def _expected_rewards(mdp: TabularMDP) -> NDArray[np.float64]:
    from replicable_rl.mdp import _kernels

    reward = np.empty(mdp.rows.indptr.size - 1)
    with _team(reward.size) as each:
        each(_kernels.row_means, mdp.rows.indptr, mdp.rows.probability, mdp.rows.reward, reward)
    return reward


def _check_tolerance(owner: str, mdp: TabularMDP, tolerance: float | None) -> float:
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
