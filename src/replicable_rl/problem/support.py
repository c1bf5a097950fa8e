"""Which pairs of a state and an action there are, and the policies that take no other.

A policy is one action for each state, or an (S, A) table of probabilities.
A pair that is not allowed has no outcomes: its row is empty. Whoever computes values gives it the value -inf, which no
maximum takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidInput, check_numbers, shown


@dataclass(frozen=True, eq=False)
class Support:
    """The pairs that there are: ``mask`` is an (S, A) table, True where an action is allowed.

    >>> some = Support.of("TabularMDP", [[True, False], [True, True]], 2, 2)
    >>> some.pairs, some.whole, some.uniform().tolist()
    (3, False, [[1.0, 0.0], [0.5, 0.5]])
    >>> some.settle(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, -inf], [3.0, 4.0]]
    >>> Support.of("TabularMDP", [[1, 0], [0, 0]], 2, 2)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: TabularMDP: every state needs an action that is allowed, state 1 has none.
    """

    mask: NDArray[np.bool_]

    @staticmethod
    def of(
        owner: str,
        allowed: ArrayLike | None,
        n_states: int,
        n_actions: int,
        *,
        names: Sequence[object] | None = None,
    ) -> Support:
        """Return the support that a table of truth values, or of 0 and 1, says; None: every action in every state.

        An error calls a state by its name where states have ``names``, else by its number.
        """
        shape = n_states, n_actions
        if allowed is None:
            return Support(np.broadcast_to(np.True_, shape))
        flags = check_numbers(owner, "allowed", allowed)
        if flags.shape != shape or not np.isin(flags, (0, 1)).all():
            raise InvalidInput(
                f"{owner}: allowed must be an (S, A) = {shape} table of True and False, got {shown(allowed)}."
            )
        mask = flags != 0
        stuck = ~mask.any(axis=1)
        if stuck.any():
            state = int(np.argmax(stuck))
            name = state if names is None else shown(names[state])
            raise InvalidInput(f"{owner}: every state needs an action that is allowed, state {name} has none.")
        mask.setflags(write=False)
        return Support(mask)

    @cached_property
    def pairs(self) -> int:
        """How many pairs there are: N = S*A where every action is allowed."""
        return int(np.count_nonzero(self.mask))

    @property
    def whole(self) -> bool:
        """Whether every action is allowed in every state."""
        return self.pairs == self.mask.size

    @property
    def given(self) -> NDArray[np.bool_] | None:
        """The mask as people give it: None where every action is allowed."""
        return None if self.whole else self.mask

    @cached_property
    def of_rows(self) -> NDArray[np.bool_]:
        """Whether row s*A + a is that of a pair."""
        return self.mask.reshape(-1)

    def settle(self, table: NDArray[np.float64], worth: float = -np.inf) -> NDArray[np.float64]:
        """Return a table, one number for each s and a, with -inf or another number where there is no pair."""
        return table if self.whole else np.where(self.mask.reshape(table.shape), table, worth)

    def with_the_end(self) -> Support:
        """Return the support with one more state, the one after the end, in which every action is the same."""
        n_states, n_actions = self.mask.shape
        if self.whole:
            return Support.of("", None, n_states + 1, n_actions)
        return Support(np.concatenate([self.mask, np.ones((1, n_actions), dtype=np.bool_)]))

    def first(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first action of every state, in an order of the actions."""
        first: NDArray[np.int64] = order[self.mask[:, order].argmax(axis=1)]
        return first

    def uniform(self) -> NDArray[np.float64]:
        """Return the (S, A) probabilities of the policy that takes every action alike."""
        uniform: NDArray[np.float64] = self.mask / self.mask.sum(axis=1, keepdims=True)
        return uniform

    def random(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return one of the actions of every state, by numbers in [0, 1)."""
        place = np.floor(u * self.mask.sum(axis=1)).astype(np.int64)
        actions: NDArray[np.int64] = (np.cumsum(self.mask, axis=1) > place[:, None]).argmax(axis=1)
        return actions

    def refuse_others(self, owner: str, policy: NDArray[Any]) -> None:
        """Refuse a policy that takes an action where it is not allowed."""
        if self.whole:
            return
        taken = policy != 0.0 if policy.ndim == 2 else np.arange(self.mask.shape[1]) == policy[:, None]
        wrong = np.argwhere(taken & ~self.mask)
        if wrong.size:
            state, action = wrong[0].tolist()
            may = ", ".join(map(str, np.flatnonzero(self.mask[state]).tolist()[:20]))
            raise InvalidInput(
                f"{owner}: the policy takes action {action} in state {state}, where it is not allowed. Allowed: {may}."
            )

    def actions(self, owner: str, policy: ArrayLike) -> NDArray[np.int64] | None:
        """Return a policy that holds one action for each state; None for a table, whose shape is right."""
        shape, numbers = self.mask.shape, check_numbers(owner, "policy", policy)
        if numbers.shape == shape:
            return None
        table = np.asarray(policy)
        if table.shape != shape[:1]:
            raise InvalidInput(f"{owner}: policy must have shape (S,) or (S, A) = {shape}, got {table.shape}.")
        if table.dtype.kind not in "iu" or not ((numbers >= 0) & (numbers < shape[1])).all():
            raise InvalidInput(f"{owner}: the actions of a policy must be integers in 0..{shape[1] - 1}.")
        self.refuse_others(owner, table)
        return table.astype(np.int64, copy=False)

    def probabilities(self, owner: str, policy: ArrayLike) -> NDArray[np.float64]:
        """Return a policy of either form as an (S, A) table of probabilities."""
        actions = self.actions(owner, policy)
        if actions is not None:
            weights = np.zeros(self.mask.shape)
            weights[np.arange(actions.size), actions] = 1.0
            return weights
        weights = check_numbers(owner, "policy", policy)
        if not ((weights >= 0) & (weights <= 2)).all() or not (np.abs(weights.sum(axis=1) - 1.0) <= 1e-9).all():
            raise InvalidInput(f"{owner}: the action probabilities of every state must be >= 0 and sum to 1.")
        self.refuse_others(owner, weights)
        normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return normalised


def greedy(q: ArrayLike) -> NDArray[np.int64]:
    """Return the policy that takes, in every state, the lowest-numbered action of maximal value.

    An action that is not allowed has the value -inf.

    >>> greedy([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]])
    array([1, 0])
    """
    table = check_numbers("greedy", "q", q)
    if table.ndim != 2 or table.shape[1] == 0 or np.isnan(table).any():
        raise InvalidInput(f"greedy: q must be an (S, A) table of numbers without NaN, got shape {table.shape}.")
    policy: NDArray[np.int64] = table.argmax(axis=1)
    return policy
