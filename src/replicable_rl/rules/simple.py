"""The rules of one step: the best action, rounding, shared noise, and a random tolerance.

Logarithms are rounded to 24 bits: their last bits differ between machines, and shared numbers must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.problem.support import greedy
from replicable_rl.queries import rstat
from replicable_rl.rules.rule import Decision, Ordered, action_order, check_parameter, first_within, nearest_gap
from replicable_rl.theory import decisions
from replicable_rl.theory.rstat import few_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.rules.model import EmpiricalModel
    from replicable_rl.rules.rule import Margin, Tuning

    Floats = NDArray[np.float64]

_TINY = 2.0**-54  # below the smallest positive shared number


@dataclass(frozen=True)
class Greedy:
    """The best action on the empirical model: the baseline. Two runs differ wherever two actions are nearly as good."""

    id: ClassVar[str] = decisions.GREEDY

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Take the best action, the lowest-numbered among equals."""
        others = np.arange(model.n_actions) != model.best.policy[:, None]
        gaps = model.gap[others]
        nearest = float(gaps.min()) if gaps.size else np.inf
        sure = margin is not None and bool((gaps > margin.gap[others]).all())
        return Decision({"policy": model.best.policy}, nearest, sure)


@dataclass(frozen=True)
class RoundedQ:
    """Every entry of Q to the middle of its bin on a shared grid, then the best action: the same Q and policy twice.

    Parameters
    ----------
    width : float, optional
        Of the bins, in values normalised to [0, 1]; None: what epsilon allows.
    """

    width: float | None = None

    id: ClassVar[str] = decisions.ROUNDED

    def __post_init__(self) -> None:
        check_parameter(self, "width")

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Round, and take the best."""
        width, q = self.width or tuning.parameter, np.clip(model.q, 0.0, 1.0)
        offset = shared.uniform("decide/offset", shape=q.shape)
        rounded = rstat(q, offset, width)
        below = (offset + rounded.bin) * width
        room = np.minimum(
            np.where(below > 0.0, q - below, np.inf), np.where(below + width <= 1.0, below + width - q, np.inf)
        )
        room = model.support.settle(room, np.inf)
        sure = margin is not None and bool((room > margin.q).all())
        answer = model.support.settle(rounded.answer)
        outputs = {"value": answer, "policy": greedy(answer)}
        return Decision(outputs, float(room.min()), sure)


@dataclass(frozen=True)
class SharedGumbel:
    """The best of rate * Q + shared Gumbel noise: a sample of the softmax policy that two runs share.

    Parameters
    ----------
    rate : float, optional
        lambda: the larger, the nearer to the best action; None: what epsilon allows.
    """

    rate: float | None = None

    id: ClassVar[str] = decisions.GUMBEL

    def __post_init__(self) -> None:
        check_parameter(self, "rate")

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Add the noise, and take the best."""
        rate, q = self.rate or tuning.parameter, model.q
        u = np.maximum(shared.uniform("decide/gumbel", shape=q.shape), _TINY)
        score = q + few_bits(-np.log(-np.log(u))) / rate  # in units of Q
        policy = greedy(score)
        chosen = np.arange(model.n_states), policy
        behind = score[chosen][:, None] - score
        others = np.arange(model.n_actions) != policy[:, None]
        nearest = float(behind[others].min()) if others.any() else np.inf
        sure = margin is not None and bool((behind > margin.q + margin.q[chosen][:, None])[others].all())
        return Decision({"policy": policy}, nearest, sure)


@dataclass(frozen=True)
class RandomTolerance(Ordered):
    """The first action that is at most x(1+U) worse than the best, with one shared uniform U for all states.

    Parameters
    ----------
    tolerance : float, optional
        x, in values normalised to [0, 1]; None: what epsilon allows.
    order : tuple of int, optional
        In which order actions are preferred; None: as numbered, coarse steps first where they are many.
    """

    tolerance: float | None = None
    order: tuple[int, ...] | None = None

    id: ClassVar[str] = decisions.TOLERANCE

    def __post_init__(self) -> None:
        check_parameter(self, "tolerance")
        super().__post_init__()

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Take the first action within the tolerance."""
        x, order = self.tolerance or tuning.parameter, action_order(self.order, model.n_actions)
        r = x * (1.0 + float(shared.uniform("decide/tolerance", shape=1)[0]))
        everywhere = np.full(model.n_states, r)
        policy = first_within(model.gap, everywhere, order)
        sure = margin is not None and gaps_are_sure(model.gap, r, order, margin)
        return Decision({"policy": policy}, nearest_gap(model.gap, everywhere, order), sure)


def gaps_are_sure(
    gap: Floats, tolerance: float, order: NDArray[np.int64], margin: Margin, weight: Any = None, stretch: float = 1.0
) -> bool:
    """Whether a second run compares (weighted) gaps with a tolerance alike."""
    from replicable_rl.rules import _kernels

    if margin.gap.shape != gap.shape:  # a compiled loop would read beyond its end
        raise InvalidInput(f"rule: margin must be that of a model of this size, {gap.shape}, got {margin.gap.shape}.")
    weight = np.ones(gap.shape[0]) if weight is None else weight
    return bool(_kernels.is_sure(gap, weight, tolerance, order, margin.gap, stretch))
