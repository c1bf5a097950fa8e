"""Parameters of R-max by search: the fewest transitions that prove everything, or what is in the way of a proof."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from replicable_rl.theory.plan import MAX_CALLS, SLACK
from replicable_rl.theory.rmax_bounds import (
    Choice,
    Task,
    bounds_of,
    events_log,
    query_distance,
    rounded_row,
    rounds_needed,
    sampling_error,
    unknown_rate,
)
from replicable_rl.theory.rstat import ROUNDING, few_bits, pieces_of

_COARSEST = 0.01  # where nothing can be proved, probabilities are not rounded more coarsely than this
_SLOWEST = 10.0  # and k is at most this many epsilon to replicate: about 80 N rounds could learn nothing
_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 3 / 4)  # of the window in k + w
_GROWTH = tuple(2.0**q for q in range(-4, 4))  # idle rounds, in multiples of N
_WIDEST = 0.25  # an answer is never moved further than this, even where the loss would allow it


class Given(NamedTuple):
    """What the user has chosen: T, k, w and tau."""

    rounds: int | None = None
    known: float | None = None
    window: float | None = None
    tolerance: float | None = None


class Goal(NamedTuple):
    """What can be proved: where an obstacle bars the loss, the loss without gamma^H, or entries within tolerance."""

    tolerance: float | None
    tail: float
    entries_only: bool


class Found(NamedTuple):
    """Parameters with which everything that can be proved is proved; None where that takes more than 2**200."""

    choices: tuple[Choice, ...]  # the first draws the fewest transitions; with others fewer episodes may do
    obstacles: tuple[tuple[str, float], ...]  # what keeps accuracy from being proved: a parameter, and what would do
    goal: Goal


def width_at(task: Task, choice: Choice, tolerance: float | None, tail: float) -> float:
    """Return beta: the share that rounding has of a tolerance, or as wide as the loss allows; 0 if it allows none."""
    if task.rho is None:
        return 0.0
    pieces = pieces_of(task.form)
    rounding = _widest(task, choice, tail) if tolerance is None else (1.0 - sampling_share(task)) * tolerance
    return float(few_bits(2.0 * rounding / pieces / ROUNDING)) if rounding > 0.0 else 0.0


def _widest(task: Task, choice: Choice, tail: float) -> float:
    """How far rounding may move an answer, so that the loss is epsilon."""
    radius = sampling_error(task, choice)
    spare = task.epsilon - unknown_rate(task, choice) - task.planning - tail
    rows = radius if task.support > 1 else 0.0
    spare = spare / 2.0 - task.worth * rows - task.rewards * radius
    if spare <= 0.0:
        return 0.0
    # worth (E-1) e/(1-E e) + [rewards] e/pieces <= spare, solved for e with (1-E e) at its smallest
    per_unit = task.worth * (task.entries - 1) + task.rewards / pieces_of(task.form) + task.entries * spare
    return min(_WIDEST, spare / per_unit)


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
def search(task: Task, given: Given) -> Found:
    """Return the parameters with the fewest transitions T*m*H, and others that need fewer episodes.

    k + w = epsilon (j+1)/(4N) allows j idle rounds. First j is varied, then the window's share, then j again; what
    is given stays.
    """
    obstacles = _obstacles(task, given)
    barred = dict(obstacles)
    goal = Goal(given.tolerance, 0.0 if "horizon" in barred else task.tail, "tolerance" in barred)
    tried: dict[tuple[float, float], Choice | None] = {}

    def too_short(pair: tuple[float, float]) -> bool:
        """Whether the rounds that are given may end before the run does."""
        return given.rounds is not None and given.rounds < rounds_needed(task, sum(pair))

    def cost(pair: tuple[float, float]) -> tuple[bool, float]:
        if pair not in tried:
            rounds = rounds_needed(task, sum(pair)) if given.rounds is None else given.rounds
            tried[pair] = _fewest(task, Choice(rounds, 1, *pair), goal)
        found = tried[pair]
        return too_short(pair), math.inf if found is None else float(found.rounds) * found.episodes

    idle, share = _idle(task, given), 0.5
    for _ in range(2):
        j = min(idle, key=lambda one: cost(thresholds(task, given, one, share)))
        share = min(_SHARES, key=lambda one: cost(thresholds(task, given, j, one)))
    found = [one for one in tried.values() if one is not None]
    found.sort(key=lambda one: (one.episodes > MAX_CALLS, *cost((one.known, one.window)), one.episodes))
    if not found and task.rho is None and given.tolerance is not None:  # no promise is about single entries
        return search(task, given._replace(tolerance=None))
    return Found(tuple(found), obstacles, goal)


def _idle(task: Task, given: Given) -> list[int]:
    """Return idle rounds to try: few, and as many as the rounds that are given allow."""
    tries = [0, *(math.ceil(task.pairs * growth) - 1 for growth in _GROWTH)]
    if given.rounds is None:
        return sorted(set(tries))
    allowed = given.rounds - task.pairs - 1
    return sorted({one for one in tries if one <= allowed} | {max(0, allowed)})


def thresholds(task: Task, given: Given, idle: int, share: float) -> tuple[float, float]:
    """Return k and w that allow so many idle rounds; where one of them is given, the other follows."""
    edge = task.epsilon * (idle + 1.0) / (4.0 * task.pairs)
    if task.rho is None and given.window is None:
        return edge if given.known is None else given.known, 0.0  # a fixed threshold has no window
    if given.known is not None and given.window is not None:
        return given.known, given.window
    if given.known is not None:
        return given.known, edge - given.known if edge > given.known else given.known * share / (1.0 - share)
    if given.window is not None:
        return edge - given.window if edge > given.window else given.window * (1.0 - share) / share, given.window
    return edge * (1.0 - share), edge * share


def _fewest(task: Task, choice: Choice, goal: Goal) -> Choice | None:
    """Return the choice with hardly more episodes than the fewest that reach the goal; every bound falls with m."""

    def enough(episodes: int) -> bool:
        return is_enough(task, choice._replace(episodes=episodes), goal)

    low, high = 0, 8
    while not enough(2**high):
        low, high = high, 2 * high
        if low >= 200:
            return None
        high = min(high, 200)
    below, above = (2**low if low else 0), 2**high
    while above - below > max(1, below >> 24):
        middle = (below + above) // 2
        below, above = (below, middle) if enough(middle) else (middle, above)
    return choice._replace(episodes=above)


def _obstacles(task: Task, given: Given) -> tuple[tuple[str, float], ...]:
    """Return the parameters that keep accuracy from being proved at any m, each with a value that would do."""
    found: list[tuple[str, float]] = []
    room = task.epsilon / 2.0 - task.planning  # for rounding and for gamma^H, as m grows without end
    if room <= 0.0:
        found.append(("epsilon", 4.0 * task.planning))
    else:
        rounded = _rounded_loss(task, given.tolerance)
        if rounded >= room:
            finer = _tolerance_for(task, (room - task.tail if task.tail < room else room) / 2.0)
            found.append(("tolerance", finer))
            rounded = _rounded_loss(task, finer)
        if task.tail >= room - rounded:
            found.append(("horizon", math.log((room - rounded) / 2.0) / math.log(task.gamma)))
    if given.rounds is not None:
        least = min(sum(thresholds(task, given, one, 0.5)) for one in _idle(task, given))
        if given.rounds < rounds_needed(task, least):
            found.append(("rounds", rounds_needed(task, least)))
    return tuple((name, math.ceil(value) if name != "epsilon" and value > 1.0 else value) for name, value in found)


def _rounded_loss(task: Task, tolerance: float | None) -> float:
    """What rounding costs where its share of a tolerance is given, as m grows without end."""
    if tolerance is None or task.rho is None:
        return 0.0
    rounding = (1.0 - sampling_share(task)) * tolerance
    return 2.0 * (task.worth * rounded_row(task, rounding) + task.rewards * rounding / pieces_of(task.form))


def _tolerance_for(task: Task, room: float) -> float:
    """Return a tolerance whose rounding costs no more than ``room``."""
    tolerance = 0.5
    while _rounded_loss(task, tolerance) > room:
        tolerance /= 2.0
    return tolerance


class Size(NamedTuple):
    """How large a run may be: so many episodes a round, so many transitions in all, or as large as it takes."""

    episodes: int | None
    budget: int | None
    horizon: int

    def episodes_of(self, rounds: int) -> int | None:
        """Return m for a run of so many rounds, where the size is given."""
        if self.budget is None:
            return self.episodes
        return max(1, min(MAX_CALLS, self.budget // (self.horizon * rounds)))


def proved(task: Task, given: Given, found: Found, size: Size) -> tuple[Choice, float | None] | None:
    """Return a choice that proves what can be proved at this size, and the tolerance that is given, if any."""
    goal, enough = found.goal, []
    for one in found.choices:
        m = size.episodes_of(one.rounds)
        if one.episodes <= (MAX_CALLS if m is None else m):
            enough.append(one._replace(episodes=one.episodes if m is None else m))
    if not enough:
        return None
    choice = enough[0] if size.episodes is None else min(enough, key=lambda one: one.rounds)
    choice = choice._replace(width=width_at(task, choice, goal.tolerance, goal.tail))
    assert is_enough(task, choice, goal)
    return choice, given.tolerance


def practical(task: Task, given: Given, size: Size) -> tuple[Choice, float]:
    """Return a sensible choice where m is too small to prove anything, and its tolerance."""
    quickest = task.epsilon / 8.0
    k, w = given.known or quickest, given.window or 0.0
    planned = rounds_needed(task, k + w) if given.rounds is None else given.rounds
    m = size.episodes_of(planned) or MAX_CALLS
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
    affordable = needed if size.budget is None else max(1, size.budget // (m * task.horizon))
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
