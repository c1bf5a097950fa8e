r"""Where a policy spends its time: the discounted share of every state, from the first one on.

    o(s) = (1 - gamma) * sum over t < T of gamma^t Pr[the state after t steps is s]

T ends the sum where little is left of it, about 3/(1 - gamma), and earlier for very large tables: a share is a weight
here, never a value. T depends on sizes and discount alone, so that two runs end alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.table import TabularMDP

_MOST_WORK = 4e7  # outcomes that are followed, about: a fraction of the time that planning takes
_OUTCOMES = 8  # of a pair, where the work is estimated beforehand


def discounted_steps(n_states: int, n_actions: int, gamma: float) -> int:
    """Return T, the steps that are followed.

    >>> discounted_steps(100, 4, 0.95), discounted_steps(10**6, 4, 0.95)
    (60, 2)
    """
    affordable = int(_MOST_WORK / (_OUTCOMES * n_states * n_actions))
    return max(2, min(math.ceil(3.0 / (1.0 - gamma)), affordable))


def occupancy(mdp: TabularMDP, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discounted share of every state under the (S, A) action probabilities ``weight``.

    >>> from replicable_rl.problem import riverswim
    >>> occupancy(riverswim(), np.full((6, 2), 0.5)).round(3).tolist()
    [0.561, 0.279, 0.081, 0.024, 0.007, 0.002]
    """
    from replicable_rl.planning._following import follow_shares

    share = np.zeros(mdp.n_states)
    follow_shares(*_start(mdp, weight.reshape(-1)), share)
    return share


class Followed(NamedTuple):
    """The discounted share of every state in the steps that were followed, what is left, and what these steps cost."""

    share: NDArray[np.float64]
    left: float
    cost: float


def occupancy_of_actions(
    mdp: TabularMDP,
    policy: NDArray[np.int64],
    cost: NDArray[np.float64],
    enough: float = math.inf,
    times: int = 1,
    first: NDArray[np.float64] | None = None,
) -> Followed:
    """Return where a policy leads, and the sum of shares times ``cost``; it ends early where that is more than enough.

    It is followed ``times`` as many steps as are usual, from the first state of the process or from ``first``.
    The shares are rounded down, if anything: those of all steps are these and, spread over some states, what is left.
    """
    from replicable_rl.planning._following import follow_actions

    share, start = np.zeros(mdp.n_states), _start(mdp, policy)
    start = start._replace(steps=times * start.steps, now=start.now if first is None else first.copy())
    return Followed(share, *follow_actions(*start, share, cost, enough))


class _Start(NamedTuple):
    """What a loop along a policy reads, and arrays for its work."""

    indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    probability: NDArray[np.float64]
    gamma: float
    policy: NDArray[Any]
    steps: int
    now: NDArray[np.float64]
    then: NDArray[np.float64]


def _start(mdp: TabularMDP, policy: NDArray[Any]) -> _Start:
    steps, rows = discounted_steps(mdp.n_states, mdp.n_actions, mdp.gamma), mdp.rows
    now, then = mdp.initial.copy(), np.empty(mdp.n_states)
    return _Start(rows.indptr, rows.next_state, rows.probability, mdp.gamma, policy, steps, now, then)
