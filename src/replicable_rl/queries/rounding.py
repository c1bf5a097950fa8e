r"""Queries: how an empirical mean becomes an answer; one protocol, the plain means, and rSTAT (Theorem 2.1).

A query is a pure function of the means and of the shared randomness at an address. rSTAT rounds means to bins whose
grid is shifted by a shared offset:

    k = floor((v - off)/beta)          answer = middle of [off + k beta, off + (k+1) beta] within [0, 1]

The answer is computed from the integer k alone, so two means in one bin get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_numbers, shown
from replicable_rl.randomness import SharedRandomness
from replicable_rl.theory.rstat import pieces_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.theory.rstat import Form

Floats = NDArray[np.float64]
Index = NDArray[np.int64] | None


class Grid(NamedTuple):
    """What a compiled loop must know of a query: it rounds to the middle of bins, or with no keys not at all."""

    keys: Callable[[range], NDArray[np.uint64]]  # addresses t -> keys of the generators of their offsets, (n, 2)


class Query(Protocol):
    """Answers means in [0, 1].

    A query that rounds to bins may also say how far means are from the next edge, with ``room(means, *address,
    index=...)``: from it a run knows whether another run would have got the same answers.
    """

    @property
    def keeps_zero(self) -> bool:
        """Whether a mean of 0 is answered 0: then what was never seen need not be asked about."""
        ...

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Answer the means at an address: what they are about, such as the iteration.

        They are the elements ``index`` of that address, or all of them, in order. Equal addresses and elements share
        their randomness in all runs.
        """
        ...


@dataclass(frozen=True)
class Means:
    """The means themselves: accurate, but never the same twice."""

    keeps_zero: ClassVar[bool] = True

    @property
    def grid(self) -> Grid | None:
        """What a compiled loop is told: nothing is rounded."""
        return Grid(_no_keys) if type(self) is Means else None

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return the means."""
        return means


@dataclass(frozen=True)
class RStat:
    """rSTAT with offsets from shared randomness.

    Parameters
    ----------
    shared : SharedRandomness
        Where the offsets come from.
    label : str
        What they are for; with the address of a query it says which they are.
    width : float or (n,) floats
        Width of the bins, or one for each value of the first address, such as the iteration.
    form : {"midpoint", "zero-preserving"}
        Whether the bin that contains 0 answers its middle or 0.

    Examples
    --------
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
        if not isinstance(self.label, str):
            raise InvalidInput(f"rstat: label must be a text such as 'my/offset', got {shown(self.label)}.")
        if isinstance(self.width, (np.ndarray, list, tuple)) and np.ndim(self.width) == 1:
            width: Any = check_numbers("rstat", "width", self.width)
            narrowest = float(width.min()) if width.size else 0.0
            check_in_open_interval("rstat", "width", narrowest, 0.0, np.inf)
        else:
            width = check_in_open_interval("rstat", "width", self.width, 0.0, np.inf)
        for name, plain in (("label", str(self.label)), ("width", width)):
            object.__setattr__(self, name, plain)
        pieces_of(self.form)

    @property
    def keeps_zero(self) -> bool:
        """Whether the bin at 0 answers 0."""
        return self.form == "zero-preserving"

    @property
    def grid(self) -> Grid | None:
        """What a compiled loop is told: the offsets; nothing where 0 is a case of its own."""
        midpoint = type(self) is RStat and not self.keeps_zero
        return Grid(partial(self.shared.keys, self.label)) if midpoint else None

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Round the means on the grids of their address."""
        return rstat(means, self._offset(means, address, index), self._width(address), form=self.form).answer

    def room(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return how far the means are from the next edge between two answers."""
        width, v = self._width(address), np.clip(means, 0.0, 1.0)
        shift = width * self._offset(means, address, index)
        below = shift + np.floor((v - shift) / width) * width
        # No mean is below 0 or above 1, so that edges out there separate nothing.
        room_below = np.where(below > 0.0, v - below, np.inf)
        return np.minimum(room_below, np.where(below + width <= 1.0, below + width - v, np.inf))

    def _offset(self, means: Floats, address: tuple[int, ...], index: Index) -> Floats:
        if index is None:
            return self.shared.uniform(self.label, *address, shape=means.shape)
        if np.shape(index) != np.shape(means):
            raise InvalidInput(
                f"rstat: index must have one element for each mean, got {np.shape(index)} for {np.shape(means)}."
            )
        return self.shared.uniform_at(self.label, *address, index=index)

    def _width(self, address: tuple[int, ...]) -> float:
        return float(self.width if np.ndim(self.width) == 0 else np.asarray(self.width)[address[0]])


class RoundedMeans(NamedTuple):
    """The answers, and the integer bins they stand for."""

    answer: Floats
    bin: NDArray[np.int64]


def rstat(means: ArrayLike, offset: ArrayLike, width: float, *, form: Form = "midpoint") -> RoundedMeans:
    """Round means in [0, 1] to the bins of width ``width``.

    ``offset`` holds uniform numbers in [0, 1), one per mean or one for all; the grid is
    shifted by ``offset * width``. In the ``"zero-preserving"`` form the bin that contains
    0 answers 0.

    >>> rstat([0.32, 0.38, 0.51], offset=0.5, width=0.2)
    RoundedMeans(answer=array([0.4, 0.4, 0.6]), bin=array([1, 1, 2]))
    >>> rstat([0.02, 0.32], offset=0.5, width=0.2, form="zero-preserving").answer
    array([0. , 0.4])
    """
    width = check_in_open_interval("rstat", "width", width, 0.0, np.inf)
    v = np.clip(check_numbers("rstat", "means", means), 0.0, 1.0)  # a mean of numbers in [0, 1], up to rounding
    if np.isnan(v).any():
        raise InvalidInput("rstat: a mean is NaN.")
    shares = check_numbers("rstat", "offset", offset)
    if not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise InvalidInput(f"rstat: offset must lie in [0, 1), got {shown(offset)}.")
    try:
        shift = width * np.broadcast_to(shares, np.broadcast_shapes(shares.shape, v.shape))
    except ValueError:
        raise InvalidInput(f"rstat: offset must be one number, or one for each mean, got {shown(offset)}.") from None
    with np.errstate(over="ignore"):  # refused below
        k = np.floor((v - shift) / width)
    if not (np.abs(k) < 2.0**63).all():
        raise InvalidInput(f"rstat: width must leave bins that 64 bits can number, got {width:g}. Use a larger width.")
    low = np.clip(shift + k * width, 0.0, 1.0)
    high = np.clip(shift + (k + 1.0) * width, 0.0, 1.0)
    answer = low + (high - low) / 2.0
    if pieces_of(form) == 2:  # zero-preserving
        answer = np.where(low == 0.0, 0.0, answer)
    return RoundedMeans(answer, k.astype(np.int64))


def _no_keys(addresses: range) -> NDArray[np.uint64]:
    return np.empty((0, 2), dtype=np.uint64)
