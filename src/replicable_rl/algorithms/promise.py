"""What every algorithm here is: a frozen promise with overrides, and how a broken promise is worded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Self

from replicable_rl.errors import SampleSizeTooLarge
from replicable_rl.records import Guarantee
from replicable_rl.sampling import MAX_CALLS

__all__ = ["Promise", "measured", "number"]


class Promise:
    """Base of the algorithms, which are dataclasses: first the promise, then overrides that default to None."""

    id: ClassVar[str]

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Refuse bad parameters now, and not at the first run."""

    def _parameters(self) -> dict[str, Any]:
        """The parameters, named as in the function of `theory` that plans this algorithm."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # subclasses are dataclasses

    def _as_promised(self) -> Self:
        """Return the algorithm with every override taken back."""
        overrides = {field.name: None for field in fields(self) if field.default is None}  # type: ignore[arg-type]
        return replace(self, **overrides)  # type: ignore[type-var]

    def _refuse_beyond_64_bits(self, name: str, asked: int) -> None:
        if asked > MAX_CALLS:
            raise SampleSizeTooLarge(
                f"{type(self).__name__}: {name}={asked:.3g} is asked for, more than the 2**63 - 1 that can be counted. "
                f"Pass {name}=... (the result is then measured only), or raise epsilon or rho."
            )


def measured(
    theorem: str,
    departures: Mapping[str, tuple[float, float, bool]],
    accuracy: str | None,
    epsilon: float,
    delta: float,
) -> Guarantee:
    """Return the guarantee of a run that departs from its theorem.

    ``departures`` holds, by name, the value used, the value needed, and whether it falls short;
    ``accuracy`` is what is proved all the same, if anything.
    """
    listed = (
        f"{name}={number(used)} where {theorem} needs {number(needed)}"
        for name, (used, needed, short) in departures.items()
        if short
    )
    sentence = f"measured only: {'; '.join(listed)}."
    if accuracy is None:
        return Guarantee("measured", theorem, sentence)
    return Guarantee("measured", theorem, f"{sentence} Accuracy alone is proved: {accuracy}.", epsilon, delta)


def number(x: float) -> str:
    """Write a number in a sentence: whole where it is short, else three significant digits."""
    return str(x) if isinstance(x, int) and x < 10**9 else f"{x:.3g}"
