r"""Phased value iteration, plain and replicable (Algorithm 1, ``alg:rep-phased``).

    Q_0 = 0
    for t = 0 ... T-1:
        draw m fresh successors of every pair (s, a)
        v(s, a)     = rSTAT( mean of V_t(s') ),   V_t(s') = max_b Q_t(s', b)
        Q_{t+1}(s, a) = r(s, a) + gamma v(s, a)
    policy = argmax_a Q_T(s, a)

Phased Q-learning (Kearns and Singh 1998) is the same loop with the plain mean instead of rSTAT. Values are normalised
to [0, 1] inside. Where the reward is not a known function of (s, a), one query answers r + gamma V_t(s') as a whole.

Without overrides rPVI is the same loop with a schedule of its own: it begins with Q_0 = r, early iterations draw less
and round more coarsely, m_t depends on V_t, Q only rises, Q_{t+1} = max(Q_t, r + gamma (v - c_t)), and the Q that is
reported is the middle of what is known. It keeps the same promises with far fewer samples. With the m, T and tau of
`theory.paper_phased_vi` it is the paper's listing.

Why it replicates, by induction over t: if two runs hold the same Q_t, their means differ by no more than sampling makes
them, a shared grid separates such means with small probability, and equal bins give equal bits of Q_{t+1}. A union
bound over the N*T queries does the rest. What it takes is in :mod:`replicable_rl.theory.phased_vi`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.algorithms.plan import SHARP_FORM, Promise, Promises, Shape, accurate, replicable, sure_of
from replicable_rl.problem.source import Generative, Source, Support, greedy
from replicable_rl.problem.table import MANY_BLOCKS, TabularMDP, n_blocks, stream_words
from replicable_rl.progress import report, track
from replicable_rl.queries import Means, Query, RStat
from replicable_rl.runs import FIXED_SEED, PromisedLoss, Run, Status, StatusCode
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import PhasedVINumbers, Units, phased_vi
from replicable_rl.theory.phased_vi import Schedule, check_phased_vi
from replicable_rl.theory.rstat import ARITHMETIC, seed_margin

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.numbers import Floats
    from replicable_rl.theory.phased_vi import Target

_MANY_STATES = 50_000  # states that are worth several threads
_ROWS_AT_ONCE = 1 << 20  # rows between two looks at the clock and at Ctrl-C: a fraction of a second
OFFSET = "rpvi/offset"  # address (t), element s*A + a


class Step(NamedTuple):
    """Iteration t: Q_{t+1} as ``q``, the counts, what was averaged over them, its means, and V_t as ``value``."""

    t: int
    q: Floats
    counts: OutcomeCounts
    targets: Floats
    means: Floats
    value: Floats


def phased_value_iteration(
    source: Generative, schedule: Schedule, query: Query, rng: np.random.Generator
) -> Iterator[Step]:
    """Algorithm 1 with any schedule and any query, in normalised units: ``Step.q`` of the last step is Q_T."""
    backup = Backup.of(source)
    q = backup.first(rising=schedule.rising)
    for t in range(schedule.iterations):
        value = q.max(axis=1)
        counts = source.draw(schedule.calls_at(t, backup.spread(value)), rng)  # fresh: Q_t depends on the others
        targets = backup.targets(counts, value)
        means = counts.mean(targets)
        new = backup.update(query.answer(means.reshape(q.shape), t) - schedule.lowered[t])
        q = backup.support.settle(np.maximum(q, new) if schedule.rising else new)
        yield Step(t, q, counts, targets, means, value)


class Backup(NamedTuple):
    """The Bellman backup r + gamma V in normalised units, with r known or a part of what is asked about."""

    gamma: float
    units: Units
    rewards: Floats | None
    support: Support

    @classmethod
    def of(cls, source: Source) -> Backup:
        """Return the backup of a problem."""
        units, known = Units.of(source), source.known_rewards
        rewards = None if known is None else units.reward(known)
        return cls(source.gamma, units, rewards, source.support)

    def first(self, *, rising: bool) -> Floats:
        """Q_0: the known rewards where Q only rises, else 0."""
        nothing = np.zeros(self.support.mask.shape)
        return self.support.settle(self.rewards if rising and self.rewards is not None else nothing)

    def spread(self, value: Floats) -> float:
        """Return how far the targets may spread."""
        return Schedule.spread(float(value.max() - value.min()), self.gamma, self.rewards is not None)

    def targets(self, counts: OutcomeCounts, value: Floats) -> Floats:
        """Return V(s') of every outcome, or r + gamma V(s') where r is learned."""
        later = value[counts.next_state]
        return later if self.rewards is not None else self.units.reward(counts.reward) + self.gamma * later

    def update(self, answer: Floats) -> Floats:
        """Return r + gamma times the answer, or the answer itself, which then includes r."""
        return answer if self.rewards is None else self.rewards + self.gamma * answer


def keeps_its_distance(step: Step, backup: Backup, query: Query, log_term: float) -> bool:
    """Whether every mean of a step is further from the edges of its bin than another run's can be from it."""
    counts = step.counts
    hides_spread = backup.rewards is None and counts.trust.merged  # of rewards that were merged
    if hides_spread or counts.calls < 2:
        return False
    variance = counts.variance(step.targets, step.means)
    needed = seed_margin(variance, float(counts.calls), backup.spread(step.value), log_term)
    clear = query.room(step.means, step.t) - needed > ARITHMETIC
    return bool(clear[np.diff(counts.indptr) > 0].all())  # other rows are of actions that are not allowed


