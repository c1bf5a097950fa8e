r"""rSTAT, the replicable statistical query (Theorem 2.1, ``thm:rep-sq``): how wide, how many samples.

The empirical mean v of n samples of a query with values in [0, 1] is rounded to a bin of
width beta whose grid is shifted by a shared offset. The tolerance tau is shared out between
sampling, tau', and rounding:

    midpoint form          tau = tau' + beta/2
    zero-preserving form   tau = tau' + beta      (the bin at 0 answers 0, not its middle)

Accurate: with probability 1 - delta, |v - E| <= tau' = sqrt(ln(2/delta)/(2n)) (Hoeffding), hence
|answer - E| <= tau. Replicable: a shared grid separates two means at distance d with probability at
most d/beta. There are two ways on from here:

    tight   by the deviation: d <= 2 tau', except with probability 2 delta.
            rho = 2 tau'/beta + 2 delta; it takes 2 delta < rho
    sharp   by the mean distance: the offset is independent of both samples, so E d counts, and
            E d <= 1/sqrt(pi n).  rho = 1/(beta sqrt(pi n)): no delta, no logarithm

The proofs are in ``docs/proofs.md``.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from replicable_rl.display import Displayed
from replicable_rl.errors import (
    InvalidInput,
    check_choice,
    check_in_open_interval,
    check_integer,
    check_numbers,
    check_share,
    shown,
)
from replicable_rl.paper import cited
from replicable_rl.records import Claim, Claims
from replicable_rl.theory.plan import SHARP_FORM, SLACK, Cell, PlanTable, claims_of, plan_table
from replicable_rl.wording import apart, number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Floats = NDArray[np.float64]

Form = Literal["midpoint", "zero-preserving"]
Bound = Literal["sharp", "tight", "printed"]
Rho = TypeVar("Rho", float, float | None)
_FORMS = ("midpoint", "zero-preserving")
BOUNDS = ("sharp", "tight", "printed")
_SAMPLED = ("the samples are independent and the query lies in [0, 1]",)
ROUNDING = 1.0 + 2.0**-20  # what `few_bits` may take, and more
_BITS = 24
ARITHMETIC = 2.0**-40  # more than what 64-bit numbers lose in two means of a million outcomes


@dataclass(frozen=True)
class RStatPlan(Displayed):
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
        return min(1.0, mean_distance(self.samples) / self.width)  # always below the bound by the deviation

    @property
    def error_proved(self) -> float:
        """Bound on |answer - E| that holds with probability 1 - delta."""
        return hoeffding_radius(self.samples, self.delta) + pieces_of(self.form) * self.width / 2.0

    def claims(self) -> Claims:
        """Return what is proved of one query, about accuracy and about replicability apart.

        >>> print(rstat(rho=0.2, delta=0.01, tolerance=0.1).claims().replicability)
        proved (the sharp form of Theorem 2.1, thm:rep-sq): two runs get the same answer, except with probability 0.2,
        if the samples are independent and the query lies in [0, 1].
        """
        by_deviation = 2.0 * hoeffding_radius(self.samples, self.delta) / self.width + 2.0 * self.delta
        source = f"{SHARP_FORM * (by_deviation > self.rho * SLACK)}thm:rep-sq"
        near = f"the answer is within {self.tolerance:g} of the mean, except with probability {self.delta:g}"
        same = f"two runs get the same answer, except with probability {self.rho:g}"
        right = Claim("accuracy", "proved", near, self.tolerance, source, self.delta, conditions=_SAMPLED)
        again = Claim("replicability", "proved", same, self.rho, source, conditions=_SAMPLED)
        return claims_of(_within(right, "tolerance", self.error_proved), _within(again, "rho", self.rho_proved))

    def table(self) -> PlanTable:
        """Return the sharp and the tight form beside each other, and beside a query that is neither.

        >>> made = rstat(rho=0.2, delta=0.01, tolerance=0.1).table()
        >>> dict(zip(made.labels, zip(*made.columns.values())))["samples n"]
        (924, 11385)
        """
        forms = {}
        for name in ("sharp", "tight"):
            with contextlib.suppress(InvalidInput):  # a form that cannot be had has no column
                forms[name] = rstat(self.rho, self.delta, tolerance=self.tolerance, form=self.form, bound=name)
        if not any(self.samples == one.samples and math.isclose(self.width, one.width) for one in forms.values()):
            forms = {"this query": self} | forms
        heading = f"one query, {self.form} form: rho={self.rho:g}, delta={self.delta:g}"
        columns = {name: one._column for name, one in forms.items()}
        return plan_table(heading, columns, f"n = {number(self.samples)}", self.claims(), self.rho_proved)

    @property
    def _column(self) -> dict[str, Cell]:
        return {
            "tolerance tau": self.tolerance,
            "of it for sampling": self.sampling_tolerance,
            "bin width beta": self.width,
            "samples n": self.samples,
            "bound: error": self.error_proved,
            "bound: runs differ": self.rho_proved,
        }


def rstat(
    rho: float,
    delta: float,
    *,
    tolerance: float | None = None,
    samples: int | None = None,
    form: Form = "midpoint",
    bound: Literal["sharp", "tight"] = "sharp",
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
    bound : {"sharp", "tight"}
        Whether replicability follows from the mean distance of two means or from their largest deviation. The
        latter requires 2*delta < rho.

    Examples
    --------
    >>> plan = rstat(rho=0.2, delta=0.01, tolerance=0.1)
    >>> plan.samples, round(plan.width, 4), round(plan.sampling_tolerance, 4)
    (924, 0.0928, 0.0535)
    >>> round(rstat(rho=0.2, delta=0.01, samples=924).tolerance, 3)
    0.1
    >>> rstat(rho=0.2, delta=0.01, tolerance=0.1, bound="tight").samples
    11385
    """
    owner = "theory.rstat"
    check_choice(owner, "bound", bound, ("sharp", "tight"))
    rho, delta = check_delta_rho(owner, check_share(owner, "rho", rho), delta, apart=bound == "tight")
    pieces = pieces_of(form)
    if (tolerance is None) == (samples is None):
        raise InvalidInput(f"{owner}: give exactly one of tolerance (tau fixed) and samples (n fixed).")
    per_root_n = 1.0 / (rho * math.sqrt(math.pi))  # sharp: beta times the root of n
    if tolerance is not None:
        tolerance = check_share(owner, "tolerance", tolerance)
        if bound == "sharp":
            root = (math.sqrt(math.log(2.0 / delta) / 2.0) + pieces * per_root_n / 2.0) / tolerance
            n = math.ceil(root * root)
            return RStatPlan(rho, delta, form, tolerance, hoeffding_radius(n, delta), per_root_n / math.sqrt(n), n)
        width, sampling = split_tolerance(tolerance, rho - 2.0 * delta, pieces)
        return RStatPlan(rho, delta, form, tolerance, sampling, width, hoeffding_samples(sampling, delta))
    count = check_integer(owner, "samples", samples, low=1, high=2**1000)
    sampling = hoeffding_radius(count, delta)
    width = per_root_n / math.sqrt(count) if bound == "sharp" else 2.0 * sampling / (rho - 2.0 * delta)
    return RStatPlan(rho, delta, form, sampling + pieces * width / 2.0, sampling, width, count)


