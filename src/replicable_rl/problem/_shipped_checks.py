"""Checks that several problems share; each refuses with one sentence that names its owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_real, shown, whole_number

_LARGEST = 1e6  # of a price or a cost: far beyond any use, far below what rounding would spoil


def check_probability(owner: str, name: str, value: object) -> float:
    """Return a number in [0, 1]."""
    return check_real(owner, name, value, low=0.0, high=1.0, rule="a number in [0, 1]")


def check_amount(owner: str, name: str, value: object) -> float:
    """Return a price, a cost or another amount: 0 or more."""
    return check_real(owner, name, value, low=0.0, high=_LARGEST, rule=f"a number from 0 to {_LARGEST:.0f}")


def as_float(value: Any) -> float:
    """Return a number; a text is none, though Python would read it."""
    if isinstance(value, (str, bytes)):
        raise TypeError
    return float(value)


def as_truth(value: Any) -> bool:
    """Return what is True or False, also as 1 or 0.

    >>> as_truth(np.True_), as_truth(0)
    (True, False)
    """
    if not isinstance(value, (bool, np.bool_)) and whole_number(value) not in (0, 1):
        raise TypeError
    return bool(value)


def first_observation(owner: object, env: Any, seed: int | None = None) -> Any:
    """Reset a Gymnasium environment; refuse an answer of another form."""
    return _answer(owner, "reset", "(observation, info)", env.reset, seed=seed)[0]


def take_step(owner: object, env: Any, action: Any) -> tuple[Any, float, bool, bool]:
    """Return what a Gymnasium environment answers to an action, without ``info``; refuse an answer of another form."""
    form = "(observation, reward, terminated, truncated, info)"
    observation, *rest, _ = answer = _answer(owner, "step", form, env.step, action)
    try:
        return observation, as_float(rest[0]), as_truth(rest[1]), as_truth(rest[2])
    except (TypeError, ValueError):
        rule = "a number for the reward, and True or False for terminated and truncated"
        raise InvalidInput(f"{owner}: step must return {rule}, got {shown(answer[1:4])}.") from None


def _answer(owner: object, name: str, form: str, ask: Callable[..., Any], *given: Any, **named: Any) -> tuple[Any, ...]:
    import gymnasium

    try:
        answer = ask(*given, **named)
    except (AssertionError, TypeError, ValueError, gymnasium.error.Error) as error:  # so wrappers refuse an answer
        said = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".")
        raise InvalidInput(f"{owner}: {name} of the environment fails ({said}).") from error
    if not (isinstance(answer, tuple) and len(answer) == form.count(",") + 1 and isinstance(answer[-1], Mapping)):
        raise InvalidInput(f"{owner}: {name} must return {form}, info as a dictionary, got {shown(answer)}.")
    return answer
