r"""R-max and RepRMAX: parameters, and what they guarantee part by part.

The paper (``lem:repmax-convergence``, ``thm:repmax-replicable``) gives orders of growth without
constants. :func:`rmax` evaluates them with every constant 1 and calls the result *asymptotic*; with
``refined=True`` it uses T = HN/epsilon (the m episodes of a round are i.i.d.) and T^3 instead of T^4 in m
(the drift of the counts is a martingale), and calls it *refined*. Neither can usually be run.

:func:`rmax_practical` chooses parameters that can, and every plan comes with explicit bounds. With
N = S*A pairs, n0 = k*m the fewest visits of a known pair, L = ln(2/delta_c) and values in [0, 1]:

- *queries.* The means of more and more i.i.d. samples are a reverse martingale, so Hoeffding's bound at
  n0 holds for all n >= n0 at once, however the exploration chose n. Each answer is within tau of the
  truth; two runs differ in one with probability 2 tau'/beta.
- *known set.* A pair is at risk while its count is at most k + w. By Freedman's inequality its count is
  then within t = sqrt(4 H (k+w) L/m) + 2HL/(3m) of its mean, so the random threshold separates two
  runs with probability 2t/w, for every unknown pair in every round.
- *stopping.* The same for the unknown-visit rate, at risk below epsilon/2, and the window epsilon/4;
  theta is drawn once, but the rounds of a run that never stops do not depend on it, so the T rounds add up.
- *progress.* A round that does not stop adds at least epsilon/4 to the counts of unknown pairs. If it learns
  none, they all stay below k + w, so fewer than 4N(k + w)/epsilon rounds neither stop nor learn; at most N
  learn. With k + w <= epsilon/(4N) every round learns a pair, and N + 1 rounds are enough.
- *accuracy.* A row with at most K successors is within K tau of the truth in l1 (S tau in the midpoint
  form, which answers more than 0 for successors that do not exist), 2K tau after it is divided by its sum.
  The optimistic model then loses at most 2 gamma K tau/(1-gamma) + (epsilon/2 + t_u) + gamma^H from the
  initial distribution, and 2 tau more if rewards are learned. Here epsilon/2 + t_u is the largest u with
  u - sqrt(a u) <= epsilon/2, a = 2HL/m: a policy with a larger rate is not seen below epsilon/2 (for terms that
  are never negative, the lower tail is Gaussian in their second moment, here at most H u). R_max must be the
  top of the reward range, and every episode must be H steps long.

The bounds on samples fail with probability delta/2 in the queries, delta/2 in the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from replicable_rl.errors import check_integer, check_real, check_share
from replicable_rl.theory.rstat import (
    SLACK,
    Form,
    check_delta_rho,
    hoeffding_radius,
    hoeffding_samples,
    pieces_of,
    split_tolerance,
)

__all__ = [
    "MAX_EPISODES",
    "RMaxPlan",
    "check_sizes",
    "decisions",
    "log_term",
    "rmax",
    "rounds_needed",
    "wrong_entries",
]

MAX_EPISODES = 2**63 - 1
_PLANNING = 1e-10  # normalised error of the planner's values


@dataclass(frozen=True)
class RMaxPlan:
    """Parameters of a run of R-max, and explicit bounds on what it guarantees.

    Attributes
    ----------
    kind : {"asymptotic", "refined", "practical"}
        Where the parameters come from.
    rounds, episodes, known, window : T, m, k, w
        ``episodes_needed`` is the m with which every promise would be proved, or the theorem's own.
    support : int
        Most successors a pair is promised to have; S when nothing is promised.
    tolerance, width, rho_sq, delta_sq : float
        Of one query; ``rho_k`` is the share of one decision about the known set.
    visits_needed : int
        Samples that a query needs for ``rho_sq`` and ``tolerance``; a known pair has at least
        ``visits`` = k*m.
    entry_error, loss : float
        Bounds with probability 1 - delta on an entry of the model, and on the loss of the policy of a
        run that does not spend its budget of rounds.
    rho_queries, rho_known, rho_stop : float or None
        Bounds on the probability that two runs part ways in each of the three ways; None for R-max.
    """

    kind: Literal["asymptotic", "refined", "practical"]
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
    rounds: int
    episodes: int
    episodes_needed: int
    known: float
    window: float
    tolerance: float
    width: float
    delta_sq: float
    rho_sq: float | None
    visits_needed: int
    rho_k: float | None = field(init=False)
    entry_error: float = field(init=False)
    loss: float = field(init=False)
    rho_queries: float | None = field(init=False)
    rho_known: float | None = field(init=False)
    rho_stop: float | None = field(init=False)

    def __post_init__(self) -> None:
        H, T, m = self.horizon, self.rounds, self.episodes
        L = log_term(self.pairs, T, self.delta)
        t_known = _deviation(2.0 * H * (self.known + self.window), H, L, m)
        t_stop = _deviation(H * self.epsilon, H, L, m)
        radius = hoeffding_radius(max(1, self.visits), self.delta / 2.0 / self.queries)
        entry = radius + pieces_of(self.form) * self.width / 2.0
        entries = self.support if self.rho is None else wrong_entries(self.form, self.n_states, self.support)
        row = self.gamma / (1.0 - self.gamma) * entries * entry + (0.0 if self.known_rewards else entry)
        unknown = _largest_mean(self.epsilon / 2.0, H, L, m) + self.gamma**H
        bounds: dict[str, float | None] = {
            "entry_error": entry,
            "loss": 2.0 * (row + _PLANNING / (1.0 - self.gamma)) + unknown,
            "rho_k": None,
            "rho_queries": None,
            "rho_known": None,
            "rho_stop": None,
        }
        if self.rho is not None:
            bounds["rho_k"] = self.rho / (T * self.pairs)
            bounds["rho_queries"] = self.queries * 2.0 * radius / self.width
            bounds["rho_known"] = self.decisions * 2.0 * t_known / self.window
            bounds["rho_stop"] = T * 2.0 * t_stop / (self.epsilon / 4.0)
        for name, value in bounds.items():
            object.__setattr__(self, name, value)

    @property
    def pairs(self) -> int:
        """N = S*A."""
        return self.n_states * self.n_actions

    @property
    def rounds_needed(self) -> int:
        """Rounds after which a run has certainly stopped or knows every pair."""
        return rounds_needed(self.epsilon, self.pairs, self.known, self.window)

    @property
    def decisions(self) -> int:
        """Decisions about the known set: one for every unknown pair in every round."""
        return decisions(self.epsilon, self.pairs, self.known, self.window, self.rounds)

    @property
    def queries(self) -> int:
        """Queries that can come out different: the successors of every pair, and its reward if learned."""
        return self.pairs * (self.support if self.known_rewards else self.support + 1)

    @property
    def visits(self) -> int:
        """The fewest visits of a known pair, k*m."""
        return math.floor(self.known * self.episodes)

    @property
    def samples(self) -> int:
        """Transitions that a run draws if it uses all its rounds."""
        return self.episodes * self.horizon * self.rounds

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs learn different models; 1 when nothing is proved."""
        if self.rho_queries is None or self.rho_known is None or self.rho_stop is None:
            return None
        return min(1.0, self.rho_queries + self.rho_known + self.rho_stop + 2.0 * self.delta)

    @property
    def loss_proved(self) -> bool:
        """Whether the policy of a run that ends before its budget does is within epsilon of optimal."""
        return self.loss <= self.epsilon * SLACK

    @property
    def accuracy_proved(self) -> bool:
        """Whether the policy is within epsilon of optimal from the initial distribution, whatever happens."""
        return self.loss_proved and self.rounds >= self.rounds_needed

    @property
    def replicability_proved(self) -> bool:
        """Whether two runs differ with probability at most rho."""
        return self.rho is not None and self.rho_proved is not None and self.rho_proved <= self.rho * SLACK


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
    owner: str = "theory.rmax",
) -> RMaxPlan:
    """Return the paper's parameters with every constant 1: asymptotic, and not meant to be run.

    Parameters
    ----------
    n_states, n_actions : int
        S and A.
    gamma : float
        Discount in [0, 1).
    epsilon, delta, rho : float
        Accuracy, the probability that it fails, and the probability that two runs differ.
    horizon : int
        H, the steps of an episode.
    refined : bool
        Whether T and m are those of the shorter argument of ``docs/rmax.md``, still with every constant 1.
    known_rewards : bool
        Whether the reward is a known function of (s, a).
    owner : str
        Whose name error messages bear.

    Examples
    --------
    >>> plan = rmax(8, 4, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2, horizon=30)
    >>> plan.kind, plan.rounds, f"{plan.episodes:.2g}"
    ('asymptotic', 631298, '6.5e+27')
    >>> f"{rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 30, refined=True).episodes:.2g}"
    '3.6e+16'
    """
    check_sizes(owner, n_states, n_actions, gamma, epsilon, horizon)
    rho, delta = check_delta_rho(owner, rho, delta)
    N, H = n_states * n_actions, horizon
    T = H * N / epsilon
    if not refined:
        T += H * H * math.log(1.0 / delta) / epsilon**2
    rounds = math.ceil(T)
    episodes = math.ceil(N**2 * float(rounds) ** (3 if refined else 4) * math.log(1.0 / rho) / rho**2)
    queries = N * (n_states if known_rewards else n_states + 1)
    tolerance = epsilon * (1.0 - gamma) ** 2 / n_states
    width, sampling = split_tolerance(tolerance, (rho - 2.0 * delta) / queries, pieces_of("zero-preserving"))
    return RMaxPlan(
        kind="refined" if refined else "asymptotic",
        n_states=n_states,
        n_actions=n_actions,
        gamma=gamma,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        horizon=H,
        known_rewards=known_rewards,
        support=n_states,
        form="zero-preserving",
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


def _idle_rounds(epsilon: float, pairs: int, known: float, window: float) -> int:
    """Return the most rounds that neither stop nor learn a pair; none if k + w <= epsilon/(4N)."""
    return max(0, math.ceil(4.0 * pairs * (known + window) / epsilon / SLACK) - 1)


def rounds_needed(epsilon: float, pairs: int, known: float, window: float) -> int:
    """Return the rounds after which a run has certainly stopped or knows every pair."""
    return pairs + 1 + _idle_rounds(epsilon, pairs, known, window)


def decisions(epsilon: float, pairs: int, known: float, window: float, rounds: int) -> int:
    """Return the most decisions about the known set: one for every unknown pair in every round."""
    learning = pairs * (pairs + 1) // 2  # the i-th round that learns finds at most N - i + 1 pairs unknown
    return min(pairs * rounds, learning + pairs * _idle_rounds(epsilon, pairs, known, window))


def wrong_entries(form: Form, n_states: int, support: int) -> int:
    """Return how many entries of a row rounding can make wrong."""
    return n_states if form == "midpoint" else support


def check_sizes(owner: str, n_states: int, n_actions: int, gamma: float, epsilon: float, horizon: int) -> None:
    """Refuse sizes that are no problem's."""
    check_integer(owner, "n_states", n_states, low=1, high=2**40)
    check_integer(owner, "n_actions", n_actions, low=1, high=2**40)
    check_real(owner, "gamma", gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    check_share(owner, "epsilon", epsilon)
    check_integer(owner, "horizon", horizon, low=1, high=2**31 - 1)


def log_term(pairs: int, rounds: int, delta: float) -> float:
    """ln(2/delta_c): a two-sided event for every pair and for stopping, in every round, in half of delta."""
    return math.log(2.0 * (pairs + 1) * rounds * 2.0 / delta)


def _deviation(variance: float, largest: float, log_term: float, episodes: int) -> float:
    """Freedman's inequality for a mean of ``episodes`` terms in [0, largest] with this variance."""
    return math.sqrt(2.0 * variance * log_term / episodes) + 2.0 * largest * log_term / (3.0 * episodes)


def _largest_mean(seen: float, largest: float, log_term: float, episodes: int) -> float:
    """Return the largest u such that ``episodes`` terms in [0, largest] with mean u may average ``seen``."""
    a = 2.0 * largest * log_term / episodes
    return ((math.sqrt(a) + math.sqrt(a + 4.0 * seen)) / 2.0) ** 2
