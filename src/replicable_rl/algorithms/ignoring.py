"""States that are hardly ever reached: what is decided there does not matter, and two runs need not agree on it.

They get the first action, whatever the data say. Which states these are depends on a shared random threshold, and all
of them together may cost no more, on the empirical model, than a part of the loss that the rule may spend; otherwise
fewer are ignored, by halves of the threshold, and in the end none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.mdp import allowed_of, forbid
from replicable_rl.mdp.allowed import first_allowed
from replicable_rl.queries.rules.affordable import state_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP
    from replicable_rl.queries.empirical import EmpiricalModel
    from replicable_rl.randomness import SharedRandomness

_HALVES = 20  # of the threshold, before no state is ignored
_IN_THE_MIDDLE = 0.5, 0.5  # who publishes cuts has no shared numbers


class Ignored(NamedTuple):
    """Which states are ignored, (S,), and what that costs at most: of the best policy, on the empirical model."""

    states: NDArray[np.bool_]
    cost: float


def hardly_reached(model: EmpiricalModel, spent: float, shared: SharedRandomness | None) -> Ignored:
    """Return which states may be ignored: their share is below a threshold, and they cost at most half of ``spent``."""
    u, w = _IN_THE_MIDDLE if shared is None else shared.uniform("decide/ignored", shape=2).tolist()
    threshold = spent * (1.0 - model.gamma) * (1.0 + u) / (2.0 * model.n_states)
    share, default, before = state_shares(model, spent), first_allowed(model.table), -1
    for _ in range(_HALVES):
        states = share < threshold
        if (many := int(states.sum())) == 0:
            break
        if many != before:
            policy = np.where(states, default, model.best.policy)
            affordable, cost = model.loses_at_most(policy, spent * (1.0 + w) / 4.0)
            if affordable:
                return Ignored(states, cost)
        threshold, before = threshold / 2.0, many
    return Ignored(np.zeros(model.n_states, dtype=np.bool_), 0.0)


def left_at_default(outputs: Mapping[str, Any], ignored: NDArray[np.bool_], table: TabularMDP) -> dict[str, Any]:
    """Return outputs with the first allowed action in the ignored states, and the least value, of which it is best."""
    left = dict(outputs)
    if "policy" in left:
        left["policy"] = np.where(ignored, first_allowed(table), left["policy"])
    if "value" in left:  # the same value implies the same policy
        left["value"] = forbid(np.where(ignored[:, None], 0.0, left["value"]), allowed_of(table))
    return left
