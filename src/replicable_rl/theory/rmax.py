r"""R-max and RepRMAX: what parameters guarantee, and a search for them.

The paper (Lemma 4.2, ``lem:repmax-convergence``, and Theorem 4.2, ``thm:repmax-replicable``) gives orders of growth
without constants, see `theory.paper`. :func:`rmax` has explicit bounds, which are proved in ``docs/proofs-rmax.md``.

N = S*A pairs, at most K successors each, M = k + w, b = H/m, n0 = k*m the fewest visits of a known pair, values in
[0, 1]. At most D decisions about the known set are made, in at most T rounds.

A shared random number separates two numbers with probability (their distance)/(its range), and it is independent of
both samples: the mean distance counts, and no delta. Two runs can part in three ways:

- queries:    N (c sqrt(K-1) + [rewards learned] c/2) / (beta sqrt(n0)), c = 2, or 1.63 and 37 (K + [rewards])/n0 more
- known set:  sqrt(D N T) sqrt(2 b (1+eta) M)/w + 2 N T exp(-eta^2 M/(2 b (1+eta))), for any eta > 0
- stopping:   4 T sqrt(b/epsilon)

*Accuracy.* The loss of the policy from the initial distribution is, for a run that does not spend its budget of rounds,
at most 2 (gamma/(1-gamma) (total variation of a row) + (error of a learned reward)) + u + gamma^H, where

- the total variation of a row is at most r + (E-1) e/(1 - E e): r is Hoeffding's radius for all sets of successors at
  n0, e the rounding of an answer, and E the entries that rounding can make wrong;
- u is the largest rate of unknown visits that may be seen below epsilon/2: u - sqrt(2 b L u) <= epsilon/2, with
  L = ln(2 T/delta).

The bounds on samples fail with probability delta/2 in the queries, delta/2 in the counts. R_max must be the top of the
reward range, and every episode must be H steps long.

*Progress.* A round that does not stop adds at least epsilon/4 to the counts of unknown pairs. If it learns none, they
all stay below k + w, so fewer than 4N(k + w)/epsilon rounds neither stop nor learn; at most N learn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from replicable_rl.errors import InvalidInput, check_integer
from replicable_rl.theory.numbers import (
    ACCURACY,
    MAX_CALLS,
    MOST,
    PLAIN,
    RSTAT,
    SLACK,
    Numbers,
    check_pairs,
    check_parameters,
    fewest_that,
)
from replicable_rl.theory.rstat import ROUNDING, Form, few_bits, pieces_of

PLANNING = 1e-10  # normalised error of the planner's values that the bound on the loss allows for
RANDOMISED, FIXED = "randomised", "fixed"  # the ids of the thresholds that the proofs know
_OWNER = "theory.rmax"
_COARSEST = 0.01  # where nothing can be proved, probabilities are not rounded more coarsely than this
_SLOWEST = 10.0  # and k is at most this many epsilon to replicate: about 80 N rounds could learn nothing
_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 3 / 4)  # of the window in k + w
_GROWTH = tuple(2.0**q for q in range(-4, 4))  # idle rounds, in multiples of N
_WIDEST = 0.25  # an answer is never moved further than this, even where the loss would allow it


# --- what a choice of parameters guarantees ----------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """The problem and the promise."""

    n_states: int
    n_actions: int
    gamma: float
    epsilon: float
    delta: float
    rho: float | None
    horizon: int
    known_rewards: bool
    support: int
    form: Form
    allowed_pairs: int | None = None  # where some actions are not allowed everywhere

    @property
    def pairs(self) -> int:
        """N = S*A, or as many as are allowed."""
        return self.n_states * self.n_actions if self.allowed_pairs is None else self.allowed_pairs

    @property
    def rewards(self) -> int:
        """1 if rewards are learned, 0 if they are known."""
        return 0 if self.known_rewards else 1

    @property
    def entries(self) -> int:
        """E, the entries of a row that rounding can make wrong; the midpoint form makes all of them wrong."""
        return self.n_states if self.form == "midpoint" and self.rho is not None else self.support

    @property
    def worth(self) -> float:
        """gamma/(1-gamma): what one unit of total variation in every row is worth."""
        return self.gamma / (1.0 - self.gamma)

    @property
    def planning(self) -> float:
        """What the planner's own error costs."""
        return 2.0 * PLANNING / (1.0 - self.gamma)

    @property
    def tail(self) -> float:
        """gamma^H: what may happen after an episode."""
        return self.gamma**self.horizon


