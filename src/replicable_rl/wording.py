"""How numbers, long texts and records are written for people, everywhere alike."""

import dataclasses
import itertools
import unicodedata
from collections.abc import Mapping
from enum import Enum
from html import escape
from numbers import Integral
from typing import Any

import numpy as np

_ITEMS = 6  # of a list on a line
_LONGEST = 500  # characters of a line
_COMMANDS = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control and format characters, halves of pairs, ends of lines


def number(x: float | None, digits: int = 4) -> str:
    """Write a number: whole up to nine digits, else with a few significant ones; a dash for None.

    >>> number(12967), number(8187898146367124), number(0.0005), number(None), number(0.123456, 3)
    ('12967', '8.188e+15', '0.0005', '-', '0.123')
    """
    if x is None:
        return "-"
    return str(int(x)) if isinstance(x, Integral) and abs(x) < 10**9 else f"{x:.{digits}g}"


def number_range(low: float, high: float) -> str:
    """Write the ends of a range; one number where both read alike."""
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def short_loss(x: float | None) -> str:
    """Write a loss in a few letters; what is below the rounding of planning is 0; a dash for None."""
    return "0" if x is not None and abs(x) < 1e-7 else number(x, 2)


def apart(x: float, y: float) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to tell them apart.

    >>> apart(1.0, 1.00001), apart(10**15, 10**15 + 1)
    (('1', '1.00001'), ('1000000000000000', '1000000000000001'))
    """
    for digits in (3, 6):
        if number(x, digits) != number(y, digits):
            return number(x, digits), number(y, digits)
    exact = [str(int(z)) if isinstance(z, Integral) else f"{z:.17g}" for z in (x, y)]
    return exact[0], exact[1]


def share(x: float, digits: int = 3) -> str:
    """Write an agreement, a share or a probability."""
    return f"{x:.{digits}f}"


def interval(low: float, high: float, digits: int = 3) -> str:
    """Write the interval of an agreement, a share or a probability."""
    return f"{share(low, digits)}–{share(high, digits)}"


def with_interval(x: float, low: float, high: float, digits: int = 3) -> str:
    """Write an estimate with its interval.

    >>> with_interval(0.9, 0.8, 0.95)
    '0.900 (0.800–0.950)'
    """
    return f"{share(x, digits)} ({interval(low, high, digits)})"


def p_value(p: float) -> str:
    """Write how likely chance alone makes a difference as large."""
    return f"p = {number(p, 2)}"


def minus(text: str) -> str:
    """Write a number, or an interval of them, with real minus signs."""
    return text.replace("-", "−")


def percent(part: float) -> str:
    """Write a share, such as a confidence, in per cent with all of its digits: 95 %, 99.9 %."""
    return f"{100 * part:.10g} %"


def plural(count: int, noun: str) -> str:
    """Write how many there are: 1 run, 3 runs."""
    return f"{count} {noun}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """Write a time for a person.

    >>> duration(42), duration(95), duration(7300)
    ('42 s', '1 min 35 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def listed(names: list[str]) -> str:
    """Write names one after the other: model, value and policy."""
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def brief(text: str, longest: int = 160) -> str:
    """Cut what is too long to be read."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def visible(text: str) -> str:
    r"""Write control characters, which could command a terminal, as escapes; lines and tabs stay.

    >>> print(visible("a\x1b[31mred\x07 \u202eabc"))
    a\x1b[31mred\x07 \u202eabc
    """
    if text.isascii() and text.isprintable():
        return text
    commands = [letter for letter in set(text) - {"\n", "\t"} if unicodedata.category(letter) in _COMMANDS]
    return text.translate({ord(letter): letter.encode("unicode_escape").decode("ascii") for letter in commands})


def sentence(text: object, longest: int = 500) -> str:
    """Write a text, or what an exception says, on one line that does not end with a full stop."""
    return visible(" ".join(str(text).split()))[:longest].rstrip(".")


class Displayed:
    """A result of one line or two: a notebook shows it as ``print`` does."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(visible(str(self)))}</pre>"


def short_repr(record: Any) -> str:
    """Write a dataclass or a named tuple on one line: arrays by their shapes, long lists cut, defaults left out.

    A class takes it as its own with ``__repr__ = short_repr``.

    >>> @dataclasses.dataclass
    ... class Found:
    ...     states: tuple[int, ...]
    ...     gap: float
    ...     why: str | None = None
    ...     __repr__ = short_repr
    >>> Found(tuple(range(1000)), 1 / 3)
    Found(states=(0, 1, 2, 3, 4, 5, … 1000 in all), gap=0.333333)
    """
    if isinstance(record, tuple):
        values, usual = record._asdict(), record._field_defaults  # type: ignore[attr-defined]  # it is a named one
    else:
        fields = [field for field in dataclasses.fields(record) if field.repr]
        values = {field.name: vars(record)[field.name] for field in fields}
        usual = {field.name: field.default for field in fields}
    unusual = (f"{name}={short(value)}" for name, value in values.items() if value is not usual.get(name, record))
    return described(record, ", ".join(unusual))


def described(record: object, text: str) -> str:
    """Write the name of a record's class, and what is to be said of it, on one line that is not too long."""
    return f"{type(record).__name__}({brief(visible(' '.join(text.split())), _LONGEST)})"


def short(value: Any) -> str:
    """Write one value of a record, in a few words."""
    if isinstance(value, str):
        return repr(brief(value, 100))
    if isinstance(value, Enum):
        return repr(value.value)
    if type(value) is float:
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        is_short = value.ndim == 1 and value.size <= _ITEMS
        return short(value.tolist()) if is_short else f"<{value.dtype} array of shape {value.shape}>"
    if isinstance(value, Mapping):
        items = [f"{short(key)}: {short(item)}" for key, item in itertools.islice(value.items(), _ITEMS)]
        return f"{{{_listed(items, len(value))}}}"
    if type(value) in (tuple, list):
        text = _listed([short(item) for item in itertools.islice(value, _ITEMS)], len(value))
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    return brief(repr(value), 200)


def _listed(texts: list[str], size: int) -> str:
    return ", ".join(texts) + f", … {size} in all" * (size > len(texts))
