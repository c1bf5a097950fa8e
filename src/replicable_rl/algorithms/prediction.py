r"""How often will two runs of rPVI differ? A prediction where the process is known.

Let x(s, a) be the probability that two runs, after many iterations, hold different Q(s, a). A query
comes out different by chance with the probability p(s, a) of the central limit theorem
(:func:`replicable_rl.theory.rstat_mismatch`, at the optimal values), or because the runs averaged
different values: one bin of difference in V(s') moves the mean by gamma P(s'|s,a) of a bin, and a
grid separates such means with just that probability. To first order, therefore,

    x(s, a) = p(s, a) + gamma * sum over s' of P(s'|s, a) x(s', greedy(s')):

x is the value of the greedy policy with p as the reward; differences heal at rate gamma. Entries of Q
differ together, so treating them as independent errs upwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.mdp import TabularMDP, evaluate_policy, optimal_values
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import Units, rstat_mismatch
from replicable_rl.theory.plan import RSTAT

if TYPE_CHECKING:
    from replicable_rl.theory import PhasedVIPlan


def predicted_disagreement(mdp: TabularMDP, plan: PhasedVIPlan) -> float:
    """Predict Pr[two runs return different Q]; a prediction, not a guarantee.

    The central limit theorem says how often each query comes out different by chance, and differences heal at rate
    gamma. It errs upwards, for entries of Q differ together.

    Parameters
    ----------
    mdp : TabularMDP
        The process, which must be known.
    plan : PhasedVIPlan
        From :func:`replicable_rl.plan` or :func:`replicable_rl.theory.phased_vi`.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> for calls in (13_000, 1_300_000, 130_000_000):
    ...     algorithm = rr.ReplicablePhasedVI(0.02, 0.001, 0.2, calls=calls, tolerance=0.02)
    ...     print(round(predicted_disagreement(mdp, algorithm.plan(mdp)), 3))
    0.676
    0.104
    0.011
    """
    if plan.estimate != RSTAT:
        return 1.0  # nothing is rounded: the same mean twice has probability 0 but for lattices
    rows, gamma = mdp.rows, mdp.gamma
    exact = OutcomeCounts(rows.indptr, rows.next_state, rows.reward, rows.probability, calls=1)
    units = Units(gamma, *mdp.reward_range)
    best = optimal_values(mdp)
    value = (best.value - mdp.reward_range[0] / (1.0 - gamma)) / (units.span or 1.0)
    queried = value[rows.next_state]
    if not plan.known_rewards:
        queried = units.reward(rows.reward) + gamma * queried
    sigma = np.sqrt(np.maximum(exact.mean(queried * queried) - exact.mean(queried) ** 2, 0.0))
    by_chance = rstat_mismatch(sigma, plan.calls, plan.width)
    chances = rows._replace(reward=np.repeat(by_chance, np.diff(rows.indptr)))
    differences = TabularMDP(chances, n_actions=mdp.n_actions, gamma=gamma)
    value_differs = np.minimum(evaluate_policy(differences, best.policy).value, 1.0)
    differs = np.minimum(by_chance + gamma * exact.mean(value_differs[rows.next_state]), 1.0)
    return float(1.0 - np.prod(1.0 - differs))
