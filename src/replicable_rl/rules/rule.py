"""What every rule is, and the comparison that most of them make: the first action whose gap is small enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, shown, speaking_as
from replicable_rl.theory.decisions import ROUNDING, Sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.compiled import Team
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.rules.model import EmpiricalModel

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_QUANTITIES = 8  # more actions than this are taken for quantities, and the default order goes from coarse to fine


class Tuning(NamedTuple):
    """What a plan tells a rule.

    ``spent`` is the loss that the rule may spend, ``parameter`` its own parameter, and ``over`` whether losses are
    those from the first state on or of the worst state. ``ignored``, (S,), marks states that are hardly ever reached:
    they get the first allowed action, in the rule's order.
    """

    spent: float
    parameter: float
    over: str = "initial"
    ignored: NDArray[np.bool_] | None = None

    def __repr__(self) -> str:
        return short_repr(self)


class Margin(NamedTuple):
    """How far a second run may be from the first: what must lie between a number and its threshold to be sure.

    ``q`` and ``gap``, (S, A), are about entries of Q^ and of the gaps; ``loss`` gives the distance of two losses from
    the largest gap that a policy accepts.
    """

    q: Floats
    gap: Floats
    sizes: Sizes
    value: float  # the largest distance of two Q^
    rows: float  # the largest distance of two rows, in l1
    policies: float  # the largest distance of two values of one deterministic policy

    def __repr__(self) -> str:
        return short_repr(self)

    @classmethod
    def of(cls, model: EmpiricalModel, delta: float) -> Margin:
        """Return what holds for both runs, except with probability ``delta`` in each of them."""
        w, other = model.value_error(delta / 2.0)
        best = w.max(axis=1, keepdims=True)
        q, gap = w + other + ROUNDING, w + best + 2.0 * other + ROUNDING
        return cls.without_values(model, delta)._replace(q=q, gap=gap, value=float(w.max()) + other)

    @classmethod
    def without_values(cls, model: EmpiricalModel, delta: float) -> Margin:
        """Return what is known before the error of Q^ is: all margins are at least these."""
        sizes, n, nothing = sizes_of(model), max(model.fewest, 1.0), np.zeros((0, 0))
        rows, policies = 2.0 * sizes.row_error(n, delta / 4.0), 2.0 * sizes.any_policy(n, delta / 4.0)
        return cls(nothing, nothing, sizes, 0.0, rows, policies)

    def loss(self, largest_gap: float) -> float:
        """Return how far the losses of one deterministic policy may lie apart."""
        s = self.sizes
        by_gaps = s.horizon * (2.0 * self.value + largest_gap / 2.0 * s.gamma * s.horizon * self.rows)
        return min(by_gaps, self.value + self.policies) + 2.0 * ROUNDING * s.horizon


def sizes_of(model: EmpiricalModel) -> Sizes:
    """Return what the bounds know of a model."""
    allowed = None if model.support.whole else model.support.pairs
    return Sizes(model.n_states, model.n_actions, model.gamma, model.known_rewards, allowed_pairs=allowed)


class Decision(NamedTuple):
    """What a rule decided: outputs by level, and how clearly.

    Attributes
    ----------
    outputs : mapping
        By level: a policy, and what else the rule stands for.
    nearest : float
        How near a number came to its threshold, in units of Q^; infinite where nothing was compared.
    sure : bool
        Whether every comparison was further off than the margin.
    loss : float or None
        The loss on the empirical model, where the rule looked at it.
    said : str
        What is worth a sentence.
    """

    outputs: Mapping[str, Any]
    nearest: float = math.inf
    sure: bool = False
    loss: float | None = None
    said: str = ""

    def __repr__(self) -> str:
        return short_repr(self)


class Rule(Protocol):
    """Decides from an empirical model and shared numbers, and from nothing else.

    A rule may also have ``check_problem(problem)``, which refuses a problem before a sample is drawn, and
    ``published``, true where it was fixed before the shared seed: which pairs of a log count is then not drawn from it.
    """

    @property
    def id(self) -> str: ...  # noqa: D102

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Return the decision; with a margin, also whether it is a sure one."""
        ...


