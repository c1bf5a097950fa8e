"""The sweeps of exact planning: values, their greedy policy, and the loops that bring both closer to the optimum.

Nothing depends on the number of threads: they divide states or whole blocks between them, and
only minima and maxima are put together. Sums run in a fixed order.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.compiled import Team
from replicable_rl.planning import _kernels
from replicable_rl.planning._kernels import Chain, Floats, Integers, PlanningTable
from replicable_rl.problem.table import TabularMDP
from replicable_rl.sampling._kernels import row_means

_SWEEPS = 25  # sweeps along the greedy policy between two full backups, at most
_BLOCK_SWEEPS = 16  # the same for sweeps in blocks, which do more
_PATIENCE = 1000  # the same where the policy is the same as before; and what over-relaxation may waste
_SINGLE_FROM = 1e-5  # where 1 - gamma is smaller, single precision would not see that differences shrink
_SINGLE = 1e-6  # differences this much smaller than at first are lost in the rounding of single precision
_OVER = 1.1  # how far values move in blocks, of the way to where they should be, at most
_BLOCKS = 8  # fixed, so that the bits are; more threads than this find no work
_SHARED_FROM = 50_000  # states; below, one block takes fewer sweeps
_NEAR = 32  # a successor is near if no further than this part of all states
_BLOCKS_FROM = 10_000  # below, plain sweeps take no time and keep symmetric states exactly equal
MANY_STATES = 50_000  # below, starting threads takes longer than they save
_FEW_STATES = 1000  # up to here, the equations of a policy can be solved directly
_SOLVES = 50  # of them, at most; policies may take turns where rounding decides between equals
_ROUNDS = 10_000  # of backups and the sweeps that follow them, at most
_LEAST_SWEEPS = 10_000  # that every process may take, however large
_WORK = 5 * 10**10  # outcomes that the sweeps along policies read, at most: some minutes
_LITTLE_WORK = 5 * 10**8  # the same where the equations can be solved: a second


def solve(
    table: PlanningTable, reward_range: tuple[float, float], tolerance: float
) -> tuple[Floats, Integers, float, int]:
    """Return the optimal values of all rows, their greedy policy, the certified error, and the number of sweeps.

    It holds rewards above the bottom of their range.
    """
    width, bottom = reward_range[1] - reward_range[0], reward_range[0] / (1.0 - table.gamma)
    added = 5.0 * 2.0**-53 * abs(bottom) + 2.0**-1074 if bottom else 0.0  # what rounding may lose with the bottom
    certify, stop = True, math.inf
    with (BlockSweeps if have_near_successors(table) else Sweeps)(table, (0.0, width)) as sweeps:
        while True:
            tired = sweeps.tire()
            if tired or certify or not isinstance(sweeps, BlockSweeps):
                low, high, largest = sweeps.backup()
                shift, spread, rounding = sweeps.macqueen(width, largest, low, high)
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


def expected_rewards(mdp: TabularMDP) -> Floats:
    """Return the expected reward of every row above the bottom of the range."""
    reward = np.empty(mdp.rows.indptr.size - 1)
    with team(reward.size) as each:
        each(row_means, mdp.rows.indptr, mdp.rows.probability, mdp.rows.reward, mdp.reward_range[0], reward)
    return reward


def followed(mdp: TabularMDP, policy: ArrayLike) -> PlanningTable:
    """Return the process under a policy: a table with one action."""
    rows, reward, n_states, n_actions = mdp.rows, expected_rewards(mdp), mdp.n_states, mdp.n_actions
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


def have_near_successors(table: PlanningTable) -> bool:
    """Whether sweeps in blocks pay: there are many states, and most successors are near."""
    if table.n_states < _BLOCKS_FROM:
        return False
    outcome = np.arange(0, table.next_state.size, table.next_state.size // 10_000 + 1)
    state = (np.searchsorted(table.indptr, outcome, side="right") - 1) // table.n_actions
    distance = np.abs(table.next_state[outcome] - state)
    return bool(2 * np.count_nonzero(distance * _NEAR < table.n_states) > outcome.size)


def team(size: int, step: int = 1) -> Team:
    """Return threads that divide so many states, or rows, between them."""
    return Team(size, whole_below=MANY_STATES, step=step)


class Sweeps:
    """Plain sweeps: every state reads the values from before the sweep.

    Along a policy, the differences of a sweep are the policy's expectation of those of the sweep before. So they are
    followed instead of values: without their constant part, whose effect is known, and in single precision unless gamma
    is very near 1, because the next backup sees what is wrong with their sum.
    """

    in_blocks = False  # nor are rows solved for their own state: a constant difference would not stay one

    def __init__(self, table: PlanningTable, reward_range: tuple[float, float], step: int = 1) -> None:
        n_states = table.n_states
        self.table, self.count = table, 0
        self._lowest, self._highest = (reward / (1.0 - table.gamma) for reward in reward_range)
        self._value, self._out = np.full(n_states, self._lowest), np.empty(n_states)
        index = np.int32 if table.indptr.size < 2**31 else np.int64  # half the memory, where it can count the rows
        self._row_of, self._copied = np.empty(n_states, dtype=index), np.full(n_states, -1, dtype=index)
        self._chain = room_for_policies(table, self.in_blocks)
        precision, self._longest = self._chain.weight.dtype, self._chain.longest
        self._differences = [np.empty(0 if self.in_blocks else n_states, dtype=precision) for _ in range(3)]
        self._is_settled, self._rounds, self._solves = False, 0, 0
        self._solved: NDArray[Any] | None = None
        self._each = team(n_states, step)

    def __enter__(self) -> Sweeps:
        return self

    def __exit__(self, *reason: object) -> None:
        self._each.__exit__(*reason)

    def backup(self) -> tuple[float, float, float]:
        """Back up all actions. Returns the extremes of the differences, and the largest magnitude of a value."""
        self.count += 1
        low, high, largest = extremes(self._each(_kernels.backup, self.table, self._value, self._out, self._row_of))
        return low, high, largest

    def macqueen(self, width: float, largest: float, low: float, high: float) -> tuple[float, float, float]:
        """Return midpoint and half length of MacQueen's interval, and the allowance for rounding."""
        # One backup of a row with k outcomes errs by less than (k + 6) units of 2**-53 of the
        # magnitudes it adds, and a row sum is within k units of 2**-52 of 1; four times that, carried
        # to the fixed point, leaves room for the rounding of this bound itself. (A policy's probability
        # of an outcome is a product of two, and its rows are as long as those of all actions together.)
        # The values that are returned include the shift, so the magnitude does. 2**-1074 is what
        # underflow can lose.
        table, longest = self.table, self._longest
        horizon = table.horizon
        magnitude = width + largest + horizon * max(abs(low), abs(high))
        unit = 2.0**-52 * magnitude + 2.0**-1074 if magnitude > 0.0 else 0.0
        rounding = 4.0 * (longest + table.n_actions + 5) * unit / (1.0 - table.gamma)
        return horizon * (low + high) / 2.0, horizon * (high - low) / 2.0, rounding

    def tire(self) -> bool:
        """Count a round. Returns whether there were as many as are reasonable."""
        self._rounds += 1
        work = self.count * self.table.next_state.size // self.table.n_actions
        most = _LITTLE_WORK if self._value.size <= _FEW_STATES else _WORK
        return self._rounds > _ROUNDS or (work > most and self.count > _LEAST_SWEEPS)

    def solve(self) -> bool:
        """Go on with the exact value of the greedy policy, where that can be had and is not what was solved before."""
        again = self._solved is not None and np.array_equal(self._row_of, self._solved)
        if again or self.table.n_states > _FEW_STATES or self._solves == _SOLVES:
            return False
        self._solved, self._solves = self._row_of.copy(), self._solves + 1
        _kernels.policy_value(self.table, self._row_of, self._value)
        return True

    def action_values(self, shift: float) -> tuple[Floats, Integers]:
        """Return what the last `backup` maximised, plus ``shift``, and the greedy policy; the last thing to ask for."""
        del self._chain, self._differences, self._out  # large, and of no more use
        q, policy = np.empty(self.table.reward.size), np.empty(self.table.n_states, dtype=np.int64)
        self._each(_kernels.action_values, self.table, self._value, shift, q, policy)
        return q, policy

    def improve(self) -> float:
        """Go on with the new values and their greedy policy. Returns the share of states where it is a new one."""
        self._swap()
        arguments = self.table, self._row_of, self.in_blocks, self._copied, self._chain
        share = float(sum(self._each(_kernels.policy_rows, *arguments)) / self._value.size)
        self._is_settled = share == 0.0 or self.table.n_actions == 1
        return share

    def follow(self, low: float, high: float, target: float) -> tuple[float, float]:
        """Sweep along the policy until its differences lie within ``target`` of each other.

        Takes the extremes of the differences of the last backup, and returns those of the last sweep.
        """
        unit, middle = high - low, (low + high) / 2.0
        enough = max(target / unit, _SINGLE)
        difference, new, total = self._differences
        self._each(_kernels.differences, self._out, self._value, middle, unit, difference, total)
        times, limit, low, high = 0, _PATIENCE if self._is_settled else _SWEEPS, 0.0, math.inf
        while times < limit and high - low > enough:
            at_once = limit - times if self._each.is_one else 1
            arguments = self._chain, difference, new, total, at_once, enough
            low, high, more = extremes(self._each(_kernels.follow, *arguments))
            if more % 2 == 1:
                difference, new = new, difference
            times += more
        self._value += np.multiply(total, unit, dtype=np.float64)
        self.count += times
        return low * unit, high * unit

    def _swap(self) -> None:
        self._value, self._out = self._out, self._value


