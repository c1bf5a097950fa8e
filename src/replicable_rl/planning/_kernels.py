"""Compiled sweeps over the rows of an MDP; sums run over a row in its stored order.

Inner loops index with unsigned integers: a signed index costs a test for counting from the end.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled, compiled_loop, inlined

Floats = NDArray[np.float64]
Reals = NDArray[np.floating[Any]]  # in single precision, unless gamma is very near 1
Integers = NDArray[np.int64]
Indices = NDArray[np.int32]  # of states; of rows, 64 bits where there are more of them

NEARLY = 0.93  # of the way to where news neither grow nor fade


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

    @property
    def longest(self) -> int:
        """How many outcomes the longest row has that there is room for."""
        return int((self.indptr[1:] - self.indptr[:-1]).max())


@inlined
def _expected(next_state: Indices, probability: Reals, value: Floats, begin: np.uint64, end: np.uint64) -> float:
    """E V(s') for the outcomes of a row, which are those from ``begin`` up to ``end``."""
    total = 0.0
    for k in range(begin, end):
        total += probability[k] * value[np.uint32(next_state[k])]
    return total


@compiled
def backup(
    table: PlanningTable, value: Floats, out: Floats, row_of: Indices, first: int, last: int
) -> tuple[float, float, float]:
    """out(s) = max over a of reward(s, a) + gamma * E V(s'), for the states from ``first`` up to ``last``.

    ``row_of`` takes the rows where the maxima are, the first among equals. Returns the smallest and
    the largest difference ``out - value``, and the largest magnitude of a value.
    """
    indptr, next_state, probability, reward, gamma, n_actions = table
    low, high, largest = np.inf, -np.inf, 0.0
    row, begin = np.uint64(first * n_actions), np.uint64(indptr[first * n_actions])
    for s in range(np.uint64(first), np.uint64(last)):
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
    table: PlanningTable, value: Floats, shift: float, q: Floats, policy: Integers, first: int, last: int
) -> None:
    """q(s, a) = what `backup` maximises, plus ``shift``; and the first action where it is largest."""
    indptr, next_state, probability, reward, gamma, n_actions = table
    row, begin = np.uint64(first * n_actions), np.uint64(indptr[first * n_actions])
    for s in range(np.uint64(first), np.uint64(last)):
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
    table: PlanningTable, row_of: Indices, solve: bool, copied: Indices, chain: Chain, first: int, last: int
) -> int:
    """Copy the rows of a policy, weight = gamma * probability, to where a sweep reads them in one go.

    Or solve v(s) = r + gamma * E v(s') for v(s) = reward(s) + sum of weight * v(s') over other states, by dividing
    by leave(s) = 1 - gamma * P(stay): a goal that is never left has its value after one sweep.

    ``chain_indptr`` leaves room for the longest row of every state, so that it serves every policy and the states
    can be copied in parts; what is left of it gets weight 0. ``copied`` are the rows that were copied last (-1:
    none), for policies soon differ in few states. Returns in how many.
    """
    indptr, next_state, probability, reward, gamma, _ = table
    chain_indptr, chain_next, chain_weight, chain_reward, chain_leave = chain
    changed = 0
    for s in range(np.uint64(first), np.uint64(last)):
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


@compiled
def differences(
    before: Floats, value: Floats, middle: float, unit: float, difference: Reals, total: Reals, first: int, last: int
) -> None:
    """Difference = value - before, without its constant part and in units that fit; nothing is summed up yet."""
    for s in range(first, last):
        difference[s] = (value[s] - before[s] - middle) / unit
        total[s] = 0.0


