"""Parameters of R-max: the paper's with every constant 1, and those of our own proofs."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from replicable_rl.errors import InvalidInput, check_choice, check_flag, check_integer, check_real, check_share
from replicable_rl.theory.plan import MAX_CALLS, SLACK, check_pairs
from replicable_rl.theory.rmax import RMaxPlan
from replicable_rl.theory.rmax_bounds import Choice, Kind, Task, bounds_of, events_log, query_distance, rounds_needed
from replicable_rl.theory.rmax_search import (
    MOST,
    Found,
    Given,
    is_enough,
    sampling_share,
    search,
    tight_thresholds,
    width_at,
)
from replicable_rl.theory.rstat import Form, check_delta_rho, hoeffding_samples, pieces_of, split_tolerance

_COARSEST = 0.01  # where nothing can be proved, probabilities are not rounded more coarsely than this
_SLOWEST = 10.0  # and k is at most this many epsilon to replicate: about 80 N rounds could learn nothing
_OWNER = "theory.rmax_practical"


def rmax(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float,
    horizon: int,
    *,
    refined: bool = False,
    known_rewards: bool = True,
    allowed_pairs: int | None = None,
) -> RMaxPlan:
    """Return the paper's parameters with every constant 1: asymptotic, and not meant to be run.

    Parameters
    ----------
    n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards, allowed_pairs
        As in :func:`rmax_practical`.
    refined : bool
        Whether T and m are those of the shorter argument of ``docs/rmax.md``, still with every constant 1.

    Examples
    --------
    >>> plan = rmax(8, 4, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2, horizon=30)
    >>> plan.kind, plan.rounds, f"{plan.episodes:.2g}"
    ('asymptotic', 631298, '6.5e+27')
    >>> f"{rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 30, refined=True).episodes:.2g}"
    '3.6e+16'
    """
    sizes = n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards
    task = _checked("theory.rmax", "tight", Task(*sizes, n_states, "zero-preserving", allowed_pairs))
    n_states, _, gamma, epsilon, delta, _, H = task[:7]
    rho, refined, N = check_share("theory.rmax", "rho", rho), check_flag("theory.rmax", "refined", refined), task.pairs
    T = H * N / epsilon
    if not refined:
        T += H * H * math.log(1.0 / delta) / epsilon**2
    power = 3 if refined else 4
    if 2.0 * math.log(N / rho) + power * math.log(T) + math.log(H) > 650.0:  # near the largest float
        raise InvalidInput("theory.rmax: the paper's m passes 1e280 at these parameters. Raise epsilon or rho.")
    rounds = math.ceil(T)
    episodes = math.ceil(N**2 * float(rounds) ** power * math.log(1.0 / rho) / rho**2)
    queries = task.queries
    tolerance = epsilon * (1.0 - gamma) ** 2 / n_states
    width, sampling = split_tolerance(tolerance, (rho - 2.0 * delta) / queries, pieces_of("zero-preserving"))
    return RMaxPlan(
        **task._asdict(),
        kind="refined" if refined else "asymptotic",
        rounds=rounds,
        episodes=episodes,
        episodes_needed=episodes,
        known=float(H),
        window=float(H),
        tolerance=tolerance,
        width=width,
        delta_sq=delta / queries,
        rho_sq=rho / queries,
        visits_needed=hoeffding_samples(sampling, delta / queries),
    )


def rmax_practical(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float | None,
    horizon: int,
    *,
    known_rewards: bool = True,
    support: int | None = None,
    form: Form = "zero-preserving",
    bound: Literal["sharp", "tight"] = "sharp",
    episodes: int | None = None,
    budget: int | None = None,
    rounds: int | None = None,
    known: float | None = None,
    window: float | None = None,
    tolerance: float | None = None,
    allowed_pairs: int | None = None,
) -> RMaxPlan:
    """Return parameters that can be run; ``rho=None`` plans the baseline R-max.

    m is given (``episodes``, or a total ``budget`` of transitions), or the one with which everything that can be proved
    is proved, at most 2**63 - 1. k, w and tau are then those with the fewest transitions T*m*H in all.

    Where m is too small to prove anything, k = w = epsilon/8, and tau is as fine as replicability allows at k*m
    visits, but not coarser than 0.01; where k*m then falls short of the sample size of the queries, k grows until it
    covers it, up to 10 epsilon; and where that is not enough either, k*m covers accuracy alone.

    Parameters
    ----------
    n_states, n_actions, gamma
        S, A and the discount.
    epsilon, delta, rho : float
        Accuracy of the policy, in values normalised to [0, 1], the probability that it fails, and the probability
        that two runs may differ.
    horizon : int
        H, the steps of an episode.
    known_rewards : bool
        Whether the reward is a known function of (s, a).
    support : int, optional
        The most successors that any pair has; S when not given.
    form : {"zero-preserving", "midpoint"}
        How rSTAT answers near 0.
    bound : {"sharp", "tight"}
        Which proof the parameters come from: by the mean distance of two runs, or by the largest deviation, which
        requires 2*delta < rho and keeps k = w = epsilon/(8N).
    episodes, budget, rounds : int, optional
        m, or the transitions in all from which m follows, and T.
    known, window, tolerance : float, optional
        k, w and tau.
    allowed_pairs : int, optional
        N, where some actions are not allowed in every state; S*A when not given.

    Examples
    --------
    >>> plan = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, support=3)
    >>> plan.rounds, f"{plan.episodes:.3g}", plan.replicability_proved, plan.accuracy_proved
    (64, '1.39e+13', True, True)
    >>> rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, episodes=10**9).accuracy_proved
    False
    >>> rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=20).obstacles  # gamma**20 is more than epsilon
    (('horizon', 36),)
    """
    bound = check_choice(_OWNER, "bound", bound, ("sharp", "tight"))
    sizes = n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards
    K = n_states if support is None else support
    task = _checked(_OWNER, bound, Task(*sizes, K, form, allowed_pairs))
    known, window = (_check_visits(*one) for one in (("known", known), ("window", window)))
    tolerance = None if tolerance is None else check_share(_OWNER, "tolerance", tolerance)
    rounds = None if rounds is None else check_integer(_OWNER, "rounds", rounds, low=1, high=2**62)
    given = Given(rounds, known, window, tolerance)
    found = search(bound, task, given)
    if not found.choices:  # perhaps the largest m of all is enough with another k
        last = _practical(bound, task, given, _Size(MOST, None, task.horizon))[0]
        found = found._replace(choices=(last,) if is_enough(bound, task, last, found.goal) else ())
    size = _Size.of(episodes, budget, task.horizon)
    choice, tau = _proved(bound, task, given, found, size) or _practical(bound, task, given, size)
    needed = found.choices[0].episodes if found.choices and not found.obstacles else None
    obstacles = found.obstacles
    if not found.choices and "epsilon" not in dict(obstacles):
        obstacles = (*obstacles, ("episodes", float(MOST)))
    return RMaxPlan(
        **task._asdict(),
        **choice._asdict(),
        kind=bound,
        episodes_needed=needed,
        obstacles=obstacles,
        tolerance=bounds_of(bound, task, choice).entry_error if tau is None else tau,
        threshold="fixed" if rho is None else "randomised",
        estimate="plain" if rho is None else "rstat",
    )


class _Size(NamedTuple):
    """How large a run may be: so many episodes a round, so many transitions in all, or as large as it takes."""

    episodes: int | None
    budget: int | None
    horizon: int

    @classmethod
    def of(cls, episodes: int | None, budget: int | None, horizon: int) -> _Size:
        if episodes is not None and budget is not None:
            raise InvalidInput(f"{_OWNER}: give episodes (m) or budget (transitions in all), not both.")
        if budget is not None:
            budget = check_integer(_OWNER, "budget", budget, low=horizon, high=MOST)
        if episodes is not None:
            episodes = check_integer(_OWNER, "episodes", episodes, low=1, high=MOST)
        return cls(episodes, budget, horizon)

    def episodes_of(self, rounds: int) -> int | None:
        """Return m for a run of so many rounds, where the size is given."""
        if self.budget is None:
            return self.episodes
        return max(1, min(MAX_CALLS, self.budget // (self.horizon * rounds)))


def _proved(kind: Kind, task: Task, given: Given, found: Found, size: _Size) -> tuple[Choice, float | None] | None:
    """Return a choice that proves what can be proved at this size, and the tolerance that is given, if any."""
    goal, enough = found.goal, []
    for one in found.choices:
        m = size.episodes_of(one.rounds)
        if one.episodes <= (MAX_CALLS if m is None else m):
            enough.append(one._replace(episodes=one.episodes if m is None else m))
    if not enough:
        return None
    choice = enough[0] if size.episodes is None else min(enough, key=lambda one: one.rounds)
    choice = choice._replace(width=width_at(kind, task, choice, goal.tolerance, goal.tail))
    assert is_enough(kind, task, choice, goal)
    return choice, given.tolerance


def _practical(kind: Kind, task: Task, given: Given, size: _Size) -> tuple[Choice, float]:
    """Return a sensible choice where m is too small to prove anything, and its tolerance."""
    quickest = task.epsilon / 8.0 if kind == "sharp" else sum(tight_thresholds(task, Given())) / 2.0
    k, w = given.known or quickest, given.window or 0.0
    planned = rounds_needed(task, k + w) if given.rounds is None else given.rounds
    m = size.episodes_of(planned) or MAX_CALLS
    tolerance = given.tolerance
    if tolerance is None:
        worst = max(task.entries, 1 + task.rewards)
        finest = min(_COARSEST, task.epsilon * (1.0 - task.gamma) / (4.0 * worst))  # as the loss would need it
        tolerance = min(max(finest, _reached(kind, task, max(1, math.floor(k * m)))), _COARSEST)
    if given.known is None:
        visits = _visits(kind, task, tolerance)
        if visits > min(_SLOWEST * task.epsilon, task.horizon) * m:  # out of reach: accuracy alone will have to do
            visits = min(_accurate(kind, task, tolerance), task.horizon * m)
        k = max(quickest, min(float(task.horizon), visits / m * SLACK))
    w = (0.0 if task.rho is None and kind == "sharp" else k) if given.window is None else given.window
    needed = rounds_needed(task, k + w)
    affordable = needed if size.budget is None else max(1, size.budget // (m * task.horizon))
    choice = Choice(min(affordable, needed) if given.rounds is None else given.rounds, m, k, w)
    return choice._replace(width=width_at(kind, task, choice, tolerance, task.tail)), tolerance


def _accurate(kind: Kind, task: Task, radius: float) -> int:
    """Return the visits with which no entry is further than ``radius`` from the truth."""
    if kind != "sharp":
        return hoeffding_samples(radius, task.delta / 2.0 / task.queries)
    return max(1, math.ceil(events_log(task) / (2.0 * radius * radius)))


def _visits(kind: Kind, task: Task, tolerance: float) -> int:
    """Return the visits with which queries are this accurate, and differ with half of rho."""
    if task.rho is None:
        return _accurate(kind, task, tolerance)
    sampling = sampling_share(kind, task) * tolerance
    width = 2.0 * (tolerance - sampling) / pieces_of(task.form)
    same = math.ceil((2.0 * query_distance(task, 1.0) / (task.rho * width)) ** 2) if kind == "sharp" else 1
    return max(same, _accurate(kind, task, sampling))


def _reached(kind: Kind, task: Task, visits: int) -> float:
    """Return the tolerance that so many visits reach, where queries differ with half of rho."""
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _visits(kind, task, middle) <= visits else (middle, high)
    return high


def _checked(owner: str, kind: Kind, task: Task) -> Task:
    n_states = check_integer(owner, "n_states", task.n_states, low=1, high=2**40)
    n_actions = check_integer(owner, "n_actions", task.n_actions, low=1, high=2**40)
    gamma = check_real(owner, "gamma", task.gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    epsilon = check_share(owner, "epsilon", task.epsilon)
    horizon = check_integer(owner, "horizon", task.horizon, low=1, high=2**31 - 1)
    rho, delta = check_delta_rho(owner, task.rho, task.delta, apart=kind != "sharp")
    support = check_integer(owner, "support", task.support, low=1, high=n_states)
    known_rewards = check_flag(owner, "known_rewards", task.known_rewards)
    pieces_of(task.form)
    pairs = check_pairs(owner, task.allowed_pairs, n_states, n_actions)
    return Task(n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards, support, task.form, pairs)


def _check_visits(name: str, visits: float | None) -> float | None:
    if visits is None:
        return None
    return check_real(_OWNER, name, visits, low=1e-30, high=1e30, rule="a positive number of visits (1e-30 to 1e30)")
