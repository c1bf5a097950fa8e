"""Names of states and actions, each in one form.

Texts, whole numbers, numbers, truth values, dates, times, and tuples of these stay what they are. What else has one
written form becomes the text or the number that it is written as: see ``plain``. Nothing else is a name.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from replicable_rl.canonical import Json, json_text
from replicable_rl.errors import InvalidInput, shown

Label = Any  # a text, a number, a truth value, a date, a time, or a tuple of them
MOST_DIGITS = 38  # of a whole number: what 128 bits hold
EXACT = 2**53  # whole numbers below it are floats too
_SAID = {
    "whole": ("a whole number", "whole numbers"),
    "number": ("a number", "numbers"),
    "truth": ("a truth value", "truth values"),
    "date": ("a date", "dates"),
    "time": ("a time", "times"),
    "zoned": ("a time with a time zone", "times with a time zone"),
    "hour": ("a time of day", "times of day"),
    "duration": ("a duration", "durations"),
    "text": ("a text", "texts"),
    "bytes": ("bytes", "bytes"),
    "uuid": ("a UUID", "UUIDs"),
    "interval": ("an interval", "intervals"),
    "period": ("a period", "periods"),
    "tuple": ("a tuple", "tuples"),
    "other": ("a list or an object", "lists or objects"),
}


def a(kind: str) -> str:
    """Return what one name of a kind is called."""
    return _SAID[kind][0]


def several(kind: str) -> str:
    """Return what names of a kind are called."""
    return _SAID[kind][1]


def plain(label: Any) -> Label:
    """Return a label in its one form.

    >>> plain(np.int64(3)), plain([np.str_("a"), -0.0]), plain(uuid.UUID(int=5))
    (3, ('a', 0.0), '00000000-0000-0000-0000-000000000005')
    >>> plain(decimal.Decimal("1.10")), plain(b"a"), plain(datetime.timedelta(hours=26))
    (1.1, 'a', '1 days 02:00:00')
    >>> plain(datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2))))
    '2026-01-31 10:00:00+00:00'
    """
    return known(label)[1]


def known(label: Any) -> tuple[str, Label]:
    """Return of which kind a label is, and its one form."""
    for type_, read in _READERS:
        if isinstance(label, type_):
            return read(label)
    if isinstance(label, np.ndarray) and label.ndim < 2:
        return known(tuple(label) if label.ndim else label[()])
    if type(label).__module__.partition(".")[0] == "pandas" and type(label).__name__ in ("Interval", "Period"):
        return type(label).__name__.lower(), str(label)
    raise _refusal(label)


def is_missing_value(value: Any) -> bool:
    """Whether a value of a frame stands for a missing one: None, NaN, NaT, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def spoken(label: Label) -> str:
    """Return a label as a text for people; of several parts, one that holds a comma or a quote stands in quotes.

    >>> print(spoken(("b", 0)), spoken(("p", "q, r")), spoken(("p, q", "r")), sep=" | ")
    b, 0 | p, "q, r" | "p, q", r
    """
    return ", ".join(map(_part, label)) if isinstance(label, tuple) else str(label)


def _part(label: Label) -> str:
    """Return a part of a label: no comma, quote or blank at its ends can be taken for what is between parts."""
    text = spoken(label)
    plain = text == text.strip() != "" and not set(text) & {",", '"'}
    return text if plain and not isinstance(label, tuple) else json_text(text, ascii=False)


def written(label: Label) -> Json:
    """Return a label as JSON, with its type: 1, 1.0, "1" and True are four names."""
    if isinstance(label, tuple):
        return [written(one) for one in label]
    return f"{type(label).__name__}:{label!r}" if not isinstance(label, str) else f"str:{label}"


def written_key(label: Label) -> str:
    """Return what tells labels apart."""
    return str(written(label))


def duration(span: datetime.timedelta) -> str:
    """Write a duration as pandas does: days, and the time of the day.

    >>> duration(datetime.timedelta(hours=-1)), duration(datetime.timedelta(microseconds=5))
    ('-1 days +23:00:00', '0 days 00:00:00.000005')
    """
    rest = (datetime.datetime.min + datetime.timedelta(0, span.seconds, span.microseconds)).time()
    return f"{span.days} days {'+' if span.days < 0 else ''}{rest}"


# --- one reader for each type ---------------------------------------------------------------------------


