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
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from replicable_rl.algorithms.model_rows import LearnedModel, PlainRows, RoundedRows, RowQuery
from replicable_rl.algorithms.promise import Promise
from replicable_rl.algorithms.rmax_verdict import guarantee_of, status_of
from replicable_rl.errors import InvalidInput, check_real
from replicable_rl.mdp import Optimum, TabularMDP, optimal_values
from replicable_rl.progress import track
from replicable_rl.records import Solution, StatusCode
from replicable_rl.sampling import EpisodeCounts, EpisodicModel, as_episodic
from replicable_rl.theory import RMaxPlan, rmax_practical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.rstat import Form

__all__ = ["RMax", "ReplicableRMax"]

Threshold = Literal["randomised", "fixed"]
Estimate = Literal["rstat", "plain"]


@dataclass(frozen=True)
class Thresholds:
    """Where k' and theta come from: the shared randomness, or fixed at k and in the middle of its window."""

    plan: RMaxPlan
    shared: SharedRandomness | None

    def known(self, i: int) -> float:
        """Return k' of round i: one for all pairs."""
        if self.shared is None:
            return self.plan.known
        return self.plan.known + self.plan.window * float(self.shared.uniform("rmax/threshold", i, shape=1)[0])

    def stop(self) -> float:
        """Return theta, the same in every round."""
        share = 0.5 if self.shared is None else float(self.shared.uniform("rmax/stop", shape=1)[0])
        return self.plan.epsilon / 4.0 * (1.0 + share)


@dataclass(frozen=True, eq=False)
class Exploration:
    """What a run of the loop found: the last policy, how it ended, and the story so far."""

    policy: NDArray[np.int64]
    planned: tuple[TabularMDP, Optimum] | None  # the last model and its plan; None if nothing was learned
    ended: StatusCode
    samples: int
    cut_short: bool  # whether some episode was observed for less than H steps
    history: dict[str, list[float]]


def explore(
    problem: EpisodicModel,
    plan: RMaxPlan,
    learned: LearnedModel,
    thresholds: Thresholds,
    query: RowQuery,
    first_policy: NDArray[np.int64],
    rng: np.random.Generator,
) -> Exploration:
    """Grow the model round by round."""
    initial = getattr(problem, "initial", None)
    policy, theta = first_policy, thresholds.stop()
    count = np.zeros(plan.pairs)
    seen: EpisodeCounts | None = None
    samples, cut_short = 0, False
    planned: tuple[TabularMDP, Optimum] | None = None
    ended = StatusCode.BUDGET_SPENT
    history: dict[str, list[float]] = {
        "known": [],
        "known_set": [],
        "threshold": [],
        "unknown_rate": [],
        "stop_below": [],
        "samples": [],
    }
    for i in track(range(plan.rounds), "rounds"):
        played = problem.play(policy, plan.episodes, plan.horizon, rng)
        seen = played if seen is None else seen + played
        if played.episodes != plan.episodes:
            raise InvalidInput(
                f"{type(problem).__name__}: {plan.episodes} episodes were asked for, {played.episodes} were played."
            )
        samples = seen.steps
        rate = played.visits / plan.episodes
        cut_short |= float(rate.sum()) < plan.horizon * (1.0 - 1e-9)
        unknown = ~learned.known
        unknown_rate = float(rate[unknown].sum())
        threshold = thresholds.known(i)
        count[unknown] += rate[unknown]
        new = np.flatnonzero(unknown & (count >= threshold))
        stops = unknown_rate < theta
        known = learned.known.copy()
        known[new] = not stops
        row = (known.sum(), _digest(known), threshold, unknown_rate, theta, samples)
        for column, value in zip(history.values(), row, strict=True):
            column.append(float(value))
        if stops:
            ended = StatusCode.STOPPED_BY_RULE
            break
        if new.size:
            learned.learn(new, seen, query)
            _check_support(plan, learned)
            model = learned.to_mdp(problem.gamma, initial)  # the plan is a function of it alone: a cold start
            planned = model, optimal_values(model)
            policy = planned[1].policy
        if learned.known.all():
            ended = StatusCode.ALL_KNOWN
            break
    return Exploration(policy, planned, ended, samples, cut_short, history)


def _digest(known: NDArray[np.bool_]) -> int:
    """Return 48 bits that tell sets apart: a whole number that 64-bit floats hold exactly."""
    return int(hashlib.sha256(np.packbits(known).tobytes()).hexdigest()[:12], 16)


