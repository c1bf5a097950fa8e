"""The exception tree, and the checks that raise it.

Every exception a user can cause derives from :class:`InvalidInput`, which is a
``ValueError``. A message names the owner, the rule, the value and the remedy, in
one sentence or two:

    ReplicablePhasedVI: delta must satisfy 2*delta < rho (Theorem 2.1, thm:rep-sq), got
    delta=0.15, rho=0.2. Lower delta below 0.1 or raise rho.
"""

import contextlib
import decimal
import difflib
import math
import numbers
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


class InvalidMDP(InvalidInput):
    """The arrays do not describe a Markov decision process."""


class InvalidFile(InvalidInput):
    """A file cannot be read as what it should be, or would be overwritten."""


class UnknownId(InvalidInput):
    """No problem or algorithm is registered under this id."""


class SampleSizeTooLarge(InvalidInput):
    """More samples were asked for than a 64-bit count can hold."""


def check_integer(owner: str, name: str, value: object, *, low: int, high: int) -> int:
    """Return ``value`` as an int in [low, high]; a number of another type is taken where it is whole, such as 1e6.

    >>> [check_integer("PhasedVI", "calls", calls, low=1, high=10**9) for calls in (5, 1e6)]
    [5, 1000000]
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
    """Return ``value`` as a finite float in [low, high]; ``rule`` words the interval.

    A number of another type is the float that it equals; one that no float equals is refused.

    >>> check_real("chain-v1", "slip", decimal.Decimal("0.25"), low=0.0, high=1.0, rule="a number in [0, 1]")
    0.25
    >>> check_real("chain-v1", "slip", decimal.Decimal("0.3"), low=0.0, high=1.0, rule="a number in [0, 1]")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: chain-v1: slip must be a number that 64 bits hold exactly, got Decimal('0.3'). \
