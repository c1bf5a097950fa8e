r"""Published cuts: one tolerance for each state, which the first lab chooses and everybody after it uses.

The first lab chooses an order of actions and a cut r(s) for every state, so that on its own data the gaps keep their
distance from the cuts (`choosing.py`).

The second lab takes the first action with gap(s, a) <= r(s), **on its own data**. Where the room exceeds both labs'
errors together, the two policies are identical, whatever rho would have been. This is another definition than the
paper's: what is shared depends on the first sample (certificate replicability, Dixon, Pavan, Vander Woude and
Vinodchandran 2023).

Nobody need trust the publisher: who finds that the cuts cost more than epsilon on the own data does not follow them.
An estimated loss is noisy, and too high, since the best value on the data is: so the data must speak against the cuts
by ``doubt`` standard deviations of it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.canonical import Json, json_text, parse_json, record_digest
from replicable_rl.display import Displayed
from replicable_rl.errors import (
    InvalidFile,
    InvalidInput,
    check_numbers,
    check_real,
    check_share,
    shown,
    speaking_as,
)
from replicable_rl.files import read_file, write_text
from replicable_rl.queries.rules.affordable import AffordableTolerance
from replicable_rl.queries.rules.rule import (
    Decision,
    action_order,
    check_order,
    first_within,
    nearest_gap,
)
from replicable_rl.queries.rules.simple import gaps_are_sure
from replicable_rl.randomness import SharedRandomness
from replicable_rl.records import ObjectSpec
from replicable_rl.theory import decisions
from replicable_rl.wording import number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.queries.empirical import EmpiricalModel
    from replicable_rl.queries.rules.rule import Margin, Tuning

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_FORMAT = "replicable-rl cuts v2"
_FORMAT_1 = "replicable-rl cuts v1"  # without doubt
_MOST_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class Cuts(Displayed):
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
    """

    tolerances: Floats
    policy: Integers
    margins: Floats
    order: tuple[int, ...]
    problem: ObjectSpec
    epsilon: float
    samples: float
    doubt: float = 0.0
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
        object.__setattr__(self, "digest", record_digest(self._content()))

    def __repr__(self) -> str:
        least = number(float(self.margins.min()), 3)
        return f"Cuts({self.problem.text}: {self.tolerances.size} states, least margin {least} deviations)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cuts) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _content(self) -> dict[str, Json]:
        doubt: dict[str, Json] = {"doubt": self.doubt} if self.doubt else {}  # older files have none
        return {
            "format": _FORMAT if doubt else _FORMAT_1,
            "problem": self.problem.to_json(),
            "epsilon": self.epsilon,
            **doubt,
            "samples": self.samples,
            "order": list(self.order),
            "tolerances": self.tolerances.tolist(),
            "policy": self.policy.tolist(),
            "margins": [margin if math.isfinite(margin) else None for margin in self.margins.tolist()],
        }

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, with a digest of all of it."""
        return {**self._content(), "digest": self.digest}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the cuts to a file of a few lines, whole or not at all."""
        lines = (f"{json_text(name)}: {json_text(value)}" for name, value in self.to_json().items())
        write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def from_json(cls, data: Json) -> Cuts:
        """Read the JSON form back; what does not fit its digest is refused."""
        named = data.get("format") if isinstance(data, dict) else None
        if not isinstance(named, str) or named not in (_FORMAT, _FORMAT_1):
            raise InvalidInput(f"Cuts: expected an object of the format {_FORMAT!r}, got {shown(data)}.")
        tolerances, policy, margins = (_numbers(data, name) for name in ("tolerances", "policy", "margins"))
        cuts = cls(
            np.array(tolerances),
            np.array(policy),
            np.array([math.inf if margin is None else margin for margin in margins]),
            tuple(_numbers(data, "order")),
            ObjectSpec.from_json(data.get("problem")),
            data.get("epsilon", math.nan),
            data.get("samples", math.nan),
            data.get("doubt", math.nan) if named == _FORMAT else 0.0,
        )
        digest = data.get("digest")
        if not isinstance(digest, str) or digest != cuts.digest:
            raise InvalidInput("Cuts: the digest does not fit the content: the cuts were changed, or are damaged.")
        return cuts


