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
from typing import Literal

from replicable_rl.errors import InvalidInput, check_integer, check_real, check_share
from replicable_rl.theory.rstat import (
    SLACK,
    check_delta_rho,
    gap_reached,
    hoeffding_radius,
    rstat_mismatch,
    split_tolerance,
)

__all__ = ["PhasedVIPlan", "Target", "phased_vi", "phased_vi_rho"]

Target = Literal["policy", "value"]
_POWER = {"value": 1, "policy": 2}  # of 1 - gamma in tau


@dataclass(frozen=True)
class PhasedVIPlan:
    """Everything a run of (replicable) phased value iteration needs, and what it may promise.

    ``rho`` is None for the baseline, whose ``width`` is 0: it does not round.

    Attributes
    ----------
    pairs, iterations, calls : int
        N, T and the calls m per iteration that a run makes.
    tolerance, rho_sq, delta_sq : float
        Of one query; ``width`` is its beta. ``tolerance_needed`` and ``iterations_needed`` are the theorem's.
    calls_needed, calls_printed, calls_plain : int
        m of the tight formula above, of the paper's printed one (about four times
        larger), and of Phased Q-learning, which promises accuracy alone.
    """

    target: Target
    gamma: float
    epsilon: float
    delta: float
    rho: float | None
    known_rewards: bool
    pairs: int
    iterations: int
    iterations_needed: int
    tolerance: float
    tolerance_needed: float
    delta_sq: float
    rho_sq: float | None
    width: float
    calls: int
    calls_needed: int
    calls_printed: int | None
    calls_plain: int

    @property
    def queries(self) -> int:
        """N*T: one for every pair and iteration."""
        return self.pairs * self.iterations

    @property
    def sampling_error(self) -> float:
        """Tau' at ``calls``: all means are this close to the truth, except with probability delta."""
        return hoeffding_radius(self.calls, self.delta_sq)

    @property
    def value_error(self) -> float:
        """Bound on |Q_T - Q*| that holds with probability 1 - delta."""
        step = (self.gamma if self.known_rewards else 1.0) * (self.sampling_error + self.width / 2.0)
        return step / (1.0 - self.gamma) + self.gamma**self.iterations

    @property
    def policy_loss(self) -> float:
        """Bound on V* - V^pi that holds with probability 1 - delta."""
        return 2.0 * self.value_error / (1.0 - self.gamma)

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs differ; 1 when nothing is proved, None for the baseline."""
        if self.rho is None:
            return None
        return min(1.0, self.queries * 2.0 * self.sampling_error / self.width + 2.0 * self.delta)

    @property
    def samples(self) -> int:
        """Transitions that a run draws: m for every pair and iteration."""
        return self.total(self.calls)

    def total(self, calls: int) -> int:
        """Return the transitions drawn by a run with this many calls per iteration."""
        return calls * self.pairs * self.iterations

    @property
    def accuracy_proved(self) -> bool:
        """Whether the promise of the target holds at these parameters."""
        if self.target == "value":
            return self.value_error <= self.epsilon / 2.0 * SLACK
        return self.policy_loss <= self.epsilon * SLACK

    @property
    def replicability_proved(self) -> bool:
        """Whether two runs differ with probability at most rho at these parameters."""
        return self.rho is not None and self.rho_proved is not None and self.rho_proved <= self.rho * SLACK

    def predicted_disagreement_at(self, sigma: float = 0.5) -> float:
        """Predict Pr[two runs return different Q] when every query has standard deviation ``sigma``.

        0.5 is the worst case. The central limit theorem for each query, and differences that
        heal at rate gamma, as in :mod:`replicable_rl.algorithms.prediction`, which uses the
        process itself where it is known. A prediction, not a guarantee.
        """
        if self.width == 0.0:
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
    owner: str = "theory.phased_vi",
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
    owner : str
        Whose name error messages bear.

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
    gamma = check_real(owner, "gamma", gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    epsilon = check_share(owner, "epsilon", epsilon)
    pairs = check_integer(owner, "pairs", pairs, low=1, high=2**62)
    if target not in _POWER:
        raise InvalidInput(f"{owner}: target must be 'policy' or 'value', got {target!r}.")
    if rho is None:
        delta = check_share(owner, "delta", delta)
    else:
        rho, delta = check_delta_rho(owner, rho, delta)

    T_needed = iterations_needed(gamma, epsilon, target)
    T = T_needed if iterations is None else check_integer(owner, "iterations", iterations, low=1, high=2**62)
    tau_needed = _theorem_tolerance(gamma, epsilon, target, known_rewards)
    tau = tau_needed if tolerance is None else check_share(owner, "tolerance", tolerance)
    delta_sq = delta / (pairs * T)
    log_term = math.log(2.0 / delta_sq)
    calls_plain = math.ceil(log_term / (2.0 * tau * tau))
    width, calls_needed, calls_printed = 0.0, calls_plain, None
    if rho is not None:
        rho_sq = rho / (pairs * T) if rho_sq is None else check_share(owner, "rho_sq", rho_sq)
        gap = _check_gap(owner, rho_sq, delta_sq)
        width, sampling = split_tolerance(tau, gap, pieces=1)
        calls_needed = math.ceil(log_term / (2.0 * sampling * sampling))
        calls_printed = math.ceil(2.0 * log_term / (tau * tau * gap * gap))
    return PhasedVIPlan(
        target=target,
        gamma=gamma,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        known_rewards=known_rewards,
        pairs=pairs,
        iterations=T,
        iterations_needed=T_needed,
        tolerance=tau,
        tolerance_needed=tau_needed,
        delta_sq=delta_sq,
        rho_sq=rho_sq,
        width=width,
        calls=calls_needed if calls is None else check_integer(owner, "calls", calls, low=1, high=2**200),
        calls_needed=calls_needed,
        calls_printed=calls_printed,
        calls_plain=calls_plain,
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


def _check_gap(owner: str, rho_sq: float, delta_sq: float) -> float:
    """Return rho_SQ - 2 delta_SQ, which must be positive."""
    if not 2.0 * delta_sq < rho_sq:
        raise InvalidInput(
            f"{owner}: rho_sq must exceed 2*delta/(N*T) = {2.0 * delta_sq:.3g} (thm:rep-sq), got {rho_sq:g}. "
            "Raise rho_sq or lower delta."
        )
    return rho_sq - 2.0 * delta_sq


def _theorem_tolerance(gamma: float, epsilon: float, target: Target, known_rewards: bool) -> float:
    tau = (1.0 - gamma) ** _POWER[target] * epsilon / 2.0
    return tau if known_rewards else max(gamma, 0.5) * tau
