"""Which actions a state has: an (S, A) mask, True where an action is allowed.

A pair that is not allowed has no outcomes: its row is empty, so that the rows of a process say which they are. Whoever
computes values gives it the value -inf, which no maximum takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidInput, is_masked, shown

Mask = NDArray[np.bool_]


def check_allowed(
    owner: str,
    allowed: ArrayLike,
    n_states: int,
    n_actions: int,
    *,
    names: Sequence[object] | None = None,
    refusal: type[InvalidInput] = InvalidInput,
) -> Mask:
    """Return an (S, A) mask of truth values, or of the numbers 0 and 1, that leaves every state an action.

    An error calls a state by its name where states have ``names``, else by its number.

    >>> check_allowed("TabularMDP", [[1, 0], [0, 0]], 2, 2)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: TabularMDP: every state needs an action that is allowed, state 1 has none.
    """
    shape = n_states, n_actions
    try:
        given: NDArray[Any] = np.asarray(allowed)
        are_flags = given.dtype.kind == "b" or (given.dtype.kind in "iuf" and bool(np.isin(given, (0, 1)).all()))
    except Exception:  # whatever somebody's object raises
        are_flags = False
    if not are_flags or is_masked(allowed):
        raise refusal(f"{owner}: allowed must be an (S, A) table of True and False, got {shown(allowed)}.")
    if given.shape != shape:
        raise refusal(f"{owner}: allowed must have shape (S, A) = {shape}, got {given.shape}.")
    mask: Mask = given != 0  # not astype: the bytes of truth values need not be 0 and 1
    stuck = ~mask.any(axis=1)
    if stuck.any():
        state = int(np.argmax(stuck))
        name = state if names is None else shown(names[state])
        raise refusal(f"{owner}: every state needs an action that is allowed, state {name} has none.")
    mask.setflags(write=False)
    return mask


def allowed_of(problem: object) -> Mask | None:
    """Return the mask of a problem that does not allow every action everywhere; None for every other problem.

    >>> from replicable_rl.problem import riverswim
    >>> allowed_of(riverswim()) is None
    True
    """
    mask: Mask | None = getattr(problem, "allowed", None)
    return None if mask is None or np.count_nonzero(mask) == mask.size else mask


def pairs_of(problem: Any) -> int:
    """Return how many pairs (state, action) a problem has: N = S*A where every action is allowed.

    >>> from replicable_rl.problem import riverswim
    >>> pairs_of(riverswim())
    12
    """
    mask = allowed_of(problem)
    return int(problem.n_states * problem.n_actions) if mask is None else int(mask.sum())


def forbid(table: NDArray[np.float64], allowed: Mask | None) -> NDArray[np.float64]:
    """Return an (S, A) table with -inf where an action is not allowed.

    >>> forbid(np.array([[1.0, 2.0]]), np.array([[True, False]])).tolist()
    [[1.0, -inf]]
    """
    return table if allowed is None else np.where(allowed, table, -np.inf)


def first_allowed(problem: Any, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first allowed action of every state, in an order of the actions."""
    mask = allowed_of(problem)
    first = np.zeros(problem.n_states, dtype=np.int64) if mask is None else mask[:, order].argmax(axis=1)
    return order[first]


def uniform_policy(problem: Any) -> NDArray[np.float64]:
    """Return the (S, A) probabilities of the policy that takes every allowed action alike.

    >>> from replicable_rl.problem import riverswim
    >>> uniform_policy(riverswim())[0].tolist()
    [0.5, 0.5]
    """
    mask = allowed_of(problem)
    if mask is None:
        return np.full((problem.n_states, problem.n_actions), 1.0 / problem.n_actions)
    uniform: NDArray[np.float64] = mask / mask.sum(axis=1, keepdims=True)
    return uniform


def random_actions(problem: Any, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return one of the allowed actions of every state, by numbers in [0, 1)."""
    mask = allowed_of(problem)
    place: NDArray[np.int64] = np.floor(u * (problem.n_actions if mask is None else mask.sum(axis=1))).astype(np.int64)
    return place if mask is None else (np.cumsum(mask, axis=1) > place[:, None]).argmax(axis=1)


def check_policy_allowed(
    owner: str, policy: NDArray[Any], allowed: Mask | None, refusal: type[InvalidInput] = InvalidInput
) -> None:
    """Refuse a policy, actions (S,) or probabilities (S, A), that takes an action where it is not allowed."""
    if allowed is None:
        return
    if policy.ndim == 1:
        wrong = ~allowed[np.arange(policy.size), policy]
        state = int(np.argmax(wrong))
        action = int(policy[state])
    else:
        bad = (policy != 0.0) & ~allowed
        wrong = bad.any(axis=1)
        state = int(np.argmax(wrong))
        action = int(np.argmax(bad[state]))
    if wrong.any():
        may = ", ".join(map(str, np.flatnonzero(allowed[state]).tolist()[:20]))
        raise refusal(
            f"{owner}: the policy takes action {action} in state {state}, where it is not allowed. Allowed: {may}."
        )
