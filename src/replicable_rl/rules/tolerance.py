"""A random tolerance: one shared threshold for all gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.rule import Decision, Rule, Tuning, first_within, surely_within
from replicable_rl.theory import decisions


@dataclass(frozen=True)
class RandomTolerance(Rule):
    """The first action that is at most x(1+U) worse than the best, with one shared uniform U for all states.

    ``tolerance`` is x, in values normalised to [0, 1]; None: what epsilon allows. ``order`` says in which order actions
    are preferred; None: as numbered, coarse steps first where they are many.
    """

    tolerance: float | None = None
    order: tuple[int, ...] | None = None

    id: ClassVar[str] = decisions.TOLERANCE
    setting: ClassVar[str] = "tolerance"

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Take the first action within the tolerance."""
        x, order = self.tolerance or tuning.parameter, self.preferred(model.n_actions)
        u = float(shared.uniform("decide/tolerance", shape=1)[0])
        compared = model.gap, np.full(model.n_states, x * (1.0 + u)), order
        return Decision({"policy": first_within(*compared)}, lambda margin: surely_within(margin, *compared))
