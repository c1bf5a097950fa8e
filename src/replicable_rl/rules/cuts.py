r"""Published cuts: one tolerance for each state, which the first lab chooses and everybody after it uses.

The first lab chooses an order of actions and a cut r(s) for every state, so that on its own data the gaps keep their
distance from the cuts (`choosing.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.canonical import Json, record_digest
from replicable_rl.errors import (
    InvalidInput,
    check_numbers,
    check_real,
    check_share,
    shown,
    speaking_as,
)
from replicable_rl.files import Artifact, Parts
from replicable_rl.problem.labels import Labels
from replicable_rl.rules.rule import action_order, check_order
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import decisions
from replicable_rl.wording import number, plural, visible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_FORMAT = "replicable-rl cuts v1"
_SHOWN = 10  # states that a text lists
_FEW = 50  # samples: a deviation that n of them tell is off by one part in sqrt(2(n - 1)), a tenth


@dataclass(frozen=True, eq=False)
class Cuts(Artifact):
    """What the first lab publishes: a tolerance for every state, and what it decided itself.

    Attributes
    ----------
    tolerances : (S,) floats
        r(s), in values normalised to [0, 1].
    policy : (S,) integers
        What the first lab's own data decide with them.
    margins : (S,) floats
        The room of every state, in standard deviations of a gap; infinite where nothing is compared.
    order : tuple of int
        In which order actions are preferred.
    problem : ObjectSpec
        Whose states these are.
    epsilon : float
        The loss that was allowed.
    samples : float
        The samples of the pair that has fewest.
    doubt : float
        Who follows the cuts gives them the benefit of so many standard deviations of what they seem to cost, 0 to 2.
    names : Labels, optional
        What states and actions are called: those of a log, which no id stands for. People read the cuts by them.
    """

    saved_as: ClassVar[str] = "cuts"
    tolerances: Floats
    policy: Integers
    margins: Floats
    order: tuple[int, ...]
    problem: ObjectSpec
    epsilon: float
    samples: float
    doubt: float = 0.0
    names: Labels | None = None
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tolerances, policy, margins = (
            check_numbers("Cuts", name, getattr(self, name)).copy() for name in ("tolerances", "policy", "margins")
        )
        if tolerances.ndim != 1 or not tolerances.size or not tolerances.shape == policy.shape == margins.shape:
            raise InvalidInput(
                f"Cuts: there must be one tolerance, action and margin for every state, got {tolerances.size}, "
                f"{policy.size} and {margins.size}."
            )
        with speaking_as("Cuts"):
            order = check_order(self.order) or ()
            action_order(order, len(order))  # kernels look actions up by it
        _check_all("tolerances", tolerances, np.isfinite(tolerances) & (tolerances >= 0.0), "finite numbers >= 0")
        _check_all("margins", margins, margins >= 0.0, "numbers >= 0")
        known = np.isin(policy, np.arange(len(order)))
        _check_all("policy", policy, known, f"actions in 0..{len(order) - 1}")
        if not isinstance(self.problem, ObjectSpec):
            raise InvalidInput(f"Cuts: problem must be an ObjectSpec, got {shown(self.problem)}.")
        for name, array in (("tolerances", tolerances), ("policy", policy.astype(np.int64)), ("margins", margins)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "epsilon", check_share("Cuts", "epsilon", self.epsilon))
        fewest = check_real("Cuts", "samples", self.samples, low=0.0, high=math.inf, rule="a number >= 0")
        object.__setattr__(self, "samples", fewest)
        rule = f"standard deviations, 0 to {decisions.DOUBT:g}"
        doubt = check_real("Cuts", "doubt", self.doubt, low=0.0, high=decisions.DOUBT, rule=rule)
        object.__setattr__(self, "doubt", doubt)
        if self.names is not None:
            object.__setattr__(self, "names", _checked_names(self.names, tolerances.size, len(order)))
        object.__setattr__(self, "digest", record_digest(self._content()))

    def __repr__(self) -> str:
        least = number(float(self.margins.min()), 3)
        of = self.problem.text if self.names is None else "a log"
        known = "" if self.samples >= _FEW else ", hardly known"
        return f"Cuts({of}: {self.tolerances.size} states, least margin {least} deviations{known})"

    @property
    def about_margins(self) -> str:
        """What margins are, and whether there are too few samples for them to say much."""
        least = number(float(self.margins.min()), 3)
        said = f"Margins are in standard deviations of a gap; the least is {least}."
        if self.samples >= _FEW:
            return said
        few = "no samples" if self.samples == 0 else f"only {plural(int(self.samples), 'sample')}"
        return f"{said} They say little here: a pair has {few}, and below {_FEW} a deviation is hardly known."

    def __str__(self) -> str:
        named, last = self.names or Labels(), self.policy.size - bool(self.problem.params.get("ends"))
        states, actions = named.states or range(last), named.actions or range(len(self.order))
        shown = self.policy[: min(last, _SHOWN)].tolist()  # nothing is decided after the end
        lines = [visible(f"  {states[s]}: {actions[a]}") for s, a in enumerate(shown)]
        more = [f"  and {last - _SHOWN} more"] if last > _SHOWN else []
        return "\n".join([repr(self), *lines, *more, *([self.about_margins] if self.samples < _FEW else [])])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cuts) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _content(self) -> dict[str, Json]:
        named: dict[str, Json] = {}
        if self.names is not None:
            named = {"names": {"states": list(self.names.states or ()), "actions": list(self.names.actions or ())}}
        return {
            "format": _FORMAT,
            "problem": self.problem.to_json(),
            "epsilon": self.epsilon,
            "doubt": self.doubt,
            "samples": self.samples,
            "order": list(self.order),
            "tolerances": self.tolerances.tolist(),
            "policy": self.policy.tolist(),
            "margins": [margin if math.isfinite(margin) else None for margin in self.margins.tolist()],
            **named,
        }

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, with a digest of all of it."""
        return {**self._content(), "digest": self.digest}

    def parts(self) -> Parts:
        """Return what a file holds of it."""
        arrays = {"tolerances": self.tolerances, "policy": self.policy, "margins": self.margins}
        names = None if self.names is None else [self.names.states, self.names.actions]
        scalars = {"epsilon": self.epsilon, "doubt": self.doubt, "samples": self.samples}
        return Parts({"problem": self.problem.to_json(), "order": list(self.order), "names": names, **scalars}, arrays)

    @classmethod
    def from_parts(cls, parts: Parts) -> Cuts:
        """Make cuts of what a file holds."""
        values: dict[str, Any] = {**parts.values, **parts.arrays}
        names = values.pop("names")
        problem, order = ObjectSpec.from_json(values.pop("problem")), tuple(values.pop("order"))
        return cls(**values, problem=problem, order=order, names=None if names is None else Labels(*names))


def _checked_names(names: Any, n_states: int, n_actions: int) -> Labels:
    """Return names that fit the sizes, without a map."""
    if not isinstance(names, Labels):
        raise InvalidInput(f"Cuts: names must be Labels, got {shown(names)}.")
    for kind, given, size in (("states", names.states, n_states), ("actions", names.actions, n_actions)):
        are_texts = isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given)
        if not are_texts or len(given or ()) != size:
            raise InvalidInput(f"Cuts: names must hold {size} texts for the {kind}, got {shown(given)}.")
    return Labels(tuple(names.states or ()), tuple(names.actions or ()))


def _check_all(name: str, values: Floats, right: NDArray[np.bool_], rule: str) -> None:
    if not right.all():
        state = int(np.argmin(right))
        raise InvalidInput(f"Cuts: {name} must be {rule}, got {values[state]:g} for state {state}.")
