r"""Where a policy spends its time: the discounted share of every state, from the first one on.

    o(s) = (1 - gamma) * sum over t < T of gamma^t Pr[the state after t steps is s]

T ends the sum where little is left of it, about 3/(1 - gamma), and earlier for very large tables: a share is a weight
here, never a value. T depends on sizes and discount alone, so that two runs end alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp.tabular import TabularMDP

_MOST_WORK = 2e8  # outcomes that are followed, about: a fraction of the time that planning takes
_OUTCOMES = 8  # of a pair, where the work is estimated beforehand


def discounted_steps(n_states: int, n_actions: int, gamma: float) -> int:
    """Return T, the steps that are followed.

    >>> discounted_steps(100, 4, 0.95), discounted_steps(10**6, 4, 0.95)
    (60, 6)
    """
    affordable = int(_MOST_WORK / (_OUTCOMES * n_states * n_actions))
    return max(2, min(math.ceil(3.0 / (1.0 - gamma)), affordable))


def occupancy(mdp: TabularMDP, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discounted share of every state under the (S, A) action probabilities ``weight``.

    >>> from replicable_rl.envs import riverswim
    >>> occupancy(riverswim(), np.full((6, 2), 0.5)).round(3).tolist()
    [0.561, 0.279, 0.081, 0.024, 0.007, 0.002]
    """
    from replicable_rl.mdp._following import follow_shares

    return _followed(mdp, follow_shares, weight.reshape(-1))[0]


def occupancy_of_actions(mdp: TabularMDP, policy: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return the discounted share of every state under a policy, and what is left after the steps that were followed.

    The shares are rounded down, if anything: those of all steps are these and, spread over some states, what is left.
    """
    from replicable_rl.mdp._following import follow_actions

    return _followed(mdp, follow_actions, policy)


def _followed(mdp: TabularMDP, kernel: Any, policy: NDArray[Any]) -> tuple[NDArray[np.float64], float]:
    steps, rows = discounted_steps(mdp.n_states, mdp.n_actions, mdp.gamma), mdp.rows
    share, now, then = np.zeros(mdp.n_states), mdp.initial.copy(), np.empty(mdp.n_states)
    left = kernel(rows.indptr, rows.next_state, rows.probability, mdp.gamma, policy, steps, now, then, share)
    return share, left
