r"""How wide the bins of rSTAT are, and how many samples it takes (Theorem 2.1, ``thm:rep-sq``); one query, and many.

The rounding itself is `queries.rstat`.

The empirical mean v of n samples of a query with values in [0, 1] is rounded to a bin of
width beta whose grid starts at a shared random offset. The tolerance tau is shared out between
sampling, tau', and rounding:

    midpoint form          tau = tau' + beta/2
    zero-preserving form   tau = tau' + beta      (the bin at 0 answers 0, not its middle)

Accurate: with probability 1 - delta, |v - E| <= tau' = sqrt(ln(2/delta)/(2n)) (Hoeffding), hence
|answer - E| <= tau. Replicable: a shared grid separates two means at distance d with probability at
most d/beta. The offset is independent of both samples, so the mean distance counts: E d <= 1/sqrt(pi n), hence

    rho = 1/(beta sqrt(pi n))

The paper bounds d by 2 tau', except with probability 2 delta. Ours is sharper: no delta, no logarithm. The proofs are
in ``docs/proofs.md``.

Of Q queries each gets rho_SQ = rho/Q and delta_SQ = delta/Q, by a union bound. Two runs differ at most as often as the
mean distances of their means, summed over the queries, allow.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from replicable_rl.errors import check_choice, check_share
from replicable_rl.theory.numbers import Floats, Numbers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Form = Literal["midpoint", "zero-preserving"]
ROUNDING = 1.0 + 2.0**-20  # what `few_bits` may take, and more
_BITS = 24
ARITHMETIC = 2.0**-40  # more than what 64-bit numbers lose in two means of a million outcomes


@dataclass(frozen=True)
class RStatNumbers:
    """Parameters of one replicable query, and what is proved of it."""

    rho: float
    delta: float
    form: Form
    tolerance: float  # tau: |answer - E| <= tau with probability 1 - delta
    width: float  # beta
    samples: int  # n

    @property
    def rho_proved(self) -> float:
        """Bound on the probability that two runs get different answers; 1 when nothing is proved."""
        return min(1.0, mean_distance(self.samples) / self.width)

    @property
    def error_proved(self) -> float:
        """Bound on |answer - E| that holds with probability 1 - delta."""
        return hoeffding_radius(self.samples, self.delta) + pieces_of(self.form) * self.width / 2.0


def rstat(rho: float, delta: float, tolerance: float, *, form: Form = "midpoint") -> RStatNumbers:
    """Return beta and n of an rSTAT query with the promise of Theorem 2.1 (``thm:rep-sq``), by our sharper bound.

    Two runs differ with probability at most ``rho``, and the answer is further than ``tolerance`` from the mean with
    probability at most ``delta``. ``form`` says whether the bin that contains 0 answers its middle or 0.

    >>> query = rstat(rho=0.2, delta=0.01, tolerance=0.1)
    >>> query.samples, round(query.width, 4)
    (924, 0.0928)
    """
    promise = {"rho": rho, "delta": delta, "tolerance": tolerance}
    rho, delta, tolerance = (check_share("theory.rstat", name, value) for name, value in promise.items())
    per_root_n = 1.0 / (rho * math.sqrt(math.pi))  # beta times the root of n
    root = (math.sqrt(math.log(2.0 / delta) / 2.0) + pieces_of(form) * per_root_n / 2.0) / tolerance
    n = math.ceil(root * root)
    return RStatNumbers(rho, delta, form, tolerance, per_root_n / math.sqrt(n), n)


def mean_distance(samples: float) -> float:
    """Bound the mean distance E|v1 - v2| of two means of n independent samples in [0, 1], by 1/sqrt(pi n).

    >>> round(mean_distance(100), 4)
    0.0564
    """
    return 1.0 / math.sqrt(math.pi * samples)


def seed_margin(variance: Floats, samples: Floats | float, spread: Floats | float, log_term: float) -> Floats:
    """Return how far from an edge a mean must lie, so that a second run's mean is on the same side of it.

    By Bernstein's inequality for the differences of the two runs' samples, with the standard deviation that the first
    run saw and its own error (Maurer and Pontil 2009). For all of Q queries at once, except with probability delta over
    both runs, where ``log_term`` is ln(3Q/delta) and ``spread`` the length of the interval of the values. At least two
    samples. What 64-bit arithmetic loses, `ARITHMETIC`, comes on top.
    """
    sigma = np.sqrt(variance) + spread * np.sqrt(2.0 * log_term / (samples - 1.0))
    return np.sqrt(4.0 * log_term / samples) * sigma + spread * log_term / (3.0 * samples)


def few_bits(numbers: ArrayLike) -> Floats:
    """Round up to 24 significant bits: the last bits of powers and logarithms differ between machines.

    >>> float(few_bits(0.1))
    0.10000000149011612
    """
    mantissa, exponent = np.frexp(np.asarray(numbers, dtype=np.float64))
    rounded: Floats = np.ldexp(np.ceil(mantissa * 2.0**_BITS), exponent - _BITS)
    return rounded


def hoeffding_samples(radius: float, delta: float) -> int:
    """Return the n with |mean - E| <= radius except with probability delta, values in [0, 1]."""
    return math.ceil(math.log(2.0 / delta) / (2.0 * radius * radius))


def hoeffding_radius(samples: int, delta: float) -> float:
    """Return the radius that n samples reach: the inverse of :func:`hoeffding_samples`."""
    return math.sqrt(math.log(2.0 / delta) / (2.0 * samples))


def pieces_of(form: str) -> int:
    """Return how many half bins the rounding may move an answer: 1, or 2 where the bin at 0 answers 0."""
    return 1 if check_choice("theory.rstat", "form", form, ("midpoint", "zero-preserving")) == "midpoint" else 2


@dataclass(frozen=True, kw_only=True)
class QueryNumbers(Numbers):
    """Numbers of so many queries, each about means of ``calls`` samples."""

    queries: int  # in all
    tolerance: float  # of one query, as are delta_sq, rho_sq and width
    tolerance_needed: float  # by the theorem
    delta_sq: float
    rho_sq: float | None
    width: float  # beta; 0 for a baseline, which does not round
    calls: int  # m, or n: the samples that a run draws for a query
    calls_needed: int  # by the theorem

    @property
    @abstractmethod
    def disagreement(self) -> float:
        """Bound on the probability that two runs differ: the mean distances of two means, summed over the queries."""

    @property
    def sampling_error(self) -> float:
        """Tau' at ``calls``: all means are this close to the truth, except with probability delta."""
        return hoeffding_radius(self.calls, self.delta_sq)

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs differ; 1 when nothing is proved, None for the baseline."""
        return None if self.rho is None else min(1.0, self.disagreement)

    @property
    def seed_log_term(self) -> float:
        """ln(3Q/delta), for what a run says of its shared seed, see `seed_margin`; 0 if it may say nothing."""
        return 0.0 if self.rho is None else math.log(3.0 * self.queries / self.delta)

    def short(self, about: str) -> dict[str, tuple[float, float]]:
        """Return the calls, where more would do."""
        return {"calls": (self.calls, self.calls_needed)} if self.calls < self.calls_needed else {}
