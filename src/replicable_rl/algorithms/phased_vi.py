r"""Phased value iteration, plain and replicable (Algorithm 1, ``thm:rpvi``).

    Q_0 = 0
    for t = 0 ... T-1:
        draw m fresh successors of every pair (s, a)
        v(s, a)     = rSTAT( mean of V_t(s') ),   V_t(s') = max_b Q_t(s', b)
        Q_{t+1}(s, a) = r(s, a) + gamma v(s, a)
    policy = argmax_a Q_T(s, a)

Phased Q-learning (Kearns and Singh 1998) is the same loop with the plain mean instead of
rSTAT. Values are normalised to [0, 1] inside and given in the user's units outside. Where the
reward is not a known function of (s, a), one query answers r + gamma V_t(s') as a whole.

Why it replicates: by induction over t. If two runs hold the same Q_t, their means differ by
at most twice the sampling error, a shared grid separates such means with probability rho_SQ
at most, and equal bins give equal bits of Q_{t+1}. A union bound over the N*T queries does the
rest. What it takes is in :mod:`replicable_rl.theory.phased_vi`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from replicable_rl.algorithms.promise import Promise, guarantee
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP, greedy
from replicable_rl.progress import report, track
from replicable_rl.queries import rstat
from replicable_rl.records import Guarantee, Solution, Status, StatusCode
from replicable_rl.sampling import CountSampler, GenerativeModel, as_generative
from replicable_rl.sampling.generative import MANY_BLOCKS, n_blocks, stream_words
from replicable_rl.theory import PhasedVIPlan, Units, phased_vi

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.phased_vi import Target

__all__ = ["PhasedVI", "ReplicablePhasedVI"]

Query = Callable[[int, "NDArray[np.float64]"], "NDArray[np.float64]"]  # (t, means) -> answers

OFFSET = "rpvi/offset"  # address (t), element s*A + a
_MANY_STATES = 50_000  # states that are worth several threads
_ROWS_AT_ONCE = 1 << 20  # rows between two looks at the clock and at Ctrl-C: a fraction of a second


def phased_value_iteration(
    problem: GenerativeModel, plan: PhasedVIPlan, query: Query, rng: np.random.Generator
) -> tuple[NDArray[np.float64], int]:
    """Return Q_T in normalised units, and the samples drawn: the loop of Algorithm 1 with any query."""
    gamma = problem.gamma
    units = Units(gamma, *problem.reward_range)
    q = np.zeros((problem.n_states, problem.n_actions))
    samples = 0
    for t in track(range(plan.iterations), "iterations"):
        counts = problem.draw(plan.calls, rng)  # fresh: Q_t depends on the earlier ones
        samples += counts.calls * plan.pairs
        value = q.max(axis=1)
        if problem.known_rewards is not None:
            means = counts.mean(value[counts.next_state]).reshape(q.shape)
            q = units.reward(problem.known_rewards) + gamma * query(t, means)
        else:
            means = counts.mean(units.reward(counts.reward) + gamma * value[counts.next_state]).reshape(q.shape)
            q = query(t, means)
    return q, samples


def _query(plan: PhasedVIPlan, shared: SharedRandomness | None) -> Query:
    """Return rSTAT, or without shared randomness the plain means of Phased Q-learning."""
    if shared is None:
        return lambda t, means: means
    return lambda t, means: rstat(means, shared.uniform(OFFSET, t, shape=means.shape), plan.width).answer


def over_a_table(
    sampler: CountSampler, plan: PhasedVIPlan, shared: SharedRandomness | None, rng: np.random.Generator
) -> tuple[NDArray[np.float64], int]:
    """Return the same bits as `phased_value_iteration`, by compiled loops without Python inside."""
    from replicable_rl.algorithms import _kernels
    from replicable_rl.compiled import Team

    rows, conditional = sampler.table
    units, known = Units(sampler.gamma, *sampler.reward_range), sampler.known_rewards
    nothing = np.empty(0)
    outcome_reward = units.reward(rows.reward) if known is None else nothing
    pair_reward = nothing if known is None else units.reward(known).reshape(-1)
    width = plan.width if shared is not None else 0.0
    table = rows.indptr, rows.next_state, conditional, outcome_reward, pair_reward, sampler.gamma, plan.calls, width
    q, value = np.zeros(plan.pairs), np.empty(sampler.n_states)
    blocks = n_blocks(rows.indptr)
    at_once = 1 if blocks >= MANY_BLOCKS else max(1, _ROWS_AT_ONCE // plan.pairs)
    with Team(blocks, whole_below=MANY_BLOCKS) as each_block, Team(value.size, whole_below=_MANY_STATES) as each_state:
        for t in range(0, plan.iterations, at_once):
            some = range(t, min(t + at_once, plan.iterations))
            words = stream_words(rng, len(some))
            keys = np.empty((0, 2), dtype=np.uint64) if shared is None else shared.keys(OFFSET, some)
            if blocks < MANY_BLOCKS:
                _kernels.phased_iterations(*table, words, keys, sampler.n_actions, q)
            else:  # one iteration on all the cores: the blocks of rows have streams of their own
                each_state(_kernels.best_values, q, sampler.n_actions, value)
                each_block(_kernels.phased_blocks, *table, words[0], keys, value, q)
            report("iterations", some.stop, plan.iterations)
    return q.reshape(sampler.n_states, sampler.n_actions), plan.samples


class _Phased(Promise):
    """What the two algorithms share."""

    def plan(self, problem: TabularMDP | GenerativeModel) -> PhasedVIPlan:
        """Return what a run on this problem will do, and what it may promise."""
        model = as_generative(problem)
        return self._plan(model.n_states * model.n_actions, model.gamma, model.known_rewards is not None)

    def compiled_rows(self, problem: TabularMDP) -> int:
        """Return how many rows a run over a table draws, all of them in compiled loops: audits choose threads by it."""
        plan = self.plan(problem)
        return plan.pairs * plan.iterations

    def _check(self) -> None:
        self._plan(pairs=2**62, gamma=0.5, known_rewards=True)

    def _plan(self, pairs: int, gamma: float, known_rewards: bool) -> PhasedVIPlan:
        return phased_vi(pairs, gamma, known_rewards=known_rewards, owner=type(self).__name__, **self._parameters())

    def _run(
        self, problem: TabularMDP | GenerativeModel, shared: SharedRandomness | None, rng: np.random.Generator
    ) -> Solution:
        model = as_generative(problem)
        plan = self.plan(model)
        self._refuse_beyond_64_bits("calls", plan.calls)
        if type(model) is CountSampler:
            normalised, samples = over_a_table(model, plan, shared, rng)
        else:
            normalised, samples = phased_value_iteration(model, plan, _query(plan, shared), rng)
        if samples != plan.samples:
            raise InvalidInput(f"{type(model).__name__}: {plan.samples} samples were asked for, {samples} were drawn.")
        q = Units(model.gamma, *model.reward_range).value_to_user(normalised)
        return Solution.from_q(
            q,
            greedy(q),  # of what is reported, so that the same value implies the same policy
            samples=samples,
            status=_status(plan),
            guarantee=_guarantee(plan),
        )


@dataclass(frozen=True)
class PhasedVI(_Phased):
    """Phased Q-learning of Kearns and Singh: accurate, but two runs differ.

    Parameters
    ----------
    epsilon, delta : float
        The policy is ``epsilon``-optimal (values normalised to [0, 1]) with probability
        1 - ``delta``.
    target : {"policy", "value"}
        Whether ``epsilon`` is about the policy or about Q.
    calls, iterations : int, optional
        m and T; None means what the theorem says.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), PhasedVI(0.1, 0.001)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.fingerprints.value == two.fingerprints.value
    False
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    target: Target = "policy"
    calls: int | None = None
    iterations: int | None = None

    id: ClassVar[str] = "phased-vi-v1"

    def solve(
        self, problem: TabularMDP | GenerativeModel, shared: SharedRandomness, rng: np.random.Generator
    ) -> Solution:
        """Run with fresh samples from ``rng``; ``shared`` is not used, for nothing here is replicable."""
        return self._run(problem, None, rng)


