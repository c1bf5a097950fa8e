"""How far a collection is: what was gathered, and what it takes to go on exactly there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from replicable_rl.collect.gathered import Gathered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.canonical import Json
    from replicable_rl.data import Dataset, Process


@dataclass(frozen=True, eq=False)
class Stage:
    """A moment between two steps; nothing in it ever changes, so whoever is interrupted has the last one.

    Attributes
    ----------
    gathered : Gathered
        What was seen.
    steps : int
        How many steps that are.
    starts : (S,) integers or None
        How many episodes began in each state.
    place : mapping
        What it takes to go on: the state of a generator, or which stint is next.
    policy : (S,) integers or None
        What the present round of exploration follows; None in the first.
    """

    gathered: Gathered
    steps: int = 0
    starts: NDArray[np.int64] | None = None
    place: Mapping[str, Any] = field(default_factory=dict)
    policy: NDArray[np.int64] | None = None

    def dataset(self) -> Dataset:
        """Return what was seen so far."""
        return self.gathered.dataset(self.starts)


class Walker(Protocol):
    """Something that goes on from a stage, one piece at a time."""

    now: Stage  # the last one, also after an interruption

    @property
    def process(self) -> Process: ...  # noqa: D102
    @property
    def unit(self) -> int:
        """How many steps are made side by side: fewer are left when it is done."""
        ...

    @property
    def way(self) -> dict[str, Json]:
        """What the samples depend on, beside the problem and the seed."""
        ...

    def begin(self) -> Stage:
        """Return the stage before the first step."""
        ...

    def advance(self, total: int, pause: Callable[[Stage], None]) -> None:
        """Make some more steps, at most so many in all; a long piece calls ``pause`` now and then."""
        ...
