r"""How often will two runs of rPVI differ? A prediction where the process is known.

Let d(s) be how far apart the values V_t(s) of two runs are, on average. A query of width beta comes out
different by chance with the probability p(s, a) of the central limit theorem
(:func:`rstat_mismatch`), or because the runs averaged different values: a grid separates
means at distance x with probability x/beta. To first order, therefore, iteration by iteration,

    differs(s, a) = p(s, a) + (sum over s' of P(s'|s, a) d(s')) / beta        d(s) = gamma beta differs(s, greedy(s))

What is averaged is V_t, which was rounded itself: around the optimal values it scatters like a uniform number of the
width gamma beta, so the variance of a query is at least that of these. Entries of Q differ together; they are treated
as independent, which alone errs upwards.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from replicable_rl.planning import optimal_values
from replicable_rl.problem.table import TabularMDP
from replicable_rl.sampling import OutcomeCounts, sums
from replicable_rl.theory import PhasedVINumbers, Units

Floats = NDArray[np.float64]


def predicted_disagreement(mdp: TabularMDP, numbers: PhasedVINumbers) -> float:
    """Predict Pr[two runs return different Q]; a prediction, not a guarantee, and wrong in both directions.

    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> algorithm = rr.ReplicablePhasedVI(0.02, 0.001, 0.2, calls=1_300_000, tolerance=0.02)
    >>> round(predicted_disagreement(mdp, algorithm.plan(mdp).numbers), 3)
    0.105
    """
    rows, gamma, schedule = mdp.rows, mdp.gamma, numbers.schedule
    exact = OutcomeCounts(rows.indptr, rows.next_state, rows.reward, rows.probability, calls=1)
    units = Units(gamma, *mdp.reward_range)
    best = optimal_values(mdp)
    value = (best.value - mdp.reward_range[0] / (1.0 - gamma)) / (units.span or 1.0)
    queried = value[rows.next_state]
    if not numbers.known_rewards:
        queried = units.reward(rows.reward) + gamma * queried
    means = exact.mean(queried)
    variance = exact.mean((queried - np.repeat(means, np.diff(rows.indptr))) ** 2)
    scatter, asked = _scatter(mdp) * gamma**2 / 12.0, mdp.allowed.reshape(-1)
    spread = schedule.spread(float(value.max() - value.min()), gamma, numbers.known_rewards)
    states, damped = np.arange(mdp.n_states), gamma if numbers.known_rewards else 1.0
    apart, differs, before = np.zeros(mdp.n_states), np.zeros(variance.size), None
    for t in range(schedule.iterations):
        width, calls = float(schedule.widths[t]), schedule.calls_at(t, spread)
        if (width, calls) != before:  # the paper's listing asks the same again and again
            by_chance = rstat_mismatch(np.sqrt(variance + scatter * width**2), calls, width)
            by_chance = by_chance if asked.all() else np.where(asked, by_chance, 0.0)
            before = width, calls
        moved = exact.mean(apart[rows.next_state]) * (1.0 if numbers.known_rewards else gamma)
        new = np.minimum(by_chance + moved / width, 1.0)
        settled = bool((np.abs(new - differs) <= 1e-12).all()) and not schedule.rising
        differs = new
        if settled:
            break
        apart = damped * width * differs.reshape(mdp.n_states, mdp.n_actions)[states, best.policy]
    return float(1.0 - np.prod(1.0 - differs))


def _scatter(mdp: TabularMDP) -> Floats:
    """Return 1 - sum over s' of P(s'|s, a)^2: the variance of independent numbers of variance 1, one for each state."""
    rows, S = mdp.rows, mdp.n_states
    row = rows.row
    key, inverse = np.unique(row * S + rows.next_state, return_inverse=True)
    merged = sums(inverse, rows.probability, key.size)
    return 1.0 - sums(key // S, merged * merged, rows.indptr.size - 1)


def rstat_mismatch(sigma: Floats, samples: int, width: float) -> Floats:
    """Predict Pr[two runs get different answers] by the central limit theorem.

    The two means differ by D ~ N(0, 2 sigma^2/n), and a distance d is separated with probability min(1, d/beta), so the
    prediction is E min(1, |D|/beta). Where n is large it is 2 sigma/(beta sqrt(pi n)).

    >>> float(rstat_mismatch(np.array(0.5), samples=10**6, width=0.01).round(6))
    0.056419
    """
    from scipy.special import erfc

    s = math.sqrt(2.0 / samples) * sigma
    x = width / np.where(s > 0.0, s, 1.0)
    near = s / width * math.sqrt(2.0 / math.pi) * -np.expm1(-np.minimum(x * x / 2.0, 700.0))
    return np.where(s > 0.0, np.minimum(near + erfc(x / math.sqrt(2.0)), 1.0), 0.0)
