"""Policies: one action per state, or an (S, A) table of action probabilities."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidInput, is_masked, shown
from replicable_rl.problem.support import Mask, check_policy_allowed


def greedy(q: ArrayLike) -> NDArray[np.int64]:
    """Return the policy that takes, in every state, the lowest-numbered action of maximal value.

    An action that is not allowed has the value -inf.

    >>> greedy([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]])
    array([1, 0])
    """
    table = _as_table("greedy: q", q).astype(np.float64, copy=False)
    if table.ndim != 2 or table.shape[1] == 0 or np.isnan(table).any():
        raise InvalidInput(f"greedy: q must be an (S, A) table of numbers without NaN, got shape {table.shape}.")
    policy: NDArray[np.int64] = table.argmax(axis=1)
    return policy


def chosen_actions(
    owner: str, policy: ArrayLike, n_states: int, n_actions: int, allowed: Mask | None = None
) -> NDArray[np.int64] | None:
    """Return a policy that holds one action per state; None for a table, whose shape is right.

    ``allowed`` is the mask of actions that may be taken; None: all of them.
    """
    table = _as_table(f"{owner}: policy", policy)
    shape = (n_states, n_actions)
    if table.shape == shape[:1]:
        if table.dtype.kind not in "iu" or table.astype(np.uint64, copy=False).max() >= n_actions:  # -1 is 2**64 - 1
            raise InvalidInput(f"{owner}: the actions of a policy must be integers in 0..{n_actions - 1}.")
        check_policy_allowed(owner, table, allowed)
        return table.astype(np.int64, copy=False)
    if table.shape != shape or table.dtype.kind not in "fiu":
        raise InvalidInput(f"{owner}: policy must have shape (S,) or (S, A) = {shape}, got {table.shape}.")
    return None


def action_probabilities(
    owner: str, policy: ArrayLike, n_states: int, n_actions: int, allowed: Mask | None = None
) -> NDArray[np.float64]:
    """Return a policy, given as one action per state or as an (S, A) table, as an (S, A) table of probabilities."""
    actions = chosen_actions(owner, policy, n_states, n_actions, allowed)
    if actions is not None:
        weights = np.zeros((n_states, n_actions))
        weights[np.arange(n_states), actions] = 1.0
        return weights
    weights = np.asarray(policy).astype(np.float64)
    if not ((weights >= 0) & (weights <= 2)).all() or not (np.abs(weights.sum(axis=1) - 1.0) <= 1e-9).all():
        raise InvalidInput(f"{owner}: the action probabilities of every state must be >= 0 and sum to 1.")
    check_policy_allowed(owner, weights, allowed)
    normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def _as_table(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        table = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{name} must be a table with rows of one length.") from None
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"{name} must be a table of numbers, got {shown(values)}.") from None
    if table.dtype.kind not in "fiub" or table.dtype.itemsize > 8:
        raise InvalidInput(f"{name} must hold numbers, got {table.dtype}.")
    if is_masked(values):
        raise InvalidInput(f"{name} must be a table without a mask. Say what masked entries are with filled(...).")
    return table
