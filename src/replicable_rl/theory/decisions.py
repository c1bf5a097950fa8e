r"""What is proved of decisions on an empirical model: their loss, and how often two runs decide alike.

From n samples of every pair comes the empirical model, and by exact planning Q^ on it (values in [0, 1]). Let
kappa = gamma where rewards are known and 1 where they are learned, N = S A. Then, with V* fixed beforehand,

    e = kappa/(1-gamma) sqrt(ln(2N/delta)/(2n))      |Q^ - Q*| <= e everywhere, except with probability delta
    d = 2 kappa/(1-gamma) sqrt(ln(2N)/(2n))          E |Q^_1 - Q^_2| <= d, the largest entry, of two runs
    R = sqrt(2 (S ln 2 + ln(N/delta))/n)             |P^ - P|_1 <= R for every row, except with probability delta
    D = 2 (sqrt((S-1)/n) + sqrt(2 ln(N)/n))          E |P^_1 - P^_2|_1 <= D, the largest row, of two runs

A rule turns Q^ and shared numbers into a policy. Shared numbers are independent of both samples, so that a threshold
spread over a length x falls between two numbers with probability (their distance)/x, and the mean distance counts. Of
the A comparisons of a state the last decides nothing: if no other action was taken, it is. The bounds below follow;
``docs/proofs-decisions.md`` has the proofs.

    rule          parameter from the loss eps'             two runs differ with probability at most   loss at most
    greedy        -                                        -                                          2e/(1-g)
    rounded       beta = (1-g) eps'                        N d/beta                                   (2e + beta)/(1-g)
    gumbel        lambda = ln(S(A-1)/delta')/((1-g) eps')  S (2 lambda d)                             2e/(1-g) + eps'
    tolerance     x = (1-g) eps'/2                         2 S(A-1) d/x                               (2e + 2x)/(1-g)
    perturbed     sigma = (1-g) eps'/ln(N/delta')          2 S(A-1) d (1 + sigma H_N/(1-g))/sigma     2e'/(1-g) + eps'
    softmax       lambda = ln(A)/((1-g) eps')              -                                          2e/(1-g) + eps'
    affordable    eps'                                     `affordable_disagreement`                  `estimated_loss`
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

ROUNDING = 1e-9  # of values and losses in [0, 1]: more than planning and evaluation may be off
SOFTENING = 0.05  # of the policy by which states are weighed: (1 + SOFTENING gap/eps')**-POWER
POWER = 4
FLOOR = 1.0 / 16.0  # of a weight's square, beside the share of its state: (FLOOR + S o(s))/(FLOOR + 1)
LIGHTEST = math.sqrt(FLOOR / (1.0 + FLOOR))  # the weight of a state that is never reached
LEAST = 0.8  # of the loss that may be spent: where the window of the threshold begins
GREEDY, ROUNDED, GUMBEL, TOLERANCE = "greedy", "rounded", "gumbel", "tolerance"
PERTURBED, SOFTMAX, AFFORDABLE, PUBLISHED = "perturbed", "softmax", "affordable", "published"


@dataclass(frozen=True)
class Sizes:
    """What the bounds know of a problem."""

    n_states: int
    n_actions: int
    gamma: float
    known_rewards: bool

    @property
    def pairs(self) -> int:
        """N, the number of pairs."""
        return self.n_states * self.n_actions

    @property
    def comparisons(self) -> int:
        """S (A - 1): the comparisons that decide something."""
        return self.n_states * (self.n_actions - 1)

    @property
    def kappa(self) -> float:
        """By how much a mean of values, with its reward, is damped."""
        return self.gamma if self.known_rewards else 1.0

    @property
    def horizon(self) -> float:
        """1/(1 - gamma)."""
        return 1.0 / (1.0 - self.gamma)

    def value_error(self, n: float, delta: float) -> float:
        """Return e: every entry of Q^ is this close to Q*, except with probability delta."""
        return min(1.0, self.kappa * self.horizon * math.sqrt(math.log(2.0 * self.pairs / delta) / (2.0 * n)))

    def value_distance(self, n: float) -> float:
        """Return d: the mean of the largest distance of two runs in an entry of Q^."""
        far = 2.0 * self.kappa * self.horizon * math.sqrt(math.log(2.0 * self.pairs) / (2.0 * n))
        return min(1.0, far + ROUNDING)

    def row_error(self, n: float, delta: float) -> float:
        """Return R: every row of the model is this close in l1, except with probability delta."""
        return min(2.0, math.sqrt(2.0 * (self.n_states * math.log(2.0) + math.log(self.pairs / delta)) / n))

    def row_distance(self, n: float) -> float:
        """Return D: the mean of the largest distance of two runs in a row, in l1."""
        return min(2.0, 2.0 * (math.sqrt((self.n_states - 1.0) / n) + math.sqrt(2.0 * math.log(self.pairs) / n)))


class Promises(NamedTuple):
    """What is proved of a rule: its parameter from the loss that it may spend, and two bounds."""

    parameter: Callable[[Sizes, float, float], float]  # (sizes, eps', delta) ->
    differ: Callable[[Sizes, float, float, float], float]  # (sizes, n, parameter, eps') -> probability, or more than 1
    loss: Callable[[Sizes, float, float, float, float], float]  # (sizes, n, parameter, eps', delta) ->


def _half(delta: float) -> float:
    """Split a failure probability between the samples and the shared numbers."""
    return delta / 2.0


def _greedy_loss(sizes: Sizes, n: float, delta: float) -> float:
    return 2.0 * sizes.value_error(n, delta) * sizes.horizon


def _gumbel_rate(sizes: Sizes, spent: float, delta: float) -> float:
    return max(1.0, math.log(max(sizes.comparisons, 1) / _half(delta))) * sizes.horizon / spent


def _highest(sizes: Sizes, delta: float) -> float:
    """Return what none of N exponential numbers exceeds, except with probability delta/2."""
    return math.log(sizes.pairs / _half(delta))


def _perturbed_differ(sizes: Sizes, n: float, sigma: float) -> float:
    harmonic = math.log(sizes.pairs) + 1.0  # at least the mean of the largest of N exponential numbers
    reach = 1.0 + sigma * harmonic * sizes.horizon  # what perturbed values spread over, in the mean
    return 2.0 * sizes.comparisons * sizes.value_distance(n) * reach / sigma


def _perturbed_loss(sizes: Sizes, n: float, sigma: float, delta: float) -> float:
    spent = sigma * _highest(sizes, delta) * sizes.horizon
    return _greedy_loss(sizes, n, _half(delta)) * (1.0 + spent) + spent


def estimated_loss(sizes: Sizes, n: float, spent: float, delta: float, largest_gap: float = 1.0) -> float:
    """Bound the loss of a policy whose loss on the empirical model is at most ``spent``, whatever the policy.

    ``largest_gap`` is the largest gap of Q^ that the policy accepts in a state.
    """
    rows = sizes.gamma * sizes.horizon * sizes.row_error(n, _half(delta)) / 2.0
    return spent + ROUNDING + sizes.horizon * (2.0 * sizes.value_error(n, _half(delta)) + largest_gap * rows)


def tolerances(sizes: Sizes, spent: float) -> list[float]:
    """Return the tolerances 1, 1/2, 1/4, ... that the affordable rule may try: the last is always affordable."""
    last = math.ceil(math.log2(2.0 * sizes.horizon / (LIGHTEST * LEAST * spent)))
    return [2.0**-j for j in range(max(last, 0) + 1)]


def affordable_disagreement(sizes: Sizes, n: float, spent: float) -> float:
    """Bound the probability that two runs of the affordable rule differ.

    For every tolerance x that may be tried: a decision differs, by the values or by the weights of the states, or the
    estimated losses of one policy lie on two sides of a threshold that is spread over eps'/5.
    """
    distance, rows = sizes.value_distance(n), sizes.row_distance(n)
    discount = sizes.gamma * sizes.horizon
    weights = discount * (2.0 * POWER * SOFTENING / spent * distance + rows)  # of o_1 - o_2, in l1
    total = 0.0
    for x in tolerances(sizes, spent):
        largest_gap = min(1.0, 2.0 * x / LIGHTEST)
        losses = sizes.horizon * (2.0 * distance + largest_gap / 2.0 * discount * rows) + 2.0 * ROUNDING
        decisions = sizes.comparisons * (2.0 * distance / x + weights / FLOOR)
        total += decisions + losses / ((1.0 - LEAST) * spent)
    return total


PROMISES: dict[str, Promises] = {
    GREEDY: Promises(
        lambda sizes, spent, delta: 0.0,
        lambda sizes, n, _, spent: math.inf,
        lambda sizes, n, _, spent, delta: _greedy_loss(sizes, n, delta),
    ),
    ROUNDED: Promises(
        lambda sizes, spent, delta: spent / sizes.horizon,
        lambda sizes, n, beta, spent: sizes.pairs * sizes.value_distance(n) / beta,
        lambda sizes, n, beta, spent, delta: _greedy_loss(sizes, n, delta) + beta * sizes.horizon,
    ),
    GUMBEL: Promises(
        _gumbel_rate,
        lambda sizes, n, rate, spent: sizes.n_states * 2.0 * rate * sizes.value_distance(n),
        lambda sizes, n, rate, spent, delta: (
            _greedy_loss(sizes, n, _half(delta))
            + math.log(max(sizes.comparisons, 1) / _half(delta)) / rate * sizes.horizon
        ),
    ),
    TOLERANCE: Promises(
        lambda sizes, spent, delta: spent / sizes.horizon / 2.0,
        lambda sizes, n, x, spent: 2.0 * sizes.comparisons * sizes.value_distance(n) / x,
        lambda sizes, n, x, spent, delta: _greedy_loss(sizes, n, delta) + 2.0 * x * sizes.horizon,
    ),
    PERTURBED: Promises(
        lambda sizes, spent, delta: spent / sizes.horizon / _highest(sizes, delta),
        lambda sizes, n, sigma, spent: _perturbed_differ(sizes, n, sigma),
        lambda sizes, n, sigma, spent, delta: _perturbed_loss(sizes, n, sigma, delta),
    ),
    SOFTMAX: Promises(
        lambda sizes, spent, delta: max(math.log(sizes.n_actions), 2.0**-20) * sizes.horizon / spent,
        lambda sizes, n, _, spent: math.inf,
        lambda sizes, n, rate, spent, delta: (
            _greedy_loss(sizes, n, delta) + math.log(sizes.n_actions) / rate * sizes.horizon
        ),
    ),
    AFFORDABLE: Promises(
        lambda sizes, spent, delta: 0.0,
        lambda sizes, n, _, spent: affordable_disagreement(sizes, n, spent),
        lambda sizes, n, _, spent, delta: estimated_loss(sizes, n, spent, delta),
    ),
    PUBLISHED: Promises(
        lambda sizes, spent, delta: 0.0,
        lambda sizes, n, _, spent: math.inf,
        lambda sizes, n, _, spent, delta: estimated_loss(sizes, n, spent, delta),
    ),
}
