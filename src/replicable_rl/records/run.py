"""A finished run as it is kept: seeds, fingerprints and how it ended, without the arrays."""

from __future__ import annotations

from typing import Literal, NamedTuple

from replicable_rl.records.solution import Guarantee, Status

__all__ = ["LEVELS", "Level", "RunRecord"]

Level = Literal["model", "value", "policy"]
LEVELS: tuple[Level, ...] = ("model", "value", "policy")  # each implies the next


class RunRecord(NamedTuple):
    """One run of a family. A failed run has an ``error`` and no fingerprints.

    ``samples`` is None where the training code does not report it; ``seconds`` is the time
    that the run took where it ran, and the one thing here that a repetition changes.
    """

    key: str
    shared_seed: int
    sample_seed: int
    policy: str | None = None
    value: str | None = None
    model: str | None = None
    history: str | None = None
    samples: int | None = None
    seconds: float = 0.0
    status: Status | None = None
    guarantee: Guarantee | None = None
    error: str | None = None

    def fingerprint(self, level: Level) -> str | None:
        """Return the digest of the exact bits at a level, None where there is none."""
        return {"model": self.model, "value": self.value, "policy": self.policy}[level]