class BlockSweeps(Sweeps):
    """Sweeps inside blocks, where a state reads the new values of those before it (Gauss and Seidel).

    A block reads the others as they were before the sweep.
    """

    in_blocks = True

    def __init__(self, table: PlanningTable, reward_range: tuple[float, float]) -> None:
        blocks = _BLOCKS if table.n_states >= _SHARED_FROM else 1
        self._width = -(-table.n_states // blocks)
        super().__init__(table, reward_range, step=self._width)
        self._is_upstream, self._over = np.zeros(blocks, dtype=np.bool_), np.empty(table.n_states)
        can_grow = max(abs(self._lowest), abs(self._highest)) < 1e290  # without overflow, should it go astray
        self._backward, self._most = False, _OVER if can_grow else 1.0
        self._closest, self._closest_at = math.inf, 0

    def relax(self) -> tuple[float, float]:
        """Back up all actions, in blocks. Returns the extremes of the changes."""
        self.count += 1
        arguments = self.table, self._value, self._out, self._row_of, self._width, self._backward
        self._backward = not self._backward  # or policies would improve in one direction only
        low, high = extremes(self._each(_kernels.relax, *arguments))
        return low, high

    def improve(self) -> float:
        """Also find the direction of the flow of the new policy."""
        share = super().improve()
        if share > 0.0:
            self._look_upstream()
        return share

    def follow(self, low: float, high: float, target: float) -> tuple[float, float]:
        """Sweep in blocks, then plainly, which spreads the news of the states that were swept last.

        The extremes are those of a plain backup, which bound the error of the policy's values.
        """
        low, high, times = 0.0, math.inf, 0
        while times < _BLOCK_SWEEPS and high - low > target:
            arguments = self._chain, self._value, self._out, self._width, self._is_upstream, self._over
            low, high = extremes(self._each(_kernels.relax_policy, *arguments))
            self._swap()
            times += 1
        for _ in range(2):
            self._each(_kernels.residuals, self._chain, self._value, self._out)
            self._swap()
        self.count += times + 2
        low, high = extremes(self._each(_kernels.residuals, self._chain, self._value, self._out))
        if self._most > 1.0 and self._is_astray(high - low):
            self._most = 1.0
            self._look_upstream()
            self._value.fill(self._lowest)  # from there, sweeps that do not over-relax can but rise
        elif low > 0.0:
            self._value += low / (1.0 - self.table.gamma)  # still below the policy's value
        return low, high

    def _is_astray(self, spread: float) -> bool:
        """Whether values moved too far: differences lie further apart than values can, or come no closer for long."""
        if spread < self._closest:
            self._closest, self._closest_at = spread, self.count
        is_possible = 0.0 <= spread <= 2.0 * (self._highest - self._lowest)
        return not is_possible or self.count > 2 * self._closest_at + _PATIENCE

    def _look_upstream(self) -> None:
        self._each(_kernels.upstream, self._chain, self._width, self._most, self._is_upstream, self._over)


def room_for_policies(table: PlanningTable, solve: bool) -> Chain:
    """Return a chain that holds the rows of any policy: in every state there is room for its longest row."""
    n_states = table.n_states
    length = (table.indptr[1:] - table.indptr[:-1]).reshape(-1, table.n_actions)
    longest = reduce(np.maximum, length.T) if table.n_actions < n_states else length.max(axis=1)  # the faster one
    indptr = np.zeros(n_states + 1, dtype=np.int64)
    np.cumsum(longest, out=indptr[1:])
    size = int(indptr[-1])
    in_single = not solve and 1.0 - table.gamma >= _SINGLE_FROM
    weight: NDArray[np.floating[Any]] = np.empty(size, dtype=np.float32) if in_single else np.empty(size)
    solved = np.empty((2, n_states if solve else 0))
    return Chain(indptr, np.empty(size, dtype=np.int32), weight, *solved)


def extremes(parts: list[Any]) -> tuple[Any, ...]:
    """Return the smallest of the first results of all parts, and the largest of the others."""
    if len(parts) == 1:
        return tuple(parts[0])
    low, *largest = zip(*parts, strict=True)
    return min(low), *map(max, largest)