class Choice(NamedTuple):
    """T, m, k, w and beta."""

    rounds: int
    episodes: int
    known: float
    window: float
    width: float = 0.0

    @property
    def visits(self) -> int:
        """The fewest visits of a known pair, k*m."""
        return math.floor(self.known * self.episodes)

    @property
    def edge(self) -> float:
        """M = k + w."""
        return self.known + self.window


class Bounds(NamedTuple):
    """Bounds with probability 1 - delta on an entry and on the loss, and on the three ways in which two runs part."""

    entry_error: float
    loss: float
    rho_queries: float = 0.0
    rho_known: float = 0.0
    rho_stop: float = 0.0

    @property
    def rho(self) -> float:
        """The probability that two runs learn different models, at most."""
        return min(1.0, self.rho_queries + self.rho_known + self.rho_stop)


def bounds_of(task: Task, choice: Choice) -> Bounds:
    """Return what is proved of a choice."""
    N, T = task.pairs, rounds_at_most(task, choice)
    radius, per_visit = sampling_error(task, choice), task.horizon / choice.episodes
    rounding = 0.0 if task.rho is None else pieces_of(task.form) * choice.width / 2.0
    row = (radius if task.support > 1 else 0.0) + rounded_row(task, rounding)
    reward = task.rewards * (radius + choice.width / 2.0)
    loss = 2.0 * (task.worth * row + reward) + task.planning + unknown_rate(task, choice) + task.tail
    if task.rho is None:
        return Bounds(radius, loss)
    distance = query_distance(task, max(1, choice.visits))
    queries = distance and (distance / choice.width if choice.width > 0.0 else math.inf)
    risky = 200.0 * N * T
    y = per_visit / choice.edge * (math.log(risky) + 0.5 * math.log(max(1.0, choice.edge / per_visit)))
    eta = y + math.sqrt(y * y + 2.0 * y)  # eta^2/(1+eta) = 2y, so that the second term is 0.01 sqrt(b/M) or less
    beyond = 2.0 * N * T * math.exp(-eta * eta / (1.0 + eta) * choice.edge / (2.0 * per_visit))
    apart = math.sqrt(2.0 * per_visit * (1.0 + eta) * choice.edge)
    made = math.sqrt(float(decisions(task, choice)) * N * T)
    known = made * apart / choice.window + beyond if choice.window > 0.0 else math.inf
    return Bounds(radius + rounding, loss, queries, known, 4.0 * T * math.sqrt(per_visit / task.epsilon))


def query_distance(task: Task, visits: float) -> float:
    """Bound the mean distances of two runs before rounding, summed over all entries and rewards of all pairs."""
    root = (math.sqrt(task.support - 1.0) + task.rewards / 2.0) / math.sqrt(visits)
    few = 37.0 * ((task.support if task.support > 1 else 0) + task.rewards) / visits
    return task.pairs * min(2.0 * root, 1.63 * root + few)


def rounded_row(task: Task, rounding: float) -> float:
    """Bound the total variation that rounding makes in a row, after it is divided by its sum."""
    E = task.entries
    left = 1.0 - E * rounding
    return (E - 1.0) * rounding / left if left > 0.0 else 1.0


def sampling_error(task: Task, choice: Choice) -> float:
    """Hoeffding's radius at n0, in half of delta, for all sets of successors at once."""
    return math.sqrt(events_log(task) / (2.0 * max(1, choice.visits)))


