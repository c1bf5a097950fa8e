"""What the numbers of all listings have in common: their units, a promise, what is proved of it, and parameters.

Algorithms work on rewards r~ = (1 - gamma)(r - r_lo)/(r_hi - r_lo), so that V~ and Q~ lie in [0, 1]; epsilon,
tolerances and bin widths are in these units. The way back is V = (r_hi - r_lo)/(1 - gamma) * V~ + r_lo/(1 - gamma).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_choice, check_flag, check_integer, check_real, check_share

Floats = NDArray[np.float64]

MAX_CALLS = 2**63 - 1  # what 64 bits can count
MOST = 2**200  # samples, calls or episodes that can be asked for
SLACK = 1.0 + 1e-13  # a promise met up to the rounding of these formulas is met
ACCURACY, REPLICABILITY = "accuracy", "replicability"
RSTAT, PLAIN = "rstat", "plain"  # the ids of the estimates that the proofs know


@dataclass(frozen=True)
class Units:
    """The two scales of a problem with discount ``gamma`` and rewards from ``low`` to ``high``.

    >>> units = Units(gamma=0.9, low=-1.0, high=1.0)
    >>> round(units.span, 12), units.value_to_user(np.array([0.0, 1.0])).round(12).tolist()
    (20.0, [-10.0, 10.0])
    """

    gamma: float
    low: float
    high: float

    def __post_init__(self) -> None:
        largest, width = max(abs(self.low), abs(self.high)), self.high - self.low
        beyond = not math.isfinite(8.0 * largest / (1.0 - self.gamma) ** 2)
        if beyond or (width > 0.0 and max(largest * 2.0**-52, 2.0**-1074) > 1e-9 * width):
            raise InvalidInput(
                f"rewards between {self.low!r} and {self.high!r} have values beyond 64-bit numbers at "
                f"gamma={self.gamma:g}, or that 64-bit numbers can hardly tell apart. "
                "Subtract a constant from the rewards, or multiply them by one."
            )

    @classmethod
    def of(cls, problem: Any) -> Units:
        """Return the units of a problem, from its ``gamma`` and ``reward_range``."""
        return _kept(problem.gamma, *problem.reward_range)

    @property
    def span(self) -> float:
        """The largest difference two values can have, (r_hi - r_lo)/(1 - gamma): one normalised unit."""
        return (self.high - self.low) / (1.0 - self.gamma)

    def share(self, difference: float) -> float:
        """Return a difference of two values, normalised; 0 when every reward is the same."""
        return difference / self.span if self.span > 0.0 else 0.0

    def reward(self, reward: Floats) -> Floats:
        """Return normalised rewards, in [0, 1 - gamma]; all 0 when every reward is the same."""
        width = self.high - self.low
        if width == 0.0:
            return reward * 0.0
        return (1.0 - self.gamma) * ((reward - self.low) / width)

    def value_to_user(self, value: Floats) -> Floats:
        """Return values in the units of the problem's rewards; -inf, of what is not allowed, stays -inf."""
        bottom = self.low / (1.0 - self.gamma)
        if self.span == 0.0:  # times -inf it would be no number
            return np.where(np.isneginf(value), value, bottom)
        return self.span * value + bottom


_kept = lru_cache(64)(Units)  # every run asks for those of its problem, some of them twice


@dataclass(frozen=True, kw_only=True)
class Numbers(ABC):
    """What a run takes, and the bounds that are proved of it."""

    epsilon: float
    delta: float
    rho: float | None  # None for a baseline, which promises nothing about a second run
    known_rewards: bool  # whether the reward is a known function of (s, a), or learned from the samples

    @property
    @abstractmethod
    def samples(self) -> int:
        """Transitions that a run draws, at most."""

    @property
    @abstractmethod
    def error_proved(self) -> float:
        """Bound on what epsilon is about, which holds with probability 1 - delta; 1 when nothing is proved."""

    @property
    @abstractmethod
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs differ; 1 when nothing is proved, None for a baseline."""

    @property
    def error_promised(self) -> float:
        """What ``error_proved`` must not exceed."""
        return self.epsilon

    @property
    def accuracy_proved(self) -> bool:
        """Whether the promise about accuracy holds at these parameters."""
        return self.error_proved <= self.error_promised * SLACK

    @property
    def replicability_proved(self) -> bool:
        """Whether two runs differ with probability at most rho at these parameters."""
        return self.rho is not None and self.rho_proved is not None and self.rho_proved <= self.rho * SLACK

    def short(self, about: str) -> dict[str, tuple[float, float]]:
        """Return the parameters that fall short of the proof: what is used, and what it needs."""
        return {}


Check = Callable[[str, str, Any], Any]  # (owner, name, value) -> the value that counts


def _whole(highest: int) -> Check:
    return partial(check_integer, low=1, high=highest)


def _word(*choices: str) -> Check:
    return partial(check_choice, choices=choices)


_positive = partial(check_real, low=1e-30, high=1e30, rule="a positive number (1e-30 to 1e30)")
_RULES: dict[str, Check] = {
    **dict.fromkeys(("epsilon", "delta", "rho", "tolerance", "rho_sq"), check_share),
    **dict.fromkeys(("calls", "samples", "episodes", "budget"), _whole(MOST)),
    **dict.fromkeys(("known", "window", "parameter"), _positive),
    **dict.fromkeys(("n_states", "n_actions", "support"), _whole(2**40)),
    "gamma": partial(check_real, low=0.0, high=1.0 - 2.0**-53, rule="a discount in [0, 1)"),
    **dict.fromkeys(("pairs", "allowed_pairs", "rounds"), _whole(2**62)),
    "known_rewards": check_flag,
    "iterations": _whole(2**53),
    "horizon": _whole(2**31 - 1),
    "target": _word("policy", "value"),
    "norm": _word("entry", "l1"),
    "over": _word("initial", "worst"),
    "form": _word("midpoint", "zero-preserving"),
    "threshold": _word("randomised", "fixed"),
    "estimate": _word(RSTAT, PLAIN),
}
_OPTIONAL = (  # None: the theorem says what they are
    *("rho", "tolerance", "rho_sq", "calls", "samples", "episodes", "budget", "iterations"),
    *("rounds", "known", "window", "support", "allowed_pairs", "horizon", "parameter"),
)


def check_parameters(owner: str, **parameters: Any) -> dict[str, Any]:
    """Return parameters as they count, or refuse the first that cannot be; what is None is left to the theorem.

    >>> check_parameters("PhasedVI", epsilon=0.1, delta=0.01, calls=1e6, iterations=None)
    {'epsilon': 0.1, 'delta': 0.01, 'calls': 1000000, 'iterations': None}
    >>> check_parameters("PhasedVI", target="Q")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: PhasedVI: target must be 'policy' or 'value', got 'Q'.
    """
    return {
        name: None if value is None and name in _OPTIONAL else _RULES[name](owner, name, value)
        for name, value in parameters.items()
    }
