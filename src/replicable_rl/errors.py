"""The exception tree, and the checks that raise it.

Every exception a user can cause derives from :class:`InvalidInput`, which is a
``ValueError``. A message names the owner, the rule, the value and the remedy, in
one sentence or two:

    ReplicablePhasedVI: delta must satisfy 2*delta < rho (Theorem 2.1, thm:rep-sq), got
    delta=0.15, rho=0.2. Lower delta below 0.1 or raise rho.
"""

import contextlib
import importlib
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from replicable_rl.wording import brief, visible

Word = TypeVar("Word", bound=str)
_LONGEST = 1000  # characters of a message, whatever it quotes


class InvalidInput(ValueError):
    """The input breaks a rule; the message says which one and what to do.

    It may quote a stranger's text: control characters are written as escapes, and what is very long is cut.
    """

    def __init__(self, message: object = "") -> None:
        text = visible(str(message))
        super().__init__(text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 3 :]}")


class InvalidFile(InvalidInput):
    """A file cannot be read as what it should be, or would be overwritten."""


def needs(module: str, *, extra: str, who: str) -> Any:
    """Import a module that an extra installs, or say in one sentence how to install it.

    >>> needs("no_such_module", extra="plot", who="draw")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: draw needs no_such_module (No module named 'no_such_module'). Run: pip install
    'replicable-rl[plot]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(f"{who} needs {module} ({error}). Run: pip install 'replicable-rl[{extra}]'") from error


def check_integer(owner: str, name: str, value: object, *, low: int, high: int) -> int:
    """Return ``value`` as an int in [low, high]; a number of another type is taken where it is whole, such as 1e6.

    >>> check_integer("chain-v1", "n_states", 1, low=2, high=10)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: chain-v1: n_states must be an integer from 2 to 10, got 1.
    """
    number = whole_number(value)
    if number is None or not low <= number <= high:
        most = f"2**{high.bit_length() - 1}" if high > 2**64 and high & (high - 1) == 0 else high
        raise InvalidInput(f"{owner}: {name} must be an integer from {low} to {most}, got {shown(value)}.")
    return number


def check_real(owner: str, name: str, value: object, *, low: float, high: float, rule: str) -> float:
    """Return ``value`` as a finite float in [low, high]; ``rule`` words the interval."""
    number = _as_float(value)
    if number is None or not low <= number <= high:
        raise InvalidInput(f"{owner}: {name} must be {rule}, got {shown(value)}.")
    return number


SMALLEST = 1e-30  # of a probability or a tolerance


def check_share(owner: str, name: str, value: object) -> float:
    """Return a probability or a tolerance strictly between 0 and 1, and not absurdly small."""
    number = check_in_open_interval(owner, name, value)
    if number < SMALLEST:
        rule = f"must be at least {SMALLEST:g}, or sample sizes pass the largest float"
        raise InvalidInput(f"{owner}: {name} {rule}; got {shown(value)}. Raise {name}.")
    return number


def check_in_open_interval(owner: str, name: str, value: object, low: float = 0.0, high: float = 1.0) -> float:
    """Return ``value`` as a float strictly between ``low`` and ``high``."""
    number = _as_float(value)
    if number is None or not low < number < high:
        rule = f"lie strictly between {low:g} and {high:g}" if high < math.inf or low else "be positive and finite"
        raise InvalidInput(f"{owner}: {name} must {rule}, got {shown(value)}.")
    return number


def check_choice(owner: str, name: str, value: Word, choices: Iterable[str]) -> Word:
    """Return a word that is one of a few."""
    words = list(choices)
    if not (isinstance(value, str) and value in words):
        raise InvalidInput(f"{owner}: {name} must be {' or '.join(map(repr, words))}, got {shown(value)}.")
    return cast("Word", str(value))  # also where it was a subclass


def check_flag(owner: str, name: str, value: object) -> bool:
    """Return True or False; nothing else is taken for one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{owner}: {name} must be True or False, got {shown(value)}.")
    return bool(value)


def check_numbers(owner: str, name: str, values: object) -> NDArray[np.float64]:
    """Return numbers as an array of floats; what is masked is refused."""
    try:
        array = np.asarray(values)
    except Exception:  # whatever somebody's object raises
        array = np.asarray(None)
    if array.dtype.kind not in "fiub" or is_masked(values):
        raise InvalidInput(f"{owner}: {name} must be an array of numbers, got {shown(values)}.")
    return array.astype(np.float64, copy=False)


def is_masked(values: object) -> bool:
    """Whether an array, or one in a list, may hide some of its elements."""
    inside = values if isinstance(values, (list, tuple)) else ()
    return isinstance(values, np.ma.MaskedArray) or any(isinstance(item, np.ma.MaskedArray) for item in inside)


def shown(value: object, longest: int = 70) -> str:
    """Write a value that is refused: cut where it is long, with control characters as escapes."""
    try:
        text = visible(" ".join(repr(value).split()))
    except Exception:  # whatever somebody's object raises
        return f"an object of type {brief(type(value).__name__, longest)}"
    return text if len(text) <= longest else f"{text[:40]}... ({len(text)} characters)"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' when something known is close, else ''."""
    import difflib  # for a refusal alone

    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


@contextlib.contextmanager
def speaking_as(owner: str, *others: str) -> Iterator[None]:
    """Let what is refused inside the block, in the name of one of the others or of anybody, be refused in ``owner``'s.

    >>> with speaking_as("PhasedVI"):
    ...     check_integer("theory.phased_vi", "calls", 0, low=1, high=9)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: PhasedVI: calls must be an integer from 1 to 9, got 0.
    """
    try:
        yield
    except InvalidFile:  # the user knows the file
        raise
    except InvalidInput as error:
        first, colon, rule = str(error).partition(": ")
        if not others or (colon and first in others):
            error.args = (f"{owner}: {rule if colon else first}", *error.args[1:])
        raise


def plain_number(value: object) -> int | float | None:
    """Return a number of Python's or NumPy's as Python's; None for NaN, truth values and everything else."""
    if type(value) is int:  # nearly always
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    number = float(value) if isinstance(value, (float, np.floating)) else math.nan
    return None if math.isnan(number) else number


def whole_number(value: object) -> int | None:
    """Return the integer that equals ``value``; None where there is none, and for truth values and texts."""
    number = plain_number(value)
    return number if number is None or isinstance(number, int) else int(number) if number.is_integer() else None


def _as_float(value: object) -> float | None:
    """Return a finite number as a float; None for everything else."""
    number = plain_number(value)
    return None if number is None or abs(number) > sys.float_info.max else float(number)
