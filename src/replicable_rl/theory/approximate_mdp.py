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
from typing import Any, Literal

from replicable_rl.theory.numbers import ACCURACY, RSTAT, check_pairs, check_parameters
from replicable_rl.theory.rstat import (
    ROUNDING,
    Form,
    QueryNumbers,
    few_bits,
    hoeffding_radius,
    mean_distance,
    pieces_of,
    query_parameters,
)

_OWNER = "theory.approximate_mdp"
Norm = Literal["entry", "l1"]


@dataclass(frozen=True, kw_only=True)
class ApproximateMDPNumbers(QueryNumbers):
    """What a run of (replicable) ApproximateMDP takes, and what is proved of it."""

    norm: Norm
    form: Form
    n_states: int
    n_actions: int
    allowed_pairs: int | None = None  # where some actions are not allowed in every state

    @property
    def entry_error(self) -> float:
        """Bound on |P - answer| that holds with probability 1 - delta."""
        return self.sampling_error + pieces_of(self.form) * self.width / 2.0

    @property
    def error_proved(self) -> float:
        """Bound on the error of an entry, or of a row in l1; 1 where the estimate is unknown to the proof."""
        if self.outside(ACCURACY):
            return 1.0
        return self.entry_error * (1 if self.norm == "entry" else self.n_states)

    @property
    def pairs(self) -> int:
        """N = S*A, or as many as are allowed."""
        return self.n_states * self.n_actions if self.allowed_pairs is None else self.allowed_pairs

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

    ``known_rewards`` says whether the reward is a known function of (s, a), or one more query per pair, and
    ``allowed_pairs`` is N where some actions are not allowed in every state. All else is as in
    `ReplicableApproximateMDP`.

    Examples
    --------
    >>> model = approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)
    >>> model.queries, model.calls, model.calls_plain
    (256, 2306412354, 65731)
    """
    problem = check_parameters(_OWNER, n_states=n_states, n_actions=n_actions, known_rewards=known_rewards)
    n_states, n_actions, known_rewards = problem.values()
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "norm": norm, "form": form}
    given |= {"calls": calls, "tolerance": tolerance}
    epsilon, delta, rho, norm, form, calls, tolerance = check_approximate_mdp(**given).values()
    problem |= {"allowed_pairs": check_pairs(_OWNER, allowed_pairs, n_states, n_actions)}
    pairs = problem["allowed_pairs"] or n_states * n_actions
    queries = pairs * (n_states if known_rewards else n_states + 1)
    tau = epsilon if norm == "entry" else epsilon / n_states
    plain = query_parameters(_OWNER, queries, tau, delta, None, calls=calls, tolerance=tolerance)
    promise: dict[str, Any] = {"epsilon": epsilon, "norm": norm, "form": form}
    if rho is None:
        return ApproximateMDPNumbers(**problem, **promise, **plain)
    tau, delta_sq, pieces = float(plain["tolerance"]), float(plain["delta_sq"]), pieces_of(form)

    def room(n: int) -> float:
        """The widest bins that are accurate with n successors."""
        return 2.0 * (tau - hoeffding_radius(n, delta_sq)) / (pieces * ROUNDING)

    def is_enough(n: int) -> bool:
        """Whether the narrowest bins that n successors replicate on are accurate, too."""
        return pairs * row_distance(n_states, n, known_rewards) / rho <= room(n)

    high = 2 * plain["calls_plain"]
    while not is_enough(high):
        high *= 2
    low = high // 2
    while high - low > max(1, low >> 40):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    plain |= {"rho": rho, "rho_sq": rho / queries, "width": float(few_bits(room(high))), "estimate": RSTAT}
    plain |= {"calls": high if calls is None else calls, "calls_needed": high}
    return ApproximateMDPNumbers(**problem, **promise, **plain)


def check_approximate_mdp(**given: Any) -> dict[str, Any]:
    """Return the parameters of `approximate_mdp` that do not depend on a problem, as they count."""
    return check_parameters(_OWNER, **given)
