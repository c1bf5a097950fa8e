r"""Exact planning, with an error bound that is certified and not merely a stopping tolerance.

For any v, let v' = Tv be its Bellman backup and d = v' - v. Then (MacQueen 1966)

    Q* lies within  Tq(v) + gamma/(1-gamma) * [min d, max d]   entry by entry,

where Tq(v)(s, a) = r(s, a) + gamma * E v(s'). The midpoint of the interval is returned,
and half its length, plus a bound on the rounding of one backup carried to the fixed
point, is the certified error. The bound needs nothing from the way v was found: it is
checked on the last backup alone.

v is found by modified policy iteration: one full backup, then some cheap sweeps along
its greedy policy. Sweeps are synchronous and sums run in a fixed order, so the same
model gives the same bits on every machine.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_in_open_interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.mdp.tabular import TabularMDP

__all__ = ["Evaluation", "Optimum", "action_probabilities", "evaluate_policy", "greedy", "optimal_values"]

_SWEEPS = 25  # sweeps along the greedy policy between two full backups
_RELATIVE_TOLERANCE = 1e-10
_MANY_STATES = 50_000  # below, starting threads takes longer than they save
_THREADS = os.cpu_count() or 1


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


def greedy(q: ArrayLike) -> NDArray[np.int64]:
    """Return the policy that takes, in every state, the lowest-numbered action of maximal value.

    >>> greedy([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]])
    array([1, 0])
    """
    table = _as_table("greedy: q", q).astype(np.float64, copy=False)
    if table.ndim != 2 or table.shape[1] == 0 or np.isnan(table).any():
        raise InvalidInput(f"greedy: q must be an (S, A) table of numbers without NaN, got shape {table.shape}.")
    policy: NDArray[np.int64] = table.argmax(axis=1)
    return policy


def optimal_values(mdp: TabularMDP, *, tolerance: float | None = None) -> Optimum:
    """Return Q*, the greedy policy and a certified sup-norm error.

    ``tolerance`` is in the units of the values; the default is 1e-10 of the largest
    difference two values can have, (r_hi - r_lo)/(1 - gamma).

    >>> from replicable_rl.envs import chain
    >>> best = optimal_values(chain(n_states=5, slip=0.0, gamma=0.5, small_reward=0.2))
    >>> best.value.round(4).tolist(), best.policy.tolist()
    ([0.4, 0.4, 0.5, 1.0, 2.0], [1, 1, 0, 0, 0])
    """
    from replicable_rl.mdp import _kernels

    rows, gamma, n_actions = mdp.rows, mdp.gamma, mdp.n_actions
    tolerance = _check_tolerance("optimal_values", mdp, tolerance)
    reward = _expected_rewards(mdp)
    q = np.empty(mdp.n_states * n_actions)
    value = np.full(mdp.n_states, mdp.reward_range[0] / (1.0 - gamma))  # from below: the iterates only rise
    best, policy = np.empty_like(value), np.empty(mdp.n_states, dtype=np.int64)
    table = (rows.indptr, rows.next_state, rows.probability, reward, gamma, n_actions)
    sweeps = 0
    while True:
        over_states(_kernels.backup, mdp.n_states, *table, value, q)
        over_states(_kernels.best_actions, mdp.n_states, n_actions, q, policy, best)
        sweeps += 1
        shift, spread, rounding = _macqueen(mdp, value, best)
        if spread <= max(tolerance - rounding, rounding):
            break
        value, best = best, value
        chain = _policy_rows(mdp, policy)  # a table with one action
        earned = reward[_chosen(policy, n_actions)]
        for _ in range(_SWEEPS):
            over_states(_kernels.backup, mdp.n_states, *chain, earned, gamma, 1, value, best)
            value, best = best, value
        sweeps += _SWEEPS
    table_q = (q + shift).reshape(mdp.n_states, n_actions)
    error = spread + rounding
    return Optimum(table_q, greedy(table_q), error, sweeps, converged=error <= tolerance)


def evaluate_policy(mdp: TabularMDP, policy: ArrayLike, *, tolerance: float | None = None) -> Evaluation:
    """Return the value of a policy with a certified sup-norm error.

    ``policy`` holds one action per state, or an (S, A) table of action probabilities.
    """
    from replicable_rl.mdp import _kernels

    rows, n_actions = mdp.rows, mdp.n_actions
    tolerance = _check_tolerance("evaluate_policy", mdp, tolerance)
    weight = action_probabilities("evaluate_policy", policy, mdp.n_states, n_actions).reshape(-1)
    reward = _expected_rewards(mdp)
    value = np.full(mdp.n_states, mdp.reward_range[0] / (1.0 - mdp.gamma))
    backed_up = np.empty_like(value)
    table = (rows.indptr, rows.next_state, rows.probability, reward, mdp.gamma, weight, n_actions)
    sweeps, block = 0, 8
    while True:
        _kernels.evaluation_sweeps(*table, block, value, backed_up)
        sweeps += block
        shift, spread, rounding = _macqueen(mdp, value, backed_up)
        value, backed_up = backed_up, value
        enough = max(tolerance - rounding, rounding)
        if spread <= enough:
            break
        # One sweep shrinks the spread by gamma at least: look again when that must be enough, or sooner.
        block = min(2 * block, math.ceil(math.log(enough / spread) / math.log(mdp.gamma)))
    value = value + shift
    expected_return = math.fsum(mdp.initial * value)
    return Evaluation(value, expected_return, spread + rounding, sweeps, converged=spread + rounding <= tolerance)


def _policy_rows(mdp: TabularMDP, policy: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Return the outcomes along a policy, a row for every state."""
    from replicable_rl.mdp import _kernels

    rows, row = mdp.rows, _chosen(policy, mdp.n_actions)
    size = int((rows.indptr[row + 1] - rows.indptr[row]).sum())
    indptr = np.empty(policy.size + 1, dtype=np.int64)
    chain = indptr, np.empty(size, dtype=np.int32), np.empty(size)
    _kernels.policy_rows(rows.indptr, rows.next_state, rows.probability, policy, mdp.n_actions, *chain)
    return chain


