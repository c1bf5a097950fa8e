"""Algorithms by their ids, and who is believed to have made a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replicable_rl.runs.provenance import OURS
from replicable_rl.runs.specs import ObjectSpec

SHIPPED: dict[str, Any] = {}  # the algorithms of this library, by id
ALGORITHMS: dict[str, Callable[..., Any]] = {}  # these, and those that were registered


def speaker(spec: ObjectSpec | None) -> str:
    """Return who is believed to have made the claims of a run that was read: this library, for what it ships."""
    return "code without a name" if spec is None else OURS if spec.id in SHIPPED else spec.id