Convert it with float() first.
    """
    number = _as_float(owner, name, value)
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
    number = _as_float(owner, name, value)
    if number is None or not low < number < high:
        rule = f"lie strictly between {low:g} and {high:g}" if high < math.inf or low else "be positive and finite"
        raise InvalidInput(f"{owner}: {name} must {rule}, got {shown(value)}.")
    return number


def check_choice(owner: str, name: str, value: Word, choices: Iterable[str]) -> Word:
    """Return a word that is one of a few.

    >>> check_choice("PhasedVI", "target", "Q", ("policy", "value"))
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: PhasedVI: target must be 'policy' or 'value', got 'Q'.
    """
    words = list(choices)
    if not (isinstance(value, str) and value in words):
        raise InvalidInput(f"{owner}: {name} must be {' or '.join(map(repr, words))}, got {shown(value)}.")
    return cast("Word", str(value))  # also where it was a subclass


def check_flag(owner: str, name: str, value: object) -> bool:
    """Return True or False; nothing else is taken for one of them.

    >>> check_flag("PhasedVI", "known_rewards", "no")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: PhasedVI: known_rewards must be True or False, got 'no'.
    """
    if isinstance(value, bool):
        return value
    if type(value).__name__ in ("bool", "bool_") and hasattr(value, "item"):  # numpy's
        return bool(value)
    raise InvalidInput(f"{owner}: {name} must be True or False, got {shown(value)}.")


def check_numbers(
    owner: str, name: str, values: object, *, refusal: type[InvalidInput] = InvalidInput
) -> NDArray[np.float64]:
    """Return numbers as an array of floats that equal them; what is masked, and what no float equals, is refused.

    >>> check_numbers("TabularMDP", "P", [["0.5", "0.5"]])
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: TabularMDP: P must be an array of numbers, got [['0.5', '0.5']].
    """
    try:
        array = np.asarray(values)
        floats: NDArray[np.float64] = array.astype(np.float64, copy=False)
        are_numbers = _holds_numbers(array) and not is_masked(values)
        are_equal = are_numbers and _are_equal(array, floats)
    except OverflowError:  # a whole number of hundreds of digits
        raise refusal(f"{owner}: {name} must hold finite numbers, got {shown(values)}.") from None
    except Exception:  # whatever somebody's object raises
        are_numbers = are_equal = False
    if not are_numbers:
        raise refusal(f"{owner}: {name} must be an array of numbers, got {shown(values)}.")
    if not are_equal:
        raise refusal(
            f"{owner}: {name} must hold numbers that 64 bits hold exactly, got {shown(values)}. "
            "Convert them to floats first."
        )
    return floats


def is_masked(values: object) -> bool:
    """Whether an array, or one in a list, may hide some of its elements."""
    inside = values if isinstance(values, (list, tuple)) else ()
    return isinstance(values, np.ma.MaskedArray) or any(isinstance(one, np.ma.MaskedArray) for one in inside)


def _holds_numbers(array: NDArray[Any]) -> bool:
    if array.dtype.kind != "O":
        return array.dtype.kind in "fiub"
    return all(isinstance(one, (numbers.Real, decimal.Decimal)) for one in array.reshape(-1))


def _are_equal(array: NDArray[Any], floats: NDArray[np.float64]) -> bool:
    kind, size = array.dtype.kind, array.dtype.itemsize
    if (kind in "fb" and size <= 8) or (kind in "iu" and (size <= 4 or bool((np.abs(floats) < 2.0**53).all()))):
        return True
    pairs = zip(floats.reshape(-1).tolist(), array.reshape(-1).astype(object), strict=True)
    return all(one == two or math.isnan(one) for one, two in pairs)


def shown(value: object, longest: int = 70) -> str:
    r"""Write a value that is refused: cut where it is long, with control characters as escapes.

    >>> print(shown("a\x1b[2J"), shown([1] * 1000))
    'a\x1b[2J' [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ... (3000 characters)
    """
    try:
        text = visible(" ".join(repr(value).split()))
    except Exception:  # whatever somebody's object raises
        return f"an object of type {brief(type(value).__name__, longest)}"
    return text if len(text) <= longest else f"{text[:40]}... ({len(text)} characters)"


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
    except InvalidFile:  # the user knows the file
        raise
    except InvalidInput as error:
        first, colon, rule = str(error).partition(": ")
        raise type(error)(f"{owner}: {rule if colon else first}") from None


@contextlib.contextmanager
def called_as(owner: str, *others: str) -> Iterator[None]:
    """Let what is refused in the name of one of the others be refused in that of ``owner``, which the user called.

    >>> with called_as("calibrate", "audit"):
    ...     check_integer("audit", "seed", -1, low=0, high=9)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: calibrate: seed must be an integer from 0 to 9, got -1.
    """
    try:
        yield
    except InvalidInput as error:
        first, colon, rest = str(error).partition(": ")
        if colon and first in others:
            error.args = (f"{owner}: {rest}", *error.args[1:])  # it stays what it is: a failed run has a traceback
        raise


def plain_number(value: object) -> int | float | None:
    """Return the Python number that equals ``value``; None where there is none, and for bools and texts.

    >>> from fractions import Fraction
    >>> plain_number(Fraction(1, 4)), plain_number(Fraction(1, 3)), plain_number(True)
    (0.25, None, None)
    """
    value = _scalar(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        number = float(value)  # type: ignore[arg-type]  # None is no number either
        return number if number == value else None
    except Exception:  # whatever somebody's number raises
        return None


def whole_number(value: object) -> int | None:
    """Return the integer that equals ``value``; None where there is none, and for bools and texts.

    >>> whole_number(1e6), whole_number(1.5), whole_number("3")
    (1000000, None, None)
    """
    if type(value) is int:
        return value
    value = _scalar(value)
    try:
        if isinstance(value, numbers.Integral):
            return int(value)
        if value is None or not -1e308 < value < 1e308:  # type: ignore[operator]  # it is a real number
            return None
        whole = int(value)  # type: ignore[call-overload]
        return whole if whole == value else None
    except Exception:  # whatever somebody's number raises
        return None


def _as_float(owner: str, name: str, value: object) -> float | None:
    value = _scalar(value)
    try:
        number = float(value)  # type: ignore[arg-type]  # None is no number either
        if not math.isfinite(number):
            return None
        exact = bool(number == value)
    except Exception:  # whatever somebody's number raises
        return None
    if not exact:
        raise InvalidInput(
            f"{owner}: {name} must be a number that 64 bits hold exactly, got {shown(value)}. "
            "Convert it with float() first."
        )
    return number


def _scalar(value: object) -> object:
    """Return a number as it is, and the one in an array of no dimensions; None for everything else."""
    if type(value) in (int, float):  # most are, and there are many
        return value
    if hasattr(value, "mask"):  # what is hidden is no number
        return None
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        try:
            item = value.item()
        except Exception:  # whatever somebody's array raises
            return None
        value = value if type(item) is type(value) else item
    is_number = isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(value, bool)
    return value if is_number else None
