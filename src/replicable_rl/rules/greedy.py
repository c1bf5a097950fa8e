"""The plain model: the best action, whatever a second sample would say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.rule import Decision, Rule, Tuning
from replicable_rl.theory import decisions


@dataclass(frozen=True)
class Greedy(Rule):
    """The best action on the empirical model: the baseline. Two runs differ wherever two actions are nearly as good."""

    id: ClassVar[str] = decisions.GREEDY

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Take the best action, the lowest-numbered among equals."""
        not_taken = np.arange(model.n_actions) != model.best.policy[:, None]
        return Decision({"policy": model.best.policy}, lambda margin: bool((model.gap > margin.gap)[not_taken].all()))
