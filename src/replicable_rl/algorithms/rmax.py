r"""R-max and RepRMAX: explore in episodes, replicably (Algorithms 2 and 3).

    policy = random, from the shared seed;  model: every pair unknown, a self-loop with reward R_max
    for i = 0 ... T-1:
        S_i = m episodes of the policy, steps h = 0 ... H-1;  S = S and S_i
        c(s, a) = visits of (s, a) in S_i, per episode
        stop if the c of unknown pairs add up to less than theta
        n(s, a) += c(s, a);  k' ~ U[k, k + w], shared                          Algorithm 3, RepUpdateK
        unknown pairs with n(s, a) >= k' become known: rSTAT answers of S      see LearnedModel
        policy = exact planning on the model

R-max is the same loop with fixed thresholds and plain means. The stopping rule stands for the paper's "while the policy
is not epsilon-optimal", which nobody can evaluate: theta is shared and random in [epsilon/4, epsilon/2], and fixed at
3/8 epsilon in R-max. It looks at the pairs that were unknown when the policy was made, and on stopping that policy is
returned with its model: a policy planned after the last update has not been tried.

Why two runs agree, and with what probability, is in :mod:`replicable_rl.theory.rmax`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from replicable_rl.algorithms.approximate_mdp import LearnedModel, RowQueries
from replicable_rl.algorithms.plan import Promise, Promises, Shape, accurate, replicable
from replicable_rl.errors import InvalidInput
from replicable_rl.planning import gain_of
from replicable_rl.problem.source import Episodic
from replicable_rl.progress import track
from replicable_rl.runs import FIXED_SEED, PromisedLoss, Run, Status, StatusCode
from replicable_rl.sampling import EpisodeCounts
from replicable_rl.theory import RMaxNumbers, Units, rmax
from replicable_rl.theory.numbers import PLAIN, RSTAT, check_parameters
from replicable_rl.theory.rmax import FIXED, PLANNING, RANDOMISED
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.rstat import Form


class Round(NamedTuple):
    """A round: the policy and the model after it, what was seen so far, and what decided.

    ``visits`` are those of this round per episode, and ``unknown`` the pairs that were unknown when it was played;
    ``threshold`` is k'.
    """

    policy: NDArray[np.int64]
    model: LearnedModel
    seen: EpisodeCounts
    visits: NDArray[np.float64]
    unknown: NDArray[np.bool_]
    threshold: float
    theta: float

    @property
    def unknown_rate(self) -> float:
        """Visits to unknown pairs per episode."""
        return float(self.visits[self.unknown].sum())

    @property
    def ended(self) -> StatusCode:
        """How the run has ended, if this round is the last."""
        if self.unknown_rate < self.theta:
            return StatusCode.STOPPED_BY_RULE
        return StatusCode.BUDGET_SPENT if self.model.unknown.any() else StatusCode.ALL_KNOWN


def explore(
    source: Episodic,
    numbers: RMaxNumbers,
    model: LearnedModel,
    queries: RowQueries,
    shared: SharedRandomness,
    rng: np.random.Generator,
) -> Iterator[Round]:
    """Algorithms 2 and 3 with fixed or randomised thresholds and any queries, one round at a time."""

    def share(label: str, *address: int, fixed: float) -> float:
        """Return where a threshold lies in its window, from 0 to 1."""
        return fixed if numbers.threshold == FIXED else float(shared.uniform(label, *address, shape=1)[0])

    policy = source.support.random(shared.uniform("rmax/first-policy", shape=source.n_states))
    theta = numbers.epsilon / 4.0 * (1.0 + share("rmax/stop", fixed=0.5))
    n, seen = np.zeros(model.known.size), None
    for i in range(numbers.rounds):
        played = source.play(policy, numbers.episodes, numbers.horizon, rng)
        seen = played if seen is None else seen + played
        visits, unknown = played.visits / numbers.episodes, model.unknown
        stop = visits[unknown].sum() < theta
        k_prime = numbers.known + numbers.window * share("rmax/threshold", i, fixed=0.0)
        n[unknown] += visits[unknown]
        new = np.flatnonzero(unknown & (n >= k_prime))
        if new.size and not stop:
            model = model.learned(new, seen, queries)
            policy = model.planned.policy
        yield Round(policy, model, seen, visits, unknown, k_prime, theta)
        if stop or not model.unknown.any():
            return


class _RMax(Promise[RMaxNumbers]):
    """What the two algorithms share: everything but the thresholds and the queries."""

    needs: ClassVar[type] = Episodic
    _check = staticmethod(partial(check_parameters, "R-max"))

    @property
    def promised_loss(self) -> PromisedLoss:
        """The loss of the policy from the initial distribution."""
        return PromisedLoss(self.epsilon, self.delta, "initial")

    def _numbers(self, shape: Shape) -> RMaxNumbers:
        problem = {"rho": None, "allowed_pairs": shape.pairs, "known_rewards": shape.known_rewards}
        return rmax(shape.n_states, shape.n_actions, shape.gamma, **problem | self._parameters())

    def _promises(self, shape: Shape, numbers: RMaxNumbers) -> Promises:
        theorem = "lem:repmax-convergence" if numbers.rho is None else "thm:repmax-replicable"
        theorem = f"{theorem}, with the constants of docs/proofs.md"
        bounded = f"no pair has more than {plural(numbers.support, 'successor')}"
        support = (bounded,) if numbers.support < numbers.n_states else ()
        conditions = (*support, FIXED_SEED)  # on which all policies depend, and with them the data
        ends = () if numbers.rounds >= numbers.rounds_needed else ("the run ends before its budget of rounds does",)
        settled = (*ends, f"every episode has {numbers.horizon} steps")
        clause = f"the policy is within {numbers.epsilon:g} of optimal from the initial distribution (values in [0, 1])"
        accuracy, same = accurate(numbers, clause, theorem, "policy", conditions), "learn the same model"
        if numbers.rho is None:
            return Promises(accuracy, to_settle=settled)
        return Promises(accuracy, replicable(numbers.rho, same, theorem, "model", conditions), to_settle=settled)

    def solve(self, source: Episodic, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r, of which R-max uses the first policy alone, and fresh episodes."""
        plan = self.plan(source)
        numbers = plan.numbers
        self._refuse_beyond_64_bits("episodes", numbers.episodes)
        rounding = shared, "rmax", numbers.width, numbers.form
        queries = RowQueries() if numbers.estimate == PLAIN else RowQueries.rounded(*rounding)
        empty, story, cut_short = LearnedModel.empty(source), [], False
        rounds = explore(source, numbers, empty, queries, shared, rng)
        for last in track(rounds, "rounds", numbers.rounds):
            known, steps = last.model.known, last.seen.steps
            digest = int(hashlib.sha256(np.packbits(known).tobytes()).hexdigest()[:12], 16)  # 64-bit floats hold it
            story.append((known.sum(), digest, last.threshold, last.unknown_rate, last.theta, steps))
            cut_short |= float(last.visits.sum()) < numbers.horizon * (1.0 - 1e-9)
        seen = last.seen
        longest = int(np.bincount(seen.row[seen.count > 0.0], minlength=1).max())
        if longest > numbers.support:
            raise InvalidInput(f"{type(self).__name__}: support must be at least {longest}, got {numbers.support}.")
        best = last.model.planned
        error = Units.of(source).share(best.error)  # of the values that the policy maximises
        broken = {
            "the run spent its budget of rounds": last.ended is StatusCode.BUDGET_SPENT,
            "some episodes were cut short": cut_short,
            f"planning is certified to {error:.2g} (values in [0, 1]), and the proof needs {PLANNING:g}": (
                error > PLANNING or not best.converged
            ),
        }
        claims = plan.claims(broken=[condition for condition, is_broken in broken.items() if is_broken])
        if source.trust.conditions and claims.accuracy is not None:  # of other sources no table is known
            claims = claims.told(gain=gain_of(last.model.table, best))
        columns = ("known", "known_set", "threshold", "unknown_rate", "stop_below", "samples")
        return Run.of(
            {"model": last.model.table, "value": best.q, "policy": last.policy},
            status=_status(last, len(story), numbers.pairs),
            claims=claims,
            samples=seen.steps,
            history=dict(zip(columns, np.array(story, dtype=np.float64).T, strict=True)),
        )


