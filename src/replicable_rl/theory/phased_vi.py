r"""Phased value iteration: parameters that make its promises true (``thm:rpvi``).

Values are normalised to [0, 1]; N = S*A pairs, T iterations, one query per pair and
iteration. If every query is within tau of its mean, then

    |Q_T - Q*| <= e = gamma tau/(1-gamma) + gamma^T       and the greedy policy loses <= 2e/(1-gamma).

    target    tau                T                                   promise (probability 1-delta)
    value     (1-gamma)  eps/2   ceil(ln(2/((1-gamma)^2 eps))/(1-gamma))   |Q_T - Q*| <= eps/2
    policy    (1-gamma)^2 eps/2  ceil(ln(2/((1-gamma)^3 eps))/(1-gamma))   V* - V^pi  <= eps

The paper states the second promise and proves the first; see ``docs/errata.md``. The union
bound over the NT queries gives rho_SQ = rho/(NT), delta_SQ = delta/(NT) and

    m = ceil( (1 + gap)^2 / (2 tau^2 gap^2) * ln(2NT/delta) ),   gap = rho_SQ - 2 delta_SQ.

Rewards that are not a known function of (s, a) go into the query, which then estimates
r~ + gamma V~(s') as one mean. Its error is not damped by gamma, so tau is multiplied by
max(gamma, 1/2), which restores both promises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from replicable_rl.errors import InvalidInput, check_integer, check_real, check_share
from replicable_rl.records import Claim
from replicable_rl.theory.plan import RSTAT, Pairs, PlanTable
from replicable_rl.theory.query_plan import QueryPlan, query_parameters
from replicable_rl.theory.rstat import check_delta_rho, gap_reached, rstat_mismatch

_OWNER = "theory.phased_vi"
Target = Literal["policy", "value"]
_POWER = {"value": 1, "policy": 2}  # of 1 - gamma in tau


@dataclass(frozen=True, kw_only=True)
class PhasedVIPlan(QueryPlan):
    """Everything a run of (replicable) phased value iteration needs, and what it may promise.

    Attributes
    ----------
    pairs, iterations, calls : int
        N, T and the calls m per iteration that a run makes; ``iterations_needed`` is the theorem's T.
    calls_needed, calls_printed, calls_plain : int
        m of the tight formula above, of the paper's printed one (about four times
        larger), and of Phased Q-learning, which promises accuracy alone.
    """

    target: Target
    gamma: float
    pairs: int
    iterations: int
    iterations_needed: int

    _derived: ClassVar[tuple[str, ...]] = ("calls_printed", "value_error", "policy_loss")
    _level: ClassVar[str] = "value"
    _same: ClassVar[str] = "have the same Q"
    _words: ClassVar[tuple[str, str, str]] = ("m", "calls m per iteration", "samples in all, N*T*m")

    @property
    def calls_printed(self) -> int | None:
        """Calls m as the paper prints them; None for the baseline."""
        if self.rho is None or self.rho_sq is None:
            return None
        gap = self.rho_sq - 2.0 * self.delta_sq
        return math.ceil(2.0 * math.log(2.0 / self.delta_sq) / (self.tolerance * self.tolerance * gap * gap))

    @property
    def value_error(self) -> float:
        """Bound on |Q_T - Q*| that holds with probability 1 - delta."""
        step = (self.gamma if self.known_rewards else 1.0) * (self.sampling_error + self.width / 2.0)
        return step / (1.0 - self.gamma) + self.gamma**self.iterations

    @property
    def policy_loss(self) -> float:
        """Bound on V* - V^pi that holds with probability 1 - delta."""
        return 2.0 * self.value_error / (1.0 - self.gamma)

    def total(self, calls: int) -> int:
        """Return the transitions drawn by a run with this many calls per iteration."""
        return calls * self.pairs * self.iterations

    def _accuracy(self) -> tuple[Claim, float, Pairs]:
        source = "lem:phasedvi-convergence" if self.rho is None else "thm:rpvi"
        policy, value = ("the policy", self.epsilon, self.policy_loss), ("Q", self.epsilon / 2.0, self.value_error)
        what, bound, reached = policy if self.target == "policy" else value
        said = f"{what} is within {bound:g} of optimal (values in [0, 1]), except with probability {self.delta:g}"
        claim = Claim("accuracy", "proved", said, bound, source, self.delta, self.target)
        return claim, reached, {"iterations": (self.iterations, self.iterations_needed)}

    def table(self) -> PlanTable:
        """Return Phased Q-learning beside rPVI, with the tight number of samples and with the printed one."""
        meaning = "the policy is within epsilon" if self.target == "policy" else "Q is within epsilon/2"
        heading = f"target {self.target}: {meaning} of optimal (values in [0, 1])"
        printed = {} if self.calls_printed is None else {"rPVI, as printed": self.calls_printed}
        others = {} if self.rho is None else {"rPVI, tight": self.calls_needed, **printed}
        return self._variants(heading, {"iterations T": self.iterations}, "Phased Q-learning", others)

    def predicted_disagreement_at(self, sigma: float = 0.5) -> float:
        """Predict Pr[two runs return different Q] when every query has standard deviation ``sigma``.

        0.5 is the worst case. The central limit theorem for each query, and differences that
        heal at rate gamma, as in :mod:`replicable_rl.algorithms.prediction`, which uses the
        process itself where it is known. A prediction, not a guarantee; 1 without rSTAT.
        """
        if self.estimate != RSTAT:
            return 1.0
        mismatch = float(rstat_mismatch(sigma, self.calls, self.width))
        differs = min(mismatch / (1.0 - self.gamma), 1.0 - 2.0**-53)
        return -math.expm1(self.pairs * math.log1p(-differs))


def phased_vi(
    pairs: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float | None = None,
    *,
    target: Target = "policy",
    known_rewards: bool = True,
    calls: int | None = None,
    iterations: int | None = None,
    tolerance: float | None = None,
    rho_sq: float | None = None,
) -> PhasedVIPlan:
    """Return the plan of ``thm:rpvi``, or of Phased Q-learning when ``rho`` is None.

    Each keyword from ``calls`` on overrides what the theorem says; the promises of the
    plan are then recomputed from what is left.

    Parameters
    ----------
    pairs : int
        N = S*A.
    gamma : float
        Discount in [0, 1).
    epsilon, delta : float
        Accuracy, in values normalised to [0, 1], and the probability that it fails.
    rho : float, optional
        Two runs may differ with this probability; 2*delta < rho is required. None plans the baseline.
    target : {"policy", "value"}
        Whether ``epsilon`` bounds the loss of the policy or twice the error of Q.
    known_rewards : bool
        Whether the reward is a known function of (s, a), or learned from the samples.
    calls, iterations : int, optional
        m and T.
    tolerance, rho_sq : float, optional
        tau and rho of one query.

    Examples
    --------
    >>> plan = phased_vi(pairs=32, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2)
    >>> plan.iterations, plan.calls, plan.calls_plain
    (100, 8187898146367124, 31343618)
    >>> plan.accuracy_proved and plan.replicability_proved
    True
    >>> phased_vi(32, 0.9, 0.02, 0.001, 0.2, calls=104_000, tolerance=0.02).replicability_proved
    False
    """
    gamma = check_real(_OWNER, "gamma", gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    epsilon = check_share(_OWNER, "epsilon", epsilon)
    pairs = check_integer(_OWNER, "pairs", pairs, low=1, high=2**62)
    if target not in _POWER:
        raise InvalidInput(f"{_OWNER}: target must be 'policy' or 'value', got {target!r}.")
    rho, delta = check_delta_rho(_OWNER, rho, delta)
    needed = iterations_needed(gamma, epsilon, target)
    T = needed if iterations is None else check_integer(_OWNER, "iterations", iterations, low=1, high=2**62)
    tau = _theorem_tolerance(gamma, epsilon, target, known_rewards)
    return PhasedVIPlan(
        epsilon=epsilon,
        known_rewards=known_rewards,
        target=target,
        gamma=gamma,
        pairs=pairs,
        iterations=T,
        iterations_needed=needed,
        **query_parameters(_OWNER, pairs * T, tau, delta, rho, 1, calls=calls, tolerance=tolerance, rho_sq=rho_sq),
    )


def phased_vi_rho(
    calls: int,
    pairs: int,
    gamma: float,
    epsilon: float,
    delta: float,
    *,
    target: Target = "policy",
    known_rewards: bool = True,
) -> float:
    """Return the rho that m calls per iteration reach: the inverse of :func:`phased_vi`.

    The tolerance stays the theorem's; 1.0 means that nothing is promised.

    Parameters
    ----------
    calls : int
        m.
    pairs, gamma, epsilon, delta, target, known_rewards
        As in :func:`phased_vi`.

    Examples
    --------
    >>> round(phased_vi_rho(8187898146367124, pairs=32, gamma=0.9, epsilon=0.1, delta=0.001), 9)
    0.2
    """
    plain = phased_vi(pairs, gamma, epsilon, delta, target=target, known_rewards=known_rewards, calls=calls)
    gap = gap_reached(plain.sampling_error, plain.tolerance, pieces=1)
    return min(1.0, gap * plain.queries + 2.0 * plain.delta)


def iterations_needed(gamma: float, epsilon: float, target: Target) -> int:
    """Return T of the table above; at least 1."""
    horizon = 1.0 - gamma
    return max(1, math.ceil(math.log(2.0 / (horizon ** (_POWER[target] + 1) * epsilon)) / horizon))


def _theorem_tolerance(gamma: float, epsilon: float, target: Target, known_rewards: bool) -> float:
    tau = (1.0 - gamma) ** _POWER[target] * epsilon / 2.0
    return tau if known_rewards else max(gamma, 0.5) * tau
