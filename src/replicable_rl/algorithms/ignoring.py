"""States that are hardly ever reached: what is decided there does not matter, and two runs need not agree on it.

They get the first action that is allowed, in the rule's order, whatever the data say. Which states these are depends on
a shared random threshold, and all of them together may cost the best policy no more, on the empirical model, than a
part of the loss that the rule may spend; otherwise fewer are ignored, by halves of the threshold, and in the end none.

The rule may decide on another policy than the best one, which goes where that one does not. So what it decides, with
the first action in these states, is evaluated once more. If that loses too much, none is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.rules.affordable import state_shares
from replicable_rl.theory.decisions import LEAST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.rules.model import EmpiricalModel
    from replicable_rl.rules.rule import Decision, Tuning

_HALVES = 20  # of the threshold, before no state is ignored
_IN_THE_MIDDLE = 0.5, 0.5  # who publishes cuts has no shared numbers


class Ignored(NamedTuple):
    """Which states are ignored, (S,), and the action that a state gets if it is."""

    states: NDArray[np.bool_]
    actions: NDArray[np.int64]


def hardly_reached(
    model: EmpiricalModel, tuning: Tuning, shared: SharedRandomness | None, order: NDArray[np.int64]
) -> Ignored | None:
    """Return which states may be ignored: their share is below a threshold, and they cost the best policy little.

    That is, from the first state on, at most half of what the rule may spend; None, if there are no such states.
    """
    u, w = _IN_THE_MIDDLE if shared is None else shared.uniform("decide/ignored", shape=2).tolist()
    threshold = tuning.spent * (1.0 - model.gamma) * (1.0 + u) / (2.0 * model.n_states)
    share, actions, before = state_shares(model, tuning.spent), model.support.first(order), -1
    for _ in range(_HALVES):
        states = share < threshold
        if (many := int(states.sum())) == 0:
            break
        if many != before:
            policy = np.where(states, actions, model.best.policy)
            affordable, _ = model.loses_at_most(policy, tuning.spent * (1.0 + w) / 4.0)
            if affordable:
                return Ignored(states, actions)
        threshold, before = threshold / 2.0, many
    return None


def left_at_default(
    decision: Decision, ignored: Ignored, model: EmpiricalModel, tuning: Tuning, shared: SharedRandomness
) -> Decision | None:
    """Return the decision with the first action in the ignored states; None, if the whole policy loses too much."""
    outputs = dict(decision.outputs)
    if "policy" not in outputs:
        return None
    policy = np.where(ignored.states, ignored.actions, outputs["policy"])
    if decision.loss is None or not np.array_equal(policy, outputs["policy"]):  # else the rule has seen to it
        among = float(shared.uniform("decide/ignored", shape=3)[2])
        limit = tuning.spent * (LEAST + (1.0 - LEAST) * among)
        affordable, _ = model.loses_at_most(policy, limit, tuning.over)
        if not affordable:
            return None
    outputs["policy"] = policy
    if "value" in outputs:  # the same value implies the same policy: the least one, of which the first action is best
        outputs["value"] = model.support.settle(np.where(ignored.states[:, None], 0.0, outputs["value"]))
    return decision._replace(outputs=outputs)
