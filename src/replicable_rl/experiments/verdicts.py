"""What the data says about a claim of the paper: *held* or *not held* where an interval says so, else *cannot tell*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

HELD, NOT_HELD, CANNOT_TELL = "held", "not held", "cannot tell"


class Verdict(NamedTuple):
    """What is claimed, where in the paper, what was measured, and the verdict."""

    claim: str
    where: str
    measured: str
    verdict: str


def judged(yes: bool, no: bool) -> str:
    """Return the verdict of data that shows a claim, or refutes it, or neither."""
    return HELD if yes else NOT_HELD if no else CANNOT_TELL


def shown(row: Mapping[str, Any], name: str) -> str:
    """Write an estimate of a table with its interval.

    >>> shown({"share": 0.9, "share_low": 0.8, "share_high": 0.95}, "share")
    '0.900 (0.800–0.950)'
    """
    return f"{row[name]:.3f} ({row[f'{name}_low']:.3f}–{row[f'{name}_high']:.3f})"
