r"""The empirical model of one batch of counts, its exact plan, and how far off both may be.

Everything is normalised: rewards to [0, 1-gamma], values to [0, 1]. A pair that was never tried is taken for the worst
there is, a self-loop without reward; who uses the model says how many such pairs there are.

*The error of Q^ is one more planning problem.* Q^ - Q* = (error of a mean of r + gamma V*) + gamma P^(V^ - V*), and
V* is fixed beforehand, so that with c(s, a) for the error of the mean

    |Q^ - Q*| <= w,    w(s, a) = c(s, a) + gamma sum over s' of P^(s'|s, a) max over b of w(s', b).

c is the smaller of Hoeffding's and an empirical Bernstein bound; ``docs/proofs.md`` has the proof.

*Pairs of a log with few rows.* A pair that one log saw twice and another one never would be worth something in one and
the worst in the other. Below a threshold both take it for the worst; it is random, so that few counts are close to it.
It goes up to 10, or to the root of what the middle pair has: with more data it grows, or two large logs would differ in
the pairs that hardly ever occur, and it grows slowly, so that in the end every pair counts. It is never above half of
the middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.planning import Optimum, evaluate_policy, gain_of, optimal_values
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import Rows, TabularMDP, indptr_of
from replicable_rl.randomness import SharedRandomness
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts, TransitionCounts, sums
from replicable_rl.theory import Units
from replicable_rl.theory.decisions import EXACT, POWER, ROUNDING, SOFTENING, Sizes

if TYPE_CHECKING:
    from replicable_rl.planning._sweeps import Following

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDS, WORTH = 8, 0.9  # in which the bound on the error is made smaller, as long as it is by a tenth
_CLOSER = 1e-2  # how much more closely a policy is evaluated while a comparison is undecided
_FURTHER = 4  # times as many steps are followed where the usual ones do not tell
_ROUNDED_SUM = 1e-9  # more than rounding can do to a sum over states
_FEW = 10.0  # rows of a pair: with more, it counts, where there are not very many of the others


def threshold(visits: Floats, shared: SharedRandomness | None) -> float:
    """Return how many rows a pair needs to count: a shared random number, or the largest without shared numbers.

    >>> threshold(np.array([0.0, 100.0, 100.0]), None), threshold(np.array([3.0, 3.0]), None)
    (10.0, 1.5)
    """
    tried = visits[visits > 0.0]
    middle = float(np.median(tried)) if tried.size else 1.0
    highest = max(min(max(_FEW, math.sqrt(middle)), middle / 2.0), 1.0)
    return highest if shared is None else float(highest ** float(shared.uniform("decide/few", shape=1)[0]))


class EmpiricalModel:
    """What one batch of counts says of a problem: the model, Q^ on it, gaps and losses; all normalised.

    A pair with less than ``fewest`` samples counts as one that was never tried.
    """

    def __init__(self, problem: Source, counts: OutcomeCounts | TransitionCounts, *, fewest: float = 1.0) -> None:
        self.n_states, self.n_actions, self.gamma = problem.n_states, problem.n_actions, problem.gamma
        self.known_rewards, self.spec, self.support = problem.known_rewards is not None, problem.spec, problem.support
        self._evaluated = 0.0  # how far off what was evaluated may be
        self._made_of, self.fewest_counted = (problem, counts), fewest
        self._shares: dict[float, Floats] = {}
        seen = counts.count > 0
        row, successor = counts.row[seen], counts.next_state[seen].astype(np.int32, copy=False)
        count = counts.count[seen].astype(np.float64, copy=False)
        if problem.known_rewards is not None:  # the proofs rely on them, whatever came with the samples
            reward = problem.known_rewards.reshape(-1)[row]
        elif isinstance(counts, OutcomeCounts):
            reward = counts.reward[seen]
        else:
            reward = np.clip(counts.low + counts.excess[seen] / count, *problem.reward_range)
        visits = sums(row, count, self.n_states * self.n_actions)
        self.visits = np.where(visits >= fewest, visits, 0.0)
        untried = self.visits == 0.0
        self.never_tried = np.flatnonzero(untried & self.support.of_rows)
        if (more := self.never_tried.size) > 0:
            kept = ~untried[row]
            row = np.concatenate([row[kept], self.never_tried])
            order = np.argsort(row, kind="stable")
            row, stays = row[order], (self.never_tried // self.n_actions).astype(np.int32)
            successor = np.concatenate([successor[kept], stays])[order]
            reward = np.concatenate([reward[kept], np.full(more, problem.reward_range[0])])[order]
            count = np.concatenate([count[kept], np.ones(more)])[order]
        initial = problem.initial
        if initial is None and isinstance(counts, EpisodeCounts) and counts.starts is not None:
            initial = counts.starts / float(counts.starts.sum())
        probability = count / np.maximum(self.visits, 1.0)[row]
        rows = Rows(indptr_of(row, visits.size), successor, probability, Units.of(problem).reward(reward))
        self.table = TabularMDP.estimated_of(problem, rows, initial)

    def at_least(self, fewest: float) -> EmpiricalModel:
        """Return the model in which pairs with fewer samples count as never tried: itself, if there is none."""
        below = ((self.visits > 0.0) & (self.visits < fewest)).any()
        return EmpiricalModel(*self._made_of, fewest=fewest) if below else self

    @cached_property
    def best(self) -> Optimum:
        """The exact plan."""
        return optimal_values(self.table)

    @cached_property
    def gain(self) -> float:
        """What the best policy gains over the uniform one on the model, from the first state on."""
        return gain_of(self.table, self.best)

    @property
    def off(self) -> float:
        """How far off everything that was planned and evaluated so far may be."""
        return max(self.best.error, self._evaluated)

    @property
    def q(self) -> Floats:
        """Q^, (S, A); -inf where an action is not allowed."""
        return self.best.q

    @cached_property
    def gap(self) -> Floats:
        """How much worse than the best action each action is, (S, A); infinitely, where it is not allowed."""
        return self.best.value[:, None] - self.q

    @cached_property
    def fewest(self) -> float:
        """The samples of the pair that has fewest."""
        return float(self.visits[self.support.of_rows].min())

    @cached_property
    def sizes(self) -> Sizes:
        """What the bounds know of it."""
        pairs = self.support.pairs
        return Sizes(self.n_states, self.n_actions, self.gamma, self.known_rewards, allowed_pairs=pairs)

    # --- losses ------------------------------------------------------------------------------------

    @cached_property
    def following(self) -> Following:
        """What follows policies through the model."""
        from replicable_rl.planning._sweeps import Following

        return Following(self.table)

    def loss(self, policy: Integers, over: str = "initial", tolerance: float | None = None) -> float:
        """Return the loss of a policy on the model: from the first state on, or in the worst state."""
        evaluation = evaluate_policy(self.table, policy, tolerance=tolerance)
        if not evaluation.converged:
            self._evaluated = max(self._evaluated, evaluation.error)
        return self.following.total(self.best.value - evaluation.value, over)

    def gap_of(self, policy: Integers) -> Floats:
        """Return the gaps of the actions that a policy takes, (S,)."""
        actions = policy.astype(np.int64, copy=False)  # a compiled loop would read beyond others
        whole = policy.dtype.kind in "iu" and policy.shape == (self.n_states,)
        if not whole or actions.view(np.uint64).max() >= self.n_actions:  # -1 is 2**64 - 1
            raise InvalidInput(f"EmpiricalModel: policy must hold an action for each state, got {shown(policy)}.")
        taken: Floats = self.gap[np.arange(self.n_states), actions]
        return taken

    def loses_at_most(
        self, policy: Integers, limit: float, over: str = "initial", *, roughly: bool = False
    ) -> tuple[bool, float]:
        """Return whether a policy loses at most ``limit``, and a bound on its loss: from above if so, else from below.

        The policy is evaluated as closely as the answer needs, which is that of the exact loss, unless that is within
        1e-10 of the limit. ``roughly``: where the answer is no, how much need not be known.
        """
        off = 2.0 / (1.0 - self.gamma) * self.best.error
        for low, high in self._bounds(policy, limit, over, limit + off if roughly else math.inf):
            if low - off > limit or high + off <= limit:
                return low <= limit, low if low > limit else high
        tolerance = max(limit / 8.0, 1e-10)
        while True:
            lost = self.loss(policy, over, tolerance)
            if abs(lost - limit) > tolerance + 2.0 * self.best.error or tolerance <= 1e-10:
                return lost <= limit, lost + tolerance if lost <= limit else lost - tolerance
            tolerance = max(tolerance * _CLOSER, 1e-10)

    def _bounds(self, policy: Integers, limit: float, over: str, enough: float) -> Iterator[tuple[float, float]]:
        """Yield bounds on the loss of a policy by its gaps, closer and closer, as long as they are had for little.

        A loss of more than ``enough`` need not be known.
        """
        from replicable_rl.planning._sweeps import MANY_STATES, weighted_sum

        gap, horizon = self.gap_of(policy), 1.0 / (1.0 - self.gamma)
        if over == "initial" and self.n_states < MANY_STATES:  # often a few steps from the first state on tell
            ends = enough / horizon * (1.0 + _ROUNDED_SUM)
            for times in (1, _FURTHER):
                share, rest, cost = self.following.shares(policy, gap, ends, times)
                if cost > ends:
                    yield horizon * cost, math.inf
                low = horizon * weighted_sum(share, gap)
                yield low, low + horizon * rest * float(gap.max())

    def loss_deviation(self, policy: Integers, over: str = "initial") -> float:
        """Return about the standard deviation of what a policy loses on such data: the noise of all pairs, followed.

        It is that of V^ of the best policy and of this one, both fixed, from the first state on or from the worst.
        """
        start, states = self.table.initial, np.arange(self.n_states)
        if over == "worst":
            lost = self.best.value - evaluate_policy(self.table, policy, tolerance=EXACT).value
            start = (states == np.argmax(lost)).astype(np.float64)
        apart = np.zeros(self.gap.shape)
        for sign, actions in ((1.0, self.best.policy), (-1.0, policy)):
            share, rest, _ = self.following.shares(actions, self.gap_of(actions), start=start)
            apart[states, actions] += sign * share / (1.0 - rest)  # as if later steps were like these
        apart *= self.noise
        return math.sqrt(float((apart * apart).sum())) / (1.0 - self.gamma)

    def state_shares(self, spent: float) -> Floats:
        """Return o(s): the discounted share of every state under a policy that is soft on the scale of the loss.

        It takes actions in proportion to (1 + SOFTENING gap/eps')**-POWER, by products alone.
        """
        if spent not in self._shares:
            soft = 1.0 + SOFTENING / spent * self.gap
            for _ in range(POWER // 2):
                soft = soft * soft
            soft = 1.0 / soft
            total = sum(soft.T, np.zeros(self.n_states))  # one action after the other
            self._shares = {**self._shares, spent: self.following.shares(soft / total[:, None])[0]}
        return self._shares[spent]

    # --- how far off it may be ----------------------------------------------------------------------

    @cached_property
    def spread(self) -> Floats:
        """The standard deviation of r + gamma V^ after each pair, (S, A): of one sample."""
        _, counts = self._made_of
        if self.known_rewards or counts.squares is None:
            return self.spread_between
        n = np.maximum(self.visits, 1.0)  # the mean variance of the rewards of a transition
        merged = sums(counts.row, counts.squares, n.size) / n * (1.0 - self.gamma) ** 2
        of_rewards = np.where(self.visits > 0.0, merged, 0.0).reshape(self.gap.shape)
        return np.sqrt(self.spread_between * self.spread_between + of_rewards)

    @cached_property
    def spread_between(self) -> Floats:
        """The same, as if every transition had one reward, the mean of those that came with it."""
        return self._deviation(self.table.rows.reward, self.gamma)

    @property
    def noise(self) -> Floats:
        """The standard deviation of the mean of r + gamma V^ after each pair, (S, A)."""
        return self.spread / np.sqrt(np.maximum(self.visits.reshape(self.gap.shape), 1.0))

    def _deviation(self, added: Floats, factor: float) -> Floats:
        """Return the standard deviation of ``added + factor * V^`` after each pair, (S, A)."""
        rows, size = self.table.rows, self.visits.size
        x, p = added + factor * self.best.value[rows.next_state], rows.probability
        off = x - sums(rows.row, p * x, size)[rows.row]
        return np.sqrt(sums(rows.row, p * off * off, size)).reshape(-1, self.n_actions)

    def means(self, x: Floats) -> Floats:
        """Return the mean of x over the outcomes of each pair, (S, A)."""
        rows = self.table.rows
        return sums(rows.row, rows.probability * x, self.visits.size).reshape(self.n_states, self.n_actions)

    def mean_error(self, delta: float, value_error: Floats | None = None) -> Floats:
        """Return c(s, a): the mean of r + gamma V* is this close to its expectation, except with probability delta.

        By Hoeffding's inequality, and by Bernstein's where ``value_error``, (S,), bounds |V^ - V*|.
        """
        n = self.visits.reshape(self.n_states, self.n_actions)
        pairs, at_least_two = self.support.pairs, np.maximum(n, 2.0)
        hoeffding = np.sqrt(math.log(8.0 * pairs / delta) / (2.0 * np.maximum(n, 1.0)))
        bound = (self.gamma if self.known_rewards else 1.0) * hoeffding
        if value_error is not None:
            log_term, rows = math.log(6.0 * pairs / delta), self.table.rows
            off = self.means(value_error[rows.next_state] ** 2)
            seen = self._deviation(np.zeros(rows.next_state.size), 1.0) + np.sqrt(off)
            sigma = seen * np.sqrt(at_least_two / (at_least_two - 1.0)) + np.sqrt(2.0 * log_term / (at_least_two - 1.0))
            bernstein = self.gamma * (np.sqrt(2.0 * log_term / at_least_two) * sigma + log_term / (3.0 * at_least_two))
            learned = 0.0 if self.known_rewards else (1.0 - self.gamma) * hoeffding
            bound = np.where(n >= 2.0, np.minimum(bound, bernstein + learned), bound)
        found = np.where(n >= 1.0, np.minimum(bound, 1.0), 1.0)
        return self.support.settle(found, 0.0)  # of nothing, nothing is wrong

    def value_error(self, delta: float) -> tuple[Floats, float]:
        """Return w(s, a), which bounds |Q^ - Q*| except with probability delta, and what bounds it for any second run.

        A second run has as many samples of every pair; its bound is one number for all pairs, and fails with
        probability delta too.
        """
        c = self.mean_error(delta)
        w = self._carried(c)
        for _ in range(ROUNDS):  # the closer V^ is known to be, the closer the variance
            c, last = np.minimum(c, self.mean_error(delta, w.max(axis=1))), float(w.max())
            w = self._carried(c)
            if w.max() > WORTH * last:
                break
        return w, min(1.0, float(c.max()) / (1.0 - self.gamma) + ROUNDING)

    def _carried(self, c: Floats) -> Floats:
        planned = optimal_values(self.table, rewards=c)
        return np.clip(planned.q + planned.error + ROUNDING, 0.0, 1.0)
