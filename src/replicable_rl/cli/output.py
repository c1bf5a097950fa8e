"""Printing where somebody may not read, or not be able to."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from typing import Any

_PLAIN = str.maketrans({"–": "-", "−": "-", "×": "x", "ρ": "rho"})


def print_all(text: str) -> None:
    """Print and flush; a reader who has left is no reason to end otherwise than the work did."""
    try:
        print(text if can_encode(text) else text.translate(_PLAIN), flush=True)
    except BrokenPipeError:
        drop_output()


def print_json(data: Any) -> None:
    """Print JSON, which has no infinity and no NaN: the first becomes text, the second null."""
    try:
        print(json.dumps(data, allow_nan=False))
    except ValueError:
        print(json.dumps(_finite(data), allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    if not isinstance(data, float) or math.isfinite(data):
        return data
    return None if math.isnan(data) else str(data)


def can_encode(text: str) -> bool:
    """Whether the terminal can show a text."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def drop_output() -> None:
    """Send what is left in the buffer nowhere; at exit it would raise again."""
    with contextlib.suppress(OSError):  # a captured stdout has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