def events_log(task: Task) -> float:
    """ln(2 N (2^K - 2 + 2 [rewards learned])/delta): every set of successors but none and all; 0 if there is none."""
    K = task.support
    if K == 1:
        return task.rewards * math.log(4.0 * task.pairs / task.delta)
    sets = K * math.log(2.0) + math.log1p((task.rewards - 1.0) * 2.0 ** (1 - K))
    return sets + math.log(2.0 * task.pairs / task.delta)


def unknown_rate(task: Task, choice: Choice) -> float:
    """Return the largest rate u of unknown visits that may be seen below epsilon/2, in half of delta."""
    L = math.log(2.0 * rounds_at_most(task, choice) / task.delta)
    a = 2.0 * task.horizon * L / choice.episodes
    return ((math.sqrt(a) + math.sqrt(a + 2.0 * task.epsilon)) / 2.0) ** 2


def idle_rounds(task: Task, edge: float) -> int:
    """Return the most rounds that neither stop nor learn a pair; none if k + w <= epsilon/(4N)."""
    return max(0, math.ceil(4.0 * task.pairs * edge / task.epsilon / SLACK) - 1)


def rounds_needed(task: Task, edge: float) -> int:
    """Return the rounds after which a run has certainly stopped or knows every pair."""
    return task.pairs + 1 + idle_rounds(task, edge)


def rounds_at_most(task: Task, choice: Choice) -> int:
    """Return the rounds that a run can have."""
    return min(choice.rounds, rounds_needed(task, choice.edge))


def decisions(task: Task, choice: Choice) -> int:
    """Return the most decisions about the known set: one for every unknown pair in every round."""
    N = task.pairs
    learning = N * (N + 1) // 2  # the i-th round that learns finds at most N - i + 1 pairs unknown
    return min(N * choice.rounds, learning + N * idle_rounds(task, choice.edge))


