"""What a ``TabularMDP`` asks of its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidMDP, check_numbers, check_real, shown
from replicable_rl.problem.rows import SUM_TOLERANCE, Rows, describe_row


def check_gamma(gamma: float) -> float:
    """Return a discount in [0, 1)."""
    gamma = check_real("TabularMDP", "gamma", gamma, low=0.0, high=1.0, rule="a discount in [0, 1)")
    if gamma == 1.0:
        raise InvalidMDP("TabularMDP: gamma must be a discount in [0, 1), got 1.0. Use 0.999 for a long horizon.")
    return gamma


def check_initial(initial: ArrayLike | None, n_states: int) -> NDArray[np.float64]:
    """Return the distribution of the first state; uniform when not given."""
    if initial is None:
        return np.full(n_states, 1.0 / n_states)
    distribution = check_numbers("TabularMDP", "initial", initial, refusal=InvalidMDP).copy()
    if distribution.shape != (n_states,):
        raise InvalidMDP(f"TabularMDP: initial must have shape (S,) = ({n_states},), got {distribution.shape}.")
    if not (distribution.min() >= 0.0 and distribution.max() < np.inf):
        state = int(np.argmax(~((distribution >= 0) & np.isfinite(distribution))))
        raise InvalidMDP(f"TabularMDP: initial probabilities must be >= 0, state {state} has {distribution[state]:g}.")
    with np.errstate(over="ignore"):  # a sum of inf is refused below
        total = float(distribution.sum())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InvalidMDP(f"TabularMDP: initial must sum to 1 within {SUM_TOLERANCE:g}, got {total:.12g}.")
    return distribution / total if abs(total - 1.0) > n_states * 2.0**-52 else distribution


def check_reward_range(declared: tuple[float, float] | None, rows: Rows, n_actions: int) -> tuple[float, float]:
    """Return bounds that every reward obeys; the smallest and largest reward when not given."""
    seen_low, seen_high = float(rows.reward.min()), float(rows.reward.max())
    if declared is None:
        return seen_low, seen_high
    low, high = _two_numbers(declared)
    if low > high:
        raise InvalidMDP(f"TabularMDP: reward_range must be (low, high) with low <= high, got {shown(declared)}.")
    if seen_low < low or seen_high > high:
        outside = int(np.argmax((rows.reward < low) | (rows.reward > high)))
        row = int(np.searchsorted(rows.indptr, outside, side="right")) - 1
        raise InvalidMDP(
            f"TabularMDP: rewards must lie in the declared range [{low:g}, {high:g}], row "
            f"{describe_row(row, n_actions)} has {rows.reward[outside]:g}. Widen reward_range or mend the reward."
        )
    return low, high


def _two_numbers(declared: Any) -> tuple[float, float]:
    try:
        low, high = declared
    except Exception:  # whatever somebody's object raises
        raise InvalidMDP(f"TabularMDP: reward_range must be (low, high), got {shown(declared)}.") from None
    rule, finite = "two finite numbers", {"low": -np.inf, "high": np.inf}
    return (
        check_real("TabularMDP", "reward_range", low, **finite, rule=rule),
        check_real("TabularMDP", "reward_range", high, **finite, rule=rule),
    )
