"""The parameter of an algorithm that says how many samples it draws, and what its proof needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from replicable_rl.diagnose.search import grid
from replicable_rl.errors import InvalidInput, check_integer, shown
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import OURS, provider
from replicable_rl.solve import plan, planned
from replicable_rl.theory import MAX_CALLS

KNOWN = ("samples", "calls", "episodes", "budget")  # what such a parameter is called here
_NO_OVERRIDES = ("horizon", "support")  # what may be None and says something of the problem
_MOST_OF_A_TABLE, _MOST = 2**40, 2**20  # sizes that are tried by default: counts cost the same whatever their number
_UNPROVED = 2**200  # samples: where a plan says so many, it could not find enough


@dataclasses.dataclass(frozen=True)
class Sized:
    """An algorithm whose size is still open."""

    algorithm: Any
    name: str

    @classmethod
    def of(cls, problem: Any, algorithm: Any, name: str | None, owner: str) -> Sized:
        """Find the parameter, or see that the one named is there."""
        if not dataclasses.is_dataclass(algorithm) or isinstance(algorithm, type):
            raise InvalidInput(
                f"{owner}: algorithm must be a dataclass such as PlugInPolicy(0.05, 0.01, 0.2), whose size can be "
                f"replaced, got {shown(algorithm)}."
            )
        has = [field.name for field in dataclasses.fields(algorithm) if field.init]
        if name is not None:
            if not isinstance(name, str) or name not in has:
                raise InvalidInput(
                    f"{owner}: {type(algorithm).__name__} has no parameter {shown(name)}. It has: {', '.join(has)}."
                )
            return cls(algorithm, name)
        known = [one for one in KNOWN if one in has]
        if not known:
            raise InvalidInput(
                f"{owner}: no parameter of {type(algorithm).__name__} is called {', '.join(KNOWN[:-1])} or "
                f"{KNOWN[-1]}. Name the one that says how many samples are drawn: size=..."
            )
        known.sort(key=lambda one: getattr(algorithm, one) is None)  # the one that is used comes first
        fitting = [one for one in known if cls(algorithm, one)._first(problem) is not None]
        return cls(algorithm, (fitting or known)[0])

    def at(self, size: int) -> Any:
        """Return the algorithm with this size, and with no other."""
        others: dict[str, Any] = {
            field.name: None
            for field in dataclasses.fields(self.algorithm)
            if field.name in KNOWN and field.name != self.name and field.default is None
        }
        return dataclasses.replace(self.algorithm, **others, **{self.name: size})

    def sizes(self, problem: Any, start: int | None, most: int | None, owner: str) -> list[int]:
        """Return the sizes that may be tried, from the smallest that a run can have on."""
        by_default = _MOST_OF_A_TABLE if isinstance(problem, TabularMDP) else _MOST
        if start is not None:
            start = check_integer(owner, "start", start, low=1, high=MAX_CALLS)
        first = self._first(problem) if start is None else start
        last = by_default if most is None else check_integer(owner, "most", most, low=1, high=MAX_CALLS)
        first = first or 1
        self._planned(problem, self.at(first))  # says what is wrong, if even this cannot be planned
        if last < first:
            if most is not None:
                raise InvalidInput(f"{owner}: most must be at least the smallest size, {first}, got {most}. Raise it.")
            last = first
        sizes = grid(first, last)
        within = problem.budget
        return sizes if most is not None or within is None else self._within(problem, sizes, within)

    def _within(self, problem: Any, sizes: list[int], allowed: int) -> list[int]:
        """Leave out sizes that take more steps than the problem allows."""
        fitting = [size for size in sizes if (self._samples(problem, size) or 0) <= allowed]
        return fitting or sizes[:1]  # the run itself says what would fit

    def _samples(self, problem: Any, size: int) -> int | None:
        planned = self._planned(problem, self.at(size))
        return None if planned is None else int(planned.samples)

    def _first(self, problem: Any) -> int | None:
        """Return the smallest power of two that can be planned: a budget must allow a sample for each pair."""
        size = 1
        while size <= _MOST_OF_A_TABLE:
            try:
                self._planned(problem, self.at(size))
            except InvalidInput:
                size *= 2
            else:
                return size
        return None

    @staticmethod
    def _planned(problem: Any, algorithm: Any) -> Any:
        return planned(problem, algorithm)


def proved_samples(problem: Any, algorithm: Any, rho: float, epsilon: float | None) -> int | None:
    """Return how many samples, in all, the proof needs for this promise; None where this library has no such proof."""
    if provider(algorithm) != OURS:
        return None
    names = {field.name: field for field in dataclasses.fields(algorithm)}
    changes: dict[str, Any] = {
        name: None for name, field in names.items() if field.default is None and name not in _NO_OVERRIDES
    }
    changes |= {"rho": rho} if "rho" in names else {}
    changes |= {"epsilon": epsilon} if epsilon is not None and bounds_loss(algorithm) else {}
    promised = _or_none(lambda: dataclasses.replace(algorithm, **changes))
    planned = _or_none(lambda: plan(problem, promised))  # also where there is no plan
    if planned is None or not (planned.numbers.replicability_proved and planned.numbers.accuracy_proved):
        return None
    return int(planned.samples) if planned.samples < _UNPROVED else None


def bounds_loss(algorithm: Any) -> bool:
    """Whether the algorithm's own epsilon is the loss of its policy, and not the error of a model or of Q."""
    return hasattr(algorithm, "epsilon") and not hasattr(algorithm, "norm") and _target(algorithm) == "policy"


def _target(algorithm: Any) -> str:
    return str(getattr(algorithm, "target", "policy"))


def _or_none(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except InvalidInput:
        return None
