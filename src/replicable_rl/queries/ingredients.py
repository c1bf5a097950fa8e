"""Ingredients: the parts in which a replicable algorithm differs from its baseline, as small objects with an id.

An *estimate* makes queries: :class:`Plain` means or :class:`Rounded` ones. A *threshold* says where in its window it
lies: :class:`Fixed`, or :class:`Randomised` by shared numbers. An object of your own works where one of these does:
give it an ``id`` of its own, for the id is what the identity of a run says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from replicable_rl.errors import InvalidInput, check_choice, shown
from replicable_rl.queries.rounding import Means, Query, RStat

if TYPE_CHECKING:
    from replicable_rl.queries.rounding import Floats
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.rstat import Form

    Width = float | Floats  # of all bins, or one for each value of the first address


class Estimate(Protocol):
    """Makes the queries of an algorithm."""

    @property
    def id(self) -> str: ...  # noqa: D102
    def bind(self, shared: SharedRandomness, label: str, width: Width, form: Form) -> Query:
        """Return the query with this label, for means that rSTAT would round to bins of this width and form."""
        ...


class Threshold(Protocol):
    """Chooses a threshold in its window."""

    @property
    def id(self) -> str: ...  # noqa: D102
    def share(self, shared: SharedRandomness, label: str, *address: int, fixed: float) -> float:
        """Return where it lies, from 0 for the lower end to 1 for the upper; ``fixed`` is where without chance."""
        ...


@dataclass(frozen=True)
class Plain:
    """The plain means: the baseline."""

    id: ClassVar[str] = "plain"

    def bind(self, shared: SharedRandomness, label: str, width: Width, form: Form) -> Query:
        """Return the means themselves."""
        return Means()


@dataclass(frozen=True)
class Rounded:
    """rSTAT: the same answers twice."""

    id: ClassVar[str] = "rstat"

    def bind(self, shared: SharedRandomness, label: str, width: Width, form: Form) -> Query:
        """Return rSTAT with these parameters."""
        return RStat(shared, label, width, form)


@dataclass(frozen=True)
class Fixed:
    """A threshold that everybody knows beforehand: the baseline."""

    id: ClassVar[str] = "fixed"

    def share(self, shared: SharedRandomness, label: str, *address: int, fixed: float) -> float:
        """Return the fixed place."""
        return fixed


@dataclass(frozen=True)
class Randomised:
    """A threshold drawn from the shared randomness: two runs hardly ever lie on different sides of it."""

    id: ClassVar[str] = "randomised"

    def share(self, shared: SharedRandomness, label: str, *address: int, fixed: float) -> float:
        """Return a shared uniform number."""
        return float(shared.uniform(label, *address, shape=1)[0])


_OURS: dict[str, tuple[str, tuple[Any, ...]]] = {  # kind -> its method, and those that ship
    "threshold": ("share", (Randomised(), Fixed())),
    "estimate": ("bind", (Rounded(), Plain())),
}


def ingredient(kind: str, value: Any) -> Any:
    """Return a threshold or an estimate by its short id, or one of your own as it is.

    >>> ingredient("estimate", "plain"), ingredient("threshold", Fixed())
    (Plain(), Fixed())
    """
    method, ours = _OURS[check_choice("ingredient", "kind", kind, _OURS)]
    known = {one.id: one for one in ours}
    if isinstance(value, str) and value in known:
        return known[value]
    name = getattr(value, "id", None)
    if not isinstance(name, str) or not callable(getattr(value, method, None)) or isinstance(value, type):
        ids = " or ".join(map(repr, known))
        raise InvalidInput(f"{kind}: {kind} must be {ids}, or an object with an id and {method}, got {shown(value)}.")
    if name in known and type(value) is not type(known[name]):
        raise InvalidInput(f"{kind}: {kind} must have an id of its own, got {shown(value)} with the id {name!r}.")
    return value
