"""Numbers for people."""

from __future__ import annotations

import math

__all__ = ["number", "quantity", "times"]

_PARTS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_DAY = 86_400.0


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit: seconds, MB, or seconds per byte, which are shown as GB/s.

    >>> quantity(4.2e-8, "s"), quantity(250.0, "MB"), quantity(1e-10, "s/B"), quantity(1e7, "s")
    ('42 ns', '250 MB', '10 GB/s', '120 days')
    """
    if math.isnan(value):
        return "–"
    if unit == "s/B":
        return f"{_digits(1e-9 / value)} GB/s"
    if unit != "s":
        return f"{_digits(value)} {unit}"
    if value >= 2 * _DAY:
        return f"{_digits(value / _DAY)} days"
    size, name = next((part for part in _PARTS if value >= part[0]), _PARTS[-1])
    return f"{_digits(value / size)} {name}"


def times(ratio: float) -> str:
    """Return a ratio.

    >>> times(0.5), times(12.3), times(1391.0), times(1.49e5)
    ('0.50×', '12×', '1400×', '1.5·10<sup>5</sup>×')
    """
    return f"{_digits(ratio)}×"


def number(value: float | str) -> str:
    """Return a parameter.

    >>> number(13000), number(10**9), number("Garnet"), number(0.95)
    ('13 000', '10<sup>9</sup>', 'Garnet', '0.95')
    """
    if isinstance(value, str):
        return value
    exponent = round(math.log10(value)) if value > 0 else 0
    if exponent >= 4 and value == 10**exponent:
        return f"10<sup>{exponent}</sup>"
    return f"{value:,}".replace(",", " ")


def _digits(value: float) -> str:
    """Return two digits that count."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    rounded = round(value, 1 - exponent)
    if rounded >= 10.0**5:
        exponent = math.floor(math.log10(rounded))
        return f"{rounded / 10.0**exponent:.1f}·10<sup>{exponent}</sup>"
    return f"{rounded:.{max(0, 1 - math.floor(math.log10(abs(rounded))))}f}"
