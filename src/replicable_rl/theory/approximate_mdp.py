r"""Replicable ApproximateMDP: how many successors make a whole model replicable (Observation B.1, ``obs:rep-mdp``).

n successors of every pair are drawn once; each of the S indicator queries of a row is answered by
rSTAT, and a learned reward is one query more. With Q queries in all (S^2 A, and S A more for
rewards), rho_SQ = rho/Q, delta_SQ = delta/Q and

    norm "entry":  tau = epsilon      every |P(s'|s,a) - answer| <= epsilon
    norm "l1":     tau = epsilon/S    every |P(.|s,a) - answers|_1 <= epsilon

with probability 1 - delta. A row is then divided by its sum, which at most doubles its l1 error. The
paper's text calls n*S*A "per triple"; see ``docs/errata.md``.

The entries of a row share the samples. The mean distance of two runs in an entry p is at most
2 sqrt(p(1-p)/(pi n)) + sqrt(2/pi)/n, and the square roots of a row add up to at most sqrt(S-1):

    rho <= S A ( 2 sqrt((S-1)/(pi n)) + S sqrt(2/pi)/n  [+ 1/sqrt(pi n), the reward] ) / beta

The proof is in ``docs/proofs.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from replicable_rl.errors import check_flag, check_integer
from replicable_rl.runs import LibraryClaim
from replicable_rl.theory.parameters import check_parameters
from replicable_rl.theory.plan import MAX_CALLS, RSTAT, SHARP_FORM, Cell, Pairs, PlanTable, check_pairs
from replicable_rl.theory.query_plan import QueryPlan, query_parameters
from replicable_rl.theory.rstat import (
    ROUNDING,
    Form,
    few_bits,
    hoeffding_radius,
    mean_distance,
    pieces_of,
)
from replicable_rl.wording import bound as bound_text
from replicable_rl.wording import number

_OWNER = "theory.approximate_mdp"
Norm = Literal["entry", "l1"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ApproximateMDPPlan(QueryPlan):
    """Everything a run of (replicable) ApproximateMDP needs, and what it may promise.

    Attributes
    ----------
    calls, calls_needed, calls_plain : int
        Successors n per pair that a run draws, that the theorem needs, and that accuracy alone needs.
    allowed_pairs : int or None
        How many pairs there are where some actions are not allowed in every state; None: S*A.
    """

    norm: Norm
    form: Form
    n_states: int
    n_actions: int
    allowed_pairs: int | None = None

    _derived: ClassVar[tuple[str, ...]] = ("entry_error",)
    _level: ClassVar[str] = "model"
    _same: ClassVar[str] = "learn the same model"

    @property
    def entry_error(self) -> float:
        """Bound on |P - answer| that holds with probability 1 - delta."""
        return self.sampling_error + pieces_of(self.form) * self.width / 2.0

    @property
    def pairs(self) -> int:
        """N = S*A, or as many as are allowed."""
        return self.n_states * self.n_actions if self.allowed_pairs is None else self.allowed_pairs

    @property
    def samples(self) -> int:
        """Transitions that a run draws."""
        return self.calls * self.pairs

    @property
    def _disagreement(self) -> float:
        rows = row_distance(self.n_states, self.calls, self.known_rewards)
        return self.pairs * rows / self.width

    def _accuracy(self) -> tuple[LibraryClaim, float, Pairs]:
        what = "every transition probability" if self.norm == "entry" else "every row, in l1,"
        before = "" if self.rho is None else " before rows are divided by their sums"
        said = f"{what} is within {self.epsilon:g} of the truth{before}, except with probability {self.delta:g}"
        error = self.entry_error * (1 if self.norm == "entry" else self.n_states)
        source = f"{SHARP_FORM * (self.rho is not None)}obs:rep-mdp"
        return LibraryClaim("accuracy", "proved", said, self.epsilon, source, self.delta, "model"), error, {}

    def table(self) -> PlanTable:
        """Return the empirical model beside the replicable one, and a run that departs from it."""
        meaning = "entry is within epsilon" if self.norm == "entry" else "row is within epsilon in l1"
        heading = f"norm {self.norm}: every {meaning} of the truth"
        columns = {name: plan._column for name, plan in self._forms().items()}
        return self._table(heading, columns, f"n = {number(self.calls)}")

    def _forms(self) -> dict[str, ApproximateMDPPlan]:
        if self.rho is None:
            return {"ApproximateMDP": self}
        sizes = self.n_states, self.n_actions, self.epsilon, self.delta
        kind: dict[str, Any] = {"norm": self.norm, "form": self.form, "known_rewards": self.known_rewards}
        kind["allowed_pairs"] = self.allowed_pairs
        forms = {
            "ApproximateMDP": approximate_mdp(*sizes, **kind),
            "replicable": approximate_mdp(*sizes, self.rho, **kind),
        }
        own = {"this run": self} if all(self.calls != form.calls for form in forms.values()) else {}
        return own | forms

    @property
    def _column(self) -> dict[str, Cell]:
        return {
            "queries": self.queries,
            "tolerance tau of a query": self.tolerance,
            "rho_SQ": self.rho_sq,
            "delta_SQ": self.delta_sq,
            "bin width beta": None if self.rho is None else self.width,
            "successors n per pair": self.calls,
            "samples in all, N*n": self.samples,
            "bound: models differ": bound_text(self.rho_proved),
            "can be run (n < 2**63)": "yes" if self.calls <= MAX_CALLS else "no",
        }


def row_distance(n_states: int, calls: int, known_rewards: bool) -> float:
    """Bound the mean distances of two runs in a row, summed over its entries and its reward."""
    entries = 2.0 * math.sqrt(n_states - 1.0) * mean_distance(calls) + n_states * math.sqrt(2.0 / math.pi) / calls
    return (entries if n_states > 1 else 0.0) + (0.0 if known_rewards else mean_distance(calls))


def approximate_mdp(
    n_states: int,
    n_actions: int,
    epsilon: float,
    delta: float,
    rho: float | None = None,
    *,
    norm: Norm = "entry",
    form: Form = "zero-preserving",
    known_rewards: bool = True,
    calls: int | None = None,
    tolerance: float | None = None,
    allowed_pairs: int | None = None,
) -> ApproximateMDPPlan:
    """Return the plan of Observation B.1 (``obs:rep-mdp``), or of the empirical model when ``rho`` is None.

    ``known_rewards`` says whether the reward is a known function of (s, a), or one more query per pair, and
    ``allowed_pairs`` is N where some actions are not allowed in every state. All else is as in
    `ReplicableApproximateMDP`.

    Examples
    --------
    >>> plan = approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)
    >>> plan.queries, plan.calls, plan.calls_plain
    (256, 2306412354, 65731)
    """
    n_states = check_integer(_OWNER, "n_states", n_states, low=1, high=2**40)
    n_actions = check_integer(_OWNER, "n_actions", n_actions, low=1, high=2**40)
    known_rewards = check_flag(_OWNER, "known_rewards", known_rewards)
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "norm": norm, "form": form}
    given |= {"calls": calls, "tolerance": tolerance}
    epsilon, delta, rho, norm, form, calls, tolerance = check_approximate_mdp(**given).values()
    tau = epsilon if norm == "entry" else epsilon / n_states
    allowed_pairs = check_pairs(_OWNER, allowed_pairs, n_states, n_actions)
    pairs = n_states * n_actions if allowed_pairs is None else allowed_pairs
    queries = pairs * (n_states if known_rewards else n_states + 1)
    plain = query_parameters(_OWNER, queries, tau, delta, None, calls=calls, tolerance=tolerance)
    sizes, pieces = _Sizes(n_states, pairs, queries, known_rewards), pieces_of(form)
    replicable = {} if rho is None else _replicable(sizes, plain, rho, pieces, calls)
    return ApproximateMDPPlan(
        epsilon=epsilon,
        known_rewards=known_rewards,
        norm=norm,
        form=form,
        n_states=n_states,
        n_actions=n_actions,
        allowed_pairs=allowed_pairs,
        **(plain | replicable),
    )


def check_approximate_mdp(**given: Any) -> dict[str, Any]:
    """Return the parameters of `approximate_mdp` that no problem has a say in, as they count."""
    return check_parameters(_OWNER, **given)


class _Sizes(NamedTuple):
    n_states: int
    pairs: int
    queries: int
    known_rewards: bool


def _replicable(sizes: _Sizes, plain: dict[str, Any], rho: float, pieces: int, calls: int | None) -> dict[str, Any]:
    """Return the smallest n whose mean distance and deviation leave room for both promises, and its width."""
    tau, delta_sq = float(plain["tolerance"]), float(plain["delta_sq"])

    def width_for(n: int) -> float:
        """The narrowest bins that n successors replicate on."""
        return sizes.pairs * row_distance(sizes.n_states, n, sizes.known_rewards) / rho

    def room(n: int) -> float:
        """The widest bins that are accurate with n successors."""
        return 2.0 * (tau - hoeffding_radius(n, delta_sq)) / (pieces * ROUNDING)

    def is_enough(n: int) -> bool:
        return width_for(n) <= room(n)

    high = 2 * plain["calls_plain"]
    while not is_enough(high):
        high *= 2
    low = high // 2
    while high - low > max(1, low >> 40):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return {
        "rho": rho,
        "rho_sq": rho / sizes.queries,
        "width": float(few_bits(room(high))),
        "calls": high if calls is None else plain["calls"],
        "calls_needed": high,
        "estimate": RSTAT,
    }
