"""``StableDecisions``: act on trained Q-values in a way that another training would have acted too.

Two trainings give two slightly different Q, and wherever two actions are nearly as good the better one differs. The
rules of "Decisions" apply to any Q, however it was learned:

    Q = the mean of the Q-functions                      gap(o, a) = max_b Q(o, b) - Q(o, a)
    tolerance   the first action with gap(o, a) <= x(1+U)         U and the order of the actions are shared
    rounded     every Q(o, a) to its bin of width x, then the best          the offsets of the bins are shared

**The shared numbers belong to the agent, not to the state.** An observation of a neural network has no index, so there
is one U, one order and one offset for each action. A grid of cells with numbers of their own would not act alike more
often on average, and two agents would rarely act alike everywhere, since each cell is another chance to differ.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from replicable_rl.adapters.q_functions import QFunction, as_q_functions, batch_of_one
from replicable_rl.errors import InvalidInput, check_choice, check_integer, check_real, shown, speaking_as
from replicable_rl.queries.rules.rule import action_order, check_order, first_within
from replicable_rl.randomness import MAX_SEED, SharedRandomness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_OWNER = "StableDecisions"
_RULES = ("tolerance", "rounded")


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
        x: how much Q-value a decision may give up, in the units of Q. The tolerance that is used lies between x and 2x
        (see `threshold`). 0: the best action; only exact ties are left to the shared order.
    rule : {"tolerance", "rounded"}
        Take the first action whose Q-value is nearly the largest, or round Q-values to bins of width x first.
    shared_seed : int
        The shared seed: publish it. Agents with the same one share their choice.
    order : tuple of int, optional
        In which order actions are preferred; None: an order that the shared seed draws.

    Notes
    -----
    With exact Q-values a policy gives up less than 2x in every step, so it loses less than 2x/(1 - gamma).

    Whether this makes two agents act alike more often is a question for a measurement: see "Stable decisions" in the
    documentation. It helps where actions tie. Where the better one of two actions changes smoothly from one to the
    other, a tolerance only moves the border between them.

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
    rule: Literal["tolerance", "rounded"] = "tolerance"
    shared_seed: int
    order: tuple[int, ...] | None = None
    _members: tuple[QFunction, ...] = field(init=False)

    def __post_init__(self) -> None:
        rule = check_choice(_OWNER, "rule", self.rule, _RULES)
        tolerance = check_real(
            _OWNER, "tolerance", self.tolerance, low=0.0, high=math.inf, rule="a finite number that is not negative"
        )
        if rule == "rounded" and tolerance == 0.0:
            raise InvalidInput(f"{_OWNER}: tolerance must be positive for rule='rounded', which it gives bins, got 0.")
        with speaking_as(_OWNER):
            order = check_order(self.order)
        normal = {
            "rule": rule,
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
        order = self._order(q.shape[1])
        if self.rule == "tolerance":
            return first_within(gaps_of(q), np.full(len(q), self.threshold), order)
        best: Integers = order[self._rounded(q)[:, order].argmax(axis=1)]
        return best

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

    @property
    def threshold(self) -> float:
        """The tolerance that is used, x(1+U): by how much an action may be worse than the best, or the bins' width."""
        if self.rule == "rounded":
            return self.tolerance
        return self.tolerance * (1.0 + float(self._shared.uniform("decide/tolerance", shape=1)[0]))

    def preferred(self, n_actions: int) -> tuple[int, ...]:
        """Return the order in which so many actions are preferred.

        >>> StableDecisions([[0.5, 0.5, 0.5]], 0.1, shared_seed=7).preferred(3)
        (1, 0, 2)
        """
        return tuple(self._order(check_integer(_OWNER, "n_actions", n_actions, low=1, high=2**31 - 1)).tolist())

    def __repr__(self) -> str:
        count = len(self._members)
        said = f"{count} Q-function{'s' if count > 1 else ''}, tolerance={self.tolerance:g}, rule={self.rule!r}"
        order = "" if self.order is None else f", order={shown(self.order)}"
        return f"{_OWNER}({said}, shared_seed={self.shared_seed}{order})"

    # --- the shared numbers ------------------------------------------------------------------

    @property
    def _shared(self) -> SharedRandomness:
        return SharedRandomness(self.shared_seed)

    def _order(self, n_actions: int) -> Integers:
        if self.order is not None:
            with speaking_as(_OWNER):
                return action_order(self.order, n_actions)
        return np.argsort(self._shared.uniform("decide/order", shape=n_actions), kind="stable")

    def _rounded(self, q: Floats) -> Floats:
        """Return the middle of every entry's bin; the answer depends on the bin alone."""
        offset = self._shared.uniform("decide/action-offset", shape=q.shape[1])
        middle: Floats = (np.floor(q / self.tolerance - offset) + offset + 0.5) * self.tolerance
        return middle


def gaps_of(q: Floats) -> Floats:
    """Return how much worse than the best of its row every entry is."""
    return q.max(axis=1, keepdims=True) - q
