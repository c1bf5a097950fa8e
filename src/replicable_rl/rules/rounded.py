"""Rounding, as rSTAT does it: every entry of Q to a bin of a shared grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replicable_rl.problem.source import greedy
from replicable_rl.queries import rstat
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.rule import Decision, Rule, Tuning
from replicable_rl.theory import decisions


@dataclass(frozen=True)
class RoundedQ(Rule):
    """Every entry of Q to the middle of its bin on a shared grid, then the best action: the same Q and policy twice.

    ``width`` is that of the bins, in values normalised to [0, 1]; None: what epsilon allows.
    """

    width: float | None = None

    id: ClassVar[str] = decisions.ROUNDED
    setting: ClassVar[str] = "width"

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Round, and take the best."""
        width, q = self.width or tuning.parameter, np.clip(model.q, 0.0, 1.0)
        rounded = rstat(q, shared.uniform("decide/offset", shape=q.shape), width)
        answer, room = model.support.settle(rounded.answer), model.support.settle(rounded.room, np.inf)
        return Decision({"value": answer, "policy": greedy(answer)}, lambda margin: bool((room > margin.q).all()))
