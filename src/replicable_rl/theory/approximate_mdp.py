r"""Replicable ApproximateMDP: how many successors make a whole model replicable (``obs:rep-mdp``).

n successors of every pair are drawn once; each of the S indicator queries of a row is answered by
rSTAT, and a learned reward is one query more. With Q queries in all (S^2 A, and S A more for
rewards), rho_SQ = rho/Q, delta_SQ = delta/Q and

    norm "entry":  tau = epsilon      every |P(s'|s,a) - answer| <= epsilon
    norm "l1":     tau = epsilon/S    every |P(.|s,a) - answers|_1 <= epsilon

with probability 1 - delta. A row is then divided by its sum, which at most doubles its l1 error. The
paper's text calls n*S*A "per triple"; see ``docs/errata.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from replicable_rl.errors import InvalidInput, check_integer, check_share
from replicable_rl.records import Claim
from replicable_rl.theory.plan import Pairs, PlanTable
from replicable_rl.theory.query_plan import QueryPlan, query_parameters
from replicable_rl.theory.rstat import Form, check_delta_rho, pieces_of

_OWNER = "theory.approximate_mdp"
Norm = Literal["entry", "l1"]


@dataclass(frozen=True, kw_only=True)
class ApproximateMDPPlan(QueryPlan):
    """Everything a run of (replicable) ApproximateMDP needs, and what it may promise.

    Attributes
    ----------
    calls, calls_needed, calls_plain : int
        Successors n per pair that a run draws, that the theorem needs, and that accuracy alone needs.
    """

    norm: Norm
    form: Form
    n_states: int
    n_actions: int

    _derived: ClassVar[tuple[str, ...]] = ("entry_error",)
    _level: ClassVar[str] = "model"
    _same: ClassVar[str] = "learn the same model"
    _words: ClassVar[tuple[str, str, str]] = ("n", "successors n per pair", "samples in all, N*n")

    @property
    def entry_error(self) -> float:
        """Bound on |P - answer| that holds with probability 1 - delta."""
        return self.sampling_error + pieces_of(self.form) * self.width / 2.0

    def total(self, calls: int) -> int:
        """Return the transitions drawn by a run with this many successors per pair."""
        return calls * self.n_states * self.n_actions

    def _accuracy(self) -> tuple[Claim, float, Pairs]:
        what = "every transition probability" if self.norm == "entry" else "every row, in l1,"
        before = "" if self.rho is None else " before rows are divided by their sums"
        said = f"{what} is within {self.epsilon:g} of the truth{before}, except with probability {self.delta:g}"
        error = self.entry_error * (1 if self.norm == "entry" else self.n_states)
        return Claim("accuracy", "proved", said, self.epsilon, "obs:rep-mdp", self.delta, "model"), error, {}

    def table(self) -> PlanTable:
        """Return the empirical model beside the replicable one."""
        meaning = "entry is within epsilon" if self.norm == "entry" else "row is within epsilon in l1"
        others = {} if self.rho is None else {"replicable": self.calls_needed}
        heading = f"norm {self.norm}: every {meaning} of the truth"
        return self._variants(heading, {"queries": self.queries}, "ApproximateMDP", others)


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
) -> ApproximateMDPPlan:
    """Return the plan of ``obs:rep-mdp``, or of the empirical model when ``rho`` is None.

    Parameters
    ----------
    n_states, n_actions : int
        S and A.
    epsilon, delta : float
        Accuracy of the model, as ``norm`` says, and the probability that it fails.
    rho : float, optional
        Two runs may learn different models with this probability; 2*delta < rho is required. None plans the baseline.
    norm : {"entry", "l1"}
        Whether ``epsilon`` bounds each entry or the l1 error of a row.
    form : {"zero-preserving", "midpoint"}
        How rSTAT answers near 0.
    known_rewards : bool
        Whether the reward is a known function of (s, a), or one more query per pair.
    calls : int, optional
        n, instead of what the theorem says.
    tolerance : float, optional
        tau, instead of what the theorem says.

    Examples
    --------
    >>> plan = approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)
    >>> plan.queries, plan.calls, plan.calls_plain
    (256, 439857142095, 65731)
    """
    n_states = check_integer(_OWNER, "n_states", n_states, low=1, high=2**40)
    n_actions = check_integer(_OWNER, "n_actions", n_actions, low=1, high=2**40)
    epsilon = check_share(_OWNER, "epsilon", epsilon)
    if norm not in ("entry", "l1"):
        raise InvalidInput(f"{_OWNER}: norm must be 'entry' or 'l1', got {norm!r}.")
    rho, delta = check_delta_rho(_OWNER, rho, delta)
    tau = epsilon if norm == "entry" else epsilon / n_states
    queries = n_states * n_actions * (n_states if known_rewards else n_states + 1)
    return ApproximateMDPPlan(
        epsilon=epsilon,
        known_rewards=known_rewards,
        norm=norm,
        form=form,
        n_states=n_states,
        n_actions=n_actions,
        **query_parameters(_OWNER, queries, tau, delta, rho, pieces_of(form), calls=calls, tolerance=tolerance),
    )
