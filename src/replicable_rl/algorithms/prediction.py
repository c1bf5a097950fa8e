r"""How often will two runs of rPVI differ? A prediction where the process is known.

Let x_t(s, a) be the probability that two runs hold different Q_t(s, a). A query comes out
different by chance with the probability p_t(s, a) of the central limit theorem
(:func:`replicable_rl.theory.rstat_mismatch`), or because the runs averaged different values: one
bin of difference in V(s') moves the mean by gamma P(s'|s,a) of a bin, and a grid separates such
means with just that probability. To first order, therefore,

    x_{t+1}(s, a) = p_t(s, a) + gamma * sum over s' of P(s'|s, a) x_t(s', greedy(s')),

policy evaluation with p_t as the reward: differences heal at rate gamma. Entries of Q differ
together, so treating them as independent errs upwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import PhasedVIPlan, Units, rstat_mismatch

if TYPE_CHECKING:
    from replicable_rl.mdp import TabularMDP

__all__ = ["predicted_disagreement"]


def predicted_disagreement(mdp: TabularMDP, plan: PhasedVIPlan) -> float:
    """Predict Pr[two runs return different Q]; a prediction, not a guarantee.

    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> for calls in (13_000, 1_300_000, 130_000_000):
    ...     algorithm = rr.ReplicablePhasedVI(0.02, 0.001, 0.2, calls=calls, tolerance=0.02)
    ...     print(round(predicted_disagreement(mdp, algorithm.plan(mdp)), 3))
    0.676
    0.104
    0.011
    """
    if plan.width == 0.0:
        return 1.0  # nothing is rounded: the same mean twice has probability 0 but for lattices
    rows, gamma, shape = mdp.rows, mdp.gamma, (mdp.n_states, mdp.n_actions)
    exact = OutcomeCounts(rows.indptr, rows.next_state, rows.reward, rows.probability, calls=1)
    reward = Units(gamma, *mdp.reward_range).reward(rows.reward)
    value, value_differs = np.zeros(mdp.n_states), np.zeros(mdp.n_states)
    differs = np.zeros(shape)
    for _ in range(plan.iterations):
        target = reward + gamma * value[rows.next_state]
        queried = value[rows.next_state] if plan.known_rewards else target
        sigma = np.sqrt(np.maximum(exact.mean(queried * queried) - exact.mean(queried) ** 2, 0.0))
        by_chance = rstat_mismatch(sigma, plan.calls, plan.width)
        differs = np.minimum(by_chance + gamma * exact.mean(value_differs[rows.next_state]), 1.0).reshape(shape)
        q = exact.mean(target).reshape(shape)
        value = q.max(axis=1)
        value_differs = np.take_along_axis(differs, q.argmax(axis=1, keepdims=True), axis=1)[:, 0]
    return float(1.0 - np.prod(1.0 - differs))
