r"""Queries: how an empirical mean becomes an answer (Definition 2.4); plain means, and rSTAT (Theorem 2.1).

A query is a pure function of the means and of the shared randomness at an address. rSTAT rounds means to bins whose
grid is shifted by a shared offset:

    k = floor((v - off)/beta)          answer = middle of [off + k beta, off + (k+1) beta] within [0, 1]

The answer is computed from the integer k alone, so two means in one bin get the same bits.

A replicable algorithm differs from its baseline in two ingredients, small objects with an id. A *mechanism* makes
queries: :class:`Plain` means or :class:`Rounded` ones. A *threshold* says where in its window it lies: :class:`Fixed`,
or :class:`Randomised` by shared numbers. A subclass of your own works where one of these does: give it an ``id`` of its
own, for the id is what the identity of a run says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_numbers, shown
from replicable_rl.randomness import SharedRandomness
from replicable_rl.runs import OURS, provider
from replicable_rl.theory.rstat import pieces_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.theory.rstat import Form

__all__ = ["Fixed", "Means", "Mechanism", "Plain", "Query", "RStat", "Randomised", "Rounded", "Threshold", "rstat"]

Floats = NDArray[np.float64]
Index = NDArray[np.int64] | None
Width = float | Floats  # of all bins, or one for each value of the first address
Keys = Callable[[range], NDArray[np.uint64]]  # addresses t -> keys of the generators of their offsets, (n, 2)


class Query(ABC):
    """Answers means in [0, 1]. Subclass it for a query of your own."""

    @property
    def keeps_zero(self) -> bool:
        """Whether a mean of 0 is answered 0: then what was never seen need not be asked about."""
        return False

    @property
    def keys(self) -> Keys | None:
        """What a compiled loop must know: the offsets of bins whose middle is the answer; None: it answers otherwise.

        Where nothing is rounded, there are no keys for any address.
        """
        return None

    @abstractmethod
    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Answer the means at an address: what they are about, such as the iteration.

        They are the elements ``index`` of that address, or all of them, in order. Equal addresses and elements share
        their randomness in all runs.
        """

    def room(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return how far the means are at least from the next edge between two answers.

        From it a run knows whether another run would have got the same answers. 0: that is not known.
        """
        return np.zeros(means.shape)


@dataclass(frozen=True)
class Means(Query):
    """The means themselves: accurate, but never the same twice."""

    def __init_subclass__(cls) -> None:
        raise InvalidInput(f"{cls.__name__}: a compiled loop knows Means as it is. Make a Query that has one.")

    @property
    def keeps_zero(self) -> bool:
        """Yes."""
        return True

    @property
    def keys(self) -> Keys | None:
        """Return no keys for any address."""
        return lambda addresses: np.empty((0, 2), dtype=np.uint64)

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return the means."""
        return means


@dataclass(frozen=True)
class RStat(Query):
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
    width: Width
    form: Form = "midpoint"

    def __init_subclass__(cls) -> None:
        raise InvalidInput(f"{cls.__name__}: a compiled loop knows RStat as it is. Make a Query that has one.")

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

    @property
    def keys(self) -> Keys | None:
        """Return the keys of the offsets; None where 0 is a case of its own."""
        return None if self.keeps_zero else partial(self.shared.keys, self.label)

    def answer(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Round the means on the grids of their address."""
        return rstat(means, *self._grid(means, address, index), form=self.form).answer

    def room(self, means: Floats, *address: int, index: Index = None) -> Floats:
        """Return how far the means are from the next edge between two answers."""
        (offset, width), v = self._grid(means, address, index), np.clip(means, 0.0, 1.0)
        shift = width * offset
        below = shift + np.floor((v - shift) / width) * width
        # No mean is below 0 or above 1, so that edges out there separate nothing.
        room_below = np.where(below > 0.0, v - below, np.inf)
        return np.minimum(room_below, np.where(below + width <= 1.0, below + width - v, np.inf))

    def _grid(self, means: Floats, address: tuple[int, ...], index: Index) -> tuple[Floats, float]:
        """Return offsets, and the width of the bins."""
        width = float(self.width[address[0]] if isinstance(self.width, np.ndarray) else self.width)
        if index is None:
            return self.shared.uniform(self.label, *address, shape=means.shape), width
        if index.shape != means.shape:
            raise InvalidInput(
                f"rstat: index must have one element for each mean, got {index.shape} for {means.shape}."
            )
        return self.shared.uniform_at(self.label, *address, index=index), width


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


class Ingredient(ABC):
    """What mechanisms and thresholds share: an id, and the parameter of algorithms that takes them."""

    parameter: ClassVar[str]

    @property
    @abstractmethod
    def id(self) -> str:
        """What identities say of it."""

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the ingredient with a short id, or one of your own as it is.

        >>> Mechanism.of("plain"), Threshold.of(Fixed())
        (Plain(), Fixed())
        """
        shipped = {kind().id: kind for kind in cls.__subclasses__() if kind.__module__ == __name__}
        if isinstance(value, str) and value in shipped:
            return shipped[value]()
        rule, ids = f"{cls.parameter}: {cls.parameter} must", " or ".join(map(repr, shipped))
        if not isinstance(value, cls) or not value.id:
            raise InvalidInput(f"{rule} be {ids}, or a {cls.__name__} with an id, got {shown(value)}.")
        if value.id in shipped and provider(value) != OURS:
            raise InvalidInput(f"{rule} have an id of its own, got {shown(value)} with the id {value.id!r}.")
        return value


class Mechanism(Ingredient):
    """Makes the queries of an algorithm."""

    parameter: ClassVar[str] = "estimate"

    @abstractmethod
    def bind(self, shared: SharedRandomness, label: str, width: Width, form: Form) -> Query:
        """Return the query with this label, for means that rSTAT would round to bins of this width and form."""


class Threshold(Ingredient):
    """Chooses a threshold in its window."""

    parameter: ClassVar[str] = "threshold"

    @abstractmethod
    def share(self, shared: SharedRandomness, label: str, *address: int, fixed: float) -> float:
        """Return where it lies, from 0 for the lower end to 1 for the upper; ``fixed`` is where without chance."""


@dataclass(frozen=True)
class Rounded(Mechanism):
    """rSTAT: the same answers twice."""

    id: ClassVar[str] = "rstat"

    def bind(self, shared: SharedRandomness, label: str, width: Width, form: Form) -> Query:
        """Return rSTAT with these parameters."""
        return RStat(shared, label, width, form)


@dataclass(frozen=True)
class Plain(Mechanism):
    """The plain means: the baseline."""

    id: ClassVar[str] = "plain"

    def bind(self, shared: SharedRandomness, label: str, width: Width, form: Form) -> Query:
        """Return the means themselves."""
        return Means()


@dataclass(frozen=True)
class Randomised(Threshold):
    """A threshold drawn from the shared randomness: two runs hardly ever lie on different sides of it."""

    id: ClassVar[str] = "randomised"

    def share(self, shared: SharedRandomness, label: str, *address: int, fixed: float) -> float:
        """Return a shared uniform number."""
        return float(shared.uniform(label, *address, shape=1)[0])


@dataclass(frozen=True)
class Fixed(Threshold):
    """A threshold that everybody knows beforehand: the baseline."""

    id: ClassVar[str] = "fixed"

    def share(self, shared: SharedRandomness, label: str, *address: int, fixed: float) -> float:
        """Return the fixed place."""
        return fixed
