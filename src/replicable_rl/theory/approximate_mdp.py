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
from typing import Literal

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
    given = check_parameters("theory.approximate_mdp", **locals())
    calls, tolerance, n_actions = given.pop("calls"), given.pop("tolerance"), given.pop("n_actions")
    pairs = given.pop("allowed_pairs") or given["n_states"] * n_actions
    n_states, delta, rho = given["n_states"], given["delta"], given["rho"]
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
            return bool(pairs * row_distance(n_states, n, known_rewards) / rho <= room(n))

        low, high = needed, 2 * needed
        while not is_enough(high):
            low, high = high, 2 * high
        while high - low > max(1, low >> 40):
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        needed, width = high, float(few_bits(room(high)))
    taken = {"pairs": pairs, "queries": queries, "width": width, "calls": calls or needed, "calls_needed": needed}
    share = {"delta_sq": delta_sq, "rho_sq": None if rho is None else rho / queries}
    return ApproximateMDPNumbers(**given, **taken, **share, tolerance=tau, tolerance_needed=tau_needed)
