"""What an audit will run: J shared seeds, R samples for each, and how it counts as done.

Replicability is a probability over two samples *and* over the shared randomness r, so an audit
takes many shared seeds and at least two samples for each. All seeds follow from the audit's own
``seed``: the same call asks for the same runs and so resumes, more shared seeds or more runs
extend it, and another ``seed`` is an independent audit.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer
from replicable_rl.randomness import MAX_SEED

__all__ = ["AuditPlan", "Seeds", "derived_seed", "plan_audit"]

Seeds = tuple[int, int]  # (shared seed, sample seed)
_MOST = 10**7


def derived_seed(label: str, *address: int) -> int:
    """Return 64 bits that depend on the label and the address alone, for ever.

    >>> derived_seed("shared", 0, 0)
    13084725234860710184
    """
    text = f"replicable-rl/audit/{label}" + ("/%d" * len(address)) % address
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "little")


@dataclass(frozen=True)
class AuditPlan:
    """The seeds of an audit and the confidence of its intervals."""

    shared_seeds: tuple[int, ...]
    runs_per_seed: int
    seed: int
    confidence: float

    @property
    def seeds(self) -> list[Seeds]:
        """The seeds of all runs, those of one shared seed together."""
        runs = range(self.runs_per_seed)
        return [(shared, derived_seed("sample", self.seed, shared, i)) for shared in self.shared_seeds for i in runs]


def plan_audit(
    owner: str, shared_seeds: int | Sequence[int], runs_per_seed: int, seed: int, confidence: float
) -> AuditPlan:
    """Check the size of an audit and lay out its seeds."""
    seed = check_integer(owner, "seed", seed, low=0, high=MAX_SEED)
    confidence = check_in_open_interval(owner, "confidence", confidence)
    if type(runs_per_seed) is int and runs_per_seed == 1:
        raise InvalidInput(
            f"{owner}: runs_per_seed must be at least 2, got 1. One run under a shared seed has nothing to agree with."
        )
    runs = check_integer(owner, "runs_per_seed", runs_per_seed, low=2, high=_MOST)
    listed: tuple[int, ...] | None = None
    try:
        count = operator.index(shared_seeds)  # type: ignore[arg-type]  # a sequence is the other case
    except TypeError:
        listed = _listed(owner, shared_seeds)
        count = len(listed)
    else:
        count = check_integer(owner, "shared_seeds", shared_seeds, low=1, high=_MOST)
    if count * runs > _MOST:
        raise InvalidInput(f"{owner}: {count} shared seeds x {runs} runs are more than {_MOST} runs.")
    if listed is None:
        listed = tuple(derived_seed("shared", seed, j) for j in range(count))
    return AuditPlan(listed, runs, seed, confidence)


def _listed(owner: str, shared_seeds: object) -> tuple[int, ...]:
    rule = f"{owner}: shared_seeds must be how many to use, or a list of different seeds"
    if isinstance(shared_seeds, (str, bytes)) or (
        not isinstance(shared_seeds, Sequence) and not hasattr(shared_seeds, "__iter__")
    ):
        raise InvalidInput(f"{rule}, got {shared_seeds!r}.")
    listed = tuple(check_integer(owner, "a shared seed", seed, low=0, high=MAX_SEED) for seed in shared_seeds)
    if not listed:
        raise InvalidInput(f"{rule}, got an empty list.")
    if len(set(listed)) < len(listed):
        twice = next(seed for seed in listed if listed.count(seed) > 1)
        raise InvalidInput(f"{rule}, got {twice} twice.")
    return listed
