r"""Phased value iteration: parameters that make its promises true (Theorem 4.1, ``thm:rpvi``).

Values are normalised to [0, 1]; N = S*A pairs, T iterations, one query per pair and
iteration. If every query is within tau of its mean, then for the paper's listing

    |Q_T - Q*| <= e = gamma tau/(1-gamma) + gamma^T       and the greedy policy loses <= 2e/(1-gamma).

    target    tau                T                                   promise (probability 1-delta)
    value     (1-gamma)  eps/2   ceil(ln(2/((1-gamma)^2 eps))/(1-gamma))   |Q_T - Q*| <= eps/2
    policy    (1-gamma)^2 eps/2  ceil(ln(2/((1-gamma)^3 eps))/(1-gamma))   V* - V^pi  <= eps

The paper states the second promise and proves the first; see ``docs/paper.md``. Its listing has one m and one width
for all iterations. It runs where any of its parameters is given; those that are not are the paper's: a union bound
over the NT queries gives rho_SQ = rho/(NT), delta_SQ = delta/(NT) and

    m = ceil( (1 + gap)^2 / (2 tau^2 gap^2) * ln(2NT/delta) ),   gap = rho_SQ - 2 delta_SQ

Rewards that are not a known function of (s, a) go into the query, which then estimates
r~ + gamma V~(s') as one mean. Its error is not damped by gamma, so tau is multiplied by
max(gamma, 1/2), which restores both promises.

Otherwise our own *rising* schedule runs, the sharpest that we can prove (``docs/proofs.md``), with far fewer samples.

    Q_{t+1} = max(Q_t, r + gamma (v - c_t)),    c_t = tau'_t + beta_t/2,    Q_0 = r  (0 where rewards are learned)

Every v - c_t is at most the true mean, except with probability delta, so Q_t only rises and never passes Q*. The greedy
policy of such a Q is worth at least max_a Q: its loss is at most the error of Q, without the factor 2/(1-gamma). An
error of iteration t is worth w_t = gamma^(T-1-t) at the end; what is averaged lies in [0, X_t], X_t = 1 - gamma^(t+1):

    loss <= g (gamma^T + sum_t w_t (beta_t + 2 tau'_t))       g = gamma, or 1 where rewards are learned
    rho  <= sum_t N X_t / (beta_t sqrt(pi m_t))               the mean distance, see `rstat`

Least samples for both, by Lagrange: with a_t = w_t X_t, m_t ~ a_t^(2/5) and beta_t ~ X_t^(2/5) w_t^(-3/5). Early
iterations are coarse and cheap. With A = sum a_t^(2/5) and L = ln(2NT/delta), both bounds are met by

    sqrt(M) = g (N A^2/(rho sqrt(pi)) + sqrt(2L) sum a_t^(4/5)) / (eps - g gamma^T),      m_t = M a_t^(2/5).

The two runs that agree so far know the same V_t. So m_t may depend on it: where the values spread over less than X_t,
the calls fall with the square, and both bounds stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_share
from replicable_rl.paper import cited
from replicable_rl.theory.numbers import ACCURACY, Floats, check_parameters
from replicable_rl.theory.rstat import ROUNDING, QueryNumbers, few_bits, hoeffding_samples, mean_distance
from replicable_rl.wording import short_repr

_OWNER = "theory.phased_vi"
Target = Literal["policy", "value"]
_MOST_ITERATIONS = 10**6


@dataclass(frozen=True, eq=False)
class Schedule:
    """The iterations of a run, one element each."""

    calls: NDArray[Any]  # m_t
    widths: Floats  # beta_t; 0 where nothing is rounded
    lowered: Floats  # c_t, which is taken off the answers
    reach: Floats  # X_t: what is averaged lies in [0, X_t]; 0: the calls do not depend on how far the values spread
    rising: bool  # whether Q keeps the larger of old and new, and begins with the rewards where these are known
    total: int  # the calls of all iterations, at most

    __repr__ = short_repr

    @classmethod
    def constant(cls, iterations: int, calls: int, width: float) -> Schedule:
        """Return the schedule of the paper's listing."""
        columns = _integers([calls])[0], np.float64(width), np.float64(0.0), np.float64(0.0)
        m, beta, c, reach = (np.broadcast_to(column, (iterations,)) for column in columns)  # without memory
        return cls(m, beta, c, reach, rising=False, total=iterations * calls)

    @property
    def iterations(self) -> int:
        """T."""
        return self.calls.size

    @staticmethod
    def spread(values: float, gamma: float, known_rewards: bool) -> float:
        """Return how far what is averaged spreads, where the values of the states spread over ``values``."""
        return values if known_rewards else (1.0 - gamma) + gamma * values

    def calls_at(self, t: int, spread: float) -> int:
        """Return the calls of iteration t, where what is averaged lies in an interval of length ``spread``."""
        if self.reach[t] == 0.0:
            return int(self.calls[t])
        share = spread / self.reach[t]
        return max(2, int(np.ceil(float(self.calls[t]) * (share * share))))

    def disagreement(self, pairs: int) -> float:
        """Bound the probability that two runs of a rising schedule differ."""
        return float(pairs * np.sum(self.reach / self.widths / np.sqrt(math.pi * self.calls.astype(np.float64))))

    def loss(self, gamma: float, known_rewards: bool) -> float:
        """Bound Q* - Q_T, and with it the loss of the policy, of a rising schedule."""
        weight = _weights(gamma, self.iterations)
        damped = gamma if known_rewards else 1.0
        return float(damped * (gamma**self.iterations + 2.0 * np.sum(weight * self.lowered)))


