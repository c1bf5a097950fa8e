"""The exception tree, and the checks that raise it.

Every exception a user can cause derives from :class:`InvalidInput`, which is a
``ValueError``. A message names the owner, the rule, the value and the remedy, in
one sentence or two:

    ReplicablePhasedVI: delta must satisfy 2*delta < rho (thm:rep-sq), got
    delta=0.15, rho=0.2. Lower delta below 0.1 or raise rho.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import operator
from collections.abc import Iterable, Iterator


class InvalidInput(ValueError):
    """The input breaks a rule; the message says which one and what to do."""


class InvalidMDP(InvalidInput):
    """The arrays do not describe a Markov decision process."""


class InvalidFile(InvalidInput):
    """A file cannot be read as what it should be, or would be overwritten."""


class UnknownId(InvalidInput):
    """No problem or algorithm is registered under this id."""


class SampleSizeTooLarge(InvalidInput):
    """More samples were asked for than a 64-bit count can hold."""


def check_integer(owner: str, name: str, value: object, *, low: int, high: int) -> int:
    """Return ``value`` as an int in [low, high]; bools and floats are refused.

    >>> check_integer("chain-v1", "n_states", 5, low=2, high=10)
    5
    >>> check_integer("chain-v1", "n_states", 1, low=2, high=10)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: chain-v1: n_states must be an integer from 2 to 10, got 1.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # the refusal is the point
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not low <= number <= high:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:20]}... ({len(shown)} characters)"
        raise InvalidInput(f"{owner}: {name} must be an integer from {low} to {high}, got {shown}.")
    return number


def check_real(owner: str, name: str, value: object, *, low: float, high: float, rule: str) -> float:
    """Return ``value`` as a finite float in [low, high]; ``rule`` words the interval."""
    number = _as_float(value)
    if number is None or not low <= number <= high:
        raise InvalidInput(f"{owner}: {name} must be {rule}, got {value!r}.")
    return number


SMALLEST = 1e-30  # of a probability or a tolerance: below it sample sizes pass the largest float


def check_share(owner: str, name: str, value: object) -> float:
    """Return a probability or a tolerance strictly between 0 and 1, and not absurdly small."""
    number = check_in_open_interval(owner, name, value)
    if number < SMALLEST:
        raise InvalidInput(f"{owner}: {name} must be at least {SMALLEST:g}, got {value!r}.")
    return number


def check_in_open_interval(owner: str, name: str, value: object, low: float = 0.0, high: float = 1.0) -> float:
    """Return ``value`` as a float strictly between ``low`` and ``high``."""
    number = _as_float(value)
    if number is None or not low < number < high:
        raise InvalidInput(f"{owner}: {name} must lie strictly between {low:g} and {high:g}, got {value!r}.")
    return number


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' when something known is close, else ''.

    >>> did_you_mean("two-goal-v1", ["two-goals-v1", "chain-v1"])
    " Did you mean 'two-goals-v1'?"
    """
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


@contextlib.contextmanager
def speaking_as(owner: str) -> Iterator[None]:
    """Let what is refused inside the block be refused in the name of ``owner``, which the user knows.

    >>> with speaking_as("PhasedVI"):
    ...     check_integer("theory.phased_vi", "calls", 0, low=1, high=9)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: PhasedVI: calls must be an integer from 1 to 9, got 0.
    """
    try:
        yield
    except InvalidInput as error:
        first, colon, rule = str(error).partition(": ")
        raise type(error)(f"{owner}: {rule if colon else first}") from None


def _as_float(value: object) -> float | None:
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # the refusal is the point
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
