r"""What parameters of R-max guarantee, bound by bound. The proofs, step by step, are in ``docs/proofs-rmax.md``.

N = S*A pairs, at most K successors each, M = k + w, b = H/m, n0 = k*m the fewest visits of a known pair, values in
[0, 1]. At most D decisions about the known set are made, in at most T rounds.

A shared random number separates two numbers with probability (their distance)/(its range), and it is independent of
both samples: the mean distance counts, and no delta.

- queries:    N (c sqrt(K-1) + [rewards learned] c/2) / (beta sqrt(n0)), c = 2, or 1.63 and 37 (K + [rewards])/n0 more
- known set:  sqrt(D N T) sqrt(2 b (1+eta) M)/w + 2 N T exp(-eta^2 M/(2 b (1+eta))), for any eta > 0
- stopping:   4 T sqrt(b/epsilon)
- rows:       total variation at most r + (E-1) e/(1 - E e), where r is Hoeffding's radius for all sets of successors at
  n0, e the rounding of an answer, and E the entries that rounding can make wrong

The loss is at most 2 (gamma/(1-gamma) (total variation of a row) + (error of a learned reward)) + u + gamma^H. Here u
is the largest rate of unknown visits that may be seen below epsilon/2: u - sqrt(2 b L u) <= epsilon/2, with
L = ln(2 T/delta).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from replicable_rl.theory.plan import SLACK
from replicable_rl.theory.rstat import Form, pieces_of

PLANNING = 1e-10  # normalised error of the planner's values that the bound on the loss allows for


class Task(NamedTuple):
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
    def queries(self) -> int:
        """Queries that can come out different: the successors of every pair, and its reward if learned."""
        return self.pairs * (self.support + self.rewards)

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
    """What holds with probability 1 - delta, and the three ways in which two runs part."""

    entry_error: float
    loss: float
    rho_queries: float
    rho_known: float
    rho_stop: float

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
        return Bounds(radius, loss, 0.0, 0.0, 0.0)
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
