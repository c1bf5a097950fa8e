r"""rSTAT, the replicable statistical query (Theorem 2.1, ``thm:rep-sq``): how wide, how many samples.

The empirical mean v of n samples of a query with values in [0, 1] is rounded to a bin of
width beta whose grid is shifted by a shared offset. The tolerance tau is shared out between
sampling, tau', and rounding:

    midpoint form          tau = tau' + beta/2
    zero-preserving form   tau = tau' + beta      (the bin at 0 answers 0, not its middle)

Accurate: with probability 1 - delta, |v - E| <= tau' = sqrt(ln(2/delta)/(2n)) (Hoeffding), hence
|answer - E| <= tau. Replicable: a shared grid separates two means at distance d with probability at
most d/beta. The offset is independent of both samples, so the mean distance counts: E d <= 1/sqrt(pi n), hence

    rho = 1/(beta sqrt(pi n))

The paper bounds d by 2 tau', except with probability 2 delta. Ours is sharper: no delta, no logarithm. The proofs are
in ``docs/proofs.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_integer, check_share, shown
from replicable_rl.runs import FIXED_SEED, Claim, Claims, LibraryClaim
from replicable_rl.theory.plan import SHARP_FORM, SLACK, claims_of
from replicable_rl.wording import apart

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Floats = NDArray[np.float64]

Form = Literal["midpoint", "zero-preserving"]
_FORMS = ("midpoint", "zero-preserving")
_SAMPLED = ("the samples are independent", "the query lies in [0, 1]")
ROUNDING = 1.0 + 2.0**-20  # what `few_bits` may take, and more
_BITS = 24
ARITHMETIC = 2.0**-40  # more than what 64-bit numbers lose in two means of a million outcomes


@dataclass(frozen=True)
class RStatPlan:
    """Parameters of one replicable query, and what is proved of it.

    Attributes
    ----------
    tolerance : float
        tau: |answer - E| <= tau with probability 1 - delta.
    sampling_tolerance, width : float
        tau' and beta.
    samples : int
        n that makes both promises true.
    """

    rho: float
    delta: float
    form: Form
    tolerance: float
    sampling_tolerance: float
    width: float
    samples: int

    @property
    def rho_proved(self) -> float:
        """Bound on the probability that two runs get different answers; 1 when nothing is proved."""
        return min(1.0, mean_distance(self.samples) / self.width)

    @property
    def error_proved(self) -> float:
        """Bound on |answer - E| that holds with probability 1 - delta."""
        return hoeffding_radius(self.samples, self.delta) + pieces_of(self.form) * self.width / 2.0

    def claims(self) -> Claims:
        """Return what is proved of one query, about accuracy and about replicability apart.

        >>> print(rstat(rho=0.2, delta=0.01, tolerance=0.1).claims().replicability)
        proved (the sharp form of Theorem 2.1, thm:rep-sq): two runs get the same answer, except with probability 0.2,
        if the samples are independent, the query lies in [0, 1] and the shared seed was fixed before the data.
        """
        source = f"{SHARP_FORM}thm:rep-sq"
        near = f"the answer is within {self.tolerance:g} of the mean, except with probability {self.delta:g}"
        same = f"two runs get the same answer, except with probability {self.rho:g}"
        right = LibraryClaim("accuracy", "proved", near, self.tolerance, source, self.delta, conditions=_SAMPLED)
        seed = (*_SAMPLED, FIXED_SEED)
        again = LibraryClaim("replicability", "proved", same, self.rho, source, conditions=seed)
        return claims_of(_within(right, "tolerance", self.error_proved), _within(again, "rho", self.rho_proved))


def rstat(
    rho: float,
    delta: float,
    *,
    tolerance: float | None = None,
    samples: int | None = None,
    form: Form = "midpoint",
) -> RStatPlan:
    """Return the parameters of an rSTAT query from Theorem 2.1 (``thm:rep-sq``).

    Give exactly one of two: ``tolerance`` (tau fixed: what n is needed?) or ``samples``
    (n fixed: what tolerance is reached?).

    Parameters
    ----------
    rho : float
        Two runs may differ with this probability.
    delta : float
        The answer may be further than tau from the mean with this probability.
    tolerance : float, optional
        tau.
    samples : int, optional
        n.
    form : {"midpoint", "zero-preserving"}
        Whether the bin that contains 0 answers its middle or 0.

    Examples
    --------
    >>> plan = rstat(rho=0.2, delta=0.01, tolerance=0.1)
    >>> plan.samples, round(plan.width, 4), round(plan.sampling_tolerance, 4)
    (924, 0.0928, 0.0535)
    >>> round(rstat(rho=0.2, delta=0.01, samples=924).tolerance, 3)
    0.1
    """
    owner = "theory.rstat"
    rho, delta, pieces = check_share(owner, "rho", rho), check_share(owner, "delta", delta), pieces_of(form)
    per_root_n = 1.0 / (rho * math.sqrt(math.pi))  # beta times the root of n
    if samples is None and tolerance is not None:
        tolerance = check_share(owner, "tolerance", tolerance)
        root = (math.sqrt(math.log(2.0 / delta) / 2.0) + pieces * per_root_n / 2.0) / tolerance
        n = math.ceil(root * root)
        return RStatPlan(rho, delta, form, tolerance, hoeffding_radius(n, delta), per_root_n / math.sqrt(n), n)
    if samples is None or tolerance is not None:
        raise InvalidInput(f"{owner}: give exactly one of tolerance (tau fixed) and samples (n fixed).")
    count = check_integer(owner, "samples", samples, low=1, high=2**1000)
    sampling, width = hoeffding_radius(count, delta), per_root_n / math.sqrt(count)
    return RStatPlan(rho, delta, form, sampling + pieces * width / 2.0, sampling, width, count)


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


def split_tolerance(tolerance: float, gap: float) -> tuple[float, float]:
    """Return (beta, tau') as the paper shares out tau, where gap = rho_SQ - 2 delta_SQ."""
    return 2.0 * tolerance / (1 + gap), tolerance * gap / (1 + gap)


def hoeffding_samples(radius: float, delta: float) -> int:
    """Return the n with |mean - E| <= radius except with probability delta, values in [0, 1]."""
    return math.ceil(math.log(2.0 / delta) / (2.0 * radius * radius))


def hoeffding_radius(samples: int, delta: float) -> float:
    """Return the radius that n samples reach: the inverse of :func:`hoeffding_samples`."""
    return math.sqrt(math.log(2.0 / delta) / (2.0 * samples))


def pieces_of(form: str) -> int:
    """Return how many half bins the rounding may move an answer: 1, or 2 where the bin at 0 answers 0."""
    if not (isinstance(form, str) and form in _FORMS):
        raise InvalidInput(f"theory.rstat: form must be one of {', '.join(_FORMS)}, got {shown(form)}.")
    return 1 if form == "midpoint" else 2


def _within(claim: Claim, name: str, reached: float) -> Claim | str:
    """Return a claim if the bound that holds is no larger than what it names, or say what holds instead."""
    if reached <= claim.bound * SLACK:
        return claim
    holds, asked = apart(reached, claim.bound)
    return f"the bound at these parameters is {holds}, above {name}={asked}"