@lru_cache(maxsize=64)
def rising_schedule(
    pairs: int, gamma: float, epsilon: float, delta: float, rho: float, *, known_rewards: bool = True
) -> Schedule:
    """Return the rising schedule with (nearly) the fewest samples for this promise.

    >>> schedule = rising_schedule(32, 0.9, epsilon=0.1, delta=0.001, rho=0.2)
    >>> schedule.iterations, f"{schedule.total:.2e}"
    (32, '1.59e+12')
    >>> schedule.disagreement(32) <= 0.2, schedule.loss(0.9, known_rewards=True) <= 0.1
    (True, True)
    """
    damped = gamma if known_rewards else 1.0
    enough = damped < epsilon or gamma == 0.0
    shortest = 1 if enough else max(1, math.floor(math.log(epsilon / damped) / math.log(gamma)) + 1)
    if shortest > _MOST_ITERATIONS:
        raise InvalidInput(
            f"theory.phased_vi: gamma={gamma:.12g} takes more than {_MOST_ITERATIONS:.0e} iterations, which are not "
            "planned one by one. Give calls and tolerance of the paper's listing, or a smaller gamma."
        )

    def scale(T: int) -> tuple[float, float]:
        """Return M A, by which the samples grow, and M; infinity where T is too small."""
        a = _weights(gamma, T) * _reach(gamma, T)
        A, log_term = float(np.sum(a**0.4)), math.log(2.0 * pairs * T / delta)
        spare = epsilon - damped * gamma**T
        if spare <= 0.0:
            return math.inf, math.inf
        root = damped * (pairs * A * A / (rho * math.sqrt(math.pi)) + math.sqrt(2.0 * log_term) * float(np.sum(a**0.8)))
        M = max(1.0, (root / spare) ** 2)
        return M * A, M

    T = _smallest(lambda T: scale(T)[0], shortest)
    M = scale(T)[1] * ROUNDING
    weight, reach = _weights(gamma, T), _reach(gamma, T)
    a = weight * reach
    counts = np.maximum(2.0, np.ceil(few_bits(M * a**0.4)))
    b = pairs * float(np.sum(a**0.4)) / (rho * math.sqrt(math.pi * M))
    widths = few_bits(b * reach**0.4 * weight**-0.6)
    deviation = reach * np.sqrt(math.log(2.0 * pairs * T / delta) / (2.0 * counts))
    calls = _integers([int(count) for count in counts])
    return Schedule(calls, widths, few_bits(deviation + widths / 2.0), reach, True, sum(map(int, calls)))


def _integers(numbers: list[int]) -> NDArray[Any]:
    """Return whole numbers as an array; those that 64 bits cannot hold, and nobody can draw, as Python's."""
    return np.array(numbers, dtype=np.int64 if max(numbers) < 2**63 else object)


def _weights(gamma: float, T: int) -> Floats:
    """w_t = gamma^(T-1-t); the last is 1 even where gamma is 0."""
    weights: Floats = np.power(gamma, np.arange(T - 1, -1, -1, dtype=np.float64))
    return weights


