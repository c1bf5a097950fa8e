r"""Exploration for one decision: collect transitions in episodes until the budget is spent.

Only the last decision must agree, so exploration need not be replicable. In every round a policy is planned on what was
seen so far, with a bonus for every pair, and what was never tried is taken for the best there is:

    every third round    the bonus 1/(2 sqrt(n)) alone: go where little is known
    the rounds between   rewards and 2 sd/sqrt(n) + span/n: go where it may be good

sd is the standard deviation of r + gamma V^ after the pair, and span the largest difference of two values V^. A bonus
on the scale of all values that there could be would be larger than any value of a problem with rare rewards, and no
round would look for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.planning.exact import optimal_values
from replicable_rl.progress import track
from replicable_rl.rules.model import EmpiricalModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.source import Episodic
    from replicable_rl.sampling import EpisodeCounts

_ROUNDS = 32  # about: episodes that end early leave steps for some more
_MOST_ROUNDS = 128
COVERAGE = 3  # every so many rounds
_PRECISION = 1e-6  # of plans, in values normalised to [0, 1]: where rewards are rare, values are small


def collect(source: Episodic, budget: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
    """Return what episodes of ``horizon`` steps saw, of at most ``budget`` steps in all."""
    policy: NDArray[np.float64] | NDArray[np.int64] = source.support.uniform()
    seen = source.play(policy, max(1, budget // (_ROUNDS * horizon)), horizon, rng)
    for i in track(range(1, _MOST_ROUNDS), "rounds of exploration"):
        affordable = (budget - seen.steps) // horizon
        if affordable < 1:
            break
        policy = curious(EmpiricalModel(source, seen), rewarded=i % COVERAGE != 0)
        seen = seen + source.play(policy, max(1, affordable // max(1, _ROUNDS - i)), horizon, rng)
    return seen


def curious(model: EmpiricalModel, *, rewarded: bool) -> NDArray[np.int64]:
    """Return the policy that goes where a bonus, or a reward and a bonus, is."""
    most, n = 1.0 - model.gamma, model.visits.reshape(model.n_states, model.n_actions)
    some, value = np.maximum(n, 1.0), model.best.value
    if rewarded:
        bonus = 2.0 * model.spread_between / np.sqrt(some) + (value.max() - value.min()) / some
        promised = model.rewards + np.minimum(most, bonus)
    else:
        promised = np.minimum(most, 0.5 / np.sqrt(some))
    return optimal_values(model.table, rewards=np.where(n > 0.0, promised, 2.0 * most), tolerance=_PRECISION).policy
