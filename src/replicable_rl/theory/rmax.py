r"""R-max and RepRMAX: what parameters guarantee, and a search for them.

The paper (``lem:repmax-convergence``, the lemma of Section 4.2, and Theorem 4.2, ``thm:repmax-replicable``) gives
orders of growth without constants, see :func:`paper_rmax`. :func:`rmax` has explicit bounds, proved in
``docs/proofs.md``.

N = S*A pairs, b = H/m, n0 = k*m the fewest visits of a known pair, values in [0, 1]. K is the largest number of
successors of a pair and M = k + w: neither is the paper's K or M. At most D decisions about the known set are made, in
at most T rounds.

A shared random number separates two numbers with probability (their distance)/(its range), and it is independent of
both samples: the mean distance counts, and no delta. Two runs can part in three ways: in the queries, in the known set,
and in stopping. The loss of the policy from the initial distribution is at most

    2 (gamma/(1-gamma) (total variation of a row) + (error of a learned reward)) + u + gamma^H

for a run that does not spend its budget of rounds, where u is the largest rate of unknown visits that may be seen below
epsilon/2. The bounds on samples fail with probability delta/2 in the queries, delta/2 in the counts. R_max must be the
top of the reward range, and every episode must be H steps long.

A round that does not stop adds at least epsilon/4 to the counts of unknown pairs. If it learns none, they all stay
below k + w, so fewer than 4N(k + w)/epsilon rounds neither stop nor learn; at most N learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from replicable_rl.errors import InvalidInput
from replicable_rl.theory.numbers import ACCURACY, MAX_CALLS, PLAIN, RSTAT, SLACK, Numbers, check_parameters
from replicable_rl.theory.rstat import ROUNDING, Form, few_bits, pieces_of

PLANNING = 1e-10  # normalised error of the planner's values that the bound on the loss allows for
RANDOMISED, FIXED = "randomised", "fixed"  # the ids of the thresholds that the proofs know
_COARSEST = 0.01  # where nothing can be proved, probabilities are not rounded more coarsely than this
_SLOWEST = 10.0  # k is at most this many epsilon, so that at most about 80 N rounds learn nothing
_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 3 / 4)  # of the window in k + w
_GROWTH = tuple(2.0**q for q in range(-4, 4))  # idle rounds, in multiples of N
_WIDEST = 0.25  # an answer is never moved further than this, even where the loss would allow it


@dataclass(frozen=True, kw_only=True)
class RMaxNumbers(Numbers):
    """A problem and a promise, what a run of R-max takes, and what is proved of it."""

    n_states: int
    n_actions: int
    gamma: float
    horizon: int  # H
    support: int  # K
    form: Form
    pairs: int  # N = S*A, or as many as are allowed
    rounds: int = 1  # T
    episodes: int = 1  # m
    known: float = 1.0  # k
    window: float = 0.0  # w
    width: float = 0.0  # beta of a query
    episodes_needed: int | None = None  # an m with which every promise can be proved; None where the search finds none
    threshold: str = RANDOMISED  # the ids of the ingredients: without the theorem's, two runs part with no bound
    estimate: str = RSTAT

    @property
    def visits(self) -> int:
        """n0, the fewest visits of a known pair: k*m."""
        return math.floor(self.known * self.episodes)

    @property
    def samples(self) -> int:
        """Transitions that a run draws if it uses all its rounds."""
        return self.episodes * self.horizon * self.rounds

    @property
    def idle_rounds(self) -> int:
        """The most rounds that neither stop nor learn a pair; none if k + w <= epsilon/(4N)."""
        return max(0, math.ceil(4.0 * self.pairs * (self.known + self.window) / self.epsilon / SLACK) - 1)

    @property
    def rounds_needed(self) -> int:
        """Rounds after which a run has certainly stopped or knows every pair."""
        return self.pairs + 1 + self.idle_rounds

    @property
    def rounds_at_most(self) -> int:
        """Rounds that a run can have."""
        return min(self.rounds, self.rounds_needed)

    @property
    def entries(self) -> int:
        """E, the entries of a row that rounding can make wrong; the midpoint form makes all of them wrong."""
        return self.n_states if self.form == "midpoint" and self.rho is not None else self.support

    @property
    def planning(self) -> float:
        """What the planner's own error costs."""
        return 2.0 * PLANNING / (1.0 - self.gamma)

    @property
    def tail(self) -> float:
        """gamma^H: what may happen after an episode."""
        return self.gamma**self.horizon

    @property
    def horizon_needed(self) -> int:
        """H, or a longer one where no m proves accuracy: gamma^H must leave something of epsilon/2."""
        room = self.epsilon / 2.0 - self.planning
        return math.ceil(math.log(room / 2.0) / math.log(self.gamma)) if self.tail >= room > 0.0 else self.horizon

    @property
    def events_log(self) -> float:
        """ln(2 N (2^K - 2 + 2 [rewards learned])/delta): every set of successors but none and all; 0 if none is."""
        K, learned = self.support, int(not self.known_rewards)
        if K == 1:
            return learned * math.log(4.0 * self.pairs / self.delta)
        sets = K * math.log(2.0) + math.log1p((learned - 1.0) * 2.0 ** (1 - K))
        return sets + math.log(2.0 * self.pairs / self.delta)

    @property
    def sampling_error(self) -> float:
        """r, Hoeffding's radius at n0, in half of delta, for all sets of successors at once."""
        return math.sqrt(self.events_log / (2.0 * max(1, self.visits)))

    @property
    def rounded_row(self) -> float:
        """Bound on the total variation that rounding makes in a row, after it is divided by its sum."""
        E, e = self.entries, pieces_of(self.form) * self.width / 2.0  # e: how far an answer may be from its mean
        return (E - 1.0) * e / (1.0 - E * e) if E * e < 1.0 else 1.0

    @property
    def unknown_rate(self) -> float:
        """The largest rate u of unknown visits that may be seen below epsilon/2, in half of delta."""
        L = math.log(2.0 * self.rounds_at_most / self.delta)
        a = 2.0 * self.horizon * L / self.episodes
        return ((math.sqrt(a) + math.sqrt(a + 2.0 * self.epsilon)) / 2.0) ** 2

    @property
    def error_proved(self) -> float:
        """The bound on the loss of the policy, from the initial distribution, if a run ends before its rounds do."""
        radius = self.sampling_error
        row = (radius if self.support > 1 else 0.0) + self.rounded_row
        reward = 0.0 if self.known_rewards else radius + self.width / 2.0
        return 2.0 * (self.gamma / (1.0 - self.gamma) * row + reward) + self.planning + self.unknown_rate + self.tail

    def query_distance(self, visits: float) -> float:
        """Bound the mean distances of two runs before rounding, summed over all entries and rewards of all pairs."""
        K, learned = self.support, int(not self.known_rewards)
        root = (math.sqrt(K - 1.0) + learned / 2.0) / math.sqrt(visits)
        excess = 37.0 * ((K if K > 1 else 0) + learned) / visits
        return self.pairs * min(2.0 * root, 1.63 * root + excess)

    @property
    def rho_queries(self) -> float:
        """Bound on the probability that the first difference of two runs is in a row."""
        if self.estimate != RSTAT:
            return 1.0
        distance = self.query_distance(max(1, self.visits))
        return distance / self.width if distance < self.width else float(distance > 0.0)

    @property
    def rho_known(self) -> float:
        """Bound on the probability that the first difference is in a known set."""
        if self.threshold != RANDOMISED or self.window <= 0.0:
            return 1.0
        N, T, M, b = self.pairs, self.rounds_at_most, self.known + self.window, self.horizon / self.episodes
        learning = N * (N + 1) // 2  # the i-th round that learns finds at most N - i + 1 pairs unknown
        D = min(N * self.rounds, learning + N * self.idle_rounds)
        y = b / M * (math.log(200.0 * N * T) + 0.5 * math.log(max(1.0, M / b)))
        eta = y + math.sqrt(y * y + 2.0 * y)  # eta^2/(1+eta) = 2y, so that the second term is 0.01 sqrt(b/M) or less
        distances = math.sqrt(float(D) * N * T) * math.sqrt(2.0 * b * (1.0 + eta) * M)
        beyond = 2.0 * N * T * math.exp(-eta * eta / (1.0 + eta) * M / (2.0 * b))
        return min(1.0, distances / self.window + beyond)

    @property
    def rho_stop(self) -> float:
        """Bound on the probability that the first difference is a stop."""
        if self.threshold != RANDOMISED:
            return 1.0
        return min(1.0, 4.0 * self.rounds_at_most * math.sqrt(self.horizon / self.episodes / self.epsilon))

    @cached_property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs learn different models; 1 when nothing is proved."""
        return None if self.rho is None else min(1.0, self.rho_queries + self.rho_known + self.rho_stop)

    def short(self, about: str) -> dict[str, tuple[float, float]]:
        """Return the episodes, and for accuracy the horizon, where more would do."""
        needed = {"episodes": (self.episodes, self.episodes_needed or 0)}
        if about == ACCURACY:
            needed["horizon"] = (self.horizon, self.horizon_needed)
        return {name: pair for name, pair in needed.items() if pair[0] < pair[1]}


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
    threshold: str = RANDOMISED,
    estimate: str = RSTAT,
    episodes: int | None = None,
    rounds: int | None = None,
    known: float | None = None,
    window: float | None = None,
    tolerance: float | None = None,
    allowed_pairs: int | None = None,
) -> RMaxNumbers:
    """Return parameters that can be run; ``rho=None`` is the baseline R-max.

    m is given (``episodes``), or the one with which everything that can be proved is proved, at most 2**63 - 1. k, w
    and beta are then those with the fewest transitions T*m*H in all, and T is enough for a run to end. Where m is too
    small to prove anything, bins are as fine as replicability allows with k = w = epsilon/8, but not coarser than 0.01;
    k then grows until k*m visits are enough for them, up to 10 epsilon, or else enough for accuracy.

    T, k, w (or k) and tau, from which beta follows, replace all that where they are given; the bounds say what
    is still proved. ``allowed_pairs`` is N where some actions are not allowed. All else is as in `ReplicableRMax`.

    >>> numbers = rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, support=3)
    >>> numbers.rounds, f"{numbers.episodes:.3g}", numbers.replicability_proved, numbers.accuracy_proved
    (64, '1.39e+13', True, True)
    """
    given = check_parameters("theory.rmax", **locals())
    names = "episodes", "rounds", "known", "window", "tolerance", "threshold", "estimate"
    overrides = {name: given.pop(name) for name in names}
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if rho is None:
        overrides |= {"threshold": FIXED, "estimate": PLAIN}
    given["support"] = given["support"] or given["n_states"]
    pairs = given.pop("allowed_pairs") or given["n_states"] * given["n_actions"]
    task = RMaxNumbers(**given, pairs=pairs)

    best, m = _search(task), overrides.get("episodes", MAX_CALLS)
    if best is not None and best.episodes <= m:
        choice = best if episodes is None else replace(best, episodes=m)
        choice = replace(choice, width=_widest(choice))
    else:
        choice = _practical(replace(task, episodes=m))
    if known is not None and rho is not None:
        overrides = {"window": overrides["known"], **overrides}
    if tolerance is not None:
        overrides["width"] = _width_of(task, overrides.pop("tolerance"))
    choice = replace(choice, **overrides)
    needed = best.episodes if best is not None and task.horizon_needed == task.horizon else None
    return replace(choice, rounds=overrides.get("rounds", choice.rounds_needed), episodes_needed=needed)


@lru_cache(maxsize=256)
def _search(task: RMaxNumbers) -> RMaxNumbers | None:
    """Return T, m, k and w that prove everything with the fewest transitions T*m*H; None where m would pass 2**200.

    k + w = epsilon (j+1)/(4N) allows j idle rounds; first j is varied, then the window's share, then j again.
    """
    tried: dict[tuple[int, float], RMaxNumbers | None] = {}

    def fewest(j: int, share: float) -> RMaxNumbers | None:
        edge = task.epsilon * (j + 1.0) / (4.0 * task.pairs)
        choice = replace(task, known=edge * (1.0 - share), window=edge * share)
        choice = replace(choice, rounds=choice.rounds_needed)
        m = _fewest_that(lambda m: _proves_all(replace(choice, episodes=m)), first=8, last=200, bits=24)
        return None if m is None else replace(choice, episodes=m)  # every bound falls with m

    def cost(j: int, share: float) -> float:
        if (j, share) not in tried:
            tried[j, share] = fewest(j, share)
        choice = tried[j, share]
        return math.inf if choice is None else float(choice.rounds) * choice.episodes

    idle = sorted({0, *(math.ceil(task.pairs * growth) - 1 for growth in _GROWTH)})
    shares = (0.0,) if task.rho is None else _SHARES  # a fixed threshold has no window
    share = shares[0]
    for _ in range(2):
        j = min(idle, key=lambda j: cost(j, share))
        share = min(shares, key=lambda share: cost(j, share))

    def rank(choice: RMaxNumbers) -> tuple[bool, float, int]:
        return choice.episodes > MAX_CALLS, float(choice.rounds) * choice.episodes, choice.episodes

    return min(filter(None, tried.values()), key=rank, default=None)


def _fewest_that(enough: Callable[[int], bool], *, first: int, last: int, bits: int) -> int | None:
    """Return the fewest that are enough, or hardly more, from 2**first by doubling; None if even 2**last are not."""
    low, high = 0, first
    while not enough(2**high):
        if high == last:
            return None
        low, high = high, min(2 * high, last)
    below, above = int(2**low) if low else 0, int(2**high)
    while above - below > max(1, below >> bits):
        middle = (below + above) // 2
        below, above = (below, middle) if enough(middle) else (middle, above)
    return above


def _proves_all(choice: RMaxNumbers) -> bool:
    """Whether every promise is proved with the widest bins, but for gamma^H where no m is enough."""
    choice = replace(choice, width=_widest(choice))
    accurate = choice.error_proved - choice.tail + _tail(choice) <= choice.epsilon * SLACK
    return accurate and (choice.rho is None or choice.replicability_proved)


def _tail(choice: RMaxNumbers) -> float:
    """gamma^H, or 0 where no m makes the loss epsilon with it."""
    return choice.tail if choice.horizon_needed == choice.horizon else 0.0


def _widest(choice: RMaxNumbers) -> float:
    """Return beta as wide as the loss allows; 0 if it allows none."""
    if choice.rho is None:
        return 0.0
    radius, learned, worth = choice.sampling_error, int(not choice.known_rewards), choice.gamma / (1.0 - choice.gamma)
    spare = choice.epsilon - choice.unknown_rate - choice.planning - _tail(choice)
    spare = spare / 2.0 - worth * (radius if choice.support > 1 else 0.0) - learned * radius
    if spare <= 0.0:
        return 0.0
    # worth (E-1) e/(1-E e) + [rewards] e/pieces <= spare, solved for e with (1-E e) at its smallest
    pieces, E = pieces_of(choice.form), choice.entries
    rounding = min(_WIDEST, spare / (worth * (E - 1) + learned / pieces + E * spare))
    return float(few_bits(2.0 * rounding / pieces / ROUNDING))


def _width_of(task: RMaxNumbers, tolerance: float) -> float:
    """Return beta: the share that rounding has of a tolerance."""
    return float(few_bits(2.0 * ((1.0 - _sampling_share(task)) * tolerance) / pieces_of(task.form) / ROUNDING))


def _sampling_share(task: RMaxNumbers) -> float:
    """Return the share of a tolerance that sampling has; the rest is for rounding."""
    if task.rho is None:
        return 1.0
    distance = task.query_distance(1.0)  # times the root of n, or more
    if distance == 0.0:
        return 0.5
    # with this ratio the same n is enough for half of rho and for accuracy
    ratio = task.rho * math.sqrt(2.0 * task.events_log) / (2.0 * pieces_of(task.form) * distance)
    return min(0.5, ratio / (1.0 + ratio))


def _practical(task: RMaxNumbers) -> RMaxNumbers:
    """Return a sensible choice where m is too small to prove anything."""
    m, quickest, share = task.episodes, task.epsilon / 8.0, _sampling_share(task)
    accurate = task.events_log / 2.0  # visits, times the square of the tolerance
    wrong = max(task.entries, 2 - task.known_rewards)
    finest = task.epsilon * (1.0 - task.gamma) / (4.0 * wrong)  # as the loss would need it
    reached = math.sqrt(accurate / max(1, math.floor(quickest * m))) / share
    tolerance = min(_COARSEST, max(finest, reached))
    visits = max(1, math.ceil(accurate / (share * tolerance) ** 2 / SLACK))
    if visits > min(_SLOWEST * task.epsilon, task.horizon) * m:  # out of reach: accuracy alone will have to do
        visits = max(1, math.ceil(accurate / tolerance**2))
    k = max(quickest, min(float(task.horizon), visits / m * SLACK))
    return replace(task, known=k, window=0.0 if task.rho is None else k, width=_width_of(task, tolerance))


def paper_rmax(
    n_states: int, n_actions: int, gamma: float, epsilon: float, delta: float, rho: float, horizon: int
) -> dict[str, Any]:
    """Return T, m, k, w and tau of Theorem 4.2 (``thm:repmax-replicable``), for `ReplicableRMax`.

    The paper gives orders of growth. Every constant is 1 here, so that nothing is proved of them. Its delta < rho/4 is
    required; its condition on gamma has constants of its own and is not checked. Bins are as wide as our form of rSTAT
    makes them at this tau.

    >>> paper = paper_rmax(8, 4, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2, horizon=30)
    >>> paper["rounds"], f"{paper['episodes']:.2g}"
    (631298, '6.5e+27')
    """
    promise = {"gamma": gamma, "epsilon": epsilon, "delta": delta, "rho": rho, "horizon": horizon}
    check_parameters("theory.paper_rmax", n_states=n_states, n_actions=n_actions, **promise)
    H, N, log = horizon, n_states * n_actions, math.log(1.0 / delta)
    if delta >= rho / 4.0:
        raise InvalidInput(f"theory.paper_rmax: delta < rho/4 is needed, got delta={delta:g}, rho={rho:g}.")
    T = H * N / epsilon + H * H * log / epsilon**2
    rounds = math.ceil(T)
    episodes = math.ceil(N**2 * float(rounds) ** 4 * math.log(1.0 / rho) / rho**2)
    tolerance = epsilon * (1.0 - gamma) ** 2 / n_states
    return {"rounds": rounds, "episodes": episodes, "known": float(H), "window": float(H), "tolerance": tolerance}