@dataclass(frozen=True)
class ReplicablePhasedVI(_Phased):
    """Replicable Phased Value Iteration, rPVI: the same Q and policy twice.

    Parameters
    ----------
    epsilon, delta : float
        The policy is ``epsilon``-optimal (values normalised to [0, 1]) with probability
        1 - ``delta``.
    rho : float
        Two runs on fresh samples with one shared seed return different Q with probability
        at most ``rho``; 2*delta < rho is required.
    target : {"policy", "value"}
        Whether ``epsilon`` is about the policy (what ``thm:rpvi`` states) or about Q (what
        its proof shows).
    calls, iterations, tolerance, rho_sq : optional
        m, T, and the tolerance and replicability of one query; None means what the theorem
        says. A run that departs from the theorem says so in its guarantee.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), ReplicablePhasedVI(0.1, 0.001, 0.2)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.fingerprints.value == two.fingerprints.value
    True
    >>> one.samples
    26201274068374796800
    """

    epsilon: float
    delta: float
    rho: float
    _: KW_ONLY
    target: Target = "policy"
    calls: int | None = None
    iterations: int | None = None
    tolerance: float | None = None
    rho_sq: float | None = None

    id: ClassVar[str] = "rpvi-v1"

    def solve(
        self, problem: TabularMDP | GenerativeModel, shared: SharedRandomness, rng: np.random.Generator
    ) -> Solution:
        """Run with the shared randomness r and fresh samples from ``rng``."""
        return self._run(problem, shared, rng)


def _status(plan: PhasedVIPlan) -> Status:
    if plan.iterations < plan.iterations_needed:
        sentence = f"ran {plan.iterations} of the {plan.iterations_needed} iterations that the theorem asks for"
        return Status(StatusCode.BUDGET_SPENT, sentence)
    return Status(StatusCode.COMPLETED, f"ran all {plan.iterations} iterations")


def _guarantee(plan: PhasedVIPlan) -> Guarantee:
    theorem = "lem:phasedvi-convergence" if plan.rho is None else "thm:rpvi"
    subject, bound = ("the policy", plan.epsilon) if plan.target == "policy" else ("Q", plan.epsilon / 2.0)
    departures: dict[str, tuple[float | None, float | None]] = {}
    if plan.calls < plan.calls_needed:
        departures["calls"] = plan.calls, plan.calls_needed
    if plan.iterations < plan.iterations_needed:
        departures["iterations"] = plan.iterations, plan.iterations_needed
    if plan.tolerance > plan.tolerance_needed:
        departures["tolerance"] = plan.tolerance, plan.tolerance_needed
    if plan.rho is not None and plan.rho_sq is not None and plan.rho_sq > plan.rho / plan.queries:
        departures["rho_sq"] = plan.rho_sq, plan.rho / plan.queries
    return guarantee(
        theorem,
        departures,
        accuracy=f"{subject} is within {bound:g} of optimal (values in [0, 1]), except with probability {plan.delta:g}",
        accurate=plan.accuracy_proved,
        replicability=None if plan.rho is None else f"two runs have the same Q, except with probability {plan.rho:g}",
        replicable=plan.replicability_proved,
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=plan.rho,
    )
