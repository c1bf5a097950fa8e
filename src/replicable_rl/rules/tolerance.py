"""A random tolerance: one shared threshold for all gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.rule import Decision, Ordered, Tuning, first_within, gaps_are_sure
from replicable_rl.theory import decisions


@dataclass(frozen=True)
class RandomTolerance(Ordered):
    """The first action that is at most x(1+U) worse than the best, with one shared uniform U for all states.

    Parameters
    ----------
    tolerance : float, optional
        x, in values normalised to [0, 1]; None: what epsilon allows.
    order : tuple of int, optional
        In which order actions are preferred; None: as numbered, coarse steps first where they are many.
    """

    tolerance: float | None = None
    order: tuple[int, ...] | None = None

    id: ClassVar[str] = decisions.TOLERANCE
    setting: ClassVar[str] = "tolerance"

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Take the first action within the tolerance."""
        x, order = self.tolerance or tuning.parameter, self.preferred(model.n_actions)
        u = float(shared.uniform("decide/tolerance", shape=1)[0])
        r = np.full(model.n_states, x * (1.0 + u))
        policy, nearest = first_within(model.gap, r, order)
        sure = tuning.margin is not None and gaps_are_sure(model.gap, r, order, tuning.margin)
        return Decision({"policy": policy}, nearest, sure)
