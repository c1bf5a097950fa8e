"""What an audit asks of somebody's training code beside agreement, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, fields

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_real, shown

_NUMBERS = ("uniform", "uniform_error", "tolerance")


@dataclass(frozen=True)
class Training:
    """The questions of an audit of training code, as data; stored with it.

    Attributes
    ----------
    evaluate : str or None
        What measures the return of a run, by its name.
    uniform, uniform_error : float or None
        The mean return of the uniform policy, and its standard error (0 where it is known exactly).
    tolerance : float or None
        How far two actions may be apart and still count as close.
    epsilon, delta : float or None
        The loss (from the worst state, in values normalised to [0, 1]) that a run may have, except with probability
        delta.

    Examples
    --------
    >>> Training(evaluate="episodes", uniform=0.015, uniform_error=0.01).to_json()
    {'evaluate': 'episodes', 'uniform': 0.015, 'uniform_error': 0.01}
    """

    evaluate: str | None = None
    uniform: float | None = None
    uniform_error: float | None = None
    tolerance: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.evaluate, str | None):
            raise InvalidInput(f"Training: evaluate must be a text or None, got {shown(self.evaluate)}.")
        for name in _NUMBERS:
            if getattr(self, name) is not None:
                low, rule = (-1e300, "a number") if name == "uniform" else (0.0, "a number that is not negative")
                number = check_real("Training", name, getattr(self, name), low=low, high=1e300, rule=rule)
                object.__setattr__(self, name, number)
        for name in ("epsilon", "delta"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_in_open_interval("Training", name, getattr(self, name)))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form: what is asked, and nothing else."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_json(cls, data: Json) -> Training:
        """Read the JSON form back."""
        names = [one.name for one in fields(cls)]
        if not isinstance(data, dict) or not set(data) <= set(names):
            raise InvalidInput(f"Training: expected some of {', '.join(names)}; got {shown(data)}.")
        return cls(**data)
