"""The sweeps of exact planning: compiled loops over the rows of a process, and what drives them to the optimum.

Nothing depends on the number of threads: they divide states or whole blocks between them, and only minima and maxima
are put together. Sums run over a row in its stored order. Inner loops index with unsigned integers: a signed index
costs a test for counting from the end.

*Shares.* o(s) = (1 - gamma) * sum over t < T of gamma^t Pr[the state after t steps is s]. T ends the sum where little
is left of it, about 3/(1 - gamma), and earlier for very large tables: a share is a weight here, never a value. It
depends on sizes and discount alone, so that two runs end alike.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import Team, compiled, compiled_loop, inlined
from replicable_rl.sampling._kernels import row_means

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.problem.table import TabularMDP

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
_ROUNDS = 10_000  # of backups and the sweeps that follow them, at most
_WORK = 5 * 10**10  # outcomes that the sweeps along policies read, at most: some minutes
_NEARLY = 0.93  # of the way to where news neither grow nor fade
_MOST_WORK = 4e7  # outcomes that are followed, about: a fraction of the time that planning takes
_OUTCOMES = 8  # of a pair, where the work is estimated beforehand

Floats = NDArray[np.float64]
Reals = NDArray[np.floating[Any]]  # in single precision, unless gamma is very near 1
Integers = NDArray[np.int64]
Indices = NDArray[np.int32]  # of states; of rows, 64 bits where there are more of them


class PlanningTable(NamedTuple):
    """The rows of a process, with the expected reward of each."""

    indptr: Integers
    next_state: Indices
    probability: Floats
    reward: Floats
    gamma: float
    n_actions: int

    @classmethod
    def of(cls, mdp: Any, reward: Floats) -> Self:
        """Return the rows of a table with other rewards."""
        return cls(mdp.rows.indptr, mdp.rows.next_state, mdp.rows.probability, reward, mdp.gamma, mdp.n_actions)

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return (self.indptr.size - 1) // self.n_actions

    @property
    def horizon(self) -> float:
        """What a constant difference of one sweep comes to in all those that follow."""
        return self.gamma / (1.0 - self.gamma)


class Chain(NamedTuple):
    """The rows of a policy, as `policy_rows` copies them; the last two are for sweeps in blocks alone."""

    indptr: Integers
    next_state: Indices
    weight: Reals
    reward: Floats
    leave: Floats

    @classmethod
    def room_for(cls, table: PlanningTable, *, solve: bool) -> Self:
        """Return a chain that holds the rows of any policy: in every state there is room for its longest row."""
        longest = reduce(np.maximum, np.diff(table.indptr).reshape(-1, table.n_actions).T)  # faster than max(axis=1)
        indptr = np.concatenate(([0], np.cumsum(longest)))
        in_single = not solve and 1.0 - table.gamma >= _SINGLE_FROM
        weight: Reals = np.empty(indptr[-1], dtype=np.float32 if in_single else np.float64)
        reward, leave = np.empty((2, table.n_states if solve else 0))
        return cls(indptr, np.empty(weight.size, dtype=np.int32), weight, reward, leave)


@inlined
def _expected(next_state: Indices, probability: Reals, value: Floats, begin: np.uint64, end: np.uint64) -> float:
    """E V(s') for the outcomes of a row."""
    total = 0.0
    for k in range(begin, end):
        total += probability[k] * value[np.uint32(next_state[k])]
    return total


@compiled
def backup(
    table: PlanningTable, value: Floats, out: Floats, row_of: Indices, s0: int, s1: int
) -> tuple[float, float, float]:
    """out(s) = max over a of reward(s, a) + gamma * E V(s'), for the states from ``s0`` up to ``s1``.

    ``row_of`` takes the rows where the maxima are, the first among equals. Returns the smallest and
    the largest difference ``out - value``, and the largest magnitude of a value.
    """
    indptr, next_state, probability, reward, gamma, n_actions = table
    low, high, largest = np.inf, -np.inf, 0.0
    row, begin = np.uint64(s0 * n_actions), np.uint64(indptr[s0 * n_actions])
    for s in range(np.uint64(s0), np.uint64(s1)):
        best, chosen = -np.inf, row
        for _ in range(n_actions):
            end = np.uint64(indptr[row + np.uint64(1)])
            total = reward[row] + gamma * _expected(next_state, probability, value, begin, end)
            # Selections and not jumps: half of them would be guessed wrong, with loads in flight.
            chosen = row if total > best else chosen
            best = total if total > best else best
            row, begin = row + np.uint64(1), end
        out[s] = best
        row_of[s] = chosen
        change = best - value[s]
        low = change if change < low else low
        high = change if change > high else high
        magnitude = abs(value[s])
        largest = magnitude if magnitude > largest else largest
    return low, high, largest


@compiled
def action_values(
    table: PlanningTable, value: Floats, shift: float, q: Floats, policy: Integers, s0: int, s1: int
) -> None:
    """q(s, a) = what `backup` maximises, plus ``shift``; and the first action where it is largest."""
    indptr, next_state, probability, reward, gamma, n_actions = table
    row, begin = np.uint64(s0 * n_actions), np.uint64(indptr[s0 * n_actions])
    for s in range(np.uint64(s0), np.uint64(s1)):
        best, chosen = -np.inf, 0
        for a in range(n_actions):
            end = np.uint64(indptr[row + np.uint64(1)])
            total = reward[row] + gamma * _expected(next_state, probability, value, begin, end) + shift
            q[row] = total
            chosen = a if total > best else chosen
            best = total if total > best else best
            row, begin = row + np.uint64(1), end
        policy[s] = chosen


@compiled
def policy_rows(
    table: PlanningTable, row_of: Indices, solve: bool, copied: Indices, chain: Chain, s0: int, s1: int
) -> int:
    """Copy the rows of a policy, weight = gamma * probability, to where a sweep reads them in one go.

    Or solve v(s) = r + gamma * E v(s') for v(s) = reward(s) + sum of weight * v(s') over other states, by dividing
    by leave(s) = 1 - gamma * P(stay): a goal that is never left has its value after one sweep. Room that is left gets
    weight 0. ``copied`` are the rows that were copied last (-1: none), for policies soon differ in few states. Returns
    in how many.
    """
    indptr, next_state, probability, reward, gamma, _ = table
    chain_indptr, chain_next, chain_weight, chain_reward, chain_leave = chain
    changed = 0
    for s in range(np.uint64(s0), np.uint64(s1)):
        row = row_of[s]
        if row == copied[s]:
            continue
        changed += 1
        copied[s] = row
        begin, end = np.uint64(indptr[np.uint64(row)]), np.uint64(indptr[np.uint64(row) + np.uint64(1)])
        stay = 0.0
        for i in range(begin, end):
            stay += probability[i] if solve and np.uint32(next_state[i]) == s else 0.0
        leave = 1.0 - gamma * min(stay, 1.0)  # rounding may have put the sum above 1
        discount = gamma / leave
        if solve:
            chain_reward[s], chain_leave[s] = reward[np.uint64(row)] / leave, leave
        k = np.uint64(chain_indptr[s])
        for i in range(begin, end):
            is_itself = solve and np.uint32(next_state[i]) == s
            chain_next[k], chain_weight[k] = next_state[i], 0.0 if is_itself else discount * probability[i]
            k += np.uint64(1)
        for unused in range(k, np.uint64(chain_indptr[s + np.uint64(1)])):
            chain_next[unused], chain_weight[unused] = s, 0.0
    return changed


@compiled_loop("limit")
def follow(
    chain: Chain, difference: Reals, out: Reals, total: Reals, limit: int, enough: float, s0: int, s1: int
) -> tuple[float, float, int]:
    """Sweep along a policy, and sum up the differences of the sweeps, until they lie within ``enough`` of each other.

    At most ``limit`` times, and more than once only if ``s0`` to ``s1`` are all the states. Returns the extremes
    of the differences of the last sweep, and the number of sweeps, after each of which the arrays change places.
    """
    indptr, next_state, weight = chain.indptr, chain.next_state, chain.weight
    low, high, sweeps = np.inf, -np.inf, 0
    zero = np.zeros(1, dtype=total.dtype)[0]
    while sweeps < limit and (sweeps == 0 or high - low > enough):
        low, high = np.inf, -np.inf
        begin = np.uint64(indptr[s0])
        for s in range(np.uint64(s0), np.uint64(s1)):
            new, end = zero, np.uint64(indptr[s + np.uint64(1)])
            for k in range(begin, end):
                new += weight[k] * difference[np.uint32(next_state[k])]
            begin = end
            out[s] = new
            total[s] += new
            change = float(new)
            low = change if change < low else low
            high = change if change > high else high
        difference, out = out, difference
        sweeps += 1
    return low, high, sweeps


@compiled
def relax(
    table: PlanningTable, value: Floats, out: Floats, row_of: Indices, width: int, backward: bool, s0: int, s1: int
) -> tuple[float, float]:
    """`backup`, but inside blocks of ``width`` states with the new values of the states before (Gauss and Seidel).

    Other blocks are read as they were before the sweep. An action that may stay is solved for its own state.
    """
    indptr, next_state, probability, reward, gamma, n_actions = table
    low, high = np.inf, -np.inf
    for start in range(s0, s1, width):
        end = min(start + width, s1)
        out[start:end] = value[start:end]
        for i in range(end - start):
            s = np.uint64(end - 1 - i if backward else start + i)
            row = s * np.uint64(n_actions)
            best, chosen, k = -np.inf, row, np.uint64(indptr[row])
            for _ in range(n_actions):
                total, stay, until = 0.0, 0.0, np.uint64(indptr[row + np.uint64(1)])
                while k < until:
                    j = np.uint32(next_state[k])
                    if j == s:
                        stay += probability[k]
                    else:
                        total += probability[k] * (out[j] if start <= j < end else value[j])
                    k += np.uint64(1)
                total = reward[row] + gamma * total
                if stay > 0.0:
                    total /= 1.0 - gamma * min(stay, 1.0)
                chosen = row if total > best else chosen
                best = total if total > best else best
                row += np.uint64(1)
            out[s] = best
            row_of[s] = chosen
            change = best - value[s]
            low = change if change < low else low
            high = change if change > high else high
    return low, high


@compiled
def upstream(chain: Chain, width: int, cap: float, backward: NDArray[np.bool_], over: Floats, s0: int, s1: int) -> None:
    """Find the direction in which to sweep each block, and how far beyond its new value to move each state.

    A sweep goes against the flow of the policy: most successors of a state come before it. A state whose new value
    is made of new values to a part ``renewed`` moves by 1/renewed at most, or news would grow on their way.
    """
    for start in range(s0, s1, width):
        end = min(start + width, s1)
        ahead = _flow(chain, cap, backward[start // width], over, start, end)
        if (ahead > 0.0) != backward[start // width]:
            backward[start // width] = ahead > 0.0
            _flow(chain, cap, backward[start // width], over, start, end)


@inlined
def _flow(chain: Chain, cap: float, backward: bool, over: Floats, start: int, end: int) -> float:
    """Fill ``over`` for a block and a direction. Returns by how much more of the policy leads to later states."""
    indptr, next_state, weight = chain.indptr, chain.next_state, chain.weight
    balance = 0.0
    s0, s1 = np.uint64(start), np.uint64(end)
    for s in range(s0, s1):
        ahead, behind = 0.0, 0.0
        for k in range(np.uint64(indptr[s]), np.uint64(indptr[s + np.uint64(1)])):
            j, w = np.uint64(np.uint32(next_state[k])), weight[k]
            ahead += w if s < j < s1 else 0.0
            behind += w if s0 <= j < s else 0.0
        balance += ahead - behind
        renewed = ahead if backward else behind
        over[s] = min(cap, max(1.0, _NEARLY / renewed)) if renewed > 0.5 else 1.0
    return balance


@compiled
def relax_policy(
    chain: Chain,
    value: Floats,
    out: Floats,
    width: int,
    backward: NDArray[np.bool_],
    over: Floats,
    s0: int,
    s1: int,
) -> tuple[float, float]:
    """`follow` once, in blocks like `relax`, each in its direction; states move ``over`` times as far as they should.

    Returns the smallest and the largest change of a value.
    """
    indptr, next_state, weight, reward, _ = chain
    low, high = np.inf, -np.inf
    for start in range(s0, s1, width):
        end = min(start + width, s1)
        out[start:end] = value[start:end]
        back = backward[start // width]
        for i in range(end - start):
            s = np.uint64(end - 1 - i if back else start + i)
            w = over[s]
            total = (1.0 - w) * value[s] + w * reward[s]
            for k in range(np.uint64(indptr[s]), np.uint64(indptr[s + np.uint64(1)])):
                j = np.uint32(next_state[k])
                total += w * weight[k] * (out[j] if start <= j < end else value[j])
            out[s] = total
            change = total - value[s]
            low = change if change < low else low
            high = change if change > high else high
    return low, high


@compiled
def residuals(chain: Chain, value: Floats, out: Floats, s0: int, s1: int) -> tuple[float, float]:
    """Sweep once along the solved rows of a policy, every state with the values from before the sweep.

    Returns the smallest and the largest r + gamma * E v(s') - v(s).
    """
    indptr, next_state, weight, reward, leave = chain
    low, high = np.inf, -np.inf
    begin = np.uint64(indptr[s0])
    for s in range(np.uint64(s0), np.uint64(s1)):
        end = np.uint64(indptr[s + np.uint64(1)])
        total = reward[s] + _expected(next_state, weight, value, begin, end)
        begin = end
        out[s] = total
        change = (total - value[s]) * leave[s]
        low = change if change < low else low
        high = change if change > high else high
    return low, high


def solve(
    table: PlanningTable, reward_range: tuple[float, float], tolerance: float
) -> tuple[Floats, Integers, float, int]:
    """Return the optimal values of all rows, their greedy policy, the certified error, and the number of sweeps.

    ``table`` holds rewards above the bottom of their range.
    """
    width, bottom = reward_range[1] - reward_range[0], reward_range[0] / (1.0 - table.gamma)
    added = 5.0 * 2.0**-53 * abs(bottom) + 2.0**-1074 if bottom else 0.0  # what rounding may lose with the bottom
    sweeps = (BlockSweeps if have_near_successors(table) else Sweeps)(table, width)
    certify, stop, rounds = True, math.inf, 0
    with sweeps.threads:
        while True:
            rounds += 1
            tired = rounds > _ROUNDS or sweeps.count * table.next_state.size > _WORK * table.n_actions
            if tired or certify:
                low, high, largest = sweeps.backup()
                shift, spread = table.horizon * (low + high) / 2.0, table.horizon * (high - low) / 2.0
                rounding = sweeps.rounding(width + largest + table.horizon * max(abs(low), abs(high)))
                stop = max(tolerance - rounding - added, rounding)
                if tired or spread <= stop:
                    return *sweeps.action_values(shift + bottom), spread + rounding + added, sweeps.count
            else:
                low, high = sweeps.relax()
            # A full backup with differences as close as ``last`` would be the last.
            new, last = sweeps.improve(), stop / table.horizon
            target = last if table.n_actions == 1 else max(new * (high - low), last)
            low, high = sweeps.follow(low, high, target)
            certify = not sweeps.in_blocks or table.n_actions == 1 or (not certify and high - low <= 2.0 * last)


def expected_rewards(mdp: TabularMDP) -> Floats:
    """Return the expected reward of every row above the bottom of the range."""
    reward = np.empty(mdp.rows.indptr.size - 1)
    with team(reward.size) as threads:
        threads(row_means, mdp.rows.indptr, mdp.rows.probability, mdp.rows.reward, mdp.reward_range[0], reward)
    return reward


def followed(mdp: TabularMDP, policy: ArrayLike) -> PlanningTable:
    """Return the process under a policy: a table with one action."""
    rows, reward, n_states, n_actions = mdp.rows, expected_rewards(mdp), mdp.n_states, mdp.n_actions
    starts = np.arange(0, n_states * n_actions + 1, n_actions)  # the first row of every state
    actions = mdp.support.actions("evaluate_policy", policy)
    if actions is None:
        weight = mdp.support.probabilities("evaluate_policy", policy)
        actions = weight.argmax(axis=1) if (weight.max(axis=1) == 1.0).all() else None
    if actions is not None:
        row_of = starts[:-1] + actions
        length = np.diff(rows.indptr)[row_of]
        indptr = np.concatenate(([0], np.cumsum(length)))
        outcome = np.arange(indptr[-1]) + np.repeat(rows.indptr[row_of] - indptr[:-1], length)
        return PlanningTable(indptr, rows.next_state[outcome], rows.probability[outcome], reward[row_of], mdp.gamma, 1)
    mean = np.empty(n_states)
    row_means(starts, weight.reshape(-1), reward, 0.0, mean, 0, n_states)
    probability = rows.probability * np.repeat(weight.reshape(-1), np.diff(rows.indptr))
    return PlanningTable(rows.indptr[starts], rows.next_state, probability, mean, mdp.gamma, 1)


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

    def __init__(self, table: PlanningTable, width: float, step: int = 1) -> None:
        n_states = table.n_states
        self.table, self.count, self._highest = table, 0, width / (1.0 - table.gamma)
        self.value, self._out = np.zeros(n_states), np.empty(n_states)
        index = np.int32 if table.indptr.size < 2**31 else np.int64  # half the memory, where it can count the rows
        self.row_of, self._copied = np.empty(n_states, dtype=index), np.full(n_states, -1, dtype=index)
        self.chain, self._is_settled = Chain.room_for(table, solve=self.in_blocks), False
        self._longest = int(np.diff(self.chain.indptr).max())
        self.threads = team(n_states, step)

    def backup(self) -> tuple[float, float, float]:
        """Back up all actions. Returns the extremes of the differences, and the largest magnitude of a value."""
        self.count += 1
        low, high, largest = extremes(self.threads(backup, self.table, self.value, self._out, self.row_of))
        return low, high, largest

    def relax(self) -> tuple[float, float]:
        """Back up all actions for less than a certificate takes, where there is a way. Returns the extremes."""
        return self.backup()[:2]

    def rounding(self, magnitude: float) -> float:
        """Return what rounding may lose with numbers of this magnitude, from the last backup to the fixed point.

        One backup of a row with k outcomes errs by less than (k + 6) units of 2**-53 of the magnitudes it adds, and a
        row sum is within k units of 2**-52 of 1; four times that, carried to the fixed point, leaves room for the
        rounding of this bound itself. (A policy's probability of an outcome is a product of two, and its rows are as
        long as those of all actions together.) The values that are returned include the shift, so the magnitude does.
        2**-1074 is what underflow can lose.
        """
        unit = 2.0**-52 * magnitude + 2.0**-1074 if magnitude > 0.0 else 0.0
        return 4.0 * (self._longest + self.table.n_actions + 5) * unit / (1.0 - self.table.gamma)

    def action_values(self, shift: float) -> tuple[Floats, Integers]:
        """Return what the last `backup` maximised, plus ``shift``, and the greedy policy; the last thing to ask for."""
        del self.chain, self._out  # large, and of no more use
        q, policy = np.empty(self.table.reward.size), np.empty(self.table.n_states, dtype=np.int64)
        self.threads(action_values, self.table, self.value, shift, q, policy)
        return q, policy

    def improve(self) -> float:
        """Go on with the new values and their greedy policy. Returns the share of states where it is a new one."""
        self._swap()
        arguments = self.table, self.row_of, self.in_blocks, self._copied, self.chain
        share = float(sum(self.threads(policy_rows, *arguments)) / self.value.size)
        self._is_settled = share == 0.0 or self.table.n_actions == 1
        return share

    def follow(self, low: float, high: float, target: float) -> tuple[float, float]:
        """Sweep along the policy until its differences lie within ``target`` of each other.

        Takes the extremes of the differences of the last backup, and returns those of the last sweep.
        """
        unit, middle = high - low, (low + high) / 2.0
        enough, limit = max(target / unit, _SINGLE), _PATIENCE if self._is_settled else _SWEEPS
        difference = ((self.value - self._out - middle) / unit).astype(self.chain.weight.dtype)
        new, total, times, low, high = np.empty_like(difference), np.zeros_like(difference), 0, 0.0, math.inf
        while times < limit and high - low > enough:
            at_once = limit - times if self.threads.is_one else 1
            low, high, sweeps = extremes(self.threads(follow, self.chain, difference, new, total, at_once, enough))
            if sweeps % 2 == 1:
                difference, new = new, difference
            times += sweeps
        self.value += np.multiply(total, unit, dtype=np.float64)
        self.count += times
        return low * unit, high * unit

    def _swap(self) -> None:
        self.value, self._out = self._out, self.value


class BlockSweeps(Sweeps):
    """Sweeps inside blocks, where a state reads the new values of those before it (Gauss and Seidel).

    A block reads the others as they were before the sweep.
    """

    in_blocks = True

    def __init__(self, table: PlanningTable, width: float) -> None:
        blocks = _BLOCKS if table.n_states >= _SHARED_FROM else 1
        self._width = -(-table.n_states // blocks)
        super().__init__(table, width, step=self._width)
        self._is_upstream, self._over = np.zeros(blocks, dtype=np.bool_), np.empty(table.n_states)
        self._backward, self._most = False, _OVER

    def relax(self) -> tuple[float, float]:
        """Back up all actions, in blocks. Returns the extremes of the changes."""
        self.count += 1
        arguments = self.table, self.value, self._out, self.row_of, self._width, self._backward
        self._backward = not self._backward  # or policies would improve in one direction only
        low, high = extremes(self.threads(relax, *arguments))
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
            arguments = self.chain, self.value, self._out, self._width, self._is_upstream, self._over
            low, high = extremes(self.threads(relax_policy, *arguments))
            self._swap()
            times += 1
        for _ in range(2):
            self.threads(residuals, self.chain, self.value, self._out)
            self._swap()
        self.count += times + 2
        low, high = extremes(self.threads(residuals, self.chain, self.value, self._out))
        if self._most > 1.0 and not 0.0 <= high - low <= 2.0 * self._highest:  # values moved too far
            self._most = 1.0
            self._look_upstream()
            self.value.fill(0.0)  # from there, sweeps that do not over-relax can but rise
        elif low > 0.0:
            self.value += low / (1.0 - self.table.gamma)  # still below the policy's value
        return low, high

    def _look_upstream(self) -> None:
        self.threads(upstream, self.chain, self._width, self._most, self._is_upstream, self._over)


def extremes(parts: list[Any]) -> tuple[Any, ...]:
    """Return the smallest of the first results of all parts, and the largest of the others."""
    if len(parts) == 1:
        return tuple(parts[0])
    low, *largest = zip(*parts, strict=True)
    return min(low), *map(max, largest)


# --- where a policy leads, and what it loses on the way --------------------------------------------------------------


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
        start: Floats | None = None,
    ) -> tuple[Floats, float, float]:
        """Return the shares under actions or their (S, A) probabilities, what is left, and shares times ``cost``.

        They are followed ``times`` as many steps as are usual, from the first state of the process or from ``start``,
        and no longer than until the sum is ``enough``.
        The shares are rounded down, if anything: those of all steps are these and, spread over some states, what is
        left.
        """
        share, now = np.zeros(self.n_states), (self.initial if start is None else start).copy()
        costs = np.zeros(self.n_states) if cost is None else cost
        first_row = np.arange(0, self.n_states * self.table.n_actions, self.table.n_actions)
        chosen: Integers = (first_row + policy if policy.ndim == 1 else np.empty(0)).astype(np.int64, copy=False)
        weight: Floats = np.empty(0) if policy.ndim == 1 else policy.astype(np.float64, copy=False).reshape(-1)
        arguments = chosen, weight, times * self.steps, now, np.empty_like(now), share, costs, enough
        return share, *follow_shares(self.table, *arguments)

    def noise(self, policy: Integers, noise: Floats) -> Floats:
        """Return the root mean square of the gaps, (S, A), of K trials whose only rewards are ``noise``, (S*A, K)."""
        value, square = np.zeros((self.n_states, noise.shape[1])), np.empty(len(noise))
        follow_noise(self.table, policy, noise, self.steps, value, np.empty_like(value), square)
        return np.sqrt(square).reshape(self.n_states, -1)

    def total(self, lost: Floats, over: str) -> float:
        """Return what is lost in the worst state, or from the first state on."""
        return float(lost.max()) if over == "worst" else weighted_sum(self.initial, lost)


@compiled
def take_first(
    gap: Floats, weight: Floats, tolerance: Floats, order: Integers, policy: Integers, first: int, last: int
) -> None:
    """policy(s) = the first action of ``order`` with weight(s) * gap(s, a) <= tolerance(s), else the last action."""
    for s in range(first, last):
        i = 0
        while i < order.size - 1 and not gap[s, order[i]] * weight[s] <= tolerance[s]:
            i += 1
        policy[s] = order[i]


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
                p, successor = gamma * probability[k], np.uint32(next_state[k])
                for i in range(trials):
                    then[s, i] += p * value[successor, i]
        value, then = then, value
    for row in range(n_states * n_actions):
        s, total = row // n_actions, 0.0
        for i in range(trials):
            q = noise[row, i]
            for k in range(indptr[row], indptr[row + 1]):
                q += gamma * probability[k] * value[np.uint32(next_state[k]), i]
            total += (q - value[s, i]) * (q - value[s, i])
        out[row] = total / trials