class Iterated(NamedTuple):
    """What all iterations came to: Q_T in normalised units, the calls of every pair, and whether the seed was good.

    It was, if every mean was so far from the edges of its bin that another run's cannot be beyond, see
    `theory.rstat.seed_margin`.
    """

    q: Floats
    calls: int
    good_seed: bool


def iterate(
    source: Generative, schedule: Schedule, query: Query, rng: np.random.Generator, log_term: float = 0.0
) -> Iterated:
    """Run the listing to its end, or its compiled form: the same bits, sooner.

    ``log_term`` is what the margins of :func:`~replicable_rl.theory.rstat.seed_margin` are made of; 0: they are not
    looked at. Samplers and queries of somebody's own may do otherwise than ours, and have the listing alone.
    """
    if isinstance(source, TabularMDP) and query.keys(range(0)) is not None:
        return compiled_iterations(source, schedule, query.keys, rng, log_term)
    backup, calls, good_seed = Backup.of(source), 0, log_term > 0.0
    for step in track(phased_value_iteration(source, schedule, query, rng), "iterations", schedule.iterations):
        good_seed = good_seed and keeps_its_distance(step, backup, query, log_term)
        calls += step.counts.calls
    return Iterated(step.q, calls, good_seed)


def compiled_iterations(
    source: TabularMDP, schedule: Schedule, keys: Callable[[range], Any], rng: np.random.Generator, log_term: float
) -> Iterated:
    """Run all iterations with plain means, or with rSTAT in its midpoint form with the numbers u of ``keys``."""
    from replicable_rl.algorithms import _phased
    from replicable_rl.compiled import Team

    units, rewards, rows, n_actions = Units.of(source), source.known_rewards, source.rows, source.n_actions
    outcome_reward = units.reward(rows.reward) if rewards is None else np.empty(0)
    pair_reward = np.empty(0) if rewards is None else units.reward(rewards).reshape(-1)
    parts = rows.indptr, rows.next_state, source.conditional, outcome_reward, pair_reward, source.gamma
    table, pairs, blocks = _phased.DrawnRows(*parts), rows.indptr.size - 1, n_blocks(rows.indptr)
    q = source.support.settle(pair_reward.copy() if schedule.rising and rewards is not None else np.zeros(pairs))
    value, total, good_seed, threaded = np.empty(source.n_states), 0, True, blocks >= MANY_BLOCKS
    at_once = 1 if threaded else max(1, _ROWS_AT_ONCE // pairs)
    with Team(blocks, whole_below=MANY_BLOCKS) as each_block, Team(value.size, whole_below=_MANY_STATES) as each_state:
        for t in range(0, schedule.iterations, at_once):
            chunk = range(t, min(t + at_once, schedule.iterations))
            words, u_keys = stream_words(rng, len(chunk)), keys(chunk)
            columns = schedule.calls, schedule.widths, schedule.lowered, schedule.reach
            calls, widths, lowered, reach = (np.array(column[t : chunk.stop]) for column in columns)
            fixed = schedule.rising, log_term if good_seed else 0.0, ARITHMETIC
            if not threaded:
                drawn = np.empty(len(chunk), dtype=np.int64)
                steps = calls, widths, lowered, reach, *fixed, words, u_keys
                good_seed &= _phased.phased_iterations(table, *steps, n_actions, q, drawn)
                total += sum(drawn.tolist())
            else:  # one iteration on all the cores: the blocks of rows have streams of their own
                each_state(_phased.best_values, q, n_actions, value)
                spread = schedule.spread(float(value.max() - value.min()), source.gamma, rewards is not None)
                samples, clear = schedule.calls_at(t, spread), np.empty(blocks, dtype=np.bool_)
                step = float(widths[0]), float(lowered[0]), spread, *fixed
                each_block(_phased.phased_blocks, table, samples, *step, words[0], u_keys, value, q, clear)
                good_seed &= bool(clear.all())
                total += samples
            report("iterations", chunk.stop, schedule.iterations)
    return Iterated(q.reshape(source.n_states, n_actions), total, good_seed)


class _Phased(Promise[PhasedVINumbers]):
    """What the two algorithms share: everything but the query."""

    needs: ClassVar[type] = Generative
    target: Target
    _check = staticmethod(check_phased_vi)

    @property
    def promised_loss(self) -> PromisedLoss | None:
        """The loss of the policy from the worst state; none where epsilon is about Q."""
        return PromisedLoss(self.epsilon, self.delta, "worst") if self.target == "policy" else None

    def _numbers(self, shape: Shape) -> PhasedVINumbers:
        return phased_vi(shape.pairs, shape.gamma, known_rewards=shape.known_rewards, **self._parameters())

    def _promises(self, shape: Shape, numbers: PhasedVINumbers) -> Promises:
        subject = "the policy" if numbers.target == "policy" else "Q"
        clause = f"{subject} is within {numbers.error_promised:.7g} of optimal (values in [0, 1])"
        if numbers.rho is None:
            return Promises(accurate(numbers, clause, "lem:phasedvi-convergence", numbers.target))
        theorem, same = "thm:rpvi", "have the same Q"
        # Later queries are about what was answered before, by bins of the shared grid: accuracy needs the seed, too.
        return Promises(
            accurate(numbers, clause, f"{SHARP_FORM * numbers.rising}{theorem}", numbers.target, (FIXED_SEED,)),
            replicable(numbers.rho, same, f"{SHARP_FORM}{theorem}", "value"),
            sure_of(same, numbers.delta, "docs/proofs.md, a good shared seed", "value"),
        )

    def solve(self, source: Generative, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r, which the baseline does not use, and fresh samples from ``rng``."""
        plan = self.plan(source)
        numbers = plan.numbers
        self._refuse_beyond_64_bits("calls", numbers.calls)
        # All in which the two algorithms differ:
        query = Means() if numbers.rho is None else RStat(shared, OFFSET, numbers.schedule.widths)
        done = iterate(source, numbers.schedule, query, rng, numbers.seed_log_term)
        q = done.q
        if numbers.rising:  # the middle of where Q* lies: from Q_T to twice the error above it, and never above 1
            q = (q + np.minimum(q + 2.0 * numbers.value_error, 1.0)) / 2.0
        q = Units.of(source).value_to_user(q)
        T, needed = numbers.iterations, numbers.iterations_needed
        status = Status(StatusCode.COMPLETED, f"ran all {T} iterations")
        if needed > T:
            sentence = f"ran {T} of the {needed} iterations that the theorem asks for"
            status = Status(StatusCode.BUDGET_SPENT, sentence)
        outputs = {"value": q, "policy": greedy(q)}  # of what is reported: the same value implies the same policy
        claims, samples = plan.claims(good_seed=done.good_seed), numbers.pairs * done.calls
        return Run.of(outputs, status=status, claims=claims, samples=samples)


@dataclass(frozen=True)
class PhasedVI(_Phased):
    """Phased Q-learning of Kearns and Singh: accurate, but two runs differ.

    With probability 1 - ``delta`` the policy is ``epsilon``-optimal (values normalised to [0, 1]), or, where ``target``
    is "value", Q is within epsilon/2. ``calls`` and ``iterations`` are m and T; None means what the theorem says.

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


@dataclass(frozen=True)
class ReplicablePhasedVI(_Phased):
    """Replicable Phased Value Iteration, rPVI: the same Q and policy twice.

    It is as accurate as `PhasedVI`: Theorem 4.1 (``thm:rpvi``) states so of the policy, and its proof of Q. Two runs on
    fresh samples with one shared seed return different Q with probability at most ``rho``. The last four parameters
    are m, T, and the tolerance and replicability of one query of the paper's listing, which runs if one of them is
    given, and requires 2*delta < rho; those that are None are then the theorem's.

    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), ReplicablePhasedVI(0.1, 0.001, 0.2)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.fingerprints.value == two.fingerprints.value, f"{one.samples:.1e}"
    (True, '1.3e+13')
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
