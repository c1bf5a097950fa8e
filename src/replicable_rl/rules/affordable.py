r"""Affordable tolerance: the coarsest tolerance that the loss allows, and no knob but the loss.

    U, W shared, uniform on [0, 1)
    w(s)^2 = (1 + 16 S o(s))/17,   o(s) = discounted share of state s under a softened policy
    for x = 1, 1/2, 1/4, ...:
        pi_x(s) = first action with w(s) gap(s, a) <= x (1 + U)
        take the first x with  estimated loss of pi_x  <=  eps' (4 + W)/5

A tolerance of x/w(s) in state s costs at most o(s) x/w(s) and fails with a probability of about w(s)/x: both sums are
least where w(s) is in proportion to the root of o(s); a little is added, so that no weight is 0. Where losses are those
of the worst state, all states weigh the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from replicable_rl.planning.occupancy import discounted_steps, occupancy
from replicable_rl.rules.rule import Decision, Ordered, action_order, first_within_weighted, sizes_of
from replicable_rl.rules.simple import gaps_are_sure
from replicable_rl.theory import decisions
from replicable_rl.theory.decisions import FLOOR, LEAST, POWER, SOFTENING, tolerances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.rules.model import EmpiricalModel
    from replicable_rl.rules.rule import Margin, Tuning

    Floats = NDArray[np.float64]

_TRIALS = 32  # of noise that is followed through the model
_FEW_ACTIONS = 8  # from here on numpy adds up in another order


@dataclass(frozen=True)
class AffordableTolerance(Ordered):
    """The first action that is nearly the best, by the coarsest tolerance whose estimated loss stays within epsilon.

    Parameters
    ----------
    order : tuple of int, optional
        In which order actions are preferred; None: as numbered, coarse steps first where they are many.
    """

    order: tuple[int, ...] | None = None

    id: ClassVar[str] = decisions.AFFORDABLE

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Try tolerances from the coarsest on."""
        from replicable_rl.planning._sweeps import team

        u, w = shared.uniform("decide/affordable", shape=2).tolist()
        order, weight = action_order(self.order, model.n_actions), state_weights(model, tuning)
        limit = tuning.spent * (LEAST + (1.0 - LEAST) * w)
        policy = np.full(model.n_states, -1)
        nearest, sure, lost, affordable = np.inf, margin is not None, 0.0, False
        with team(model.n_states) as each:
            for x in tolerances(sizes_of(model), tuning.spent):
                r = x * (1.0 + u)
                room, is_new = first_within_weighted(each, model.gap, weight, r, order, policy)
                nearest = min(nearest, room)
                if is_new:
                    affordable, lost = model.loses_at_most(policy, limit, tuning.over, roughly=margin is None)
                if margin is not None and sure:
                    largest = float(model.gap_of(policy).max())
                    stretch = _stretch(margin, tuning.spent) if tuning.over == "initial" else 1.0
                    sure = gaps_are_sure(model.gap, r, order, margin, weight, stretch)
                    sure = sure and abs(lost - limit) > margin.loss(largest)
                if affordable:
                    break
            else:  # what the bound on the losses excludes, up to rounding
                policy, sure, lost, x = model.best.policy, False, 0.0, 0.0
        said = f"tolerance {x:g}, which costs at most {lost:.2g} on the empirical model"
        return Decision({"policy": policy}, nearest, sure, lost, said)


def state_weights(model: EmpiricalModel, tuning: Tuning) -> Floats:
    """Return w(s): how much a state counts, 1 in the quadratic mean; nothing, if it is ignored."""
    weight = np.ones(model.n_states)
    if tuning.over == "initial":
        shares = state_shares(model, tuning.spent)
        weight = np.sqrt((FLOOR + model.n_states * shares) / (FLOOR + 1.0))
    return weight if tuning.ignored is None else np.where(tuning.ignored, 0.0, weight)


def state_shares(model: EmpiricalModel, spent: float) -> Floats:
    """Return o(s): the discounted share of every state under a policy that is soft on the scale of the loss."""
    kept: dict[float, Floats] = vars(model).setdefault("_shares", {})  # a sure decision asks twice
    if spent not in kept:
        kept[spent] = _shares(model, spent)
    return kept[spent]


def _shares(model: EmpiricalModel, spent: float) -> Floats:
    if model.n_actions < _FEW_ACTIONS:
        return occupancy(model.table, _softened(model.gap, SOFTENING / spent))
    soft = 1.0 + (SOFTENING / spent) * model.gap
    for _ in range(POWER // 2):  # by products alone, which are the same on every machine
        soft = soft * soft
    soft = 1.0 / soft
    return occupancy(model.table, soft / soft.sum(axis=1, keepdims=True))


def _softened(gap: Floats, factor: float) -> Floats:
    """Return the action probabilities of the soft policy: in one go, where numpy would add up in the same order."""
    from replicable_rl.planning._sweeps import team
    from replicable_rl.rules._model_kernels import soften

    weight = np.empty_like(gap)
    with team(len(gap)) as each:
        each(soften, gap, factor, POWER // 2, weight)
    return weight


def _stretch(margin: Margin, spent: float) -> float:
    """Return the factor within which the weight of a state stays in a second run."""
    s = margin.sizes
    moved = s.gamma * s.horizon * (POWER * SOFTENING / spent * margin.value + margin.rows)  # of o, in l1
    return 1.0 + s.n_states * moved / (4.0 * FLOOR)  # a single share moves by half of that at most


def gap_noise(model: EmpiricalModel, shared: SharedRandomness, trials: int = _TRIALS) -> Floats:
    """Return about the standard deviation of every gap, (S, A): noise of random signs, followed through the model.

    The signs are shared, so that two runs see nearly the same.
    """
    from replicable_rl.planning._following import follow_noise

    rows, pairs = model.table.rows, model.visits.size
    noise = model.spread.reshape(-1) / np.sqrt(np.maximum(model.visits, 1.0))
    signs = np.where(shared.uniform("decide/sign", shape=(pairs, trials)) < 0.5, -1.0, 1.0)
    value, then, square = np.zeros((model.n_states, trials)), np.empty((model.n_states, trials)), np.empty(pairs)
    steps = discounted_steps(model.n_states, model.n_actions, model.gamma)
    follow_noise(
        rows.indptr,
        rows.next_state,
        rows.probability,
        model.gamma,
        model.best.policy,
        model.n_actions,
        noise[:, None] * signs,
        steps,
        value,
        then,
        square,
    )
    return np.sqrt(square).reshape(model.n_states, model.n_actions)
