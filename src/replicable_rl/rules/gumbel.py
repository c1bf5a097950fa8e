"""Shared noise: a sample of the softmax policy that two runs share.

Logarithms are rounded to 24 bits: their last bits differ between machines, and shared numbers must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replicable_rl.problem.source import greedy
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.rule import Decision, Margin, Rule, Tuning
from replicable_rl.theory import decisions
from replicable_rl.theory.rstat import few_bits

_TINY = 2.0**-54  # below the smallest positive shared number


@dataclass(frozen=True)
class SharedGumbel(Rule):
    """The best of rate * Q + shared Gumbel noise.

    ``rate`` is lambda: the larger, the nearer to the best action; None: what epsilon allows.
    """

    rate: float | None = None

    id: ClassVar[str] = decisions.GUMBEL
    setting: ClassVar[str] = "rate"

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Add the noise, and take the best."""
        rate, q = self.rate or tuning.parameter, model.q
        u = np.maximum(shared.uniform("decide/gumbel", shape=q.shape), _TINY)
        score = q + few_bits(-np.log(-np.log(u))) / rate  # in units of Q
        policy = greedy(score)

        def sure(margin: Margin) -> bool:
            off, chosen = np.broadcast_to(margin.q, q.shape), (np.arange(model.n_states), policy)
            clear = score[chosen][:, None] - score > off + off[chosen][:, None]
            return bool(clear[np.arange(model.n_actions) != policy[:, None]].all())

        return Decision({"policy": policy}, sure)
