r"""The empirical model of one batch of counts, its exact plan, and how far off both may be.

Everything is normalised: rewards to [0, 1-gamma], values to [0, 1]. A pair that was never tried is taken for the worst
there is, a self-loop without reward; who uses the model says how many such pairs there are.

*The error of Q^ is one more planning problem.* Q^ - Q* = (error of a mean of r + gamma V*) + gamma P^(V^ - V*), and
V* is fixed beforehand, so that with c(s, a) for the error of the mean

    |Q^ - Q*| <= w,    w(s, a) = c(s, a) + gamma sum over s' of P^(s'|s, a) max over b of w(s', b).

c is the smaller of Hoeffding's and an empirical Bernstein bound; ``docs/proofs-decisions.md`` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput
from replicable_rl.planning.exact import Optimum, evaluate_policy, gain_of, optimal_values
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts, TransitionCounts
from replicable_rl.sampling.counts import sums
from replicable_rl.theory import Units
from replicable_rl.theory.decisions import EXACT, POWER, ROUNDING, SOFTENING, Sizes

if TYPE_CHECKING:
    from replicable_rl.planning._following import Following

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDS, WORTH = 8, 0.9  # in which the bound on the error is made smaller, as long as it is by a tenth
_CLOSER = 1e-2  # how much more closely a policy is evaluated while a comparison is undecided
_FURTHER = 4  # times as many steps are followed where the usual ones do not tell
_ROUNDED_SUM = 1e-9  # more than rounding can do to a sum over states
_SOME = 1000  # states


class EmpiricalModel:
    """What counts say of a problem: the model, Q^ on it, gaps and losses; all normalised.

    Parameters
    ----------
    problem : Source
        Whose counts they are: sizes, discount, reward range, known rewards and first state.
    counts : OutcomeCounts or TransitionCounts
        One batch; each pair has its own number of samples.
    fewest : float
        A pair with fewer samples counts as one that was never tried.
    """

    def __init__(self, problem: Source, counts: OutcomeCounts | TransitionCounts, *, fewest: float = 1.0) -> None:
        self.n_states, self.n_actions, self.gamma = problem.n_states, problem.n_actions, problem.gamma
        self.known_rewards, self.spec = problem.known_rewards is not None, problem.spec
        self._evaluated = 0.0  # how far off what was evaluated or planned with other rewards may be
        self._made_of, self.fewest_counted = (problem, counts), fewest
        self._shares: dict[float, Floats] = {}
        row, successor, reward, count = _outcomes(problem, counts)
        visits, self.support = sums(row, count, self.n_states * self.n_actions), problem.support
        self.visits = np.where(visits >= fewest, visits, 0.0)
        untried = self.visits == 0.0
        self.never_tried = np.flatnonzero(untried & self.support.of_rows)
        if (more := self.never_tried.size) > 0:
            kept = ~untried[row]
            stays, worst = self.never_tried // self.n_actions, np.full(more, problem.reward_range[0])
            row = np.concatenate([row[kept], self.never_tried])
            order = np.argsort(row, kind="stable")
            row, successor = row[order], np.concatenate([successor[kept], stays.astype(np.int32)])[order]
            reward = np.concatenate([reward[kept], worst])[order]
            count = np.concatenate([count[kept], np.ones(more)])[order]
        self.table = TabularMDP(
            Rows(
                np.concatenate([[0], np.cumsum(np.bincount(row, minlength=visits.size))]),
                successor,
                count / np.maximum(self.visits, 1.0)[row],
                Units.of(problem).reward(reward),
            ),
            n_actions=self.n_actions,
            gamma=problem.gamma,
            initial=_initial(problem, counts),
            reward_range=(0.0, 1.0 - problem.gamma),
            estimated=True,
            allowed=self.support.given,
        )

    def at_least(self, fewest: float) -> EmpiricalModel:
        """Return the model in which pairs with fewer samples count as never tried: itself, if there is none."""
        if not ((self.visits > 0.0) & (self.visits < fewest)).any():
            return self
        return EmpiricalModel(*self._made_of, fewest=fewest)

    @cached_property
    def best(self) -> Optimum:
        """The exact plan."""
        return optimal_values(self.table)

    @property
    def gain(self) -> float:
        """What the best policy gains over the uniform one on the model, from the first state on."""
        return gain_of(self.table, self.best)

    @property
    def off(self) -> float:
        """How far off everything that was planned and evaluated so far may be, in values normalised to [0, 1]."""
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
    def rewards(self) -> Floats:
        """The mean reward of every pair, (S, A), normalised to [0, 1 - gamma]."""
        return self._row_means(self.table.rows.reward)

    @cached_property
    def fewest(self) -> float:
        """The samples of the pair that has fewest."""
        return float(self.visits[self.support.of_rows].min())

    @property
    def sizes(self) -> Sizes:
        """What the bounds know of it."""
        allowed = None if self.support.whole else self.support.pairs
        return Sizes(self.n_states, self.n_actions, self.gamma, self.known_rewards, allowed_pairs=allowed)

    # --- losses ------------------------------------------------------------------------------------

    @cached_property
    def following(self) -> Following:
        """What follows policies through the model."""
        from replicable_rl.planning._following import Following

        return Following(self.table)

    def loss(self, policy: Integers, over: str = "initial", tolerance: float | None = None) -> float:
        """Return the loss of a policy on the model: from the first state on, or in the worst state."""
        evaluation = evaluate_policy(self.table, policy, tolerance=tolerance)
        if not evaluation.converged:
            self._evaluated = max(self._evaluated, evaluation.error)
        return self.following.total(self.best.value - evaluation.value, over)

    def most_to_lose(self, over: str = "initial") -> float:
        """Return what no policy can lose more than on the model: all that the best one is worth."""
        return self.following.total(self.best.value, over)

    def gap_of(self, policy: Integers) -> Floats:
        """Return the gaps of the actions that a policy takes, (S,)."""
        first = np.arange(0, self.gap.size, self.n_actions)
        taken: Floats = self.gap.reshape(-1)[first + self._actions(policy)]
        return taken

    def _actions(self, policy: Integers) -> Integers:
        """Return a policy as compiled loops take it: one action for every state."""
        actions = self.support.actions("EmpiricalModel", policy)
        if actions is None:
            raise InvalidInput(f"EmpiricalModel: policy must hold one action for each of {self.n_states} states.")
        return actions

    def loses_at_most(
        self, policy: Integers, limit: float, over: str = "initial", *, roughly: bool = False
    ) -> tuple[bool, float]:
        """Return whether a policy loses at most ``limit``, and a bound on its loss.

        If it does, it loses at most the bound; if not, at least the bound. The policy is evaluated as closely as the
        answer needs, which is that of the exact loss, unless that is within 1e-10 of the limit. ``roughly``: where the
        answer is no, how much need not be known.
        """
        off, policy = 2.0 / (1.0 - self.gamma) * self.best.error, self._actions(policy)
        for least, most in self._bounds(policy, limit, over, limit + off if roughly else math.inf):
            if least - off > limit or most + off <= limit:
                return least <= limit, least if least > limit else most
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
        from replicable_rl.planning._following import weighted_sum

        gap, horizon = self.gap_of(policy), 1.0 / (1.0 - self.gamma)
        if self.following.pays:
            yield self.following.losses_between(policy, gap, limit, over)
        elif over == "initial":  # often a few steps from the first state on tell
            ends = enough / horizon * (1.0 + _ROUNDED_SUM)
            for times in (1, _FURTHER):
                share, left, cost = self.following.shares(policy, gap, ends, times)
                if cost > ends:
                    yield horizon * cost, math.inf
                least = horizon * weighted_sum(share, gap)
                yield least, least + horizon * left * float(gap.max())

    def loss_deviation(self, policy: Integers, over: str = "initial") -> float:
        """Return about the standard deviation of what a policy loses on such data: the noise of all pairs, followed.

        It is that of V^ of the best policy and of this one, both fixed, from the first state on or from the worst.
        """
        first, policy = self.table.initial, self._actions(policy)
        if over == "worst":
            lost = self.best.value - evaluate_policy(self.table, policy, tolerance=EXACT).value
            first = np.zeros(self.n_states)
            first[np.argmax(lost)] = 1.0
        states, apart = np.arange(self.n_states), np.zeros((self.n_states, self.n_actions))
        for sign, actions in ((1.0, self.best.policy), (-1.0, policy)):
            share, left, _ = self.following.shares(actions, self.gap_of(actions), first=first)
            apart[states, actions] += sign * share / (1.0 - left)  # as if later steps were like these
        apart *= self.noise
        return math.sqrt(float((apart * apart).sum())) / (1.0 - self.gamma)

    def state_shares(self, spent: float) -> Floats:
        """Return o(s): the discounted share of every state under a policy that is soft on the scale of the loss."""
        if spent not in self._shares:  # a sure decision asks twice
            from replicable_rl.planning._sweeps import team
            from replicable_rl.rules import _kernels

            weight = np.empty_like(self.gap)
            with team(self.n_states) as each:
                each(_kernels.soften, self.gap, SOFTENING / spent, POWER // 2, weight)
            self._shares = {**self._shares, spent: self.following.shares(weight).share}
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

    def spread_of_some(self) -> float:
        """Return the largest of some of them, the first."""
        return float(self._deviation(self.table.rows.reward, self.gamma, _SOME).max())

    def _deviation(self, added: Floats, factor: float, states: int | None = None) -> Floats:
        """Return the standard deviation of ``added + factor * V^`` after each pair of the first states, or of all."""
        from replicable_rl.planning._sweeps import team
        from replicable_rl.rules._kernels import row_deviations

        rows, out = self.table.rows, np.empty(min(states or self.n_states, self.n_states) * self.n_actions)
        with team(out.size) as each:
            each(row_deviations, rows.indptr, rows.next_state, rows.probability, added, factor, self.best.value, out)
        return np.sqrt(out).reshape(-1, self.n_actions)

    def _row_means(self, x: Floats) -> Floats:
        """Return the mean of x over the outcomes of each pair, (S, A)."""
        from replicable_rl.planning._sweeps import team
        from replicable_rl.sampling._kernels import row_means

        rows, out = self.table.rows, np.empty(self.visits.size)
        with team(out.size) as each:
            each(row_means, rows.indptr, rows.probability, x, 0.0, out)
        return out.reshape(-1, self.n_actions)

    def mean_error(self, delta: float, value_error: Floats | None = None) -> Floats:
        """Return c(s, a): the mean of r + gamma V* is this close to its expectation, except with probability delta.

        By Hoeffding's inequality, and by Bernstein's where ``value_error``, (S,), bounds |V^ - V*|.
        """
        n = self.visits.reshape(self.n_states, self.n_actions)
        pairs, some = self.support.pairs, np.maximum(n, 2.0)
        hoeffding = np.sqrt(math.log(8.0 * pairs / delta) / (2.0 * np.maximum(n, 1.0)))
        bound = (self.gamma if self.known_rewards else 1.0) * hoeffding
        if value_error is not None:
            log_term, rows = math.log(6.0 * pairs / delta), self.table.rows
            off = self._row_means(value_error[rows.next_state] ** 2)
            seen = self._deviation(np.zeros(rows.next_state.size), 1.0) + np.sqrt(off)
            sigma = seen * np.sqrt(some / (some - 1.0)) + np.sqrt(2.0 * log_term / (some - 1.0))
            bernstein = self.gamma * (np.sqrt(2.0 * log_term / some) * sigma + log_term / (3.0 * some))
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
        w = self.carried(c)
        for _ in range(ROUNDS):  # the closer V^ is known to be, the closer the variance
            c, before = np.minimum(c, self.mean_error(delta, w.max(axis=1))), float(w.max())
            w = self.carried(c)
            if w.max() > WORTH * before:
                break
        return w, min(1.0, float(c.max()) / (1.0 - self.gamma) + ROUNDING)

    def carried(self, c: Floats) -> Floats:
        """Return w for the errors c of the means: how far they carry."""
        planned = optimal_values(self.table, rewards=c)
        return np.clip(planned.q + planned.error + ROUNDING, 0.0, 1.0)


def _outcomes(
    problem: Source, counts: OutcomeCounts | TransitionCounts
) -> tuple[Integers, NDArray[np.int32], Floats, Floats]:
    """Return pair, successor, reward and count of everything that was seen."""
    seen = counts.count > 0
    count = counts.count[seen].astype(np.float64, copy=False)
    if isinstance(counts, OutcomeCounts):
        row, reward = counts.row[seen], counts.reward[seen]
    else:
        row, reward = counts.row[seen], np.clip(counts.low + counts.excess[seen] / count, *problem.reward_range)
    if problem.known_rewards is not None:  # the proofs rely on them, whatever came with the samples
        reward = problem.known_rewards.reshape(-1)[row]
    return row, counts.next_state[seen].astype(np.int32, copy=False), reward, count


def _initial(problem: Source, counts: OutcomeCounts | TransitionCounts) -> Floats | None:
    if problem.initial is not None or not isinstance(counts, EpisodeCounts) or counts.starts is None:
        return problem.initial
    return counts.starts / float(counts.starts.sum())
