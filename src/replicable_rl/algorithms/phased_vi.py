r"""Phased value iteration, plain and replicable (Algorithm 1, ``alg:rep-phased``).

    Q_0 = 0
    for t = 0 ... T-1:
        draw m fresh successors of every pair (s, a)
        v(s, a)     = rSTAT( mean of V_t(s') ),   V_t(s') = max_b Q_t(s', b)
        Q_{t+1}(s, a) = r(s, a) + gamma v(s, a)
    policy = argmax_a Q_T(s, a)

Phased Q-learning (Kearns and Singh 1998) is the same loop with the plain mean instead of
rSTAT. Values are normalised to [0, 1] inside and given in the user's units outside. Where the
reward is not a known function of (s, a), one query answers r + gamma V_t(s') as a whole.

Without overrides rPVI is the same loop with a schedule of its own: early iterations draw less and round more coarsely,
and Q only rises, Q_{t+1} = max(Q_t, r + gamma (v - c_t)). It keeps the same promises with far fewer samples, see
:mod:`replicable_rl.theory.schedule`. With the m, T and tau of `theory.paper_phased_vi` it is the paper's listing.

Why it replicates: by induction over t. If two runs hold the same Q_t, their means differ by no
more than sampling makes them, a shared grid separates such means with small probability, and
equal bins give equal bits of Q_{t+1}. A union bound over the N*T queries does the rest. What it
takes is in :mod:`replicable_rl.theory.phased_vi`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from replicable_rl.algorithms.compiled.fused import Iterations, fused_iterations
from replicable_rl.algorithms.promise import Promise
from replicable_rl.errors import speaking_as
from replicable_rl.problem.foreign import draw_from
from replicable_rl.problem.policies import greedy
from replicable_rl.problem.source import GenerativeModel, Problem
from replicable_rl.problem.support import allowed_of, forbid
from replicable_rl.progress import track
from replicable_rl.queries import Estimate, Plain, Query, Rounded, ingredient
from replicable_rl.runs import OURS, Run, Status, StatusCode, provider
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import PhasedVIPlan, Units, phased_vi
from replicable_rl.theory.phased_vi import check_phased_vi
from replicable_rl.theory.rstat import ARITHMETIC, seed_margin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.phased_vi import Target
    from replicable_rl.theory.schedule import Schedule

OFFSET = "rpvi/offset"  # address (t), element s*A + a


def phased_value_iteration(
    source: GenerativeModel, schedule: Schedule, query: Query, rng: np.random.Generator, log_term: float = 0.0
) -> Iterations:
    """Return Q_T in normalised units: the loop of Algorithm 1 with any schedule and any query.

    Parameters
    ----------
    source : GenerativeModel
        Where the samples come from. If it has this loop compiled for the query, that runs: the same bits, sooner.
    schedule : Schedule
        For every iteration the fresh successors of every pair, and what becomes of the answers.
    query : Query
        How the means of iteration t are answered, at the address t.
    rng : numpy.random.Generator
        The fresh samples.
    log_term : float
        What the margins of :func:`~replicable_rl.theory.rstat.seed_margin` are made of; 0: they are not looked at.
    """
    compiled = fused_iterations(source, query)
    if compiled is not None:
        return compiled(schedule, log_term, rng)
    gamma, units, known = source.gamma, Units.of(source), source.known_rewards
    rewards, allowed = None if known is None else units.reward(known), allowed_of(source)
    q = rewards if schedule.rising and rewards is not None else np.zeros((source.n_states, source.n_actions))
    q, made, far, is_ours = forbid(q, allowed), 0, log_term > 0.0, provider(source) == OURS
    for t in track(range(schedule.iterations), "iterations"):
        best = q.max(axis=1)
        spread = schedule.spread(float(best.max() - best.min()), gamma, known is not None)
        counts = draw_from(source, schedule.calls_at(t, spread), rng)  # fresh: Q_t depends on the earlier ones
        asked = best[counts.next_state]
        asked = asked if known is not None else units.reward(counts.reward) + gamma * asked
        means = counts.mean(asked)
        answer = query.answer(means.reshape(q.shape), t) - schedule.lowered[t]
        new = answer if rewards is None else rewards + gamma * answer
        # Rewards that were merged hide how far they spread, and others' may be.
        far = far and (known is not None or (is_ours and counts.squares is None))
        far = far and _are_far(query, counts, asked, means, t, spread, log_term)
        q, made = forbid(np.maximum(q, new) if schedule.rising else new, allowed), made + counts.calls
    return Iterations(q, made, far)


def _are_far(
    query: Query,
    counts: OutcomeCounts,
    asked: NDArray[np.float64],
    means: NDArray[np.float64],
    t: int,
    spread: float,
    log_term: float,
) -> bool:
    """Whether every mean is further from the edges of its bin than another run's can be from it."""
    if counts.calls < 2 or not hasattr(query, "room"):
        return False
    needed = seed_margin(counts.variance(asked, means), float(counts.calls), spread, log_term)
    far = query.room(means, t) - needed > ARITHMETIC
    return bool(far[np.diff(counts.indptr) > 0].all())  # rows without outcomes are of actions that are not allowed


