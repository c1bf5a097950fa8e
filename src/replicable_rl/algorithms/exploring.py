r"""Exploration for one decision: collect transitions in episodes until the budget is spent.

Only the last decision must agree, so exploration need not be replicable. In every round a policy is planned on what was
seen so far, with a bonus for every pair, and what was never tried is taken for the best there is:

    every third round    the bonus 1/(2 sqrt(n)) alone: go where little is known
    the rounds between   rewards and 2 sd/sqrt(n) + span/n: go where it may be good

sd is the standard deviation of r + gamma V^ after the pair, and span the largest difference of two values V^: a bonus
on the scale of all possible values would be larger than any value of a problem with rare rewards.

States that are hardly ever reached get the first allowed action in the rule's order, whatever the data say: what is
decided there does not matter, and two runs need not agree on it. Which states these are depends on a shared random
threshold. All of them together may cost the best policy, on the empirical model, no more than a part of the loss that
the rule may spend; otherwise the threshold is halved, and in the end no state is ignored. None is either, if what the
rule decides on another policy then loses too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.planning.exact import optimal_values
from replicable_rl.progress import track
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.theory.decisions import LEAST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.source import Episodic
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.rules.rule import Decision, Tuning
    from replicable_rl.sampling import EpisodeCounts

_ROUNDS, _MOST_ROUNDS = 32, 128  # episodes that end early leave steps for some more
_PRECISION = 1e-6  # of plans, in values normalised to [0, 1]: where rewards are rare, values are small
_HALVES = 20  # of the threshold, before no state is ignored


def collect(source: Episodic, budget: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
    """Return what episodes of ``horizon`` steps saw, of at most ``budget`` steps in all."""
    policy: NDArray[np.float64] | NDArray[np.int64] = source.support.uniform()
    seen = source.play(policy, max(1, budget // (_ROUNDS * horizon)), horizon, rng)
    for i in track(range(1, _MOST_ROUNDS), "rounds of exploration"):
        affordable = (budget - seen.steps) // horizon
        if affordable < 1:
            break
        policy = curious(EmpiricalModel(source, seen), rewarded=i % 3 != 0)
        seen = seen + source.play(policy, max(1, affordable // max(1, _ROUNDS - i)), horizon, rng)
    return seen


def curious(model: EmpiricalModel, *, rewarded: bool) -> NDArray[np.int64]:
    """Return the policy that goes where a bonus, or a reward and a bonus, is."""
    most, n = 1.0 - model.gamma, model.visits.reshape(model.n_states, model.n_actions)
    some, value = np.maximum(n, 1.0), model.best.value
    if rewarded:
        bonus = 2.0 * model.spread_between / np.sqrt(some) + (value.max() - value.min()) / some
        promised = model.means(model.table.rows.reward) + np.minimum(most, bonus)
    else:
        promised = np.minimum(most, 0.5 / np.sqrt(some))
    return optimal_values(model.table, rewards=np.where(n > 0.0, promised, 2.0 * most), tolerance=_PRECISION).policy


class Ignored(NamedTuple):
    """Which states are ignored, (S,), and the action that a state gets if it is."""

    states: NDArray[np.bool_]
    actions: NDArray[np.int64]


def hardly_reached(
    model: EmpiricalModel, tuning: Tuning, shared: SharedRandomness | None, order: NDArray[np.int64]
) -> Ignored | None:
    """Return the states that cost the best policy at most half of what the rule may spend, if there are any.

    Who publishes cuts has no shared numbers, and takes the middle of the windows.
    """
    u, w = (0.5, 0.5) if shared is None else shared.uniform("decide/ignored", shape=2).tolist()
    threshold = tuning.spent * (1.0 - model.gamma) * (1.0 + u) / (2.0 * model.n_states)
    share, actions, before = model.state_shares(tuning.spent), model.support.first(order), -1
    for _ in range(_HALVES):
        states = share < threshold
        if (many := int(states.sum())) == 0:
            break
        if many != before:
            policy = np.where(states, actions, model.best.policy)
            if model.loses_at_most(policy, tuning.spent * (1.0 + w) / 4.0)[0]:
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
        limit = tuning.spent * (LEAST + (1.0 - LEAST) * float(shared.uniform("decide/ignored", shape=3)[2]))
        if not model.loses_at_most(policy, limit, tuning.over)[0]:
            return None
    outputs["policy"] = policy
    if "value" in outputs:  # the same value implies the same policy: the least one, of which the first action is best
        outputs["value"] = model.support.settle(np.where(ignored.states[:, None], 0.0, outputs["value"]))
    return decision._replace(outputs=outputs)
