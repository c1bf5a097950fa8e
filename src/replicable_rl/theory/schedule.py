r"""What phased value iteration does in each iteration: how many calls, how wide the bins, and which update.

*As the paper lists it* all iterations are alike: m calls, bins of width beta, Q_{t+1} = r + gamma v.

*Rising* is our own schedule, the sharpest that we can prove (``docs/proofs.md``). Values are in [0, 1].

    Q_{t+1} = max(Q_t, r + gamma (v - c_t)),    c_t = tau'_t + beta_t/2,    Q_0 = r  (0 where rewards are learned)

Every v - c_t is at most the true mean, except with probability delta, so Q_t only rises and never passes Q*. The greedy
policy of such a Q is worth at least max_a Q: its loss is at most the error of Q, without the factor 2/(1-gamma). An
error of iteration t is worth w_t = gamma^(T-1-t) at the end; what is averaged lies in [0, X_t], X_t = 1 - gamma^(t+1):

    loss <= g (gamma^T + sum_t w_t (beta_t + 2 tau'_t))       g = gamma, or 1 where rewards are learned
    rho  <= sum_t N X_t / (beta_t sqrt(pi m_t))               the mean distance, see `theory.rstat`

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
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_integer, check_real
from replicable_rl.theory.rstat import ROUNDING, few_bits

Floats = NDArray[np.float64]
_MOST_ITERATIONS = 10**6


@dataclass(frozen=True, eq=False)
class Schedule:
    """The iterations of a run, one element each.

    Attributes
    ----------
    calls, widths : (T,) integers and floats
        m_t and beta_t; widths are 0 where nothing is rounded.
    lowered : (T,) floats
        c_t, which is taken off the answers.
    reach : (T,) floats
        X_t: what is averaged lies in [0, X_t]. 0: the calls do not depend on how far the values spread.
    rising : bool
        Whether Q keeps the larger of old and new, and begins with the rewards where these are known.
    total : int
        The calls of all iterations, at most.
    """

    calls: NDArray[Any]
    widths: Floats
    lowered: Floats
    reach: Floats
    rising: bool
    total: int

    __repr__ = short_repr

    @classmethod
    def constant(cls, iterations: int, calls: int, width: float) -> Schedule:
        """Return the schedule of the paper's listing."""
        iterations = check_integer("Schedule", "iterations", iterations, low=1, high=2**53)
        calls = check_integer("Schedule", "calls", calls, low=1, high=2**1000)
        width = check_real("Schedule", "width", width, low=0.0, high=math.inf, rule="0 or more")

        def always(what: Any) -> NDArray[Any]:
            return np.broadcast_to(what, (iterations,))  # as many as there are, without memory

        nothing = always(np.float64(0.0))
        return cls(
            always(_integers([calls])[0]), always(np.float64(width)), nothing, nothing, False, iterations * calls
        )

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
    least = 1 if enough else max(1, math.floor(math.log(epsilon / damped) / math.log(gamma)) + 1)

    if least > _MOST_ITERATIONS:
        raise InvalidInput(
            f"theory.phased_vi: gamma={gamma:.12g} takes more than {_MOST_ITERATIONS:.0e} iterations, which are not "
            "planned one by one. Give calls and tolerance of the paper's listing, or a smaller gamma."
        )

    def scale(T: int) -> tuple[float, float]:
        """Return (M, M A), or infinity where T is too small."""
        a = _weights(gamma, T) * _reach(gamma, T)
        A, log_term = float(np.sum(a**0.4)), math.log(2.0 * pairs * T / delta)
        spare = epsilon - damped * gamma**T
        if spare <= 0.0:
            return math.inf, math.inf
        root = damped * (pairs * A * A / (rho * math.sqrt(math.pi)) + math.sqrt(2.0 * log_term) * float(np.sum(a**0.8)))
        M = max(1.0, (root / spare) ** 2)
        return M, M * A

    T = _smallest(lambda T: scale(T)[1], least)
    M = scale(T)[0] * ROUNDING
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


def _smallest(cost: Callable[[int], float], least: int) -> int:
    """Return a T >= ``least`` with nearly the smallest cost: by doubling, then by thirds."""
    step = 1
    while cost(least + 2 * step) < cost(least + step):
        step *= 2
    low, high = least, least + 2 * step
    while high - low > 2:
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if cost(left) <= cost(right):
            high = right
        else:
            low = left
    return min(range(low, high + 1), key=cost)
