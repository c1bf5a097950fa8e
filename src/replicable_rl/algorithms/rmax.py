r"""R-max and RepRMAX: explore in episodes, replicably (Algorithms 2 and 3).

    model: every pair a self-loop with reward R_max;  K = {};  n(s, a) = 0;  first policy drawn from r
    for round i = 1 ... T:
        play m episodes of H steps with the current policy
        u = visits to unknown pairs per episode;  stop if u < theta,   theta ~ U[eps/4, eps/2] once from r
        RepUpdateK:  k' ~ U[k, k+w], one a round, from r
            n(s, a) += visits(s, a)/m   for (s, a) not in K;   newly known if n(s, a) >= k'
        newly known:  P(.|s, a) = rSTAT of all its successors so far, address (s, a, s')
        plan on the model

R-max is the same loop with fixed thresholds and plain means; all four combinations can be had. The
stopping rule stands for the paper's "while the policy is not epsilon-optimal", which nobody can evaluate.
It looks at the pairs that were unknown when the policy was made, and on stopping that policy is
returned with its model: a policy planned after the last update has not been tried.

Why two runs agree, and with what probability, is in :mod:`replicable_rl.theory.rmax`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.algorithms.model_rows import LearnedModel, RowQueries
from replicable_rl.algorithms.plan import Promise, Promises, Shape, accurate, replicable
from replicable_rl.errors import InvalidInput, check_real, speaking_as
from replicable_rl.planning.exact import gain_of
from replicable_rl.problem.source import Episodic
from replicable_rl.progress import track
from replicable_rl.queries import Fixed, Mechanism, Plain, Randomised, Rounded, Threshold
from replicable_rl.runs import FIXED_SEED, PromisedLoss, Run, Status, StatusCode
from replicable_rl.sampling import EpisodeCounts
from replicable_rl.theory import RMaxNumbers, Units, rmax
from replicable_rl.theory.numbers import ACCURACY
from replicable_rl.theory.rmax import PLANNING, check_rmax
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.rstat import Form

_RANDOMISED, _ROUNDED = Randomised(), Rounded()
_IN_THE_WAY = {
    "epsilon": "epsilon={used:g} is finer than planning in 64 bits can promise, {needed:g} would do",
    "horizon": "horizon={used} is too short for any number of episodes, {needed} would do",
    "tolerance": "tolerance={used:g} is too coarse for any number of episodes, {needed:g} would do",
    "rounds": "rounds={used} are too few for any number of episodes, {needed} would do",
    "episodes": "no number of episodes below {needed:.2g} is enough",
}


class Round(NamedTuple):
    """A round: the policy and the model after it, what was seen so far, and what decided.

    ``visits`` are those of this round per episode, and ``unknown`` the pairs that were unknown when it was played.
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
    threshold: Threshold,
    queries: RowQueries,
    shared: SharedRandomness,
    rng: np.random.Generator,
) -> Iterator[Round]:
    """Algorithms 2 and 3 with any threshold and any queries, one round at a time."""
    policy = source.support.random(shared.uniform("rmax/first-policy", shape=source.n_states))
    theta = numbers.epsilon / 4.0 * (1.0 + threshold.share(shared, "rmax/stop", fixed=0.5))
    n, seen = np.zeros(model.known.size), None
    for i in range(numbers.rounds):
        played = source.play(policy, numbers.episodes, numbers.horizon, rng)
        seen = played if seen is None else seen + played
        visits, unknown = played.visits / numbers.episodes, model.unknown
        stop = visits[unknown].sum() < theta
        # Algorithm 3, RepUpdateK: a pair is known from k' visits on, and k' is shared and random in [k, k + w].
        k = numbers.known + numbers.window * threshold.share(shared, "rmax/threshold", i, fixed=0.0)
        n[unknown] += visits[unknown]
        new = np.flatnonzero(unknown & (n >= k))
        if new.size and not stop:
            model = model.learned(new, seen, queries)
            policy = model.planned.policy
        yield Round(policy, model, seen, visits, unknown, k, theta)
        if stop or not model.unknown.any():
            return


def _digest(known: NDArray[np.bool_]) -> int:
    """Return 48 bits that tell sets apart: a whole number that 64-bit floats hold exactly."""
    return int(hashlib.sha256(np.packbits(known).tobytes()).hexdigest()[:12], 16)