def _chosen(policy: NDArray[np.int64], n_actions: int) -> NDArray[np.int64]:
    """Return the rows s*A + policy(s)."""
    return np.arange(policy.size, dtype=np.int64) * n_actions + policy


def over_states(kernel: Callable[..., None], n_states: int, *arguments: Any) -> None:
    """Call a kernel for all states, in parts on several threads where they are many.

    Every state is computed from the arguments alone, so the parts do not change a bit.
    """
    if n_states < _MANY_STATES:
        kernel(*arguments, 0, n_states)
        return
    ends = [n_states * i // _THREADS for i in range(_THREADS + 1)]
    with ThreadPoolExecutor(_THREADS) as pool:
        parts = [pool.submit(kernel, *arguments, first, last) for first, last in itertools.pairwise(ends)]
    for part in parts:
        part.result()


def _macqueen(
    mdp: TabularMDP, value: NDArray[np.float64], backed_up: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return midpoint and half length of MacQueen's interval, and the allowance for rounding."""
    difference = backed_up - value
    low, high = float(difference.min()), float(difference.max())
    horizon = mdp.gamma / (1.0 - mdp.gamma)
    # One backup of a row with k outcomes errs by less than (k + 5) units of 2**-53 of the
    # magnitudes it adds, and a row sum is within k units of 2**-52 of 1; four times that, carried
    # to the fixed point, leaves room for the rounding of this bound itself. The values that are
    # returned include the shift, so the magnitude does. 2**-1074 is what underflow can lose.
    longest = int(np.diff(mdp.rows.indptr).max())
    magnitude = max(map(abs, mdp.reward_range)) + float(np.abs(value).max()) + horizon * max(abs(low), abs(high))
    unit = 2.0**-52 * magnitude + 2.0**-1074 if magnitude > 0.0 else 0.0
    rounding = 4.0 * (longest + mdp.n_actions + 5) * unit / (1.0 - mdp.gamma)
    return horizon * (low + high) / 2.0, horizon * (high - low) / 2.0, rounding


def _expected_rewards(mdp: TabularMDP) -> NDArray[np.float64]:
    from replicable_rl.mdp import _kernels

    reward = np.empty(mdp.rows.indptr.size - 1)
    _kernels.row_means(mdp.rows.indptr, mdp.rows.probability, mdp.rows.reward, reward)
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


def _as_table(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        table = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{name} must be a table with rows of one length.") from None
    if table.dtype.kind not in "fiub":
        raise InvalidInput(f"{name} must hold numbers, got {table.dtype}.")
    return table


def action_probabilities(owner: str, policy: ArrayLike, n_states: int, n_actions: int) -> NDArray[np.float64]:
    """Return a policy, given as one action per state or as an (S, A) table, as an (S, A) table of probabilities."""
    table = _as_table(f"{owner}: policy", policy)
    shape = (n_states, n_actions)
    if table.shape == shape[:1]:
        if table.dtype.kind not in "iu" or table.min() < 0 or table.max() >= n_actions:
            raise InvalidInput(f"{owner}: the actions of a policy must be integers in 0..{n_actions - 1}.")
        weights = np.zeros(shape)
        weights[np.arange(n_states), table] = 1.0
        return weights
    if table.shape != shape or table.dtype.kind not in "fiu":
        raise InvalidInput(f"{owner}: policy must have shape (S,) or (S, A) = {shape}, got {table.shape}.")
    weights = table.astype(np.float64)
    if not ((weights >= 0) & (weights <= 2)).all() or not (np.abs(weights.sum(axis=1) - 1.0) <= 1e-9).all():
        raise InvalidInput(f"{owner}: the action probabilities of every state must be >= 0 and sum to 1.")
    normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normalised