@compiled_loop("limit")
def follow(
    chain: Chain, difference: Reals, out: Reals, total: Reals, limit: int, enough: float, first: int, last: int
) -> tuple[float, float, int]:
    """Sweep along a policy, and sum up the differences of the sweeps, until they lie within ``enough`` of each other.

    At most ``limit`` times, and more than once only if ``first`` to ``last`` are all the states. The arrays of
    differences change places after every sweep. Returns the smallest and the largest difference of the last sweep,
    and the number of sweeps.
    """
    indptr, next_state, weight = chain.indptr, chain.next_state, chain.weight
    low, high, sweeps = np.inf, -np.inf, 0
    zero = np.zeros(1, dtype=total.dtype)[0]
    while sweeps < limit and (sweeps == 0 or high - low > enough):
        low, high = np.inf, -np.inf
        begin = np.uint64(indptr[first])
        for s in range(np.uint64(first), np.uint64(last)):
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
    table: PlanningTable, value: Floats, out: Floats, row_of: Indices, width: int, backward: bool, first: int, last: int
) -> tuple[float, float]:
    """`backup`, but inside blocks of ``width`` states with the new values of the states before (Gauss and Seidel).

    Other blocks are read as they were before the sweep. An action that may stay is solved for its own state.
    """
    indptr, next_state, probability, reward, gamma, n_actions = table
    low, high = np.inf, -np.inf
    for start in range(first, last, width):
        end = min(start + width, last)
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
def upstream(
    chain: Chain, width: int, most: float, backward: NDArray[np.bool_], over: Floats, first: int, last: int
) -> None:
    """Find the direction in which to sweep each block, and how far beyond its new value to move each state.

    A sweep goes against the flow of the policy: most successors of a state come before it. A state whose new value
    is made of new values to a part ``known`` moves by 1/known at most, or news would grow on their way.
    """
    for start in range(first, last, width):
        end = min(start + width, last)
        ahead = _flow(chain, most, backward[start // width], over, start, end)
        if (ahead > 0.0) != backward[start // width]:
            backward[start // width] = ahead > 0.0
            _flow(chain, most, backward[start // width], over, start, end)


@inlined
def _flow(chain: Chain, most: float, backward: bool, over: Floats, start: int, end: int) -> float:
    """Fill ``over`` for a block and a direction. Returns by how much more of the policy leads to later states."""
    indptr, next_state, weight = chain.indptr, chain.next_state, chain.weight
    balance = 0.0
    first, last = np.uint64(start), np.uint64(end)
    for s in range(first, last):
        ahead, behind = 0.0, 0.0
        for k in range(np.uint64(indptr[s]), np.uint64(indptr[s + np.uint64(1)])):
            j, w = np.uint64(np.uint32(next_state[k])), weight[k]
            ahead += w if s < j < last else 0.0
            behind += w if first <= j < s else 0.0
        balance += ahead - behind
        known = ahead if backward else behind
        over[s] = min(most, max(1.0, NEARLY / known)) if known > 0.5 else 1.0
    return balance


@compiled
def relax_policy(
    chain: Chain,
    value: Floats,
    out: Floats,
    width: int,
    backward: NDArray[np.bool_],
    over: Floats,
    first: int,
    last: int,
) -> tuple[float, float]:
    """`follow` once, in blocks like `relax`, each in its direction; states move ``over`` times as far as they should.

    Returns the smallest and the largest change of a value.
    """
    indptr, next_state, weight, reward, _ = chain
    low, high = np.inf, -np.inf
    for start in range(first, last, width):
        end = min(start + width, last)
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
def residuals(chain: Chain, value: Floats, out: Floats, first: int, last: int) -> tuple[float, float]:
    """Sweep once along the solved rows of a policy, every state with the values from before the sweep.

    Returns the smallest and the largest r + gamma * E v(s') - v(s).
    """
    indptr, next_state, weight, reward, leave = chain
    low, high = np.inf, -np.inf
    begin = np.uint64(indptr[first])
    for s in range(np.uint64(first), np.uint64(last)):
        end = np.uint64(indptr[s + np.uint64(1)])
        total = reward[s] + _expected(next_state, weight, value, begin, end)
        begin = end
        out[s] = total
        change = (total - value[s]) * leave[s]
        low = change if change < low else low
        high = change if change > high else high
    return low, high


@compiled_loop("value")
def policy_value(table: PlanningTable, row_of: NDArray[Any], value: Floats) -> None:
    """Solve value = reward + gamma * E value along a policy, by Gauss's elimination.

    No rows change places: in every row the diagonal outweighs the rest, and elimination keeps it so.
    """
    indptr, next_state, probability, reward, gamma, _ = table
    n = value.size
    matrix = np.eye(n)
    for s in range(n):
        value[s] = reward[row_of[s]]
        for k in range(indptr[row_of[s]], indptr[row_of[s] + 1]):
            matrix[s, next_state[k]] -= gamma * probability[k]
    for pivot in range(n):
        for s in range(pivot + 1, n):
            factor = matrix[s, pivot] / matrix[pivot, pivot]
            if factor != 0.0:
                for k in range(pivot + 1, n):
                    matrix[s, k] -= factor * matrix[pivot, k]
                value[s] -= factor * value[pivot]
    for s in range(n - 1, -1, -1):
        total = value[s]
        for k in range(s + 1, n):
            total -= matrix[s, k] * value[k]
        value[s] = total / matrix[s, s]


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
def follow_shares(table: PlanningTable, weight: Floats, steps: int, now: Floats, then: Floats, share: Floats) -> None:
    """Add to ``share`` the discounted shares of the states in so many steps from ``now``; ``then`` is for work."""
    indptr, next_state, probability, _, gamma, n_actions = table
    factor = 1.0 - gamma
    for step in range(steps):
        last = step == steps - 1  # nobody asks where it leads
        then[:] = 0.0
        for s in range(now.size):
            here = now[s]
            if here == 0.0:
                continue
            share[s] += factor * here
            for row in range(s * n_actions, s * n_actions if last else (s + 1) * n_actions):
                moved = here * weight[row]
                if moved != 0.0:
                    for k in range(indptr[row], indptr[row + 1]):
                        then[np.uint32(next_state[k])] += moved * probability[k]
        now, then = then, now
        factor *= gamma


@compiled_loop("steps")
def follow_actions(
    table: PlanningTable,
    policy: Integers,
    steps: int,
    now: Floats,
    then: Floats,
    share: Floats,
    cost: Floats,
    enough: float,
) -> tuple[float, float]:
    """As `follow_shares`, for a policy with one action in every state; it ends where shares times ``cost`` are enough.

    Returns the share of all steps that were not followed, and the sum of shares times ``cost``.
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
            if here != 0.0:
                row = s * n_actions + policy[s]
                for k in range(indptr[row], indptr[row + 1]):
                    then[np.uint32(next_state[k])] += here * probability[k]
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