def _numbers(data: dict[str, Json], name: str) -> list[Any]:
    """Return a list of numbers; only margins may be null. One long text among them would make numpy widen them all."""
    values = data.get(name)
    kinds = (int, float, type(None)) if name == "margins" else (int, float)
    if not isinstance(values, list) or not all(type(value) in kinds for value in values):
        raise InvalidInput(f"Cuts: {name} must be a list of numbers, got {shown(values)}.")
    return values


def _check_all(name: str, values: Floats, right: NDArray[np.bool_], rule: str) -> None:
    if not right.all():
        state = int(np.argmin(right))
        raise InvalidInput(f"Cuts: {name} must be {rule}, got {values[state]:g} for state {state}.")


def load_cuts(path: str | os.PathLike[str]) -> Cuts:
    """Read cuts from a file that `Cuts.save` wrote."""
    content = read_file(path, _MOST_BYTES)
    try:
        return Cuts.from_json(parse_json(content))
    except InvalidInput as error:
        raise InvalidFile(f"{path}: {error}") from None


@dataclass(frozen=True)
class PublishedCuts:
    """The first action within the tolerance that somebody published for the state.

    Parameters
    ----------
    cuts : Cuts
        From :func:`replicable_rl.publish`, or read with :func:`replicable_rl.rules.load_cuts`.
    """

    cuts: Cuts

    id: ClassVar[str] = decisions.PUBLISHED

    def __post_init__(self) -> None:
        if not isinstance(self.cuts, Cuts):
            raise InvalidInput(
                "PublishedCuts: cuts must be Cuts, as `publish` and `rules.load_cuts` return them, "
                f"got {shown(self.cuts)}."
            )

    @property
    def order(self) -> tuple[int, ...]:
        """In which order actions are preferred."""
        return self.cuts.order

    @property
    def doubt(self) -> float:
        """The standard deviations of the cost by which data must speak against the cuts."""
        return self.cuts.doubt

    def check_problem(self, problem: Any) -> None:
        """Refuse cuts of another problem, or of another size."""
        cuts, sizes = self.cuts, (problem.n_states, problem.n_actions)
        published = cuts.tolerances.size, len(cuts.order)
        if published != sizes:
            raise InvalidInput(
                f"PublishedCuts: the cuts are for {published[0]} states and {published[1]} actions, the problem has "
                f"{sizes[0]} and {sizes[1]}. Use cuts of this problem."
            )
        if cuts.problem != problem.spec:
            raise InvalidInput(
                f"PublishedCuts: the cuts are of {cuts.problem.text}, and this is {problem.spec.text}. Use cuts of "
                "this problem."
            )

    def decide(
        self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
    ) -> Decision:
        """Follow the cuts, unless these data speak against them: they cost too much, beyond doubt."""
        self.check_problem(model)
        order, r = np.array(self.cuts.order), self.cuts.tolerances
        policy = first_within(model.gap, r, order)
        affordable, lost = model.loses_at_most(policy, tuning.spent, tuning.over)
        doubtful = not affordable and self.doubt > 0.0
        if doubtful:
            limit = tuning.spent + self.doubt * model.loss_deviation(policy, tuning.over)
            affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if not affordable:
            own = AffordableTolerance(self.cuts.order).decide(model, shared, tuning)
            said = f"the published cuts would cost at least {lost:.2g} on these data and are not followed; {own.said}"
            return own._replace(said=said)
        said = f"the published cuts cost at most {lost:.2g} on the empirical model"
        said += f", more than {tuning.spent:.2g} by no more than noise explains" if doubtful else ""
        sure = margin is not None and _cuts_are_sure(model, r, order, margin, tuning.spent - lost)
        return Decision({"policy": policy}, nearest_gap(model.gap, r, order), sure, lost, said)


def _cuts_are_sure(model: EmpiricalModel, r: Floats, order: Integers, margin: Margin, left: float) -> bool:
    """Whether a second run decides alike, and finds the cuts affordable too."""
    policy = first_within(model.gap, r, order)
    largest = float(model.gap[np.arange(model.n_states), policy].max())
    weight = 1.0 / np.maximum(r, 2.0**-1000)  # so that every state compares with 1
    return left > margin.loss(largest) and gaps_are_sure(model.gap, 1.0, order, margin, weight)
