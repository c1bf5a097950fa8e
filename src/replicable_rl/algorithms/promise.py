"""What every algorithm here is: a frozen promise with overrides, and how a guarantee is worded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from replicable_rl.errors import SampleSizeTooLarge
from replicable_rl.records import Guarantee
from replicable_rl.sampling import MAX_CALLS

__all__ = ["Promise", "guarantee", "number"]


class Promise:
    """Base of the algorithms, which are dataclasses: first the promise, then overrides that default to None."""

    id: ClassVar[str]

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Refuse bad parameters now, and not at the first run."""

    def _parameters(self) -> dict[str, Any]:
        """The parameters, named as in the function of `theory` that plans this algorithm."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # subclasses are dataclasses

    def _refuse_beyond_64_bits(self, name: str, asked: int) -> None:
        if asked <= MAX_CALLS:
            return
        given = getattr(self, name) is not None
        promises = [field.name for field in fields(self) if field.name in ("epsilon", "rho")]  # type: ignore[arg-type]  # as above
        remedy = f"a smaller {name}" if given else f"{name}=... (the result is then measured only)"
        remedy += "" if given else f", or raise {' or '.join(promises)}"
        raise SampleSizeTooLarge(
            f"{type(self).__name__}: {name}={asked:.3g} is asked for, more than the 2**63 - 1 that can be counted. "
            f"Pass {remedy}."
        )


def guarantee(
    theorem: str,
    departures: Mapping[str, tuple[float | None, float | None]],
    *,
    accuracy: str,
    accurate: bool,
    replicability: str | None,
    replicable: bool,
    epsilon: float,
    delta: float,
    rho: float | None,
) -> Guarantee:
    """Word what is promised about a run.

    ``departures`` holds, by name, the value used and the value needed where it falls short. ``accuracy`` and
    ``replicability`` say what each promise is; ``replicability`` is None for algorithms that make none.
    """
    promises = [(accuracy, accurate)] + ([] if replicability is None else [(replicability, replicable)])
    proved = "; ".join(text for text, holds in promises if holds)
    numbers = {
        "epsilon": epsilon if accurate else None,
        "delta": delta if accurate or replicable else None,
        "rho": rho if replicable else None,
    }
    if all(holds for _, holds in promises):
        closing = " Nothing is promised about a second run." if replicability is None else ""
        return Guarantee("proved", theorem, f"proved ({theorem}): {proved}.{closing}", **numbers)
    listed = "; ".join(
        f"{name}={used} where {theorem} needs {needed}"
        for name, (used, needed) in ((name, _digits(*pair)) for name, pair in departures.items())
    )
    also = f" Proved all the same: {proved}." if proved else ""
    return Guarantee("measured", theorem, f"measured only: {listed}.{also}", **numbers)


def number(x: float) -> str:
    """Write a number in a sentence: whole where it is short, else three significant digits."""
    return str(x) if isinstance(x, int) and x < 10**9 else f"{x:.3g}"


def _digits(used: float | None, needed: float | None) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to tell them apart."""
    for digits in (3, 6, 17):
        pair = tuple(
            str(x) if isinstance(x, int) and (x < 10**9 or digits == 17) else f"{x or 0.0:.{digits}g}"
            for x in (used, needed)
        )
        if pair[0] != pair[1]:
            break
    return pair[0], pair[1]
