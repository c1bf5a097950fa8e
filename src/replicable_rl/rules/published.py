"""The second lab: follow published cuts on its own data.

The second lab takes the first action with gap(s, a) <= r(s), **on its own data**. Where the room exceeds both labs'
errors together, the two policies are identical, whatever rho would have been. This is another definition than the
paper's: what is shared depends on the first sample (certificate replicability, Dixon, Pavan, Vander Woude and
Vinodchandran 2023).

Nobody need trust the publisher: who finds that the cuts cost more than epsilon on the own data does not follow them.
An estimated loss is noisy, and too high, since the best value on the data is: so the data must speak against the cuts
by ``doubt`` standard deviations of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.cuts import Cuts
from replicable_rl.rules.rule import Decision, first_within, nearest_gap
from replicable_rl.rules.simple import gaps_are_sure
from replicable_rl.theory import decisions
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.rules.model import EmpiricalModel
    from replicable_rl.rules.rule import Margin, Tuning

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_LOG = "process"  # the id of what a log is a sample of
_THEIR_NAMES = "Read the log with the states=... and actions=... of the cuts"


@dataclass(frozen=True)
class PublishedCuts:
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
    def doubt(self) -> float:
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
        others = int((policy != self.cuts.policy).sum())
        said += f"; {plural(others, 'state')} decided otherwise than published" if others else "; the published policy"
        sure = margin is not None and _cuts_are_sure(model, r, order, margin, tuning.spent - lost)
        return Decision({"policy": policy}, nearest_gap(model.gap, r, order), sure, lost, said)


def _differing(cuts: Cuts, problem: Any) -> str:
    """Say in what the process of a log differs from that of the cuts, and how to read the log as they were."""
    there, here = cuts.problem.params, problem.spec.params
    name = next(name for name in sorted({*there, *here}) if there.get(name) != here.get(name))
    if name == "names":
        return f"its states or actions have other names. {_THEIR_NAMES}"
    if name == "ends":
        return "only one of both has a column for the end. Read the log with done=... or without it, as they did"
    if name in ("initial", "allowed", "bins"):
        return f"{name} differs. Read the log with the same {name}=..., or with none, as they did"
    return f"its {name} is {shown(there.get(name))}, and yours is {shown(here.get(name))}. Read the log with {name}=..."


def _cuts_are_sure(model: EmpiricalModel, r: Floats, order: Integers, margin: Margin, left: float) -> bool:
    """Whether a second run decides alike, and finds the cuts affordable too."""
    policy = first_within(model.gap, r, order)
    largest = float(model.gap[np.arange(model.n_states), policy].max())
    weight = 1.0 / np.maximum(r, 2.0**-1000)  # so that every state compares with 1
    return left > margin.loss(largest) and gaps_are_sure(model.gap, 1.0, order, margin, weight)