def _refusal(label: Any, why: str = "") -> InvalidInput:
    rule = why or "a text, a number, a truth value, a date, a time, a duration, a UUID, bytes, or a tuple of them"
    return InvalidInput(f"from_transitions: a name must be {rule}, got {shown(label)}. Convert it to a text.")


def _text(label: str) -> tuple[str, Label]:
    if not label.isascii():
        try:
            label.encode()
        except UnicodeEncodeError:
            raise _refusal(label, "a text of Unicode letters") from None
    return "text", str(label)


def _bytes(label: Any) -> tuple[str, Label]:
    try:
        return "bytes", bytes(label).decode()
    except UnicodeDecodeError:
        raise _refusal(label, "a text, or bytes that are one in UTF-8") from None


def _whole(label: Any) -> tuple[str, Label]:
    number = int(label)
    if abs(number) >= 10**MOST_DIGITS:
        raise _refusal(label, f"a whole number of at most {MOST_DIGITS} digits")
    return "whole", number


def _number(label: Any) -> tuple[str, Label]:
    try:
        number = float(label)
    except OverflowError:
        number = np.nan
    if np.isinf(number):
        raise _refusal(label, "a finite number")
    if number != label:
        raise _refusal(label, "a number that 64 bits hold exactly")
    return "number", number + 0.0  # -0.0 is the same name


def _decimal(label: decimal.Decimal) -> tuple[str, Label]:
    exponent = label.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 0:
        return _whole(label)
    number = float(label)
    if not label.is_finite() or decimal.Decimal(repr(number)) != label:
        raise _refusal(label, "a decimal that 64 bits hold")
    return "number", number + 0.0


def _moment(label: datetime.datetime) -> tuple[str, Label]:
    if getattr(label, "nanosecond", 0):
        raise _refusal(label, "a time in whole microseconds")
    if label.utcoffset() is not None:
        label = label.astimezone(datetime.UTC)
    moment = datetime.datetime.combine(
        datetime.date(label.year, label.month, label.day),
        datetime.time(label.hour, label.minute, label.second, label.microsecond),
    )
    return ("time", moment) if label.utcoffset() is None else ("zoned", zoned(str(moment)))


def zoned(moment: str) -> str:
    """Write a time of UTC; the engine writes fractions of a second without zeros at their end."""
    return (moment.rstrip("0") if "." in moment else moment) + "+00:00"


def _hour(label: datetime.time) -> tuple[str, Label]:
    if label.tzinfo is not None:
        raise _refusal(label, "a time of day without a time zone")
    return "hour", label.replace(fold=0)


def _duration(label: datetime.timedelta) -> tuple[str, Label]:
    if getattr(label, "nanoseconds", 0):
        raise _refusal(label, "a duration in whole microseconds")
    return "duration", duration(datetime.timedelta(label.days, label.seconds, label.microseconds))


def _tuple(label: Sequence[Any]) -> tuple[str, Label]:
    for one in label:
        if is_missing_value(one):
            raise _refusal(label, "a tuple without missing parts")
    return "tuple", tuple(map(plain, label))


def _of_numpy(label: Any) -> Any:
    """Return what a time or a duration of numpy is in Python, if it is exactly that."""
    unit, is_time = np.datetime_data(label.dtype)[0], isinstance(label, np.datetime64)
    if unit not in (("M", "Y", "generic") if not is_time else ("generic",)):
        fine = label.astype("M8[D]" if is_time and unit in "YMWD" else f"{label.dtype.kind}8[us]")
        if fine == label:
            return fine.item()
    raise _refusal(label, "a time or a duration in whole microseconds")


_READERS: tuple[tuple[Any, Callable[[Any], tuple[str, Label]]], ...] = (
    ((np.datetime64, np.timedelta64), lambda label: known(_of_numpy(label))),  # the second calls itself an integer
    (str, _text),
    ((bool, np.bool_), lambda label: ("truth", bool(label))),
    (numbers.Integral, _whole),
    (numbers.Real, _number),
    (datetime.datetime, _moment),
    (datetime.date, lambda label: ("date", datetime.date(label.year, label.month, label.day))),
    (datetime.time, _hour),
    (datetime.timedelta, _duration),
    ((tuple, list), _tuple),
    (decimal.Decimal, _decimal),
    (uuid.UUID, lambda label: ("uuid", str(label))),
    ((bytes, bytearray, memoryview), _bytes),
)