@dataclass(frozen=True, kw_only=True)
class RMaxNumbers(Task, Numbers):
    """What a run of R-max takes, and what is proved of it."""

    rounds: int  # T
    episodes: int  # m
    known: float  # k
    window: float  # w
    width: float  # beta of a query
    tolerance: float  # tau of a query
    episodes_needed: int | None  # an m with which, all else given alike, every promise is proved; None where no m does
    obstacles: tuple[tuple[str, float], ...]  # parameters that are then in the way, and a value of each that would do
    threshold: str  # the ids of the ingredients: without the theorem's, two runs part ways with no bound
    estimate: str

    @property
    def choice(self) -> Choice:
        """T, m, k, w and beta."""
        return Choice(self.rounds, self.episodes, self.known, self.window, self.width)

    @cached_property
    def bounds(self) -> Bounds:
        """What is proved, part by part, and 1 where an ingredient is unknown to the proof."""
        reached = bounds_of(self, self.choice)
        if self.outside(ACCURACY):
            reached = reached._replace(entry_error=1.0, loss=1.0)
        if self.rho is not None and self.threshold != RANDOMISED:
            reached = reached._replace(rho_known=1.0, rho_stop=1.0)
        if self.rho is not None and self.estimate != RSTAT:
            reached = reached._replace(rho_queries=1.0)
        parts = (min(1.0, part) for part in reached[2:])
        return Bounds(reached.entry_error, reached.loss, *parts)

    @property
    def rounds_needed(self) -> int:
        """Rounds after which a run has certainly stopped or knows every pair."""
        return rounds_needed(self, self.choice.edge)

    @property
    def samples(self) -> int:
        """Transitions that a run draws if it uses all its rounds."""
        return self.episodes * self.horizon * self.rounds

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs learn different models; 1 when nothing is proved."""
        return None if self.rho is None else self.bounds.rho

    @property
    def error_proved(self) -> float:
        """The bound on the loss of the policy of a run that ends before its budget of rounds does."""
        return self.bounds.loss

    @property
    def accuracy_proved(self) -> bool:
        """Whether the policy is within epsilon of optimal from the initial distribution, whatever happens."""
        return self.proves(ACCURACY) and self.rounds >= self.rounds_needed

    def proves(self, about: str) -> bool:
        """Whether a promise is proved; about accuracy, of a run that ends before its budget of rounds does."""
        return self.error_proved <= self.epsilon * SLACK if about == ACCURACY else self.replicability_proved

    def outside(self, about: str) -> dict[str, tuple[str, str]]:
        """Return the threshold and the estimate where the proof does not know them."""
        threshold, estimate = (FIXED, PLAIN) if self.rho is None else (RANDOMISED, RSTAT)
        pairs = {"threshold": (self.threshold, threshold), "estimate": (self.estimate, estimate)}
        others = (RANDOMISED, FIXED, PLAIN) if about == ACCURACY else ()  # of these accuracy is known, too
        return {name: pair for name, pair in pairs.items() if pair[0] not in (pair[1], *others)}

    def short(self, about: str) -> dict[str, tuple[float, float]]:
        """Return the episodes, where more of them would do."""
        needed = self.episodes_needed
        return {} if needed is None or self.episodes >= needed else {"episodes": (self.episodes, needed)}


# --- the search for parameters ------------------------------------------------------------------------------------


class Given(NamedTuple):
    """What the user has chosen: T, k, w, tau, and m or T*m*H."""

    rounds: int | None
    known: float | None
    window: float | None
    tolerance: float | None
    episodes: int | None = None
    budget: int | None = None

    def episodes_of(self, rounds: int, horizon: int) -> int | None:
        """Return m for a run of so many rounds, where its size is given."""
        if self.budget is None:
            return self.episodes
        return max(1, min(MAX_CALLS, self.budget // (horizon * rounds)))


class Goal(NamedTuple):
    """What can be proved: where an obstacle bars the loss, the loss without gamma^H, or entries within tolerance."""

    tolerance: float | None
    tail: float
    entries_only: bool


class Search(NamedTuple):
    """Choices with which everything that can be proved is proved; none where that takes more than 2**200."""

    choices: tuple[Choice, ...]  # the first draws the fewest transitions; with others fewer episodes may do
    obstacles: tuple[tuple[str, float], ...]  # what keeps accuracy from being proved: a parameter, and what would do
    goal: Goal


def width_at(task: Task, choice: Choice, tolerance: float | None, tail: float) -> float:
    """Return beta: the share that rounding has of a tolerance, or as wide as the loss allows; 0 if it allows none."""
    if task.rho is None:
        return 0.0
    pieces = pieces_of(task.form)
    if tolerance is not None:
        rounding = (1.0 - sampling_share(task)) * tolerance
    else:
        radius = sampling_error(task, choice)
        spare = task.epsilon - unknown_rate(task, choice) - task.planning - tail
        rows = radius if task.support > 1 else 0.0
        spare = spare / 2.0 - task.worth * rows - task.rewards * radius
        if spare <= 0.0:
            return 0.0
        # worth (E-1) e/(1-E e) + [rewards] e/pieces <= spare, solved for e with (1-E e) at its smallest
        per_unit = task.worth * (task.entries - 1) + task.rewards / pieces + task.entries * spare
        rounding = min(_WIDEST, spare / per_unit)
    return float(few_bits(2.0 * rounding / pieces / ROUNDING))


def sampling_share(task: Task) -> float:
    """Return the share of a tolerance that sampling has; the rest is for rounding."""
    assert task.rho is not None
    distance = query_distance(task, 1.0)  # times the root of n, or more
    if distance == 0.0:
        return 0.5
    # with this ratio the same n is enough for half of rho and for accuracy
    ratio = task.rho * math.sqrt(2.0 * events_log(task)) / (2.0 * pieces_of(task.form) * distance)
    return min(0.5, ratio / (1.0 + ratio))


def is_enough(task: Task, choice: Choice, goal: Goal) -> bool:
    """Whether a choice reaches the goal; its width is chosen here."""
    choice = choice._replace(width=width_at(task, choice, goal.tolerance, goal.tail))
    if task.rho is not None and choice.width <= 0.0:
        return False
    reached = bounds_of(task, choice)
    accurate = goal.entries_only or reached.loss - task.tail + goal.tail <= task.epsilon * SLACK
    if goal.tolerance is not None and (goal.entries_only or task.rho is None):
        accurate = accurate and reached.entry_error <= goal.tolerance * SLACK
    return accurate and (task.rho is None or reached.rho <= task.rho * SLACK)


@lru_cache(maxsize=256)
def _search(task: Task, given: Given) -> Search:
    """Return the parameters with the fewest transitions T*m*H, and others that need fewer episodes.

    k + w = epsilon (j+1)/(4N) allows j idle rounds. First j is varied, then the window's share, then j again; what
    is given stays.
    """
    obstacles = _obstacles(task, given)
    barred = dict(obstacles)
    goal = Goal(given.tolerance, 0.0 if "horizon" in barred else task.tail, "tolerance" in barred)
    tried: dict[tuple[float, float], Choice | None] = {}

    def fewest(rounds: int, k: float, w: float) -> Choice | None:
        def enough(episodes: int) -> bool:
            return is_enough(task, Choice(rounds, episodes, k, w), goal)

        episodes = fewest_that(enough, first=8, last=200, bits=24)  # every bound falls with m
        return None if episodes is None else Choice(rounds, episodes, k, w)

    def cost(pair: tuple[float, float]) -> tuple[bool, float]:
        """Whether the rounds that are given may end before the run does, and the transitions over H."""
        needed = rounds_needed(task, sum(pair))
        rounds = needed if given.rounds is None else given.rounds
        if pair not in tried:
            tried[pair] = fewest(rounds, *pair)
        choice = tried[pair]
        return rounds < needed, math.inf if choice is None else float(choice.rounds) * choice.episodes

    idle, share = _idle(task, given), 0.5
    for _ in range(2):
        j = min(idle, key=lambda j: cost(thresholds(task, given, j, share)))
        share = min(_SHARES, key=lambda share: cost(thresholds(task, given, j, share)))
    choices = sorted(
        filter(None, tried.values()),
        key=lambda choice: (choice.episodes > MAX_CALLS, *cost((choice.known, choice.window)), choice.episodes),
    )
    if not choices and task.rho is None and given.tolerance is not None:  # no promise is about single entries
        return _search(task, given._replace(tolerance=None))
    return Search(tuple(choices), obstacles, goal)


def _idle(task: Task, given: Given) -> list[int]:
    """Return idle rounds to try: few, and as many as the rounds that are given allow."""
    tries = {0, *(math.ceil(task.pairs * growth) - 1 for growth in _GROWTH)}
    if given.rounds is not None:
        allowed = given.rounds - task.pairs - 1
        tries = {j for j in tries if j <= allowed} | {max(0, allowed)}
    return sorted(tries)


def thresholds(task: Task, given: Given, idle: int, share: float) -> tuple[float, float]:
    """Return k and w that allow so many idle rounds; where one of them is given, the other follows."""
    edge, k, w = task.epsilon * (idle + 1.0) / (4.0 * task.pairs), given.known, given.window
    if task.rho is None and w is None:
        return edge if k is None else k, 0.0  # a fixed threshold has no window
    if k is not None:
        return k, w if w is not None else edge - k if edge > k else k * share / (1.0 - share)
    if w is not None:
        return edge - w if edge > w else w * (1.0 - share) / share, w
    return edge * (1.0 - share), edge * share


def _obstacles(task: Task, given: Given) -> tuple[tuple[str, float], ...]:
    """Return the parameters that keep accuracy from being proved at any m, each with a value that would do."""
    found: list[tuple[str, float]] = []
    room = task.epsilon / 2.0 - task.planning  # for rounding and for gamma^H, as m grows without end
    if room <= 0.0:
        found.append(("epsilon", 4.0 * task.planning))
    else:
        rounded = _rounded_loss(task, given.tolerance)
        if rounded >= room:
            finer, left = 0.5, (room - task.tail if task.tail < room else room) / 2.0
            while (rounded := _rounded_loss(task, finer)) > left:
                finer /= 2.0
            found.append(("tolerance", finer))
        if task.tail >= room - rounded:
            found.append(("horizon", math.ceil(math.log((room - rounded) / 2.0) / math.log(task.gamma))))
    if given.rounds is not None:
        least = min(rounds_needed(task, sum(thresholds(task, given, j, 0.5))) for j in _idle(task, given))
        if given.rounds < least:
            found.append(("rounds", least))
    return tuple(found)


def _rounded_loss(task: Task, tolerance: float | None) -> float:
    """What rounding costs where its share of a tolerance is given, as m grows without end."""
    if tolerance is None or task.rho is None:
        return 0.0
    rounding = (1.0 - sampling_share(task)) * tolerance
    return 2.0 * (task.worth * rounded_row(task, rounding) + task.rewards * rounding / pieces_of(task.form))


def _proved(task: Task, found: Search, given: Given) -> Choice | None:
    """Return a choice that proves what can be proved at this size."""
    sizes = [(choice, given.episodes_of(choice.rounds, task.horizon)) for choice in found.choices]
    enough = [
        choice if m is None else choice._replace(episodes=m)
        for choice, m in sizes
        if choice.episodes <= (MAX_CALLS if m is None else m)
    ]
    if not enough:
        return None
    best = enough[0] if given.episodes is None else min(enough, key=lambda choice: choice.rounds)
    return best._replace(width=width_at(task, best, found.goal.tolerance, found.goal.tail))


def _practical(task: Task, given: Given) -> tuple[Choice, float]:
    """Return a sensible choice where m is too small to prove anything, and its tolerance."""
    quickest = task.epsilon / 8.0
    k, w = given.known or quickest, given.window or 0.0
    planned = rounds_needed(task, k + w) if given.rounds is None else given.rounds
    m = given.episodes_of(planned, task.horizon) or MAX_CALLS
    tolerance = given.tolerance
    if tolerance is None:
        worst = max(task.entries, 1 + task.rewards)
        finest = min(_COARSEST, task.epsilon * (1.0 - task.gamma) / (4.0 * worst))  # as the loss would need it
        tolerance = min(max(finest, _reached(task, max(1, math.floor(k * m)))), _COARSEST)
    if given.known is None:
        visits = _visits(task, tolerance)
        if visits > min(_SLOWEST * task.epsilon, task.horizon) * m:  # out of reach: accuracy alone will have to do
            visits = min(_accurate(task, tolerance), task.horizon * m)
        k = max(quickest, min(float(task.horizon), visits / m * SLACK))
    w = (0.0 if task.rho is None else k) if given.window is None else given.window
    needed = rounds_needed(task, k + w)
    affordable = needed if given.budget is None else max(1, given.budget // (m * task.horizon))
    choice = Choice(min(affordable, needed) if given.rounds is None else given.rounds, m, k, w)
    return choice._replace(width=width_at(task, choice, tolerance, task.tail)), tolerance


def _accurate(task: Task, radius: float) -> int:
    """Return the visits with which no entry is further than ``radius`` from the truth."""
    return max(1, math.ceil(events_log(task) / (2.0 * radius * radius)))


def _visits(task: Task, tolerance: float) -> int:
    """Return the visits with which queries are this accurate, and differ with half of rho."""
    if task.rho is None:
        return _accurate(task, tolerance)
    sampling = sampling_share(task) * tolerance
    width = 2.0 * (tolerance - sampling) / pieces_of(task.form)
    same = math.ceil((2.0 * query_distance(task, 1.0) / (task.rho * width)) ** 2)
    return max(same, _accurate(task, sampling))


def _reached(task: Task, visits: int) -> float:
    """Return the tolerance that so many visits reach, where queries differ with half of rho."""
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _visits(task, middle) <= visits else (middle, high)
    return high


# --- the numbers of a run -----------------------------------------------------------------------------------------


def rmax(
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
    episodes: int | None = None,
    budget: int | None = None,
    rounds: int | None = None,
    known: float | None = None,
    window: float | None = None,
    tolerance: float | None = None,
    allowed_pairs: int | None = None,
) -> RMaxNumbers:
    """Return parameters that can be run; ``rho=None`` is the baseline R-max.

    m is given (``episodes``, or a total ``budget`` of transitions), or the one with which everything that can be proved
    is proved, at most 2**63 - 1. k, w and tau are then those with the fewest transitions T*m*H in all.

    Where m is too small to prove anything, k = w = epsilon/8, and tau is as fine as replicability allows at k*m
    visits, but not coarser than 0.01; where k*m then falls short of the sample size of the queries, k grows until it
    covers it, up to 10 epsilon; and where that is not enough either, k*m covers accuracy alone.

    ``known_rewards`` says whether the reward is a known function of (s, a), and ``allowed_pairs`` is N where some
    actions are not allowed in every state. What is None is left to the proof. All else is as in `ReplicableRMax`.

    Examples
    --------
    >>> numbers = rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, support=3)
    >>> numbers.rounds, f"{numbers.episodes:.3g}", numbers.replicability_proved, numbers.accuracy_proved
    (64, '1.39e+13', True, True)
    >>> rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, episodes=10**9).accuracy_proved
    False
    >>> rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=20).obstacles  # gamma**20 is more than epsilon
    (('horizon', 36),)
    """
    sizes = n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards
    task = checked(*sizes, n_states if support is None else support, form, allowed_pairs)
    run = check_rmax(horizon=task.horizon, **Given(rounds, known, window, tolerance, episodes, budget)._asdict())
    given = Given(*(run[name] for name in Given._fields))
    any_size = given._replace(episodes=None, budget=None)
    found = _search(task, any_size)
    if not found.choices:  # perhaps the largest m of all is enough with another k
        last = _practical(task, any_size._replace(episodes=MOST))[0]
        found = found._replace(choices=(last,) if is_enough(task, last, found.goal) else ())
    needed, obstacles = None, found.obstacles
    if found.choices and not obstacles:
        needed = found.choices[0].episodes
    elif not found.choices and "epsilon" not in dict(obstacles):
        obstacles = (*obstacles, ("episodes", float(MOST)))
    choice, tau = _proved(task, found, given), given.tolerance
    if choice is None:
        choice, tau = _practical(task, given)
    return RMaxNumbers(
        **vars(task),
        **choice._asdict(),
        tolerance=bounds_of(task, choice).entry_error if tau is None else tau,
        episodes_needed=needed,
        obstacles=obstacles,
        threshold=FIXED if rho is None else RANDOMISED,
        estimate=PLAIN if rho is None else RSTAT,
    )


def checked(*sizes: Any) -> Task:
    """Return a task whose numbers are in their ranges."""
    task = Task(*sizes)
    given = check_parameters(_OWNER, **vars(task))
    check_integer(_OWNER, "support", given["support"], low=1, high=given["n_states"])
    pairs = check_pairs(_OWNER, given["allowed_pairs"], given["n_states"], given["n_actions"])
    return Task(**given | {"allowed_pairs": pairs})


def check_rmax(**given: Any) -> dict[str, Any]:
    """Return the parameters of `rmax` that do not depend on a problem, as they count."""
    run = check_parameters(_OWNER, **given)
    if run["episodes"] is not None and run["budget"] is not None:
        raise InvalidInput(f"{_OWNER}: give episodes (m) or budget (transitions in all), not both.")
    if run["budget"] is not None:
        check_integer(_OWNER, "budget", run["budget"], low=run["horizon"], high=MOST)
    return run