def _status(last: Round, rounds: int, pairs: int) -> Status:
    known = f"{int(last.model.known.sum())} of {pairs} pairs known"
    rates = f"visits unknown pairs {last.unknown_rate:.2g} times an episode, below {last.theta:.2g}"
    sentence = {
        StatusCode.STOPPED_BY_RULE: f"after {rounds} rounds, with {known}, the policy {rates}",
        StatusCode.ALL_KNOWN: f"all {pairs} pairs after {rounds} rounds",
        StatusCode.BUDGET_SPENT: f"{rounds} rounds, {known}; the last policy may still explore",
    }[last.ended]
    return Status(last.ended, sentence)


@dataclass(frozen=True)
class RMax(_RMax):
    """Episodic R-max of Brafman and Tennenholtz: explores well, but two runs learn different models.

    Parameters are as in :class:`ReplicableRMax`.
    """

    epsilon: float
    delta: float
    horizon: int
    _: KW_ONLY
    episodes: int | None = None
    rounds: int | None = None
    known: float | None = None
    tolerance: float | None = None
    support: int | None = None

    id: ClassVar[str] = "rmax-v1"


@dataclass(frozen=True)
class ReplicableRMax(_RMax):
    """Replicable Episodic R-max, RepRMAX: the same model, value and policy twice.

    From the initial distribution the policy is within ``epsilon`` of optimal (values normalised to [0, 1]), except with
    probability ``delta``; two runs with one shared seed learn different models with probability at most ``rho``.
    ``horizon`` is H, the steps of an episode. ``episodes``, ``rounds``, ``known``, ``window`` and ``tolerance`` are m,
    T, k, w and tau of a query; None means the theorem's choice, see :func:`replicable_rl.theory.rmax`. ``support`` is
    the most successors that any pair has, where that is known: fewer queries can go wrong. ``threshold``,
    "randomised" or "fixed", and ``estimate``, "rstat" or "plain", are the ingredients. ``form``, "zero-preserving" or
    "midpoint", says how rSTAT answers near 0.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp = rr.make("riverswim-v1")
    >>> algorithm = ReplicableRMax(epsilon=0.05, delta=0.001, rho=0.2, horizon=60)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.fingerprints.model == two.fingerprints.model
    True
    >>> str(one.status), one.policy.tolist()
    ('every pair known: all 12 pairs after 7 rounds', [1, 1, 1, 1, 1, 1])
    """

    epsilon: float
    delta: float
    rho: float
    horizon: int
    _: KW_ONLY
    episodes: int | None = None
    rounds: int | None = None
    known: float | None = None
    window: float | None = None
    tolerance: float | None = None
    support: int | None = None
    threshold: str = RANDOMISED
    estimate: str = RSTAT
    form: Form = "zero-preserving"

    id: ClassVar[str] = "replicable-rmax-v1"
