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
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from replicable_rl.records import Claim, Claims
from replicable_rl.theory.plan import MAX_CALLS, PLAIN, RSTAT, SLACK, Cell, Plan, PlanTable, claim_if, claims_of
from replicable_rl.theory.rstat import Form, hoeffding_radius, pieces_of
from replicable_rl.wording import bound, number, plural

_RANDOMISED, _FIXED = "randomised", "fixed"  # the ids of the thresholds that the proofs know
PLANNING = 1e-10  # normalised error of the planner's values that the bound on the loss allows for


@dataclass(frozen=True, kw_only=True)
class RMaxPlan(Plan):
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
    threshold, estimate : str
        The ids of the two ingredients; without the theorem's, two runs part ways with no bound.
    """

    kind: Literal["asymptotic", "refined", "practical"]
    n_states: int
    n_actions: int
    gamma: float
    horizon: int
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
    threshold: str = _RANDOMISED
    estimate: str = RSTAT
    rho_k: float | None = field(init=False)
    entry_error: float = field(init=False)
    loss: float = field(init=False)
    rho_queries: float | None = field(init=False)
    rho_known: float | None = field(init=False)
    rho_stop: float | None = field(init=False)

    _counts: ClassVar[tuple[str, ...]] = ("rounds", "episodes", "episodes_needed", "visits_needed")

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
            "loss": 2.0 * (row + PLANNING / (1.0 - self.gamma)) + unknown,
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
            if self.threshold != _RANDOMISED:
                bounds["rho_known"] = bounds["rho_stop"] = 1.0
            if self.estimate != RSTAT:
                bounds["rho_queries"] = 1.0
        if self._foreign:
            bounds["entry_error"] = bounds["loss"] = 1.0
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

    def claims(self, broken: Sequence[str] | None = None) -> Claims:
        """Return what may be claimed, about accuracy and about replicability apart.

        Some conditions only a run can settle: before it, they are part of the claim. After it, ``broken`` says which
        of them the run did not meet.
        """
        theorem = "lem:repmax-convergence" if self.rho is None else "thm:repmax-replicable"
        kind: Literal["proved", "asymptotic"] = "proved" if self.kind == "practical" else "asymptotic"
        source = f"{theorem}, with the constants of docs/rmax.md" if kind == "proved" else theorem
        episodes = {"episodes": (self.episodes, self.episodes_needed)}
        few = f"no pair has more than {plural(self.support, 'successor')}"
        support = (few,) if self.support < self.n_states else ()
        conditions = (*self._to_settle, *support) if broken is None else support
        said = f"the policy is within {self.epsilon:g} of optimal from the initial distribution (values in [0, 1])"
        said += f", except with probability {self.delta:g}"
        claim = Claim("accuracy", kind, said, self.epsilon, source, self.delta, "policy", conditions)
        holds = self.loss_proved or kind == "asymptotic"
        proved = claim_if(holds, claim, self.loss, at_least=episodes, of="the proof")
        accuracy = "; ".join(self._foreign) or proved
        if broken:
            accuracy = "; ".join([accuracy, *broken] if isinstance(accuracy, str) else broken)
        if self.rho is None or self.rho_proved is None:
            return self._ending_at_the_table(claims_of(accuracy, None))
        said = f"two runs learn the same model, except with probability {self.rho:g}"
        claim = Claim("replicability", kind, said, self.rho, source, level="model", conditions=support)
        holds = self.replicability_proved or kind == "asymptotic"
        same = claim_if(holds, claim, self.rho_proved, at_least=episodes, of="the proof")
        ablated = self._others(threshold=(_RANDOMISED,), estimate=(RSTAT,))
        return self._ending_at_the_table(claims_of(accuracy, "; ".join(ablated) or same))

    @property
    def _to_settle(self) -> tuple[str, ...]:
        """What the bound on the loss needs, and only a run can tell."""
        ends = () if self.rounds >= self.rounds_needed else ("the run ends before its budget of rounds does",)
        return *ends, f"every episode has {self.horizon} steps", "r_max is the top of the reward range"

    @property
    def _foreign(self) -> list[str]:
        """The ingredients of which nothing is known."""
        if self.rho is None:
            return self._others(threshold=(_FIXED, _RANDOMISED), estimate=(PLAIN,))
        return self._others(threshold=(_RANDOMISED, _FIXED), estimate=(RSTAT, PLAIN))

    def table(self) -> PlanTable:
        """Return this plan beside the paper's own parameters, with every constant 1."""
        from replicable_rl.theory.rmax_parameters import rmax

        variants = [self]
        if self.rho is not None:
            promise = self.n_states, self.n_actions, self.gamma, self.epsilon, self.delta, self.rho, self.horizon
            variants += [rmax(*promise, refined=one, known_rewards=self.known_rewards) for one in (True, False)]
        heading = f"episodes of H={self.horizon} steps (asymptotic, refined: every constant is 1)"
        columns: dict[str, dict[str, Cell]] = {variant.kind: variant._column for variant in variants}
        return self._table(heading, columns, f"m={number(self.episodes)}")

    @property
    def _column(self) -> dict[str, Cell]:
        return {
            "rounds T, at most": self.rounds,
            "episodes m per round": self.episodes,
            "episodes that prove it": self.episodes_needed if self.kind == "practical" else None,
            "known from k": self.known,
            "window w": None if self.rho is None else self.window,
            "rho_K": self.rho_k,
            "rho_SQ": self.rho_sq,
            "tolerance tau of a query": self.tolerance,
            "bin width beta": self.width or None,
            "visits a query needs": self.visits_needed,
            "visits it has, k*m": self.visits,
            "samples in all, T*m*H": self.samples,
            "can be run (m < 2**63)": "yes" if self.episodes <= MAX_CALLS else "no",
            "bound: known set differs": bound(self.rho_known),
            "bound: stopping differs": bound(self.rho_stop),
            "bound: entries differ": bound(self.rho_queries),
            "bound: loss of the policy": bound(self.loss),
        }


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