def _reach(gamma: float, T: int) -> Floats:
    """X_t = 1 - gamma^(t+1), to few bits and rounded up."""
    return few_bits(1.0 - np.power(gamma, np.arange(1, T + 1, dtype=np.float64)))


def _smallest(cost: Callable[[int], float], shortest: int) -> int:
    """Return a T >= ``shortest`` with nearly the smallest cost: by doubling, then by thirds."""
    step = 1
    while cost(shortest + 2 * step) < cost(shortest + step):
        step *= 2
    low, high = shortest, shortest + 2 * step
    while high - low > 2:
        lower, upper = low + (high - low) // 3, high - (high - low) // 3
        if cost(lower) <= cost(upper):
            high = upper
        else:
            low = lower
    return min(range(low, high + 1), key=cost)


@dataclass(frozen=True, kw_only=True)
class PhasedVINumbers(QueryNumbers):
    """What a run of (replicable) phased value iteration takes, and what is proved of it.

    Of our schedule, width, tolerance, rho_sq and calls are those of the last iteration, where calls are most.
    """

    target: Target
    gamma: float
    pairs: int  # N
    iterations: int  # T
    iterations_needed: int  # the theorem's T
    rising: bool  # whether our schedule runs, or the paper's listing

    @cached_property
    def schedule(self) -> Schedule:
        """What a run does in each iteration."""
        if not self.rising or self.rho is None:
            return Schedule.constant(self.iterations, self.calls, self.width)
        promise = self.epsilon, self.delta, self.rho
        return rising_schedule(self.pairs, self.gamma, *promise, known_rewards=self.known_rewards)

    @property
    def value_error(self) -> float:
        """Bound on |Q_T - Q*| that holds with probability 1 - delta."""
        if self.rising:  # to few bits, for it is part of the Q that is reported
            return float(few_bits(self.schedule.loss(self.gamma, self.known_rewards) / 2.0))
        step = (self.gamma if self.known_rewards else 1.0) * (self.sampling_error + self.width / 2.0)
        return step / (1.0 - self.gamma) + self.gamma**self.iterations

    @property
    def policy_loss(self) -> float:
        """Bound on V* - V^pi that holds with probability 1 - delta."""
        if self.rising:
            return self.schedule.loss(self.gamma, self.known_rewards)
        return 2.0 * self.value_error / (1.0 - self.gamma)

    @property
    def error_proved(self) -> float:
        """The bound on the error of Q, or on the loss of the policy."""
        return self.value_error if self.target == "value" else self.policy_loss

    @property
    def error_promised(self) -> float:
        """Epsilon for the policy; epsilon/2 for Q, or its bound where rounding to few bits makes that larger."""
        if self.target == "policy":
            return self.epsilon
        return max(self.epsilon / 2.0, self.value_error if self.rising else 0.0)

    @property
    def disagreement(self) -> float:
        """Bound on the probability that two runs differ, by the mean distance of two means."""
        if self.rising:
            return self.schedule.disagreement(self.pairs)
        return self.queries * mean_distance(self.calls) / self.width

    @property
    def samples(self) -> int:
        """Transitions that a run draws; of our schedule at most."""
        return self.pairs * self.schedule.total

    def short(self, about: str) -> dict[str, tuple[float, float]]:
        """Return what falls short of the theorem, the iterations among it."""
        lacking = super().short(about)
        if about == ACCURACY and self.iterations < self.iterations_needed:
            lacking["iterations"] = self.iterations, self.iterations_needed
        return lacking


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
) -> PhasedVINumbers:
    """Return numbers that keep the promise of Theorem 4.1 (``thm:rpvi``), or Phased Q-learning's if ``rho`` is None.

    They are those of our rising schedule, unless a keyword from ``calls`` on is given: then the paper's listing runs,
    with the theorem's numbers for the other keywords, and requires 2*delta < rho. ``pairs`` is N, S*A or as many as are
    allowed. All else is as in `ReplicablePhasedVI`.

    >>> rpvi = phased_vi(pairs=32, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2)
    >>> rpvi.iterations, f"{rpvi.samples:.2e}", rpvi.accuracy_proved and rpvi.replicability_proved
    (32, '5.08e+13', True)
    >>> phased_vi(32, 0.9, 0.02, 0.001, 0.2, calls=104_000, tolerance=0.02).replicability_proved
    False
    """
    promise = check_phased_vi(**locals())
    pairs, gamma, epsilon, delta, rho, target, known_rewards, *overrides = promise.values()
    calls, iterations, tolerance, rho_sq = overrides
    rising = rho is not None and all(override is None for override in overrides)
    width = 0.0
    if rising and rho is not None:
        schedule = rising_schedule(pairs, gamma, epsilon, delta, rho, known_rewards=known_rewards)
        T = T_needed = schedule.iterations
        m = m_needed = int(schedule.calls[-1])
        tau = tau_needed = float(schedule.lowered[-1])
        width = float(schedule.widths[-1])
        rho_sq, delta_sq = float(schedule.reach[-1]) * mean_distance(m) / width, delta / (pairs * T)
    else:
        power, horizon = (1 if target == "value" else 2), 1.0 - gamma
        T_needed = max(1, math.ceil(math.log(2.0 / (horizon ** (power + 1) * epsilon)) / horizon))
        tau_needed = horizon**power * epsilon / 2.0 * (1.0 if known_rewards else max(gamma, 0.5))
        T, tau = iterations or T_needed, tolerance or tau_needed
        delta_sq, sampling = delta / (pairs * T), tau
        if rho is not None:
            rho_sq = rho_sq or rho / (pairs * T)
            gap = rho_sq - 2.0 * delta_sq
            if gap <= 0.0:
                raise InvalidInput(
                    f"{_OWNER}: rho_sq must exceed 2*delta/(N*T) = {2.0 * delta_sq:.3g} {cited('(thm:rep-sq)')}, got "
                    f"{rho_sq:g}. Raise rho_sq or lower delta."
                )
            width, sampling = 2.0 * tau / (1 + gap), tau * gap / (1 + gap)  # as the paper shares out tau
        m_needed = hoeffding_samples(sampling, delta_sq)
        m = calls or m_needed
    promise |= {"delta_sq": delta_sq, "rho_sq": rho_sq, "width": width, "tolerance": tau, "calls": m, "iterations": T}
    promise |= {"tolerance_needed": tau_needed, "calls_needed": m_needed, "iterations_needed": T_needed}
    return PhasedVINumbers(**promise, queries=pairs * T, rising=rising)


