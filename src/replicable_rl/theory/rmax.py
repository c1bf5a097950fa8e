r"""R-max and RepRMAX: parameters, and what they guarantee part by part.

The paper (Lemma 4.2, ``lem:repmax-convergence``, and Theorem 4.2, ``thm:repmax-replicable``) gives orders of growth
without constants. :func:`rmax` evaluates them with every constant 1 and calls the result *asymptotic*; with
``refined=True`` it uses T = HN/epsilon (the m episodes of a round are i.i.d.) and T^3 instead of T^4 in m
(the drift of the counts is a martingale), and calls it *refined*. Neither can usually be run.

:func:`rmax_practical` chooses parameters that can. Every plan comes with explicit bounds of one of two forms:
*sharp*, from the mean distance of two runs, and *tight*, from the largest deviation of one. Both are in
`theory.rmax_bounds`, and proved in ``docs/proofs-rmax.md``:

- *queries*, *known set*, *stopping*: the three ways in which two runs can part;
- *progress*. A round that does not stop adds at least epsilon/4 to the counts of unknown pairs. If it learns
  none, they all stay below k + w, so fewer than 4N(k + w)/epsilon rounds neither stop nor learn; at most N learn;
- *accuracy*: the loss of the policy from the initial distribution, for a run that does not spend its budget of rounds.
  R_max must be the top of the reward range, and every episode must be H steps long.

The bounds on samples fail with probability delta/2 in the queries, delta/2 in the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

from replicable_rl.errors import InvalidInput
from replicable_rl.records import Claim, Claims
from replicable_rl.theory.plan import MAX_CALLS, PLAIN, RSTAT, SLACK, Cell, Plan, PlanTable, claim_if, claims_of
from replicable_rl.theory.rmax_bounds import PLANNING as PLANNING
from replicable_rl.theory.rmax_bounds import Choice, Kind, Task, bounds_of, decisions, rounds_needed
from replicable_rl.theory.rstat import Form
from replicable_rl.wording import bound, number, plural

_RANDOMISED, _FIXED = "randomised", "fixed"  # the ids of the thresholds that the proofs know
_IN_THE_WAY = {
    "epsilon": "epsilon={used:g} is finer than planning in 64 bits can promise, {needed:g} would do",
    "horizon": "horizon={used} is too short for any number of episodes, {needed} would do",
    "tolerance": "tolerance={used:g} is too coarse for any number of episodes, {needed:g} would do",
    "rounds": "rounds={used} are too few for any number of episodes, {needed} would do",
    "episodes": "no number of episodes below {needed:.2g} is enough",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class RMaxPlan(Plan):
    """Parameters of a run of R-max, and explicit bounds on what it guarantees.

    Attributes
    ----------
    kind : {"sharp", "tight", "refined", "asymptotic"}
        Where the parameters come from: one of our two proofs, or the paper with every constant 1.
    rounds, episodes, known, window : T, m, k, w
        Of a run.
    episodes_needed : int or None
        An m with which, all else given alike, every promise is proved; the theorem's own; or None where no m does.
    obstacles : tuple of (parameter, value)
        Then it says which parameters are in the way, and a value of each that would do.
    allowed_pairs : int or None
        How many pairs there are where some actions are not allowed in every state; None: S*A.
    support : int
        Most successors a pair is promised to have; S when nothing is promised.
    tolerance, width : float
        Of one query.
    rho_sq, delta_sq, visits_needed : optional
        The paper's shares of one query, and the samples that it needs for them; a known pair has at least
        ``visits`` = k*m. ``rho_k`` is the paper's share of one decision about the known set. Our own proofs share
        nothing out beforehand.
    entry_error, loss : float
        Bounds with probability 1 - delta on an entry of the model, and on the loss of the policy of a
        run that does not spend its budget of rounds.
    rho_queries, rho_known, rho_stop : float or None
        Bounds on the probability that two runs part ways in each of the three ways; None for R-max.
    threshold, estimate : str
        The ids of the two ingredients; without the theorem's, two runs part ways with no bound.
    """

    kind: Kind
    n_states: int
    n_actions: int
    gamma: float
    horizon: int
    support: int
    form: Form
    rounds: int
    episodes: int
    episodes_needed: int | None
    known: float
    window: float
    tolerance: float
    width: float
    obstacles: tuple[tuple[str, float], ...] = ()
    allowed_pairs: int | None = None
    delta_sq: float | None = None
    rho_sq: float | None = None
    visits_needed: int | None = None
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
        reached = bounds_of(self.kind, self._task, self._choice)
        parting = {name: min(1.0, value) for name, value in reached._asdict().items() if name.startswith("rho")}
        bounds: dict[str, float | None] = {**reached._asdict(), **parting, "rho_k": None}
        if self.rho is None:
            bounds["rho_queries"] = bounds["rho_known"] = bounds["rho_stop"] = None
        else:
            if not self._is_practical:
                bounds["rho_k"] = self.rho / (self.rounds * self.pairs)
            if self.threshold != _RANDOMISED:
                bounds["rho_known"] = bounds["rho_stop"] = 1.0
            if self.estimate != RSTAT:
                bounds["rho_queries"] = 1.0
        if self._foreign:
            bounds["entry_error"] = bounds["loss"] = 1.0
        for name, value in bounds.items():
            object.__setattr__(self, name, value)

    @property
    def _task(self) -> Task:
        return Task(*(getattr(self, name) for name in Task._fields))

    @property
    def _choice(self) -> Choice:
        return Choice(*(getattr(self, name) for name in Choice._fields))

    @property
    def _is_practical(self) -> bool:
        return self.kind in ("sharp", "tight")

    @property
    def pairs(self) -> int:
        """N = S*A, or as many as are allowed."""
        return self._task.pairs

    @property
    def rounds_needed(self) -> int:
        """Rounds after which a run has certainly stopped or knows every pair."""
        return rounds_needed(self._task, self._choice.edge)

    @property
    def decisions(self) -> int:
        """Decisions about the known set: one for every unknown pair in every round."""
        return decisions(self._task, self._choice)

    @property
    def queries(self) -> int:
        """Queries that can come out different: the successors of every pair, and its reward if learned."""
        return self._task.queries

    @property
    def visits(self) -> int:
        """The fewest visits of a known pair, k*m."""
        return self._choice.visits

    @property
    def samples(self) -> int:
        """Transitions that a run draws if it uses all its rounds."""
        return self.episodes * self.horizon * self.rounds

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs learn different models; 1 when nothing is proved."""
        if self.rho_queries is None or self.rho_known is None or self.rho_stop is None:
            return None
        parting = self.rho_queries + self.rho_known + self.rho_stop
        return min(1.0, parting if self.kind == "sharp" else parting + 2.0 * self.delta)

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
        kind: Literal["proved", "asymptotic"] = "proved" if self._is_practical else "asymptotic"
        source = f"{theorem}, with the constants of docs/proofs-rmax.md" if kind == "proved" else theorem
        few = f"no pair has more than {plural(self.support, 'successor')}"
        support = (few,) if self.support < self.n_states else ()
        conditions = (*self._to_settle, *support) if broken is None else support
        said = f"the policy is within {self.epsilon:g} of optimal from the initial distribution (values in [0, 1])"
        said += f", except with probability {self.delta:g}"
        claim = Claim("accuracy", kind, said, self.epsilon, source, self.delta, "policy", conditions)
        holds = self.loss_proved or kind == "asymptotic"
        accuracy = "; ".join(self._foreign) or self._claim_if(holds, claim, self.loss)
        if broken:
            accuracy = "; ".join([accuracy, *broken] if isinstance(accuracy, str) else broken)
        if self.rho is None or self.rho_proved is None:
            return self._ending_at_the_table(claims_of(accuracy, None))
        said = f"two runs learn the same model, except with probability {self.rho:g}"
        claim = Claim("replicability", kind, said, self.rho, source, level="model", conditions=support)
        holds = self.replicability_proved or kind == "asymptotic"
        same = self._claim_if(holds, claim, self.rho_proved)
        ablated = self._outside_the_proof(threshold=(_RANDOMISED,), estimate=(RSTAT,))
        return self._ending_at_the_table(claims_of(accuracy, "; ".join(ablated) or same))

    def _claim_if(self, holds: bool, claim: Claim, reached: float) -> Claim | str:
        """Return a claim that holds, or what is in its way, or how many episodes it needs."""
        needed = self.episodes if self.episodes_needed is None else self.episodes_needed
        made = claim_if(holds, claim, reached, at_least={"episodes": (self.episodes, needed)}, of="the proof")
        barred = self._in_the_way if claim.about == "accuracy" else []
        return made if isinstance(made, Claim) else "; ".join([*barred, made])

    @property
    def _in_the_way(self) -> list[str]:
        return [_IN_THE_WAY[name].format(used=getattr(self, name), needed=value) for name, value in self.obstacles]

    @property
    def _to_settle(self) -> tuple[str, ...]:
        """What the bound on the loss needs, and only a run can tell."""
        ends = () if self.rounds >= self.rounds_needed else ("the run ends before its budget of rounds does",)
        return *ends, f"every episode has {self.horizon} steps", "r_max is the top of the reward range"

    @property
    def _foreign(self) -> list[str]:
        """The ingredients of which nothing is known."""
        if self.rho is None:
            return self._outside_the_proof(threshold=(_FIXED, _RANDOMISED), estimate=(PLAIN,))
        return self._outside_the_proof(threshold=(_RANDOMISED, _FIXED), estimate=(RSTAT, PLAIN))

    def table(self) -> PlanTable:
        """Return this plan beside the other form of proof and the paper's own parameters, with every constant 1."""
        columns: dict[str, dict[str, Cell]] = {plan.kind: plan._column for plan in (self, *self._others_beside())}
        heading = f"episodes of H={self.horizon} steps"
        heading += " (asymptotic, refined: every constant is 1)" if "asymptotic" in columns else ""
        return self._table(heading, columns, f"m={number(self.episodes)}")

    def _others_beside(self) -> list[RMaxPlan]:
        """Return the plans of the other kinds with nothing overridden, where they exist."""
        from replicable_rl.theory.rmax_parameters import rmax, rmax_practical

        sizes = self.n_states, self.n_actions, self.gamma, self.epsilon, self.delta
        more: dict[str, Any] = {"support": self.support, "form": self.form, "known_rewards": self.known_rewards}
        more["allowed_pairs"] = self.allowed_pairs
        plans: dict[Kind, Callable[[], RMaxPlan]] = {
            bound: partial(rmax_practical, *sizes, self.rho, self.horizon, bound=bound, **more)
            for bound in ("sharp", "tight")
        }
        if self.rho is not None:
            promise = *sizes, self.rho, self.horizon
            paper = partial(rmax, *promise, known_rewards=self.known_rewards, allowed_pairs=self.allowed_pairs)
            plans |= {"refined": partial(paper, refined=True), "asymptotic": paper}
        others = []
        for kind, plan in plans.items():
            with suppress(InvalidInput):  # 2 delta < rho, without which there is only the sharp form; or a vast m
                others += [plan()] if kind != self.kind else []
        return others

    @property
    def _column(self) -> dict[str, Cell]:
        return {
            "rounds T, at most": self.rounds,
            "episodes m per round": self.episodes,
            "episodes that prove it": (self.episodes_needed or "none") if self._is_practical else None,
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
