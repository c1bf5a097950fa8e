"""Published cuts: one tolerance for each state, which the first lab chooses and everybody after it uses.

The first lab chooses an order of actions and a cut r(s) for every state, so that on its own data the gaps keep their
distance from the cuts (`publishing.py`). The second lab takes the first action with gap(s, a) <= r(s), **on its own
data**. Where the room exceeds both labs' errors together, the two policies are identical, whatever rho would have been.
This is another definition than the paper's: what is shared depends on the first sample (certificate replicability,
Dixon, Pavan, Vander Woude and Vinodchandran 2023).

Nobody need trust the publisher: who finds that the cuts cost more than epsilon on the own data does not follow them.
An estimated loss is noisy, and too high, since the best value on the data is: so the data must speak against the cuts
by two standard deviations of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from replicable_rl.canonical import Json, record_digest
from replicable_rl.errors import InvalidInput, check_numbers, check_real, check_share, shown
from replicable_rl.files import Artifact, Parts
from replicable_rl.problem.table import Labels
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.model import EmpiricalModel, Floats, Integers
from replicable_rl.rules.rule import Decision, Margin, Rule, Tuning, check_order, first_within, never, surely_within
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import decisions
from replicable_rl.wording import number, plural

_FEW = 50  # samples: a deviation that n of them tell is off by one part in sqrt(2(n - 1)), a tenth
_LOG = "process"  # the id of what a log is a sample of


@dataclass(frozen=True, eq=False)
class Cuts(Artifact):
    """What the first lab publishes: a tolerance for every state, and what it decided itself.

    ``margins`` are the room of every state, in standard deviations of a gap; infinite where nothing is compared.
    """

    saved_as: ClassVar[str] = "cuts"
    tolerances: Floats  # r(s), in values normalised to [0, 1]
    policy: Integers  # what the first lab's own data decide with them
    margins: Floats
    order: tuple[int, ...]  # in which actions are preferred
    problem: ObjectSpec  # whose states these are
    epsilon: float  # the loss that was allowed
    samples: float  # of the pair that has fewest
    names: Labels | None = None  # of the states and actions of a log, which no id stands for

    def __post_init__(self) -> None:
        order, names = check_order("Cuts", self.order), self.names
        tolerances, policy, margins = (
            check_numbers("Cuts", name, vars(self)[name]).copy() for name in ("tolerances", "policy", "margins")
        )
        if tolerances.ndim != 1 or not tolerances.size or not tolerances.shape == policy.shape == margins.shape:
            raise InvalidInput(
                f"Cuts: there must be one tolerance, action and margin for every state, got {tolerances.size}, "
                f"{policy.size} and {margins.size}."
            )
        if not (np.isfinite(tolerances) & (tolerances >= 0.0)).all() or not np.isin(policy, order).all():
            raise InvalidInput(f"Cuts: tolerances must be finite and >= 0, and policy actions in 0..{len(order) - 1}.")
        if names is not None and (len(names.states or ()), len(names.actions or ())) != (policy.size, len(order)):
            raise InvalidInput(f"Cuts: names must hold one for every state and action, got {shown(names)}.")
        samples = check_real("Cuts", "samples", self.samples, low=0.0, high=math.inf, rule="a number >= 0")
        columns = {"tolerances": tolerances, "policy": policy.astype(np.int64), "margins": margins}
        for column in columns.values():
            column.setflags(write=False)
        epsilon = check_share("Cuts", "epsilon", self.epsilon)
        for name, value in {**columns, "order": order, "epsilon": epsilon, "samples": samples}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        of = self.problem.text if self.names is None else "a log"
        known = "" if self.samples >= _FEW else f", hardly known: a pair has fewer than {_FEW} samples"
        least = number(float(self.margins.min()), 3)
        return f"Cuts({of}: {self.tolerances.size} states, least margin {least} deviations{known})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cuts) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def parts(self) -> Parts:
        """Return what a file holds of it."""
        arrays = {"tolerances": self.tolerances, "policy": self.policy, "margins": self.margins}
        names = None if self.names is None else [self.names.states, self.names.actions]
        values = {"problem": self.problem.to_json(), "order": list(self.order), "names": names}
        return Parts({**values, "epsilon": self.epsilon, "samples": self.samples}, arrays)

    def _content(self) -> dict[str, Json]:
        values, arrays = self.parts()
        margins = [margin if math.isfinite(margin) else None for margin in self.margins.tolist()]
        return {**values, **{name: array.tolist() for name, array in arrays.items()}, "margins": margins}

    @cached_property
    def digest(self) -> str:
        """The digest of all of it."""
        return record_digest(self._content())

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


@dataclass(frozen=True)
class PublishedCuts(Rule):
    """The first action within the tolerance that somebody published for the state.

    ``cuts`` come from :func:`replicable_rl.publish`, or are read with :func:`replicable_rl.load`.
    """

    cuts: Cuts

    id: ClassVar[str] = decisions.PUBLISHED
    published: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.cuts, Cuts):
            raise InvalidInput(
                f"PublishedCuts: cuts must be Cuts, as `publish` and `load` return them, got {shown(self.cuts)}."
            )

    def exact_json(self) -> Json:
        """Return the id, and the digest of the cuts."""
        return {"id": self.id, "cuts": self.cuts.digest}

    @property
    def order(self) -> tuple[int, ...]:
        """In which order actions are preferred."""
        return self.cuts.order

    def check_problem(self, problem: Any) -> None:
        """Refuse cuts of another problem, or of another size."""
        theirs, ours = self.cuts.problem, problem.spec
        published, sizes = (self.cuts.tolerances.size, len(self.cuts.order)), (problem.n_states, problem.n_actions)
        if published == sizes and theirs == ours:
            return
        what = f"the cuts are of {theirs.text}, and this is {ours.text}. Use cuts of this problem"
        if published != sizes:
            what = (
                f"the cuts are for {published[0]} states and {published[1]} actions, the problem has {sizes[0]} and "
                f"{sizes[1]}. Use cuts of this problem, and read a log with the states=... and actions=... of the cuts"
            )
        elif theirs.id == ours.id == _LOG:
            there, here = theirs.params, ours.params
            name = next(name for name in {**there, **here} if there.get(name) != here.get(name))
            option = {"ends": "done", "names": "states=... and actions"}.get(name, name)
            what = f"{name} differ in the process of the cuts. Read the log with the same {option}=..., as they did"
        raise InvalidInput(f"PublishedCuts: {what}.")

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Follow the cuts, unless these data speak against them: they cost too much, beyond doubt."""
        self.check_problem(model)
        compared, limit = (model.gap, self.cuts.tolerances, np.array(self.order)), tuning.spent
        policy = first_within(*compared)
        affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if doubtful := not affordable:
            limit += decisions.DOUBT * model.loss_deviation(policy, tuning.over)
            affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if not affordable:
            own = AffordableTolerance(self.order).decide(model, shared, tuning)
            said = f"the published cuts would cost at least {lost:.2g} on these data and are not followed; {own.said}"
            return own._replace(sure=never, said=said)
        said = f"the published cuts cost at most {lost:.2g} on the empirical model"
        said += f", more than {tuning.spent:.2g} by no more than noise explains" if doubtful else ""
        others = int((policy != self.cuts.policy).sum())
        said += f"; {plural(others, 'state')} decided otherwise than published" if others else "; the published policy"

        def sure(margin: Margin) -> bool:
            clear = tuning.spent - lost > margin.loss(float(model.gap_of(policy).max()))
            return clear and surely_within(margin, *compared)

        return Decision({"policy": policy}, sure, lost, said)
