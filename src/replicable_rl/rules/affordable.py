r"""Affordable tolerance: the coarsest tolerance that the loss allows, and no knob but the loss.

    U, W shared, uniform on [0, 1)
    w(s)^2 = (1 + 16 S o(s))/17,   o(s) = discounted share of state s under a softened policy
    for x = 1, 1/2, 1/4, ...:
        pi_x(s) = first action with w(s) gap(s, a) <= x (1 + U)
        take the first x with  estimated loss of pi_x  <=  eps' (4 + W)/5

A tolerance of x/w(s) in state s costs at most o(s) x/w(s) and fails with a probability of about w(s)/x: both sums are
least where w(s) is in proportion to the root of o(s); a little is added, so that no weight is 0. Where losses are those
of the worst state, all states weigh the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel, Floats
from replicable_rl.rules.rule import Decision, Margin, Rule, Tuning, surely_within
from replicable_rl.theory import decisions
from replicable_rl.theory.decisions import FLOOR, LEAST, POWER, SOFTENING, tolerances


@dataclass(frozen=True)
class AffordableTolerance(Rule):
    """The first action that is nearly the best, by the coarsest tolerance whose estimated loss stays within epsilon.

    ``order`` says in which order actions are preferred; None: as numbered, coarse steps first where they are many.
    """

    order: tuple[int, ...] | None = None

    id: ClassVar[str] = decisions.AFFORDABLE

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Try tolerances from the coarsest on."""
        from replicable_rl.planning._sweeps import take_first, team

        u, w = shared.uniform("decide/affordable", shape=2).tolist()
        order, weight = self.preferred(model.n_actions), state_weights(model, tuning)
        limit = tuning.spent * (LEAST + (1.0 - LEAST) * w)
        r, policy, tried = np.empty(model.n_states), np.full(model.n_states, -1), {}
        with team(model.n_states) as threads:
            for x in tolerances(model.sizes, tuning.spent):
                last, policy = policy, np.empty_like(policy)
                r.fill(x * (1.0 + u))
                threads(take_first, model.gap, weight, r, order, policy)
                tried[x] = policy
                if (policy != last).any():
                    affordable, lost = model.loses_at_most(policy, limit, tuning.over, roughly=True)
                if affordable:
                    break
            else:  # what the bound on the losses excludes, up to rounding
                policy = model.best.policy
                return Decision({"policy": policy}, loss=0.0, said="tolerance 0, which costs nothing")

        def sure(margin: Margin) -> bool:
            if margin.loss(0.0) >= limit:  # then so far from the limit is no loss that it accepts
                return False
            stretch = _stretch(margin, tuning)
            for x, policy in tried.items():
                r.fill(x * (1.0 + u))
                if not surely_within(margin, model.gap, r, order, weight, stretch):
                    return False
                lost = model.loses_at_most(policy, limit, tuning.over)[1]
                if abs(lost - limit) <= margin.loss(float(model.gap_of(policy).max())):
                    return False
            return True

        sentence = f"tolerance {x:g}, which costs at most {lost:.2g} on the empirical model"
        return Decision({"policy": policy}, sure, lost, sentence)


def state_weights(model: EmpiricalModel, tuning: Tuning) -> Floats:
    """Return w(s): how much a state counts, 1 in the quadratic mean; nothing, if it is ignored."""
    weight = np.ones(model.n_states)
    if tuning.over == "initial":
        weight = np.sqrt((FLOOR + model.n_states * model.state_shares(tuning.spent)) / (FLOOR + 1.0))
    return weight if tuning.ignored is None else np.where(tuning.ignored, 0.0, weight)


def _stretch(margin: Margin, tuning: Tuning) -> float:
    """Return the factor within which the weight of a state stays in a second run."""
    if tuning.over != "initial":
        return 1.0
    s = margin.sizes
    moved = s.gamma * s.horizon * (POWER * SOFTENING / tuning.spent * margin.value + margin.rows)  # of o, in l1
    return 1.0 + s.n_states * moved / (4.0 * FLOOR)  # a single share moves by half of that at most