def check_phased_vi(**parameters: Any) -> dict[str, Any]:
    """Return parameters of `phased_vi` as they count, or refuse them."""
    checked = check_parameters(_OWNER, **parameters)
    rho, delta, listing = checked.get("rho"), checked["delta"], ("calls", "iterations", "tolerance", "rho_sq")
    if rho is not None and 2.0 * delta >= rho and any(checked[name] is not None for name in listing):
        raise InvalidInput(
            f"{_OWNER}: calls, iterations, tolerance and rho_sq belong to the paper's listing, which needs "
            f"2*delta < rho, got delta={delta:g}, rho={rho:g}. Leave them out, or lower delta below {rho / 2.0:g}."
        )
    return checked


def paper_phased_vi(
    pairs: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    target: Target = "policy",
    known_rewards: bool = True,
    tolerance: float | None = None,
    printed: bool = False,
) -> dict[str, Any]:
    """Return T, tau and m of the listing of Theorem 4.1 (``thm:rpvi``), for `ReplicablePhasedVI`; 2*delta < rho.

    ``printed`` asks for m as the paper prints it: about four times what its proof needs. The paper's own alpha and T
    are those of ``target="value"``; "policy" is the mended promise about the policy.

    >>> paper_phased_vi(32, 0.9, epsilon=0.1, delta=0.001, rho=0.2)["calls"]
    8187898146367124
    """
    rho = check_share("theory.paper_phased_vi", "rho", rho)
    kind: dict[str, Any] = {"target": target, "known_rewards": known_rewards, "tolerance": tolerance}
    plain = phased_vi(pairs, gamma, epsilon, delta, **kind)
    listing = phased_vi(pairs, gamma, epsilon, delta, rho, iterations=plain.iterations, **kind)
    tau, gap, calls = listing.tolerance, rho / listing.queries - 2.0 * listing.delta_sq, listing.calls
    if printed:
        calls = math.ceil(2.0 * math.log(2.0 / listing.delta_sq) / (tau * tau * gap * gap))
    return {"iterations": listing.iterations, "tolerance": tau, "calls": calls}
