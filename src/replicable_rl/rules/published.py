"""Published cuts: one tolerance for each state, which the first lab chooses and everybody after it uses.

The first lab chooses an order of actions and a cut r(s) for every state, so that on its own data the gaps keep their
distance from the cuts (`publishing.py`). The second lab takes the first action with gap(s, a) <= r(s), **on its own
data**. Where the room exceeds both labs' errors together, the two policies are identical, whatever rho would have been.
This is another definition than the paper's: what is shared depends on the first sample (certificate replicability,
Dixon, Pavan, Vander Woude and Vinodchandran 2023).

Nobody need trust the publisher: who finds that the cuts cost more than epsilon on the own data does not follow them.
An estimated loss is noisy, and too high, since the best value on the data is: so the data must speak against the cuts
by ``doubt`` standard deviations of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import Json, record_digest
from replicable_rl.errors import InvalidInput, check_numbers, check_real, check_share, shown, speaking_as
from replicable_rl.files import Artifact, Parts
from replicable_rl.problem.labels import Labels
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.model import EmpiricalModel, Floats, Integers
from replicable_rl.rules.rule import Decision, Rule, Tuning, action_order, check_order, first_within, gaps_are_sure
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import decisions
from replicable_rl.wording import number, plural, visible

_SHOWN = 10  # states that a text lists
_FEW = 50  # samples: a deviation that n of them tell is off by one part in sqrt(2(n - 1)), a tenth
_LOG = "process"  # the id of what a log is a sample of
_THEIR_NAMES = "Read the log with the states=... and actions=... of the cuts"


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
        columns = ("tolerances", self.tolerances), ("policy", self.policy), ("margins", self.margins)
        tolerances, policy, margins = (check_numbers("Cuts", name, column).copy() for name, column in columns)
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
        _check_all("policy", policy, np.isin(policy, order), f"actions in 0..{len(order) - 1}")
        if not isinstance(self.problem, ObjectSpec):
            raise InvalidInput(f"Cuts: problem must be an ObjectSpec, got {shown(self.problem)}.")
        _check_names(self.names, {"states": tolerances.size, "actions": len(order)})
        rule = f"standard deviations, 0 to {decisions.DOUBT:g}"
        checked: dict[str, Any] = {
            "tolerances": tolerances,
            "policy": policy.astype(np.int64),
            "margins": margins,
            "order": order,
            "epsilon": check_share("Cuts", "epsilon", self.epsilon),
            "samples": check_real("Cuts", "samples", self.samples, low=0.0, high=math.inf, rule="a number >= 0"),
            "doubt": check_real("Cuts", "doubt", self.doubt, low=0.0, high=decisions.DOUBT, rule=rule),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for array in (self.tolerances, self.policy, self.margins):
            array.setflags(write=False)
        object.__setattr__(self, "digest", record_digest(self._content()))

    def __repr__(self) -> str:
        of = self.problem.text if self.names is None else "a log"
        known = "" if self.samples >= _FEW else ", hardly known"
        return f"Cuts({of}: {self.tolerances.size} states, least margin {self._least} deviations{known})"

    def __str__(self) -> str:
        named, last = self.names or Labels(), self.policy.size - bool(self.problem.params.get("ends"))
        states, actions = named.states or range(last), named.actions or range(len(self.order))
        first = self.policy[: min(last, _SHOWN)].tolist()  # nothing is decided after the end
        lines = [visible(f"  {states[s]}: {actions[a]}") for s, a in enumerate(first)]
        more = [f"  and {last - _SHOWN} more"] if last > _SHOWN else []
        return "\n".join([repr(self), *lines, *more, *([self.about_margins] if self.samples < _FEW else [])])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cuts) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def _least(self) -> str:
        return number(float(self.margins.min()), 3)

    @property
    def about_margins(self) -> str:
        """What margins are, and whether there are too few samples for them to say much."""
        text = f"Margins are in standard deviations of a gap; the least is {self._least}."
        if self.samples >= _FEW:
            return text
        few = "no samples" if self.samples == 0 else f"only {plural(int(self.samples), 'sample')}"
        return f"{text} They say little here: a pair has {few}, and below {_FEW} a deviation is hardly known."

    def parts(self) -> Parts:
        """Return what a file holds of it."""
        arrays = {"tolerances": self.tolerances, "policy": self.policy, "margins": self.margins}
        names = None if self.names is None else [self.names.states, self.names.actions]
        scalars = {"epsilon": self.epsilon, "doubt": self.doubt, "samples": self.samples}
        return Parts({"problem": self.problem.to_json(), "order": list(self.order), "names": names, **scalars}, arrays)

    def _content(self) -> dict[str, Json]:
        values, arrays = self.parts()
        margins = [margin if math.isfinite(margin) else None for margin in self.margins.tolist()]
        return {**values, **{name: array.tolist() for name, array in arrays.items()}, "margins": margins}

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, with a digest of all of it."""
        return {**self._content(), "digest": self.digest}

    @classmethod
    def from_parts(cls, parts: Parts) -> Cuts:
        """Make cuts of what a file holds."""
        values: dict[str, Any] = {**parts.values, **parts.arrays}
        names = values.pop("names")
        problem, order = ObjectSpec.from_json(values.pop("problem")), tuple(values.pop("order"))
        return cls(**values, problem=problem, order=order, names=None if names is None else Labels(*map(tuple, names)))