def rstat_rho(samples: int, tolerance: float, delta: float, *, form: Form = "midpoint") -> float:
    """Return the rho that n samples reach at a fixed tolerance: the inverse of :func:`rstat`.

    1.0 means that nothing is promised.

    Parameters
    ----------
    samples : int
        n.
    tolerance, delta : float
        tau, and the probability that the answer may miss it.
    form : {"midpoint", "zero-preserving"}
        As in :func:`rstat`.

    Examples
    --------
    >>> round(rstat_rho(924, tolerance=0.1, delta=0.01), 3)
    0.2
    """
    samples = check_integer("theory.rstat_rho", "samples", samples, low=1, high=2**1000)
    tolerance = check_share("theory.rstat_rho", "tolerance", tolerance)
    delta = check_share("theory.rstat_rho", "delta", delta)
    width = 2.0 * (tolerance - hoeffding_radius(samples, delta)) / pieces_of(form)
    return min(1.0, mean_distance(samples) / width) if width > 0.0 else 1.0


def rstat_mismatch(sigma: ArrayLike, samples: int, width: float) -> NDArray[np.float64]:
    r"""Predict Pr[two runs get different answers] by the central limit theorem.

    The two means differ by D ~ N(0, 2 sigma^2/n), and a distance d is separated with
    probability min(1, d/beta), so the prediction is E min(1, |D|/beta). Where n is large it is
    2 sigma/(beta sqrt(pi n)). A prediction, not a guarantee.

    Parameters
    ----------
    sigma : float or array of floats
        Standard deviation of what is averaged; 0.5 is the largest for values in [0, 1].
    samples : int
        n.
    width : float
        beta.

    Examples
    --------
    >>> float(rstat_mismatch(0.5, samples=10**6, width=0.01).round(6))
    0.056419
    """
    samples = check_integer("theory.rstat_mismatch", "samples", samples, low=1, high=2**1000)
    width = check_in_open_interval("theory.rstat_mismatch", "width", width, 0.0, math.inf)
    deviation = check_numbers("theory.rstat_mismatch", "sigma", sigma)
    if not ((deviation >= 0.0) & np.isfinite(deviation)).all():
        raise InvalidInput(f"theory.rstat_mismatch: sigma must be 0 or more, got {shown(sigma)}.")
    s = math.sqrt(2.0 / samples) * deviation
    x = width / np.where(s > 0.0, s, 1.0)
    near = s / width * math.sqrt(2.0 / math.pi) * -np.expm1(-np.minimum(x * x / 2.0, 700.0))
    return np.where(s > 0.0, np.minimum(near + _two_sided_tail(x), 1.0), 0.0)


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


def check_delta_rho(owner: str, rho: Rho, delta: float, *, apart: bool = True) -> tuple[Rho, float]:
    """Return (rho, delta) in (0, 1); ``apart`` asks for 2*delta < rho. A baseline has no rho."""
    if rho is not None:
        rho = check_share(owner, "rho", rho)
    delta = check_share(owner, "delta", delta)
    if apart and rho is not None and not 2.0 * delta < rho:
        raise InvalidInput(
            f"{owner}: delta must satisfy 2*delta < rho {cited('(thm:rep-sq)')}, got delta={delta:g}, rho={rho:g}. "
            f"Lower delta below {rho / 2.0:g} or raise rho; bound='sharp' does without."
        )
    return rho, delta


def split_tolerance(tolerance: float, gap: float, pieces: int) -> tuple[float, float]:
    """Return (beta, tau') that share out tau, where gap = rho - 2 delta."""
    return 2.0 * tolerance / (pieces + gap), tolerance * gap / (pieces + gap)


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


def _two_sided_tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pr[|N(0, 1)| > x]."""
    from scipy.special import erfc

    tail: NDArray[np.float64] = erfc(x / math.sqrt(2.0))
    return tail
