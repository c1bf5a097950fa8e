"""How far a collection is: what was gathered, and what it takes to go on exactly there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from replicable_rl.collect.gathered import MOST_STEPS, Gathered
from replicable_rl.errors import InvalidInput, check_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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


class Options(NamedTuple):
    """What may be said of how samples are collected."""

    batch: int
    horizon: int | None = None
    policy: ArrayLike | None = None

    def refuse_those_of_environments(self, source: object) -> None:
        """Refuse what says how an environment is played, where every pair is drawn."""
        for name in ("horizon", "policy"):
            if getattr(self, name) is not None:
                raise InvalidInput(
                    f"collect: {name} is for an environment; of {called(source)} every pair is drawn. Leave it out."
                )


class Walker(Protocol):
    """Something that goes on from a stage, one piece at a time."""

    now: Stage  # the last one, also after an interruption

    def __init__(self, source: Any, seed: int, options: Options) -> None: ...

    @staticmethod
    def total(source: Any, samples: int | None, budget: int | None) -> int:
        """Return how many samples there will be, of all pairs together."""
        ...

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


def asked(pairs: int, samples: int | None, budget: int | None) -> int:
    """Return how many samples of so many pairs are asked for: of each, or in all."""
    if samples is not None:
        return pairs * check_integer("collect", "samples", samples, low=1, high=MOST_STEPS // pairs)
    return check_integer("collect", "budget", budget, low=1, high=MOST_STEPS)


def called(source: object) -> str:
    """Return what a source is called in a sentence: as it says, or by its class."""
    return type(source).__name__ if type(source).__str__ is object.__str__ else str(source)