class Ordered:
    """What rules have in common that prefer actions in an order."""

    order: tuple[int, ...] | None

    def __post_init__(self) -> None:
        with speaking_as(type(self).__name__):
            object.__setattr__(self, "order", check_order(self.order))

    def check_problem(self, problem: Any) -> None:
        """Refuse a problem whose actions are not those of the order."""
        with speaking_as(type(self).__name__):
            action_order(self.order, problem.n_actions)


def preferred_first(rule: Any, n_actions: int) -> Integers:
    """Return the order in which a rule takes actions where it need not look at the data."""
    return action_order(rule.order, n_actions) if isinstance(rule, Ordered) else np.arange(n_actions)


def action_order(order: tuple[int, ...] | None, n_actions: int) -> Integers:
    """Return the order in which actions are preferred.

    None is as they are numbered; where they are many, they are taken for quantities, and coarse steps come first.

    >>> action_order(None, 4).tolist(), action_order(None, 9).tolist()
    ([0, 1, 2, 3], [0, 8, 4, 2, 6, 1, 3, 5, 7])
    """
    if order is not None:
        if sorted(order) != list(range(n_actions)):
            raise InvalidInput(
                f"rule: order must name each of the actions 0..{n_actions - 1} once, got {shown(list(order))}."
            )
        return np.array(order, dtype=np.int64)
    if n_actions <= _QUANTITIES:
        return np.arange(n_actions)
    step, found = 1 << (n_actions - 1).bit_length() - 1, [0]
    while step:
        found += range(step, n_actions, 2 * step)
        step //= 2
    return np.array(found, dtype=np.int64)


def check_order(order: object) -> tuple[int, ...] | None:
    """Return an order of actions; that it names all of them once is seen when their number is known."""
    if order is None:
        return None
    if isinstance(order, np.ndarray):
        order = order.tolist()
    if not isinstance(order, (tuple, list)) or not order:
        raise InvalidInput(f"rule: order must be a list of actions such as (1, 0), got {shown(order)}.")
    actions = tuple(check_integer("rule", "order", action, low=0, high=2**31 - 1) for action in order)
    if len(set(actions)) < len(actions):
        twice, _ = Counter(actions).most_common(1)[0]
        raise InvalidInput(f"rule: order must name every action once, got action {twice} twice.")
    return actions


def check_parameter(rule: object, name: str) -> None:
    """See that an optional parameter of a rule is a positive number."""
    value = getattr(rule, name)
    if value is not None:
        checked = check_in_open_interval(type(rule).__name__, name, value, 0.0, math.inf)
        object.__setattr__(rule, name, checked)


def first_within(gap: Floats, tolerance: Floats, order: Integers) -> Integers:
    """Return, for every state, the first action in ``order`` whose gap is at most the state's tolerance.

    >>> first_within(np.array([[0.2, 0.1, 0.0]]), np.array([0.15]), np.array([0, 1, 2])).tolist()
    [1]
    """
    from replicable_rl.rules import _kernels

    policy = np.empty(gap.shape[0], dtype=np.int64)
    _kernels.first_within(gap, tolerance, order, policy)
    return policy


def first_within_weighted(
    each: Team, gap: Floats, weight: Floats, tolerance: float, order: Integers, policy: Integers
) -> tuple[float, bool]:
    """Put into ``policy`` the first action of every state whose weighted gap is within a tolerance.

    Returns how near a gap came, in units of the gaps (the tolerance of a state is ``tolerance/weight``), and whether
    the policy is another one than was there before.
    """
    from replicable_rl.rules import _kernels

    nearest, changed = zip(*each(_kernels.first_within_weighted, gap, weight, tolerance, order, policy), strict=True)
    return float(min(nearest)), any(changed)


def nearest_gap(gap: Floats, tolerance: Floats, order: Integers) -> float:
    """Return how near a gap that was compared came to the tolerance of its state; the last action is never compared."""
    from replicable_rl.rules import _kernels

    return float(_kernels.nearest_gap(gap, tolerance, order))