def _check_names(names: Labels | None, sizes: dict[str, int]) -> None:
    for kind, size in sizes.items() if names is not None else ():
        given = vars(names)[kind] or ()
        if len(given) != size or not all(isinstance(name, str) for name in given):
            raise InvalidInput(f"Cuts: names must hold {size} texts for the {kind}, got {shown(given)}.")


def _check_all(name: str, values: Floats, right: NDArray[np.bool_], rule: str) -> None:
    if not right.all():
        state = int(np.argmin(right))
        raise InvalidInput(f"Cuts: {name} must be {rule}, got {values[state]:g} for state {state}.")


@dataclass(frozen=True)
class PublishedCuts(Rule):
    """The first action within the tolerance that somebody published for the state.

    Parameters
    ----------
    cuts : Cuts
        From :func:`replicable_rl.publish`, or read with :func:`replicable_rl.load`.
    """

    cuts: Cuts

    id: ClassVar[str] = decisions.PUBLISHED
    published: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.cuts, Cuts):
            raise InvalidInput(
                f"PublishedCuts: cuts must be Cuts, as `publish` and `load` return them, got {shown(self.cuts)}."
            )

    @property
    def order(self) -> tuple[int, ...]:
        """In which order actions are preferred."""
        return self.cuts.order

    @property
    def parameter(self) -> float:
        """The standard deviations of the cost by which data must speak against the cuts."""
        return self.cuts.doubt

    def check_problem(self, problem: Any) -> None:
        """Refuse cuts of another problem, or of another size."""
        cuts, sizes = self.cuts, (problem.n_states, problem.n_actions)
        published = cuts.tolerances.size, len(cuts.order)
        is_log = cuts.problem.id == problem.spec.id == _LOG
        remedy = _THEIR_NAMES if is_log else "Use cuts of this problem"
        if published != sizes:
            raise InvalidInput(
                f"PublishedCuts: the cuts are for {published[0]} states and {published[1]} actions, the problem has "
                f"{sizes[0]} and {sizes[1]}. {remedy}."
            )
        if cuts.problem != problem.spec and is_log:
            raise InvalidInput(f"PublishedCuts: the cuts are of another process: {_differing(cuts, problem)}.")
        if cuts.problem != problem.spec:
            raise InvalidInput(
                f"PublishedCuts: the cuts are of {cuts.problem.text}, and this is {problem.spec.text}. {remedy}."
            )

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Follow the cuts, unless these data speak against them: they cost too much, beyond doubt."""
        self.check_problem(model)
        order, r, margin, limit = np.array(self.order), self.cuts.tolerances, tuning.margin, tuning.spent
        policy, nearest = first_within(model.gap, r, order)
        affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if doubtful := not affordable and self.parameter > 0.0:
            limit += self.parameter * model.loss_deviation(policy, tuning.over)
            affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if not affordable:
            own = AffordableTolerance(self.order).decide(model, shared, tuning._replace(margin=None))
            said = f"the published cuts would cost at least {lost:.2g} on these data and are not followed; {own.said}"
            return own._replace(said=said)
        said = f"the published cuts cost at most {lost:.2g} on the empirical model"
        said += f", more than {tuning.spent:.2g} by no more than noise explains" if doubtful else ""
        others = int((policy != self.cuts.policy).sum())
        said += f"; {plural(others, 'state')} decided otherwise than published" if others else "; the published policy"
        sure = margin is not None and tuning.spent - lost > margin.loss(float(model.gap_of(policy).max()))
        sure = sure and margin is not None and gaps_are_sure(model.gap, r, order, margin)
        return Decision({"policy": policy}, nearest, sure, lost, said)


def _differing(cuts: Cuts, problem: Any) -> str:
    """Say in what the process of a log differs from that of the cuts, and how to read the log as they were."""
    there, here = cuts.problem.params, problem.spec.params
    name = next(name for name in sorted({*there, *here}) if there.get(name) != here.get(name))
    if name == "names":
        return f"its states or actions have other names. {_THEIR_NAMES}"
    if name in ("ends", "initial", "allowed", "bins"):
        option = "done" if name == "ends" else name
        return f"{option} differs. Read the log with the same {option}=..., or with none, as they did"
    return f"its {name} is {shown(there.get(name))}, and yours is {shown(here.get(name))}. Read the log with {name}=..."
