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
from typing import Literal

from replicable_rl.errors import InvalidInput, check_integer, check_share
from replicable_rl.theory.rstat import (
    SLACK,
    Form,
    check_delta_rho,
    hoeffding_radius,
    hoeffding_samples,
    pieces_of,
    split_tolerance,
)

__all__ = ["ApproximateMDPPlan", "Norm", "approximate_mdp"]

Norm = Literal["entry", "l1"]


@dataclass(frozen=True)
class ApproximateMDPPlan:
    """Everything a run of (replicable) ApproximateMDP needs, and what it may promise.

    ``rho`` is None for the baseline, whose ``width`` is 0: it does not round.

    Attributes
    ----------
    calls, calls_needed, calls_plain : int
        Successors n per pair that a run draws, that the theorem needs, and that accuracy alone needs.
    entry_error, rho_proved : float
        Bounds that hold at ``calls``: on |P - answer| with probability 1 - delta, and on the
        probability that two runs learn different models (1 when nothing is proved).
    """

    norm: Norm
    form: Form
    epsilon: float
    delta: float
    rho: float | None
    n_states: int
    n_actions: int
    known_rewards: bool
    queries: int
    tolerance: float
    tolerance_needed: float
    delta_sq: float
    rho_sq: float | None
    width: float
    calls: int
    calls_needed: int
    calls_plain: int
    entry_error: float
    rho_proved: float | None

    @property
    def samples(self) -> int:
        """Transitions that a run draws: n for every pair."""
        return self.total(self.calls)

    def total(self, calls: int) -> int:
        """Return the transitions drawn by a run with this many successors per pair."""
        return calls * self.n_states * self.n_actions

    @property
    def accuracy_proved(self) -> bool:
        """Whether the model is as close as ``epsilon`` and ``norm`` say, at these parameters."""
        entries = 1 if self.norm == "entry" else self.n_states
        return self.entry_error * entries <= self.epsilon * SLACK

    @property
    def replicability_proved(self) -> bool:
        """Whether two runs differ with probability at most rho at these parameters."""
        return self.rho is not None and self.rho_proved is not None and self.rho_proved <= self.rho * SLACK


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
    owner: str = "theory.approximate_mdp",
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
    owner : str
        Whose name error messages bear.

    Examples
    --------
    >>> plan = approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)
    >>> plan.queries, plan.calls, plan.calls_plain
    (256, 439857142095, 65731)
    """
    n_states = check_integer(owner, "n_states", n_states, low=1, high=2**40)
    n_actions = check_integer(owner, "n_actions", n_actions, low=1, high=2**40)
    epsilon = check_share(owner, "epsilon", epsilon)
    if norm not in ("entry", "l1"):
        raise InvalidInput(f"{owner}: norm must be 'entry' or 'l1', got {norm!r}.")
    pieces = pieces_of(form, owner)
    if rho is None:
        delta = check_share(owner, "delta", delta)
    else:
        rho, delta = check_delta_rho(owner, rho, delta)
    tau_needed = epsilon if norm == "entry" else epsilon / n_states
    tau = tau_needed if tolerance is None else check_share(owner, "tolerance", tolerance)
    queries = n_states * n_actions * (n_states if known_rewards else n_states + 1)
    delta_sq, rho_sq, width, sampling = delta / queries, None, 0.0, tau
    if rho is not None:
        rho_sq = rho / queries
        width, sampling = split_tolerance(tau, rho_sq - 2.0 * delta_sq, pieces)
    needed = hoeffding_samples(sampling, delta_sq)
    n = needed if calls is None else check_integer(owner, "calls", calls, low=1, high=2**200)
    radius = hoeffding_radius(n, delta_sq)
    return ApproximateMDPPlan(
        norm=norm,
        form=form,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        n_states=n_states,
        n_actions=n_actions,
        known_rewards=known_rewards,
        queries=queries,
        tolerance=tau,
        tolerance_needed=tau_needed,
        delta_sq=delta_sq,
        rho_sq=rho_sq,
        width=width,
        calls=n,
        calls_needed=needed,
        calls_plain=hoeffding_samples(tau, delta_sq),
        entry_error=radius + pieces * width / 2.0,
        rho_proved=None if rho is None else min(1.0, queries * 2.0 * radius / width + 2.0 * delta),
    )