class _Phased(Promise[PhasedVIPlan]):
    """What the two algorithms share: everything but the query."""

    needs: ClassVar[type] = GenerativeModel
    estimate: ClassVar[Estimate]  # how means are answered
    target: Target
    _check = staticmethod(check_phased_vi)

    def __post_init__(self) -> None:
        super().__post_init__()
        with speaking_as(type(self).__name__):
            ingredient("estimate", self.estimate)

    @property
    def loss_over(self) -> str | None:
        """What epsilon bounds: the loss of the policy from the worst state, or no loss where it is about Q."""
        return "worst" if self.target == "policy" else None

    def _plan(
        self, n_states: int, n_actions: int, *, gamma: float, known_rewards: bool, pairs: int | None = None
    ) -> PhasedVIPlan:
        pairs = n_states * n_actions if pairs is None else pairs
        plan = phased_vi(pairs, gamma, known_rewards=known_rewards, **self._parameters())
        return replace(plan, estimate=ingredient("estimate", self.estimate).id)

    def compiled_rows(self, problem: Problem) -> int:
        """Return how many rows a run over a table draws, all of them in compiled loops: audits choose threads by it."""
        plan = self.plan(problem)
        return plan.pairs * plan.iterations

    def solve(self, source: GenerativeModel, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r, which the baseline does not use, and fresh samples from ``rng``."""
        plan = self.plan(source)
        self._refuse_beyond_64_bits("calls", plan.calls)
        query = self.estimate.bind(shared, OFFSET, plan.schedule.widths, "midpoint")
        done = phased_value_iteration(source, plan.schedule, query, rng, plan.seed_log_term)
        q = _middle(done.q, plan.value_error) if plan.rising else done.q
        q = Units.of(source).value_to_user(q)
        policy = greedy(q)  # of what is reported, so that the same value implies the same policy
        claims, samples = plan.claims(good_seed=done.far), plan.pairs * done.calls
        return Run.of({"value": q, "policy": policy}, status=_status(plan), claims=claims, samples=samples)


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
    estimate: ClassVar[Estimate] = Plain()


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
        at most ``rho``.
    target : {"policy", "value"}
        Whether ``epsilon`` is about the policy (what Theorem 4.1, ``thm:rpvi``, states) or about Q (what
        its proof shows).
    calls, iterations, tolerance, rho_sq : optional
        m, T, and the tolerance and replicability of one query of the paper's listing, which runs if
        one of them is given, and requires 2*delta < rho; None means what the theorem says. Where a run
        departs from the theorem, its claims say what is no longer proved.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), ReplicablePhasedVI(0.1, 0.001, 0.2)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.fingerprints.value == two.fingerprints.value
    True
    >>> f"{one.samples:.1e}"
    '1.3e+13'
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
    estimate: ClassVar[Estimate] = Rounded()


def _middle(q: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """Return the middle of where Q* lies: from Q_T to twice the error above it, and never above 1."""
    return (q + np.minimum(q + 2.0 * error, 1.0)) / 2.0


def _status(plan: PhasedVIPlan) -> Status:
    if plan.iterations < plan.iterations_needed:
        sentence = f"ran {plan.iterations} of the {plan.iterations_needed} iterations that the theorem asks for"
        return Status(StatusCode.BUDGET_SPENT, sentence)
    return Status(StatusCode.COMPLETED, f"ran all {plan.iterations} iterations")
