r"""Replicable ApproximateMDP: how many successors make a whole model replicable (Observation B.1, ``obs:rep-mdp``).

n successors of every pair are drawn once; each of the S indicator queries of a row is answered by rSTAT, and a learned
reward is one query more. With Q queries in all (S^2 A, and S A more for rewards), delta_SQ = delta/Q and

    norm "entry":  tau = epsilon      every |P(s'|s,a) - answer| <= epsilon
    norm "l1":     tau = epsilon/S    every |P(.|s,a) - answers|_1 <= epsilon

with probability 1 - delta. A row is then divided by its sum, which at most doubles its l1 error.

The entries of a row share the samples. The mean distance of two runs in an entry p is at most
2 sqrt(p(1-p)/(pi n)) + sqrt(2/pi)/n, and the square roots of a row add up to at most sqrt(S-1):

    rho <= S A ( 2 sqrt((S-1)/(pi n)) + S sqrt(2/pi)/n  [+ 1/sqrt(pi n), the reward] ) / beta

The proof is in ``docs/proofs.md``. The paper's m counts the samples of all pairs, |S|^5 |A|^3: here n = m/(S A).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from replicable_rl.errors import InvalidInput, check_share
from replicable_rl.theory.numbers import check_parameters
from replicable_rl.theory.rstat import (
    ROUNDING,
    Form,
    QueryNumbers,
    few_bits,
    hoeffding_radius,
    hoeffding_samples,
    mean_distance,
    pieces_of,
)

_OWNER = "theory.approximate_mdp"
Norm = Literal["entry", "l1"]


@dataclass(frozen=True, kw_only=True)
class ApproximateMDPNumbers(QueryNumbers):
    """What a run of (replicable) ApproximateMDP takes, and what is proved of it."""

    norm: Norm
    form: Form
    n_states: int
    pairs: int  # N = S*A, or as many as are allowed

    @property
    def entry_error(self) -> float:
        """Bound on |P - answer| that holds with probability 1 - delta."""
        return self.sampling_error + pieces_of(self.form) * self.width / 2.0

    @property
    def error_proved(self) -> float:
        """Bound on the error of an entry, or of a row in l1."""
        return self.entry_error * (1 if self.norm == "entry" else self.n_states)

    @property
    def samples(self) -> int:
        """Transitions that a run draws."""
        return self.calls * self.pairs

    @property
    def disagreement(self) -> float:
        """Bound on the probability that two runs differ, by the mean distance of two rows."""
        return self.pairs * row_distance(self.n_states, self.calls, self.known_rewards) / self.width


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
) -> ApproximateMDPNumbers:
    """Return the numbers of Observation B.1 (``obs:rep-mdp``), or of the empirical model when ``rho`` is None.

    Rewards that are not known are one more query per pair. ``allowed_pairs`` is N where some actions are not allowed.
    All else is as in `ReplicableApproximateMDP`.

    >>> model = approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)
    >>> model.queries, model.calls
    (256, 2306412354)
    """
    sizes = {"n_states": n_states, "n_actions": n_actions, "allowed_pairs": allowed_pairs}
    n_states, n_actions, allowed_pairs = check_parameters(_OWNER, **sizes).values()
    promise: dict[str, Any] = {"epsilon": epsilon, "norm": norm, "form": form, "known_rewards": known_rewards}
    epsilon, norm, form, known_rewards = check_parameters(_OWNER, **promise).values()
    size = {"delta": delta, "rho": rho, "calls": calls, "tolerance": tolerance}
    delta, rho, calls, tolerance = check_parameters(_OWNER, **size).values()
    pairs = allowed_pairs or n_states * n_actions
    queries = pairs * (n_states if known_rewards else n_states + 1)
    tau_needed = epsilon if norm == "entry" else epsilon / n_states
    tau, delta_sq, width, pieces = tolerance or tau_needed, delta / queries, 0.0, pieces_of(form)
    needed = hoeffding_samples(tau, delta_sq)
    if rho is not None:

        def room(n: int) -> float:
            """The widest bins that are accurate with n successors."""
            return 2.0 * (tau - hoeffding_radius(n, delta_sq)) / (pieces * ROUNDING)

        def is_enough(n: int) -> bool:
            """Whether the narrowest bins that n successors replicate on are accurate, too."""
            return pairs * row_distance(n_states, n, known_rewards) / rho <= room(n)

        low, high = needed, 2 * needed
        while not is_enough(high):
            low, high = high, 2 * high
        while high - low > max(1, low >> 40):
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        needed, width = high, float(few_bits(room(high)))
    promise |= {"n_states": n_states, "pairs": pairs, "delta": delta, "rho": rho, "queries": queries, "width": width}
    promise |= {"delta_sq": delta_sq, "rho_sq": None if rho is None else rho / queries, "tolerance": tau}
    promise |= {"tolerance_needed": tau_needed, "calls": calls or needed, "calls_needed": needed}
    return ApproximateMDPNumbers(**promise)


def paper_approximate_mdp(
    n_states: int,
    n_actions: int,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    norm: Norm = "entry",
    form: Form = "zero-preserving",
    known_rewards: bool = True,
) -> dict[str, Any]:
    """Return tau and n of Observation B.1 (``obs:rep-mdp``), for `ReplicableApproximateMDP`; 2*delta < rho.

    The paper's rSTAT is ``form="midpoint"``. The algorithm makes its bins as wide as tau and our own bound allow.

    >>> paper_approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)["calls"]
    439857142095
    """
    owner = "theory.paper_approximate_mdp"
    rho, promise = check_share(owner, "rho", rho), (epsilon, delta, rho)
    model = approximate_mdp(n_states, n_actions, *promise, norm=norm, form=form, known_rewards=known_rewards)
    gap = rho / model.queries - 2.0 * model.delta_sq
    if gap <= 0.0:
        raise InvalidInput(f"{owner}: 2*delta < rho is needed, got delta={model.delta:g}, rho={rho:g}.")
    sampling = model.tolerance * gap / (pieces_of(form) + gap)
    return {"tolerance": model.tolerance, "calls": hoeffding_samples(sampling, model.delta_sq)}