class _RMax(Promise):
    """What the two algorithms share."""

    def plan(self, problem: TabularMDP | EpisodicModel) -> RMaxPlan:
        """Return what a run on this problem will do, and what it may promise."""
        model = as_episodic(problem)
        return self._plan(model.n_states, model.n_actions, model.gamma, model.known_rewards is not None)

    def _check(self) -> None:
        self._plan(2**20, 2, 0.5, known_rewards=True)

    def _plan(self, n_states: int, n_actions: int, gamma: float, known_rewards: bool) -> RMaxPlan:
        parameters: dict[str, Any] = {"rho": None, **self._parameters()}
        for own in ("r_max", "threshold", "estimate"):
            parameters.pop(own, None)
        if parameters.get("support") is not None:
            parameters["support"] = min(parameters["support"], n_states)
        return rmax_practical(
            n_states, n_actions, gamma, known_rewards=known_rewards, owner=type(self).__name__, **parameters
        )

    def _run(
        self,
        problem: EpisodicModel,
        plan: RMaxPlan,
        thresholds: Thresholds,
        query: RowQuery,
        shared: SharedRandomness,
        rng: np.random.Generator,
        r_max: float | None,
    ) -> Solution:
        self._refuse_beyond_64_bits("episodes", plan.episodes)
        S, A = problem.n_states, problem.n_actions
        hi = problem.reward_range[1]
        top = _check_r_max(type(self).__name__, r_max, problem.reward_range)
        learned = LearnedModel(S, A, problem.reward_range, top, problem.known_rewards)
        first = np.floor(shared.uniform("rmax/first-policy", shape=S) * A).astype(np.int64)
        run = explore(problem, plan, learned, thresholds, query, first, rng)
        if run.planned is None:
            model = learned.to_mdp(problem.gamma, getattr(problem, "initial", None))
            best = optimal_values(model)
        else:
            model, best = run.planned
        return Solution.from_q(
            best.q,
            run.policy,
            samples=run.samples,
            status=status_of(run, plan, learned),
            # The bound on the loss is about episodes of H steps and unknown pairs that are worth exactly 1.
            guarantee=guarantee_of(plan, run, self._replicates(), bounded=not run.cut_short and top == hi),
            model=model,
            history={name: np.array(column) for name, column in run.history.items()},
        )

    def _replicates(self) -> bool:
        """Whether nothing in the loop depends on the samples but through shared grids and thresholds."""
        return False


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
        model; None means the practical plan (see :func:`replicable_rl.theory.rmax_practical`).
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

    def solve(
        self, problem: TabularMDP | EpisodicModel, shared: SharedRandomness, rng: np.random.Generator
    ) -> Solution:
        """Run; of ``shared`` only the first policy is used."""
        model = as_episodic(problem)
        plan = self.plan(model)
        return self._run(model, plan, Thresholds(plan, None), PlainRows(), shared, rng, self.r_max)


@dataclass(frozen=True)
class ReplicableRMax(_RMax):
    """Replicable Episodic R-max, RepRMAX: the same model, value and policy twice.

    Parameters
    ----------
    epsilon, delta, rho : float
        Aim: a policy within ``epsilon`` of optimal from the initial distribution (values normalised to
        [0, 1]), except with probability ``delta``; two runs on fresh samples with one shared seed learn
        different models with probability at most ``rho``. 2*delta < rho is required.
    horizon : int
        Steps of an episode.
    episodes, budget : int, optional
        m, or the transitions in all from which m follows.
    rounds, known, window, tolerance : optional
        T, k, w and the tolerance of one query; None means the practical plan (see
        :func:`replicable_rl.theory.rmax_practical`).
    support : int, optional
        The most successors that any pair has, where that is known: fewer queries can go wrong.
    threshold, estimate : optional
        "fixed" and "plain" switch off one of the two ingredients, for ablation.
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
    threshold: Threshold = "randomised"
    estimate: Estimate = "rstat"
    form: Form = "zero-preserving"
    r_max: float | None = None

    id: ClassVar[str] = "replicable-rmax-v1"

    def _check(self) -> None:
        super()._check()
        for name, value, allowed in (
            ("threshold", self.threshold, ("randomised", "fixed")),
            ("estimate", self.estimate, ("rstat", "plain")),
        ):
            if value not in allowed:
                raise InvalidInput(f"ReplicableRMax: {name} must be {' or '.join(map(repr, allowed))}, got {value!r}.")

    def solve(
        self, problem: TabularMDP | EpisodicModel, shared: SharedRandomness, rng: np.random.Generator
    ) -> Solution:
        """Run with the shared randomness r and fresh episodes from ``rng``."""
        model = as_episodic(problem)
        plan = self.plan(model)
        thresholds = Thresholds(plan, shared if self.threshold == "randomised" else None)
        rounded = RoundedRows(shared, "rmax", plan.width, plan.form)
        query = rounded if self.estimate == "rstat" else PlainRows()
        return self._run(model, plan, thresholds, query, shared, rng, self.r_max)

    def _replicates(self) -> bool:
        return self.threshold == "randomised" and self.estimate == "rstat"


def _check_support(plan: RMaxPlan, learned: LearnedModel) -> None:
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
