r"""How often will two runs of rPVI differ? A prediction where the process is known.

Let d(s) be how far apart the values V_t(s) of two runs are, on average. A query of width beta comes out
different by chance with the probability p(s, a) of the central limit theorem
(:func:`replicable_rl.theory.rstat_mismatch`), or because the runs averaged different values: a grid separates
means at distance x with probability x/beta. To first order, therefore, iteration by iteration,

    differs(s, a) = p(s, a) + (sum over s' of P(s'|s, a) d(s')) / beta        d(s) = gamma beta differs(s, greedy(s))

What is averaged is V_t, which was rounded itself: around the optimal values it scatters like a uniform number of the
width gamma beta, so the variance of a query is at least that of these. Entries of Q differ together; they are treated
as independent, which alone errs upwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.mdp import TabularMDP, optimal_values
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.sampling.counts import sums
from replicable_rl.theory import PhasedVIPlan, Units, rstat_mismatch
from replicable_rl.theory.plan import RSTAT

if TYPE_CHECKING:
    from numpy.typing import NDArray


def predicted_disagreement(mdp: TabularMDP, plan: PhasedVIPlan) -> float:
    """Predict Pr[two runs return different Q]; a prediction, not a guarantee, and wrong in both directions.

    The central limit theorem says how often each query comes out different by chance, and differences heal at rate
    gamma.

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
    0.678
    0.105
    0.011
    """
    if not (hasattr(mdp, "rows") and hasattr(plan, "schedule")):
        raise InvalidInput(
            f"predicted_disagreement: needs a TabularMDP and a PhasedVIPlan, got {shown(mdp)} and {shown(plan)}."
        )
    if plan.estimate != RSTAT:
        return 1.0  # nothing is rounded: the same mean twice has probability 0 but for lattices
    rows, gamma, schedule = mdp.rows, mdp.gamma, plan.schedule
    exact = OutcomeCounts(rows.indptr, rows.next_state, rows.reward, rows.probability, calls=1)
    units = Units(gamma, *mdp.reward_range)
    best = optimal_values(mdp)
    value = (best.value - mdp.reward_range[0] / (1.0 - gamma)) / (units.span or 1.0)
    queried = value[rows.next_state]
    if not plan.known_rewards:
        queried = units.reward(rows.reward) + gamma * queried
    means = exact.mean(queried)
    variance = exact.mean((queried - np.repeat(means, np.diff(rows.indptr))) ** 2)
    scatter, asked = _scatter(mdp) * gamma**2 / 12.0, mdp.allowed.reshape(-1)
    spread = schedule.spread(float(value.max() - value.min()), gamma, plan.known_rewards)
    states, damped = np.arange(mdp.n_states), gamma if plan.known_rewards else 1.0
    apart, differs, before = np.zeros(mdp.n_states), np.zeros(variance.size), None
    for t in range(schedule.iterations):
        width, calls = float(schedule.widths[t]), schedule.calls_at(t, spread)
        if (width, calls) != before:  # the paper's listing asks the same again and again
            by_chance = rstat_mismatch(np.sqrt(variance + scatter * width**2), calls, width)
            by_chance = by_chance if asked.all() else np.where(asked, by_chance, 0.0)
            before = width, calls
        moved = exact.mean(apart[rows.next_state]) * (1.0 if plan.known_rewards else gamma)
        new = np.minimum(by_chance + moved / width, 1.0)
        settled = bool((np.abs(new - differs) <= 1e-12).all()) and not schedule.rising
        differs = new
        if settled:
            break
        apart = damped * width * differs.reshape(mdp.n_states, mdp.n_actions)[states, best.policy]
    return float(1.0 - np.prod(1.0 - differs))


def _scatter(mdp: TabularMDP) -> NDArray[np.float64]:
    """Return 1 - sum over s' of P(s'|s, a)^2: the variance of independent numbers of variance 1, one for each state."""
    rows, S = mdp.rows, mdp.n_states
    row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
    key, inverse = np.unique(row * S + rows.next_state, return_inverse=True)
    merged = sums(inverse, rows.probability, key.size)
    return 1.0 - sums(key // S, merged * merged, rows.indptr.size - 1)
