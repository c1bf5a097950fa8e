"""What every rule is, and the comparison that most of them make: the first action whose gap is small enough."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, shown, speaking_as
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.theory.decisions import PROVED, ROUNDING, Sizes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_QUANTITIES = 8  # more actions than this are taken for quantities, and the default order goes from coarse to fine


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
        sizes, n, nothing = model.sizes, max(model.fewest, 1.0), np.zeros((0, 0))
        rows, policies = 2.0 * sizes.row_error(n, delta / 4.0), 2.0 * sizes.any_policy(n, delta / 4.0)
        return cls(nothing, nothing, sizes, 0.0, rows, policies)

    def loss(self, largest_gap: float) -> float:
        """Return how far the losses of one deterministic policy may lie apart."""
        s = self.sizes
        by_gaps = s.horizon * (2.0 * self.value + largest_gap / 2.0 * s.gamma * s.horizon * self.rows)
        return min(by_gaps, self.value + self.policies) + 2.0 * ROUNDING * s.horizon


class Tuning(NamedTuple):
    """What a plan tells a rule.

    ``spent`` is the loss that the rule may spend, ``parameter`` its own parameter, and ``over`` whether losses are
    those from the first state on or of the worst state. ``ignored``, (S,), marks states that are hardly ever reached:
    they get the first allowed action, in the rule's order. With a ``margin`` the rule also says whether it is sure.
    """

    spent: float
    parameter: float
    over: str = "initial"
    ignored: NDArray[np.bool_] | None = None
    margin: Margin | None = None

    def __repr__(self) -> str:
        return short_repr(self)


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


class Rule(ABC):
    """Decides from an empirical model and shared numbers, and from nothing else.

    A rule of your own derives from it and has an ``id``. It is best a frozen dataclass: its fields are its identity.

    Attributes
    ----------
    setting : str
        The field that holds the parameter of the rule; None in that field is what epsilon allows.
    published : bool
        Whether the rule was fixed before the shared seed: which pairs of a log count is then not drawn from it.
    """

    id: ClassVar[str] = ""
    setting: ClassVar[str] = ""
    published: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.parameter is not None:
            checked = check_in_open_interval(type(self).__name__, self.setting, self.parameter, 0.0, math.inf)
            object.__setattr__(self, self.setting, checked)

    @property
    def parameter(self) -> float | None:
        """The parameter of the rule; None where it has none, or takes what epsilon allows."""
        return vars(self)[self.setting] if self.setting else None

    @property
    def order(self) -> tuple[int, ...] | None:
        """In which order actions are preferred, where somebody said so."""
        return None

    def preferred(self, n_actions: int) -> Integers:
        """Return the order in which actions are taken where the data need not be looked at."""
        return np.arange(n_actions)

    def check_problem(self, problem: Any) -> None:  # noqa: B027  # most rules fit every problem
        """Refuse a problem before a sample is drawn."""

    @abstractmethod
    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Return the decision."""


def decided_by(rule: Rule, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
    """Return what a rule decides; one of your own cannot say that it is sure, for nothing is proved of it."""
    decision = rule.decide(model, shared, tuning)
    if rule.id in PROVED:
        return decision
    if not isinstance(decision, Decision) or not isinstance(decision.outputs, Mapping):
        raise InvalidInput(
            f"PlugInPolicy: decide of the rule {rule.id!r} must return rules.Decision({{'policy': actions}}), "
            f"got {shown(decision)}."
        )
    policy = decision.outputs.get("policy")
    if policy is not None and model.support.actions("PlugInPolicy", policy) is None:
        raise InvalidInput(f"PlugInPolicy: the policy of the rule {rule.id!r} must be one action for every state.")
    return decision._replace(sure=False)


class Ordered(Rule):
    """What rules have in common that prefer actions in an order."""

    order: tuple[int, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        with speaking_as(type(self).__name__):
            object.__setattr__(self, "order", check_order(self.order))

    def preferred(self, n_actions: int) -> Integers:
        """Return the order, or the default one."""
        return action_order(self.order, n_actions)

    def check_problem(self, problem: Any) -> None:
        """Refuse a problem whose actions are not those of the order."""
        with speaking_as(type(self).__name__):
            action_order(self.order, problem.n_actions)


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
    step, actions = 1 << (n_actions - 1).bit_length() - 1, [0]
    while step:
        actions += range(step, n_actions, 2 * step)
        step //= 2
    return np.array(actions, dtype=np.int64)


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
        twice = max(actions, key=actions.count)
        raise InvalidInput(f"rule: order must name every action once, got action {twice} twice.")
    return actions


class Compared(NamedTuple):
    """The policy of a comparison, and how near a gap came to the tolerance of its state, in units of gaps."""

    policy: Integers
    nearest: float


def first_within(gap: Floats, tolerance: Floats, order: Integers, weight: Floats | None = None) -> Compared:
    """Return, for every state, the first action in ``order`` whose weighted gap is at most the state's tolerance.

    The last action is taken where there is none, and so never compared.

    >>> first_within(np.array([[0.2, 0.1, 0.0]]), np.array([0.15]), np.array([0, 1, 2])).policy.tolist()
    [1]
    """
    from replicable_rl.planning._sweeps import team
    from replicable_rl.rules import _kernels

    policy, weight = np.empty(len(gap), dtype=np.int64), np.ones(len(gap)) if weight is None else weight
    with team(len(gap)) as each:
        return Compared(policy, min(each(_kernels.first_within, gap, weight, tolerance, order, policy)))


def gaps_are_sure(
    gap: Floats, tolerance: Floats, order: Integers, margin: Margin, weight: Floats | None = None, stretch: float = 1.0
) -> bool:
    """Whether a second run compares weighted gaps with tolerances alike, whose weights are within a factor."""
    from replicable_rl.rules import _kernels

    if margin.gap.shape != gap.shape:  # a compiled loop would read beyond its end
        raise InvalidInput(f"rule: margin must be that of a model of this size, {gap.shape}, got {margin.gap.shape}.")
    weight = np.ones(len(gap)) if weight is None else weight
    return bool(_kernels.is_sure(gap, weight, tolerance, order, margin.gap, stretch))
