r"""Compiled multinomial counts: conditional binomials over the rows of an MDP.

Binomial(n, p) with r = min(p, 1-p) is drawn by inversion when n r < 10 and otherwise by
Hörmann's transformed rejection (BTRS, 1993). Two things let n go up to 2**63 - 1, where
the usual implementations lose the law in cancellations and overflows: candidates are kept as
integer offsets from the mode, and the log-probability is Loader's saddle-point form, whose
terms are small where the probability is large. The rounding left is that of the product
n*r, as if p had been changed in its last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    State = NDArray[np.uint64]

# ln k! = (k + 1/2) ln k - k + ln(2 pi)/2 + STIRLING[k], for k = 1 ... 15
_STIRLING = np.array(
    [0.0] + [math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2.0 * math.pi) for k in range(1, 16)]
)
_LOG_2PI = math.log(2.0 * math.pi)


@compiled
def conditional_rows(indptr: NDArray[np.int64], probability: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out[k] = Pr[outcome k | no earlier one of its row] = p if p <= 1/2, else -(1 - p)."""
    for row in range(indptr.size - 1):
        after = 0.0
        for k in range(indptr[row + 1] - 1, indptr[row] - 1, -1):
            total = probability[k] + after
            if total == 0.0:  # impossible, and so is everything after it
                out[k] = 0.0
            else:
                out[k] = probability[k] / total if probability[k] <= after else -(after / total)
            after = total


@compiled
def multinomial_rows(
    indptr: NDArray[np.int64], conditional: NDArray[np.float64], calls: int, state: State, out: NDArray[np.int64]
) -> None:
    """Fill ``out`` with the counts of ``calls`` independent outcomes of every row."""
    for row in range(indptr.size - 1):
        left = calls
        last = indptr[row + 1] - 1
        for k in range(indptr[row], last):
            out[k] = binomial(left, conditional[k], state)
            left -= out[k]
        out[last] = left


@compiled
def binomial(n: int, signed_p: float, state: State) -> int:
    """Draw Binomial(n, p), where ``signed_p`` is p, or -(1 - p) for p > 1/2."""
    r = abs(signed_p)
    if n == 0 or r == 0.0:
        k = 0
    elif n * r < 10.0:
        k = _by_inversion(n, r, state)
    else:
        k = _by_rejection(n, r, state)
    return n - k if signed_p < 0.0 or (signed_p == 0.0 and math.copysign(1.0, signed_p) < 0.0) else k


@compiled
def _by_inversion(n: int, r: float, state: State) -> int:
    odds = r / (1.0 - r)
    none = math.exp(n * math.log1p(-r))
    while True:
        u = _uniform(state)
        probability = none
        k = 0
        while u > probability:
            u -= probability
            k += 1
            if k > n or k > 200:  # beyond the support, or where less than 1e-100 is left: rounding
                break
            probability *= (n - k + 1.0) / k * odds
        if k <= n and k <= 200:
            return k


@compiled
def _by_rejection(n: int, r: float, state: State) -> int:
    mean = n * r
    mode = int(math.floor(mean + r))  # noqa: RUF046  # numba's floor is a float
    spread = math.sqrt(mean * (1.0 - r))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * r
    alpha = (2.83 + 5.1 / b) * spread
    center = mean - mode + 0.5
    log_mode = np.nan  # computed when first needed
    while True:
        u = _uniform(state) - 0.5
        v = _uniform(state)
        us = 0.5 - abs(u)
        offset = math.floor((2.0 * a / us + b) * u + center)
        if us >= 0.07 and v <= 0.92 - 4.2 / b:
            return mode + int(offset)
        if offset < -mode or offset > n - mode:
            continue
        if math.isnan(log_mode):
            log_mode = _log_pmf(n, r, mode, mode - mean)
        k = mode + int(offset)
        log_ratio = _log_pmf(n, r, k, offset + (mode - mean)) - log_mode
        if math.log(v * alpha / (a / (us * us) + b)) <= log_ratio:
            return k


@compiled
def _log_pmf(n: int, r: float, k: int, deviation: float) -> float:
    """Ln Pr[Binomial(n, r) = k], where deviation = k - n r is known more exactly than k."""
    if k == 0:
        return n * math.log1p(-r)
    if k == n:
        return n * math.log(r)
    mean = n * r
    return (
        _stirling(n)
        - _stirling(k)
        - _stirling(n - k)
        - _deviance(float(k), mean, deviation)
        - _deviance(float(n - k), n - mean, -deviation)
        + 0.5 * (math.log(n / float(k) / float(n - k)) - _LOG_2PI)
    )


@compiled
def _stirling(k: int) -> float:
    """The error of Stirling's formula for ln k!."""
    if k < 16:
        return float(_STIRLING[k])
    x = float(k)
    xx = x * x
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / xx) / xx) / xx) / x


@compiled
def _deviance(x: float, mean: float, deviation: float) -> float:
    """X ln(x/mean) + mean - x, without cancellation where x is near the mean."""
    if abs(deviation) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - deviation
    v = deviation / (x + mean)
    total = deviation * v
    term = 2.0 * x * v
    for j in range(1, 1000):
        term *= v * v
        longer = total + term / (2 * j + 1)
        if longer == total:
            break
        total = longer
    return total


@compiled
def _uniform(state: State) -> float:
    """A number in (0, 1): 53 bits of xoshiro256++ and a half, so that neither end occurs."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    word = _rotate(s0 + s3, np.uint64(23)) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = _rotate(s3, np.uint64(45))
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return (float(word >> np.uint64(11)) + 0.5) * 2.0**-53


@compiled
def _rotate(x: np.uint64, k: np.uint64) -> np.uint64:
    return (x << k) | (x >> (np.uint64(64) - k))


@compiled
def propagate(
    indptr: NDArray[np.int64],
    next_state: NDArray[np.int32],
    conditional: NDArray[np.float64],
    policy_conditional: NDArray[np.float64],
    n_actions: int,
    horizon: int,
    here: NDArray[np.int64],
    state: State,
    count: NDArray[np.float64],
) -> None:
    """Add to ``count`` the outcomes of ``horizon`` steps of all the episodes that start as ``here`` says.

    ``here[s]`` episodes are in state s; they choose actions by conditional binomials, then outcomes, and move
    on together. Only states that some episode has reached are touched.
    """
    there = np.zeros_like(here)
    reached = np.flatnonzero(here)
    arriving = np.empty(here.size, dtype=np.int64)
    for _ in range(horizon):
        n_arriving = 0
        for s in reached:
            undecided = here[s]
            here[s] = 0
            for a in range(n_actions):
                row = s * n_actions + a
                moving = undecided
                if a < n_actions - 1:
                    moving = binomial(undecided, policy_conditional[row], state)
                    undecided -= moving
                last = indptr[row + 1] - 1
                for k in range(indptr[row], last + 1):
                    if moving == 0:
                        break
                    drawn = moving
                    if k < last:
                        drawn = binomial(moving, conditional[k], state)
                    if drawn > 0:
                        moving -= drawn
                        count[k] += drawn
                        if there[next_state[k]] == 0:
                            arriving[n_arriving] = next_state[k]
                            n_arriving += 1
                        there[next_state[k]] += drawn
        # A fixed order of the states makes the draws a function of the counts alone.
        reached = np.sort(arriving[:n_arriving])
        here, there = there, here
