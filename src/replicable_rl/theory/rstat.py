r"""rSTAT, the replicable statistical query (``thm:rep-sq``): how wide, how many samples.

The empirical mean v of n samples of a query with values in [0, 1] is rounded to a bin of
width beta whose grid is shifted by a shared offset. The tolerance tau is shared out between
sampling, tau', and rounding:

    midpoint form          tau = tau' + beta/2
    zero-preserving form   tau = tau' + beta      (the bin at 0 answers 0, not its middle)

    tau' / (beta/2) = rho - 2 delta        n = ln(2/delta) / (2 tau'^2)

Accurate: with probability 1 - delta, |v - E| <= tau' (Hoeffding), hence |answer - E| <= tau.
Replicable: two means at distance d <= 2 tau' are separated by a shared grid with probability
at most d/beta <= rho - 2 delta; add 2 delta for either mean being off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from replicable_rl.errors import InvalidInput, check_integer, check_share

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Form = Literal["midpoint", "zero-preserving"]
Rho = TypeVar("Rho", float, float | None)
_FORMS = ("midpoint", "zero-preserving")


@dataclass(frozen=True)
class RStatPlan:
    """Parameters of one replicable query.

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


def rstat(
    rho: float, delta: float, *, tolerance: float | None = None, samples: int | None = None, form: Form = "midpoint"
) -> RStatPlan:
    """Return the parameters of an rSTAT query from ``thm:rep-sq``.

    Give exactly one of two: ``tolerance`` (tau fixed: what n is needed?) or ``samples``
    (n fixed: what tolerance is reached?).

    Parameters
    ----------
    rho : float
        Two runs may differ with this probability.
    delta : float
        The answer may be further than tau from the mean with this probability; 2*delta < rho is required.
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
    (11385, 0.1695, 0.0153)
    >>> round(rstat(rho=0.2, delta=0.01, samples=11385).tolerance, 4)
    0.1
    """
    rho, delta = check_delta_rho("theory.rstat", rho, delta)
    pieces = pieces_of(form)
    if (tolerance is None) == (samples is None):
        raise InvalidInput("theory.rstat: give exactly one of tolerance (tau fixed) and samples (n fixed).")
    if tolerance is not None:
        tolerance = check_share("theory.rstat", "tolerance", tolerance)
        width, sampling = split_tolerance(tolerance, rho - 2.0 * delta, pieces)
        return RStatPlan(rho, delta, form, tolerance, sampling, width, hoeffding_samples(sampling, delta))
    count = check_integer("theory.rstat", "samples", samples, low=1, high=2**1000)
    sampling = hoeffding_radius(count, delta)
    width = 2.0 * sampling / (rho - 2.0 * delta)
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
    >>> round(rstat_rho(11385, tolerance=0.1, delta=0.01), 3)
    0.2
    """
    samples = check_integer("theory.rstat_rho", "samples", samples, low=1, high=2**1000)
    tolerance = check_share("theory.rstat_rho", "tolerance", tolerance)
    delta = check_share("theory.rstat_rho", "delta", delta)
    return min(1.0, gap_reached(hoeffding_radius(samples, delta), tolerance, pieces_of(form)) + 2.0 * delta)


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
    s = np.sqrt(2.0 / samples) * np.asarray(sigma, dtype=np.float64)
    x = width / np.where(s > 0.0, s, 1.0)
    near = s / width * math.sqrt(2.0 / math.pi) * -np.expm1(-np.minimum(x * x / 2.0, 700.0))
    return np.where(s > 0.0, np.minimum(near + _two_sided_tail(x), 1.0), 0.0)


def check_delta_rho(owner: str, rho: Rho, delta: float) -> tuple[Rho, float]:
    """Return (rho, delta) if 0 < 2*delta < rho < 1; a baseline has no rho."""
    if rho is not None:
        rho = check_share(owner, "rho", rho)
    delta = check_share(owner, "delta", delta)
    if rho is not None and not 2.0 * delta < rho:
        raise InvalidInput(
            f"{owner}: delta must satisfy 2*delta < rho (thm:rep-sq), got delta={delta:g}, rho={rho:g}. "
            f"Lower delta below {rho / 2.0:g} or raise rho."
        )
    return rho, delta


def split_tolerance(tolerance: float, gap: float, pieces: int) -> tuple[float, float]:
    """Return (beta, tau') that share out tau, where gap = rho - 2 delta."""
    return 2.0 * tolerance / (pieces + gap), tolerance * gap / (pieces + gap)


def gap_reached(sampling_tolerance: float, tolerance: float, pieces: int) -> float:
    """Return rho - 2 delta such that sampling uses exactly tau' of tau; infinity if it uses all."""
    if sampling_tolerance >= tolerance:
        return math.inf
    return pieces * sampling_tolerance / (tolerance - sampling_tolerance)


def hoeffding_samples(radius: float, delta: float) -> int:
    """Return the n with |mean - E| <= radius except with probability delta, values in [0, 1]."""
    return math.ceil(math.log(2.0 / delta) / (2.0 * radius * radius))


def hoeffding_radius(samples: int, delta: float) -> float:
    """Return the radius that n samples reach: the inverse of :func:`hoeffding_samples`."""
    return math.sqrt(math.log(2.0 / delta) / (2.0 * samples))


def pieces_of(form: str) -> int:
    """Return how many half bins the rounding may move an answer: 1, or 2 where the bin at 0 answers 0."""
    if form not in _FORMS:
        raise InvalidInput(f"theory.rstat: form must be one of {', '.join(_FORMS)}, got {form!r}.")
    return 1 if form == "midpoint" else 2


def _two_sided_tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pr[|N(0, 1)| > x]."""
    from scipy.special import erfc

    tail: NDArray[np.float64] = erfc(x / math.sqrt(2.0))
    return tail