class _RMax(Promise[RMaxNumbers]):
    """What the two algorithms share: everything but the thresholds and the queries."""

    needs: ClassVar[type] = Episodic
    _check = staticmethod(check_rmax)
    r_max: float | None
    threshold: Any = Fixed()  # a Threshold and an Mechanism, in which the two algorithms differ
    estimate: Any = Plain()

    def __post_init__(self) -> None:
        if self.r_max is not None:  # the range comes with the problem
            r_max = _check_r_max(type(self).__name__, self.r_max, (-np.inf, -np.inf))
            object.__setattr__(self, "r_max", r_max)
        super().__post_init__()

    @property
    def promised_loss(self) -> PromisedLoss:
        """The loss of the policy from the initial distribution."""
        return PromisedLoss(self.epsilon, self.delta, "initial")

    def _numbers(self, shape: Shape) -> RMaxNumbers:
        parameters: dict[str, Any] = {"rho": None, "allowed_pairs": shape.pairs, **self._parameters()}
        if parameters["support"] is not None:
            parameters["support"] = min(parameters["support"], shape.n_states)
        sizes = shape.n_states, shape.n_actions, shape.gamma
        numbers = rmax(*sizes, known_rewards=shape.known_rewards, **parameters)
        return replace(numbers, threshold=self.threshold.id, estimate=self.estimate.id)

    def _promises(self, shape: Shape, numbers: RMaxNumbers) -> Promises:
        theorem = "lem:repmax-convergence" if numbers.rho is None else "thm:repmax-replicable"
        theorem = f"{theorem}, with the constants of docs/proofs-rmax.md"
        few = f"no pair has more than {plural(numbers.support, 'successor')}"
        support = (few,) if numbers.support < numbers.n_states else ()
        support = (*support, FIXED_SEED)  # on which all policies depend, and with them the data
        ends = () if numbers.rounds >= numbers.rounds_needed else ("the run ends before its budget of rounds does",)
        settled = (*ends, f"every episode has {numbers.horizon} steps", "r_max is the top of the reward range")
        clause = f"the policy is within {numbers.epsilon:g} of optimal from the initial distribution (values in [0, 1])"
        accuracy = accurate(numbers, clause, theorem, "policy", support)
        same = (
            None if numbers.rho is None else replicable(numbers.rho, "learn the same model", theorem, "model", support)
        )
        return Promises(accuracy, same, to_settle=settled)

    def _barred(self, numbers: RMaxNumbers, about: str) -> list[str]:
        outside = super()._barred(numbers, about)
        if outside or about != ACCURACY:
            return outside
        used = {"epsilon": numbers.epsilon, "horizon": numbers.horizon, "tolerance": numbers.tolerance}
        used |= {"rounds": numbers.rounds, "episodes": numbers.episodes}
        return [_IN_THE_WAY[name].format(used=used[name], needed=value) for name, value in numbers.obstacles]

    def _parameters(self) -> dict[str, Any]:
        own = ("r_max", "threshold", "estimate")
        return {name: value for name, value in super()._parameters().items() if name not in own}

    def solve(self, source: Episodic, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r, of which R-max uses the first policy alone, and fresh episodes."""
        plan = self.plan(source)
        numbers = plan.numbers
        self._refuse_beyond_64_bits("episodes", numbers.episodes)
        queries = RowQueries.of(self.estimate, shared, "rmax", numbers.width, numbers.form)
        top, r_max = source.reward_range[1], _check_r_max(type(self).__name__, self.r_max, source.reward_range)
        empty, story, cut_short = LearnedModel.empty(source, r_max), [], False
        rounds = explore(source, numbers, empty, self.threshold, queries, shared, rng)
        for last in track(rounds, "rounds", numbers.rounds):
            _check_support(numbers, last.model)
            story.append(_history_row(last))
            cut_short |= float(last.visits.sum()) < numbers.horizon * (1.0 - 1e-9)
        best = last.model.planned
        error = Units.of(source).share(best.error)  # of the values that the policy maximises
        broken = {
            "the run spent its budget of rounds": last.ended is StatusCode.BUDGET_SPENT,
            "some episodes were cut short": cut_short,
            f"r_max={r_max:g} is not the top of the reward range, {top:g}": r_max != top,
            f"planning is certified to {error:.2g} (values in [0, 1]), and the proof needs {PLANNING:g}": (
                error > PLANNING or not best.converged
            ),
        }
        claims = plan.claims(broken=[what for what, happened in broken.items() if happened])
        if source.trust.conditions and claims.accuracy is not None:  # of other sources no table is known
            claims = claims.beside(gain_of(last.model.table, best))
        return Run.of(
            {"model": last.model.table, "value": best.q, "policy": last.policy},
            status=_status(last, len(story), numbers.pairs, cut_short),
            claims=claims,
            samples=last.seen.steps,
            history={name: np.array([row[name] for row in story]) for name in story[0]},
        )


@dataclass(frozen=True)
class RMax(_RMax):
    """Episodic R-max of Brafman and Tennenholtz: explores well, but two runs learn different models.

    Parameters
    ----------
    epsilon, delta : float
        Aim: a policy within ``epsilon`` of optimal from the initial distribution (values normalised to
        [0, 1]), except with probability ``delta``.
    horizon : int
        Steps of an episode.
    episodes, budget : int, optional
        m, or the transitions in all from which m follows.
    rounds, known, tolerance : optional
        T, the visits per episode that make a pair known, and the accuracy asked of an entry of the
        model; None means the practical plan (see :func:`replicable_rl.theory.rmax`).
    support : int, optional
        The most successors that any pair has, where that is known: fewer entries can be wrong.
    r_max : float, optional
        The reward of what is unknown; the top of the problem's reward range by default.
    """

    epsilon: float
    delta: float
    horizon: int
    _: KW_ONLY
    episodes: int | None = None
    budget: int | None = None
    rounds: int | None = None
    known: float | None = None
    tolerance: float | None = None
    support: int | None = None
    r_max: float | None = None

    id: ClassVar[str] = "rmax-v1"


@dataclass(frozen=True)
class ReplicableRMax(_RMax):
    """Replicable Episodic R-max, RepRMAX: the same model, value and policy twice.

    Parameters
    ----------
    epsilon, delta, rho : float
        Aim: a policy within ``epsilon`` of optimal from the initial distribution (values normalised to
        [0, 1]), except with probability ``delta``; two runs on fresh samples with one shared seed learn
        different models with probability at most ``rho``.
    horizon : int
        Steps of an episode.
    episodes, budget : int, optional
        m, or the transitions in all from which m follows.
    rounds, known, window, tolerance : optional
        T, k, w and the tolerance of one query; None means the practical plan (see
        :func:`replicable_rl.theory.rmax`).
    support : int, optional
        The most successors that any pair has, where that is known: fewer queries can go wrong.
    threshold, estimate : optional
        The two ingredients of :mod:`replicable_rl.queries`, by object or short id. "fixed" and "plain" switch
        one of them off, for ablation; an object of your own goes here too.
    form : {"zero-preserving", "midpoint"}
        How rSTAT answers near 0.
    r_max : float, optional
        The reward of what is unknown; the top of the problem's reward range by default.

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
    budget: int | None = None
    rounds: int | None = None
    known: float | None = None
    window: float | None = None
    tolerance: float | None = None
    support: int | None = None
    threshold: Threshold | str = _RANDOMISED
    estimate: Mechanism | str = _ROUNDED
    form: Form = "zero-preserving"
    r_max: float | None = None

    id: ClassVar[str] = "replicable-rmax-v1"

    def __post_init__(self) -> None:
        with speaking_as(type(self).__name__):
            object.__setattr__(self, "threshold", Threshold.of(self.threshold))
            object.__setattr__(self, "estimate", Mechanism.of(self.estimate))
        super().__post_init__()


def _history_row(last: Round) -> dict[str, float]:
    """Return a line of the history."""
    known, rate = last.model.known, last.unknown_rate
    row = {"known": known.sum(), "known_set": _digest(known), "threshold": last.threshold, "unknown_rate": rate}
    row |= {"stop_below": last.theta, "samples": last.seen.steps}
    return {name: float(cell) for name, cell in row.items()}


def _status(last: Round, rounds: int, pairs: int, cut_short: bool) -> Status:
    """Say how a run ended."""
    known, loops = int(last.model.known.sum()), last.model.self_loops
    sentence = {
        StatusCode.STOPPED_BY_RULE: f"after {rounds} rounds, with {known} of {pairs} pairs known, the policy visits "
        f"unknown pairs {last.unknown_rate:.2g} times an episode, below {last.theta:.2g}",
        StatusCode.ALL_KNOWN: f"all {pairs} pairs after {rounds} rounds",
        StatusCode.BUDGET_SPENT: f"{rounds} rounds, {known} of {pairs} pairs known; the last policy may still explore",
    }[last.ended]
    sentence += f"; {loops} rows were rounded to nothing and became self-loops" if loops else ""
    return Status(last.ended, sentence + ("; some episodes were cut short" if cut_short else ""))


def _check_support(plan: RMaxNumbers, learned: LearnedModel) -> None:
    if learned.most_successors > plan.support:
        raise InvalidInput(
            f"R-max: support={plan.support} promises that no pair has more successors, but one has "
            f"{learned.most_successors}. Raise support."
        )


def _check_r_max(owner: str, r_max: float | None, reward_range: tuple[float, float]) -> float:
    if r_max is None:
        return reward_range[1]
    r_max = check_real(owner, "r_max", r_max, low=-np.inf, high=np.inf, rule="a finite number")
    if r_max < reward_range[1]:
        raise InvalidInput(
            f"{owner}: r_max must be at least the top of the reward range, {reward_range[1]:g}, got {r_max:g}: what is "
            "unknown must look at least as good as the best."
        )
    return r_max
