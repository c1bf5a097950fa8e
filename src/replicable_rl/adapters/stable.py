"""``StableDecisions``: act on trained Q-values in a way that another training would have acted too.

Two trainings give two slightly different Q, and wherever two actions are nearly as good the better one differs. The
rules of "Decisions" apply to any Q, however it was learned:

    Q = the mean of the Q-functions                      gap(o, a) = max_b Q(o, b) - Q(o, a)
    tolerance   the first action with gap(o, a) <= x(1+U)         U and the order of the actions are shared
    rounded     every Q(o, a) to its bin of width x, then the best          the offsets of the bins are shared

An observation of a neural network has no index, so by default one choice of these numbers holds for all observations:
they are in cell 0. Who numbers cells of the observations (states, squares of a grid) gets a choice for each of them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.adapters.q_functions import QFunction, as_array, as_q_functions, batch_of_one
from replicable_rl.adapters.q_rules import QRule, as_q_rule, gaps_of
from replicable_rl.errors import InvalidInput, check_integer, check_real, shown, speaking_as
from replicable_rl.queries.rules.rule import action_order, check_order
from replicable_rl.randomness import MAX_SEED, SharedRandomness

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_OWNER = "StableDecisions"
_MOST_CELLS = 2**40
_LARGEST, _POSSIBLE = 1e100, "0, or a number from 1e-100 to 1e100"


@dataclass(frozen=True, eq=False, repr=False)
class StableDecisions:
    """A policy that takes trained Q-values and leaves near-ties to a choice that two trainings share.

    Parameters
    ----------
    q_functions
        One Q-function or a list of several, which are averaged. Each of them is

        * a function of a batch of observations, (n, ...), that returns action values, (n, A);
        * a DQN of Stable-Baselines3, or what `StableBaselines3` returns for one; or
        * a table of shape (S, A), whose observations are the states 0 to S - 1.

        -inf stands for an action that is not allowed.
    tolerance : float
        x: how much Q-value a decision may give up, in the units of Q. The tolerance that is used is x(1+U), between x
        and 2x. 0: the best action; only exact ties are left to the shared order.
    rule : {"tolerance", "rounded"} or object
        Take the first action whose Q-value is nearly the largest, or round Q-values to bins of width x first; or an
        object of your own with an ``id`` and ``good(q, x, numbers)``, see `QRule`.
    shared_seed : int
        The shared seed: publish it. Agents with the same one share their choice.
    order : tuple of int, optional
        In which order actions are preferred; None: an order that the shared seed draws.
    cells : callable, optional
        A function of a batch of observations that returns their cells, n integers from 0 to 2**40. Each cell has its
        own U, order and offsets. Publish it with the seed. None: one choice for all observations, that of cell 0.

    Notes
    -----
    With exact Q-values a policy gives up less than 2x in every step, so it loses less than 2x/(1 - gamma).

    Whether this makes two agents act alike more often is a question for a measurement: see "Stable decisions" in the
    documentation. It helps where actions tie. Where the better one of two actions changes smoothly from one to the
    other, a tolerance with one choice for all only moves the border between them; there ``cells`` may help.

    Examples
    --------
    >>> one, two = [[0.50, 0.51], [0.9, 0.1]], [[0.51, 0.50], [0.9, 0.1]]  # two trainings: a tie in state 0
    >>> [StableDecisions(q, 0.0, shared_seed=7)([0, 1]).tolist() for q in (one, two)]
    [[1, 0], [0, 0]]
    >>> [StableDecisions(q, 0.1, shared_seed=7)([0, 1]).tolist() for q in (one, two)]
    [[1, 0], [1, 0]]
    >>> StableDecisions([one, two], 0.0, shared_seed=7).values([0]).tolist()  # an ensemble is averaged
    [[0.505, 0.505]]
    """

    vectorized: ClassVar[bool] = True  # an audit asks it about the whole probe set at once

    q_functions: Any
    tolerance: float
    _: KW_ONLY
    rule: QRule | str = "tolerance"
    shared_seed: int
    order: tuple[int, ...] | None = None
    cells: Callable[[Any], ArrayLike] | None = None
    _members: tuple[QFunction, ...] = field(init=False)
    _rule: QRule = field(init=False)

    def __post_init__(self) -> None:
        rule = as_q_rule(_OWNER, self.rule)
        tolerance = check_real(_OWNER, "tolerance", self.tolerance, low=0.0, high=_LARGEST, rule=_POSSIBLE)
        if 0.0 < tolerance < 1.0 / _LARGEST:
            raise InvalidInput(f"{_OWNER}: tolerance must be {_POSSIBLE}, got {shown(self.tolerance)}.")
        if tolerance == 0.0 and getattr(rule, "positive", False):
            raise InvalidInput(
                f"{_OWNER}: tolerance must be positive for rule={rule.id!r}, which it gives bins, got 0."
            )
        if self.cells is not None and (not callable(self.cells) or isinstance(self.cells, type)):
            raise InvalidInput(f"{_OWNER}: cells must be a function of observations, got {shown(self.cells)}.")
        with speaking_as(_OWNER):
            order = check_order(self.order)
        normal = {
            "_rule": rule,
            "tolerance": tolerance,
            "shared_seed": check_integer(_OWNER, "shared_seed", self.shared_seed, low=0, high=MAX_SEED),
            "order": order,
            "_members": as_q_functions(_OWNER, self.q_functions),
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    # --- what it decides ---------------------------------------------------------------------

    def __call__(self, observations: Any) -> Integers:
        """Return the actions, one for each of the observations along the first axis."""
        q = self.values(observations)
        place, cells = self._places(q.shape[1]), self._cells(observations, len(q))
        numbers = partial(self._numbers, cells)
        good = self._rule.good(q, self.tolerance, numbers)
        if place is None:
            place = numbers("decide/order", q.shape[1])
        first: Integers = np.where(good, place, np.inf).argmin(axis=1)  # of the good ones
        return first

    def act(self, observation: Any) -> int:
        """Return the action for one observation."""
        (action,) = self(batch_of_one(_OWNER, observation))
        return int(action)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """Return actions and None, as Stable-Baselines3's models do: it can be evaluated in their place.

        A batch of observations is expected. Where it is known how one looks (a table, a model of that library), one
        alone gets one action.
        """
        if any(member.is_single(observation) for member in self._members):
            return np.int64(self.act(observation)), None
        return self(observation), None

    # --- why ---------------------------------------------------------------------------------

    def values(self, observations: Any) -> Floats:
        """Return the mean of the Q-functions on a batch of observations, (n, A)."""
        tables = [member(observations) for member in self._members]
        shapes = {table.shape for table in tables}
        if len(shapes) > 1:
            listed = " and ".join(str(shape) for shape in sorted(shapes))
            raise InvalidInput(f"{_OWNER}: q_functions must return values of one shape, (n, A), got {listed}.")
        # A sum in the order given is the same on every machine; numpy's own sums may be paired.
        total = tables[0]
        for table in tables[1:]:
            total = total + table
        mean: Floats = total / len(tables)
        if not np.isfinite(mean.max(axis=1)).all():
            raise InvalidInput(
                f"{_OWNER}: q_functions must leave an action with a finite value for every observation, and their mean "
                "leaves none for one."
            )
        return mean

    def gaps(self, observations: Any) -> Floats:
        """Return how much worse than the best every action is, (n, A): look at these to choose a tolerance."""
        return gaps_of(self.values(observations))

    def __repr__(self) -> str:
        count = len(self._members)
        said = f"{count} Q-function{'s' if count > 1 else ''}, tolerance={self.tolerance:g}, rule={self._rule.id!r}"
        order = "" if self.order is None else f", order={shown(self.order)}"
        cells = "" if self.cells is None else ", cells=..."
        return f"{_OWNER}({said}, shared_seed={self.shared_seed}{order}{cells})"

    # --- the shared numbers ------------------------------------------------------------------

    def _numbers(self, cells: Integers | None, label: str, each: int) -> Floats:
        """Return ``each`` shared numbers for every cell, (n, each); (1, each) where there is but one."""
        shared = SharedRandomness(self.shared_seed)
        if cells is None:
            return shared.uniform(label, shape=(1, each))
        return shared.uniform_at(label, index=cells[:, None] * each + np.arange(each))

    def _places(self, n_actions: int) -> Floats | None:
        """Return at which place an order that was given has every action."""
        if self.order is None:
            return None
        with speaking_as(_OWNER):
            return np.argsort(action_order(self.order, n_actions)).astype(np.float64)

    def _cells(self, observations: Any, count: int) -> Integers | None:
        if self.cells is None:
            return None
        found = as_array(self.cells(observations))
        if found.dtype.kind not in "iu" or found.shape != (count,):
            raise InvalidInput(
                f"{_OWNER}: cells must return an integer for each of the {count} observations, got {found.dtype} of "
                f"shape {found.shape}."
            )
        wrong = found[(found < 0) | (found > _MOST_CELLS)]
        if wrong.size:
            raise InvalidInput(f"{_OWNER}: cells must lie in 0..2**40, got {wrong[0]}. Number them from 0 on.")
        return found.astype(np.int64)
