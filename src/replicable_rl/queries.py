r"""Queries: how an empirical mean becomes an answer (Definition 2.4); plain means, and rSTAT (Theorem 2.1).

A query is a pure function of the means and of the shared randomness at an address. rSTAT rounds a mean v to a bin of
width beta; the grid of bins starts at a shared random offset:

    offset = u * beta                     u ~ U[0, 1), shared
    bin    = floor((v - offset)/beta)     answer = middle of [offset + bin*beta, offset + (bin + 1)*beta] within [0, 1]

The answer is computed from the whole number ``bin`` alone, so two means in one bin get the same bits.

A replicable algorithm asks :class:`RStat`, where its baseline asks the :class:`Means`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_numbers, shown
from replicable_rl.randomness import SharedRandomness
from replicable_rl.theory.rstat import pieces_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.theory.rstat import Form

__all__ = ["Means", "Query", "RStat", "rstat"]

Floats = NDArray[np.float64]
Index = NDArray[np.int64] | None
Words = NDArray[np.uint64]


class Query(ABC):
    """Answers means in [0, 1]. Subclass it for a query of your own."""

    @property
    def keeps_zero(self) -> bool:
        """Whether a mean of 0 is answered 0: then what was never seen need not be asked about."""
        return False

    @abstractmethod
    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Answer the means at an address: what they are about, such as the iteration.

        They are the elements ``index`` of that address, or all of them, in order. Equal addresses and elements share
        their randomness in all runs.
        """

    def room(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return how far the means are at least from the next edge between two answers; 0: that is not known."""
        return np.zeros(means.shape)

    def keys(self, addresses: range) -> Words | None:
        """Return the keys of the numbers u, (n, 2), for a compiled loop that answers the middles of bins.

        There are no keys where nothing is rounded. None: a compiled loop cannot answer for this query.
        """
        return None


@final
@dataclass(frozen=True)
class Means(Query):
    """The means themselves: accurate, but never the same twice."""

    keeps_zero = True

    def keys(self, addresses: range) -> Words | None:
        """Return no keys."""
        return np.empty((0, 2), dtype=np.uint64)

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return the means."""
        return means


@final
@dataclass(frozen=True)
class RStat(Query):
    """rSTAT, with the numbers u that shared randomness has at this label and the address of a query.

    ``width`` is that of the bins, or one for each value of the first address, such as the iteration; in the
    ``"zero-preserving"`` form the bin that contains 0 answers 0 and not its middle.

    >>> from replicable_rl.randomness import SharedRandomness
    >>> query = RStat(SharedRandomness(2023), "rpvi/offset", 0.2)
    >>> query.answer(np.array([0.41, 0.45, 0.62]), 0).round(4).tolist()  # elements 0, 1 and 2 at the address 0
    [0.4088, 0.3655, 0.6843]
    >>> query.answer(np.array([0.62]), 0, index=np.array([2])).round(4).tolist()  # element 2 alone
    [0.6843]
    """

    shared: SharedRandomness
    label: str
    width: float | Floats
    form: Form = "midpoint"

    def __post_init__(self) -> None:
        if not isinstance(self.shared, SharedRandomness):
            raise InvalidInput(f"rstat: shared must be SharedRandomness, got {shown(self.shared)}.")
        width = check_numbers("rstat", "width", self.width)
        if width.ndim > 1 or not (np.isfinite(width) & (width > 0.0)).all():
            raise InvalidInput(f"rstat: width must be above 0 and finite, got {shown(self.width)}.")
        object.__setattr__(self, "width", width if width.ndim else float(width))
        pieces_of(self.form)

    @property
    def keeps_zero(self) -> bool:
        """Whether the bin at 0 answers 0."""
        return self.form == "zero-preserving"

    def keys(self, addresses: range) -> Words | None:
        """Return the keys of the numbers u; None where 0 is a case of its own."""
        return None if self.keeps_zero else self.shared.keys(self.label, addresses)

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Round the means on the grids of their address."""
        return self._rounded(means, address, index).answer

    def room(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return how far the means are from the next edge between two answers."""
        return self._rounded(means, address, index).room

    def _rounded(self, means: Floats, address: tuple[int, ...], index: Index) -> RoundedMeans:
        width = float(self.width[address[0]] if isinstance(self.width, np.ndarray) else self.width)
        if index is None:
            return rstat(means, self.shared.uniform(self.label, *address, shape=means.shape), width, form=self.form)
        if index.shape != means.shape:
            rule = "index must have one element for each mean"
            raise InvalidInput(f"rstat: {rule}, got {index.shape} for {means.shape}.")
        return rstat(means, self.shared.uniform_at(self.label, *address, index=index), width, form=self.form)


class RoundedMeans(NamedTuple):
    """The answers, the numbers of their bins, and how far each mean is from an edge between two answers."""

    answer: Floats
    bin: NDArray[np.int64]
    room: Floats


def rstat(means: ArrayLike, u: ArrayLike, width: float, *, form: Form = "midpoint") -> RoundedMeans:
    """Round means in [0, 1] to bins of this width, which `theory.rstat` chooses by rho, delta and tau.

    ``u`` holds uniform numbers in [0, 1), one for each mean or one for all; the grid starts at the offset
    ``u * width``. In the ``"zero-preserving"`` form the bin that contains 0 answers 0.

    >>> rounded = rstat([0.32, 0.38, 0.51], u=0.5, width=0.2)
    >>> rounded.answer, rounded.bin
    (array([0.4, 0.4, 0.6]), array([1, 1, 2]))
    >>> rstat([0.02, 0.32], u=0.5, width=0.2, form="zero-preserving").answer
    array([0. , 0.4])
    """
    width = check_in_open_interval("rstat", "width", width, 0.0, np.inf)
    v = np.clip(check_numbers("rstat", "means", means), 0.0, 1.0)  # a mean of numbers in [0, 1], up to rounding
    if np.isnan(v).any():
        raise InvalidInput("rstat: a mean is NaN.")
    shares = check_numbers("rstat", "u", u)
    if shares.shape not in ((), v.shape) or not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise InvalidInput(f"rstat: u must be one number in [0, 1), or one for each mean, got {shown(u)}.")
    offset = width * np.broadcast_to(shares, v.shape)
    with np.errstate(over="ignore"):  # refused below
        bins = np.floor((v - offset) / width)
    if not (np.abs(bins) < 2.0**63).all():
        raise InvalidInput(f"rstat: width must leave bins that 64 bits can number, got {width:g}. Use a larger width.")
    below, above = offset + bins * width, offset + (bins + 1.0) * width
    low, high = np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0)
    answer = low + (high - low) / 2.0
    if pieces_of(form) == 2:  # zero-preserving
        answer = np.where(low == 0.0, 0.0, answer)
    # No mean is below 0 or above 1, so that edges out there separate nothing.
    room = np.minimum(np.where(below > 0.0, v - below, np.inf), np.where(above <= 1.0, above - v, np.inf))
    return RoundedMeans(answer, bins.astype(np.int64), room)
