"""What every rule is, and the comparison that most of them make: the first action whose gap is small enough."""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_in_open_interval, shown, speaking_as
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import EmpiricalModel, Floats, Integers
from replicable_rl.runs import Setting, put
from replicable_rl.theory.decisions import PROVED, ROUNDING, Sizes

_EXACT = np.zeros((1, 1))  # an error of nothing in all entries
_QUANTITIES = 8  # more actions than this are taken for quantities, and the usual order goes from coarse to fine


class Margin(NamedTuple):
    """How far a second run may be from the first: what must lie between a number and its threshold to be sure."""

    w: Floats  # by which Q^ is off, (S, A), or one number for all entries
    other: float  # by which Q^ of a second run is off
    sizes: Sizes
    n: float  # the samples of the pair that has fewest
    delta: float  # all of this holds for both runs, except with probability delta in each

    @classmethod
    def of(cls, model: EmpiricalModel, delta: float) -> Margin:
        """Return what the counts can tell."""
        return cls(*model.value_error(delta / 2.0), model.sizes, max(model.fewest, 1.0), delta)

    @classmethod
    def rising(cls, model: EmpiricalModel, delta: float) -> Iterator[Margin]:
        """Yield a margin that takes no work, by the samples alone, and that of the counts, which is larger."""
        sizes, n = model.sizes, max(model.fewest, 1.0)
        log_term = math.log(6.0 * sizes.pairs / delta)
        largest = min(sizes.kappa * math.sqrt(log_term / (2.0 * n)), 1.0 - sizes.gamma)
        yield cls(_EXACT, sizes.horizon * min(largest, 2.0 * sizes.gamma * log_term / n), sizes, n, delta)
        yield cls.of(model, delta)

    @property
    def q(self) -> Floats:
        """How far entries of two Q^ may lie apart."""
        return self.w + self.other + ROUNDING

    @property
    def gap(self) -> Floats:
        """How far gaps may lie apart."""
        best: Floats = self.w.max(axis=1, keepdims=True)
        return self.w + best + 2.0 * self.other + ROUNDING

    @property
    def value(self) -> float:
        """How far values may lie apart."""
        return float(self.w.max()) + self.other

    @property
    def rows(self) -> float:
        """How far rows may lie apart, in l1."""
        return 2.0 * self.sizes.row_error(self.n, self.delta / 4.0)

    def loss(self, largest_gap: float) -> float:
        """Return how far the losses of one deterministic policy may lie apart, by the largest gap that it accepts."""
        s, value = self.sizes, self.value
        by_gaps = s.horizon * (2.0 * value + largest_gap / 2.0 * s.gamma * s.horizon * self.rows)
        policies = 2.0 * s.any_policy(self.n, self.delta / 4.0)
        return min(by_gaps, value + policies) + 2.0 * ROUNDING * s.horizon


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


def never(margin: Margin) -> bool:
    """Say that a decision is not sure, whatever the margin."""
    return False


class Decision(NamedTuple):
    """What a rule decided, and how clearly.

    ``outputs`` has a policy, and what else the rule stands for, by level. ``sure`` says of a margin whether every
    comparison was further off. ``loss`` is that on the empirical model, where the rule looked at it, and ``said`` goes
    into the status of the run.
    """

    outputs: Mapping[str, Any]
    sure: Callable[[Margin], bool] = never
    loss: float | None = None
    said: str = ""


class Rule(Setting):
    """Decides from an empirical model and shared numbers, and from nothing else.

    A rule of your own derives from it and has an ``id``; a store asks for one that ends in a version, ``"mine-v1"``. It
    is a frozen dataclass: its fields are its identity.

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
            put(self, **{self.setting: checked})
        if self.order is not None:
            put(self, order=check_order(type(self).__name__, self.order))

    @property
    def parameter(self) -> float | None:
        """The parameter of the rule; None where it has none, or takes what epsilon allows."""
        return vars(self)[self.setting] if self.setting else None

    @property
    def order(self) -> tuple[int, ...] | None:
        """In which order actions are preferred, where somebody said so."""
        return None

    def preferred(self, n_actions: int) -> Integers:
        """Return the order, or the usual one."""
        return usual_order(n_actions) if self.order is None else np.array(self.order)

    def check_problem(self, problem: Any) -> None:
        """Refuse a problem before a sample is drawn."""
        if self.order is not None:
            check_order(type(self).__name__, self.order, problem.n_actions)

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
    if "policy" in decision.outputs:
        with speaking_as("PlugInPolicy"):
            if model.support.actions("EmpiricalModel", decision.outputs["policy"]) is None:
                raise InvalidInput(f"EmpiricalModel: policy must hold one action for each of {model.n_states} states.")
    return decision._replace(sure=never)


def usual_order(n_actions: int) -> Integers:
    """Return actions as they are numbered; where they are many, they are taken for quantities, coarse steps first.

    >>> usual_order(4).tolist(), usual_order(9).tolist()
    ([0, 1, 2, 3], [0, 8, 4, 2, 6, 1, 3, 5, 7])
    """
    if n_actions <= _QUANTITIES:
        return np.arange(n_actions)
    step, actions = 1 << (n_actions - 1).bit_length() - 1, [0]
    while step:
        actions += range(step, n_actions, 2 * step)
        step //= 2
    return np.array(actions)


def check_order(owner: str, order: Sequence[int], n_actions: int | None = None) -> tuple[int, ...]:
    """Return an order, which must name every action once; how many there are may not be known yet."""
    try:
        actions = tuple(map(operator.index, order))
    except TypeError:
        actions = ()
    if not actions or sorted(actions) != list(range(n_actions or len(actions))):
        names = "every action" if n_actions is None else f"each of the actions 0..{n_actions - 1}"
        raise InvalidInput(f"{owner}: order must name {names} once, such as (1, 0), got {shown(order)}.")
    return actions


def first_within(gap: Floats, tolerance: Floats, order: Integers, weight: Floats | None = None) -> Integers:
    """Return, for every state, the first action in ``order`` whose weighted gap is at most the state's tolerance.

    The last action is taken where there is none, and so never compared.

    >>> first_within(np.array([[0.2, 0.1, 0.0]]), np.array([0.15]), np.array([0, 1, 2]))
    array([1])
    """
    from replicable_rl.planning._sweeps import take_first, team

    policy, weight = np.empty(len(gap), dtype=np.int64), np.ones(len(gap)) if weight is None else weight
    with team(len(gap)) as threads:
        threads(take_first, gap, weight, tolerance, order, policy)
    return policy


def surely_within(
    margin: Margin,
    gap: Floats,
    tolerance: Floats,
    order: Integers,
    weight: Floats | None = None,
    stretch: float = 1.0,
) -> bool:
    """Whether a second run is sure to compare alike: its gaps within ``margin``, its weights within ``stretch``."""
    weight = np.ones((len(gap), 1)) if weight is None else weight[:, None]
    within = (gap + margin.gap) * weight * stretch < tolerance[:, None]
    beyond = (gap - margin.gap) * weight / stretch > tolerance[:, None]
    beyond[:, order[-1]], within[:, order[-1]] = False, True
    taken = order[np.argmin(beyond[:, order], axis=1)]  # the first that may be within
    return bool(within[np.arange(len(gap)), taken].all())
