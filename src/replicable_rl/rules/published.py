r"""Published cuts: one tolerance for each state, which the first lab chooses and everybody after it uses.

The first lab chooses an order of actions and a cut r(s) for every state, so that on its own data the gaps keep their
distance from the cuts. The second lab takes the first action with gap(s, a) <= r(s), **on its own data**. Where the
room exceeds both labs' errors together, the two policies are identical, whatever rho would have been. This is another
definition than the paper's: what is shared depends on the first sample (certificate replicability, Dixon, Pavan, Vander
Woude and Vinodchandran 2023).

Nobody need trust the publisher: who finds that the cuts cost more than epsilon on the own data does not follow them.
An estimated loss is noisy, and too high, since the best value on the data is: so the data must speak against the cuts
by two standard deviations of it.

*How the first lab chooses the cuts.* Let gap(s, a) be on its own data, and sd(s, a) about its noise. In the order in
which actions are preferred, a state can be made to take an action whose gap is smaller than those of all actions before
it, by a cut between them:

    take a if gap(s, a) <= r(s),   room(s, a) = max over r(s) of the least distance from r(s), in standard deviations.

The first action of all can have as much room as one likes; it gets eight deviations. An action that leaves more room
costs more, and states share one budget. At a price of loss, every state takes the action with the least

    (probability that two labs differ here)  +  price * (share of the state) * gap(s, a).

As the price falls, more is lost and less left to chance, until others would find the cuts too dear on their own data.
Of all prices, and of two orders, those cuts are published with which two labs are least likely to differ; where that
is next to certain, those of them that lose least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.canonical import Json, record_digest
from replicable_rl.errors import InvalidInput, check_numbers, check_share, shown
from replicable_rl.files import Artifact, Parts
from replicable_rl.problem.table import Labels
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.model import EmpiricalModel, Floats, Integers
from replicable_rl.rules.rule import (
    Decision,
    Margin,
    Rule,
    Tuning,
    check_order,
    first_within,
    surely_within,
    usual_order,
)
from replicable_rl.runs import ObjectSpec, put
from replicable_rl.theory.decisions import DOUBT, PUBLISHED, ROUNDING
from replicable_rl.wording import listed, number, plural

_TRIALS = 32  # of noise, by which the room of a cut is judged
_CLOSEST = 1e-6  # of the largest deviation: no gap is known better
_BOTH = math.sqrt(2.0)  # a gap of this lab and one of another: both are noisy
_PRICES = 2.0 ** np.arange(12.0, -12.5, -0.5)  # of all that may be lost
_ENOUGH = 8.0  # deviations: a lab whose data say more than that against an action does not take it
_CLOSE = 1e-3  # of what may be lost: how closely losses are computed
_CERTAIN = 0.01  # how likely two labs may be to differ: it is not worth a loss to lower that
_COVERED = 1e-3  # of what may be lost: actions that save less need no place of their own in the order
_FEW = 50  # samples: a deviation that n of them tell is off by one part in sqrt(2(n - 1)), a tenth


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
        columns = ("tolerances", "policy", "margins")
        tolerances, policy, margins = (check_numbers("Cuts", name, vars(self)[name]).copy() for name in columns)
        if tolerances.ndim != 1 or not tolerances.size or not tolerances.shape == policy.shape == margins.shape:
            raise InvalidInput(
                f"Cuts: there must be one tolerance, action and margin for every state, got {tolerances.size}, "
                f"{policy.size} and {margins.size}."
            )
        if not (np.isfinite(tolerances) & (tolerances >= 0.0)).all() or not np.isin(policy, order).all():
            raise InvalidInput(f"Cuts: tolerances must be finite and >= 0, and policy actions in 0..{len(order) - 1}.")
        if names is not None and (len(names.states or ()), len(names.actions or ())) != (policy.size, len(order)):
            raise InvalidInput(f"Cuts: names must hold one for every state and action, got {shown(names)}.")
        policy = policy.astype(np.int64)
        for array in (tolerances, policy, margins):
            array.setflags(write=False)
        put(self, tolerances=tolerances, policy=policy, margins=margins)
        put(self, order=order, epsilon=check_share("Cuts", "epsilon", self.epsilon), samples=float(self.samples))

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

    id: ClassVar[str] = PUBLISHED
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
        if theirs != ours or self.cuts.tolerances.size != problem.n_states:
            differ = [name for name, value in ours.params.items() if theirs.params.get(name) != value]
            raise InvalidInput(
                f"PublishedCuts: the cuts are of {theirs.text}, for {self.cuts.tolerances.size} states, and this is "
                f"{ours.text}, with {problem.n_states}; they differ in {listed(differ) or 'their ids'}. Use cuts of "
                "this problem, or read a log with the options of the log that the cuts are of."
            )

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning) -> Decision:
        """Follow the cuts, unless these data speak against them: they cost too much, beyond doubt."""
        self.check_problem(model)
        compared, limit = (model.gap, self.cuts.tolerances, np.array(self.order)), tuning.spent
        policy = first_within(*compared)
        affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if doubtful := not affordable:
            limit += DOUBT * model.loss_deviation(policy, tuning.over)
            affordable, lost = model.loses_at_most(policy, limit, tuning.over)
        if not affordable:
            own = AffordableTolerance(self.order).decide(model, shared, tuning)
            refusal = f"the published cuts would cost at least {lost:.2g} on these data and are not followed"
            return Decision(own.outputs, loss=own.loss, said=f"{refusal}; {own.said}")
        sentence = f"the published cuts cost at most {lost:.2g} on the empirical model"
        sentence += f", more than {tuning.spent:.2g} by no more than noise explains" if doubtful else ""
        changed = int((policy != self.cuts.policy).sum())
        sentence += f"; {plural(changed, 'state')} decided otherwise" if changed else "; the published policy"

        def sure(margin: Margin) -> bool:
            clear = tuning.spent - lost > margin.loss(float(model.gap_of(policy).max()))
            return clear and surely_within(margin, *compared)

        return Decision({"policy": policy}, sure, lost, sentence)


def choose_cuts(model: EmpiricalModel, tuning: Tuning, order: tuple[int, ...] | None = None) -> Cuts:
    """Return the order, if none is given, and the cuts with which two other labs are least likely to differ."""
    # Noise of random signs, followed through the model: always the same signs, so that two labs see nearly the same.
    signs = SharedRandomness(0).uniform("decide/sign", shape=(model.visits.size, _TRIALS))
    noise = model.following.noise(model.best.policy, model.noise.reshape(-1, 1) * np.where(signs < 0.5, -1.0, 1.0))
    noise = np.maximum(noise, _CLOSEST * float(noise.max()) + ROUNDING)
    share = np.ones(model.n_states) if tuning.over == "worst" else model.state_shares(tuning.spent)
    orders = [usual_order(model.n_actions) if order is None else np.array(order)]
    if order is None:
        orders.append(_covering_order(model, share, tuning.spent, orders[0]))
    candidates: list[_Candidate] = []
    for ignored in (tuning.ignored, None):  # an order may begin with another action than was thought of
        arguments = model, tuning._replace(ignored=ignored), noise, share
        candidates = candidates or [cuts for preferred in orders for cuts in _candidates(*arguments, preferred)]
    best = min(candidates, key=lambda cuts: (max(cuts.differ, _CERTAIN), cuts.lost))
    actions = tuple(best.order.tolist())
    return Cuts(best.tolerances, best.policy, best.room, actions, model.spec, tuning.spent, model.fewest)


class _Candidate(NamedTuple):
    """Cuts, about how likely two labs are to differ that follow them, and what they lose."""

    differ: float
    lost: float
    tolerances: Floats
    policy: Integers
    room: Floats
    order: Integers


def _candidates(
    model: EmpiricalModel, tuning: Tuning, noise: Floats, share: Floats, order: Integers
) -> Iterator[_Candidate]:
    """Yield the cuts in one order at falling prices, from the best actions on, while they are affordable.

    ``noise``, (S, A), is that of gaps, and ``share``, (S,), what a gap costs in each state.
    """
    from scipy.special import ndtr  # takes longer to load than all the rest

    gap, spent, over = model.gap, tuning.spent, tuning.over
    states, ignored, last = np.arange(model.n_states), tuning.ignored, np.full(model.n_states, -1)
    free = spent * (1.0 - model.gamma)  # a gap that may be lost in every step
    cut, room = widest(gap, noise, order, free)
    differ = np.where(room >= 0.0, 2.0 * ndtr(-room / _BOTH), np.inf)
    cost = share[:, None] * np.where(np.isfinite(gap), gap, 0.0)
    dearest = np.where(room >= 0.0, cost, np.inf)  # at an infinite price nothing is lost
    for score in (dearest, *(differ + price * cost for price in _PRICES / free)):
        taken = np.argmin(score, axis=1)
        if np.array_equal(taken, last):
            continue
        last, r, margin = taken, cut[states, taken], room[states, taken]
        if ignored is not None:  # they take the first action whatever the data say: nothing is compared
            r, margin = np.where(ignored, 1.0, r), np.where(ignored, np.inf, margin)
        policy = first_within(gap, r, order)
        lost = model.loss(policy, over, _CLOSE * spent)
        if lost > (1.0 - 2.0 * _CLOSE) * spent and not np.array_equal(policy, model.best.policy):
            return
        off = model.loss_deviation(policy, over) + 2.0**-1000
        too_dear = 2.0 * float(ndtr((lost - spent - DOUBT * off) / (_BOTH * off)))
        chance = float(2.0 * ndtr(-margin / _BOTH).sum()) + too_dear
        yield _Candidate(chance, lost, r, policy, margin, order)


def widest(gap: Floats, noise: Floats, order: Integers, free: float) -> tuple[Floats, Floats]:
    """Return for each action that a cut can make a state take the cut that leaves most room, and the room; else -1.

    Action t is taken where its gap is within the cut and those of all actions before it are not. Another lab may see
    any action b ahead of t by ``gap(t) - gap(b)`` and noise: t stays within the cut r for (r - gap(t) + gap(b))/sd
    deviations, and an action c before t stays outside for (gap(c) - r)/sd(c). Both are equal at the best cut.
    Before the first action there is none: it has enough room, and a gap of ``free`` more than here at least. The last
    action is not compared.
    """
    cut, room, allowed = np.zeros_like(gap), np.full_like(gap, -1.0), np.isfinite(gap)
    smallest = np.full(len(gap), np.inf)  # of the gaps of the actions before t
    for i, t in enumerate(order.tolist()):
        own, rivals = gap[:, t], allowed & (np.arange(order.size) != t)
        sd = np.sqrt(noise * noise + (noise[:, t] * noise[:, t])[:, None])
        with np.errstate(invalid="ignore"):  # of actions that are not allowed
            ahead = np.where(rivals, own[:, None] - gap + _ENOUGH * sd, -np.inf).max(axis=1)
            at, widest_room = np.zeros(len(gap)), np.full(len(gap), np.inf)
            for c in order[:i].tolist():
                height = np.where(rivals, (gap[:, c] - own)[:, None] + gap, np.inf) / (sd + noise[:, [c]])
                height = gap[:, c] / noise[:, c] if i == order.size - 1 else height.min(axis=1)
                lower = allowed[:, c] & (height < widest_room)
                at = np.where(lower & (i < order.size - 1), gap[:, c] - height * noise[:, c], at)
                widest_room = np.where(lower, height, widest_room)
        is_first, taken = np.isinf(smallest), own < smallest
        at = np.where(is_first, np.maximum(own + free, ahead), np.maximum(at, own))
        widest_room = np.where(is_first, np.where(rivals.any(axis=1), _ENOUGH, np.inf), widest_room)
        cut[:, t], room[:, t] = np.where(taken, at, 0.0), np.where(taken, widest_room, -1.0)
        smallest = np.minimum(smallest, own)
    return cut, room


def _covering_order(model: EmpiricalModel, share: Floats, spent: float, usual: Integers) -> Integers:
    """Return an order that begins with few actions, one of which is good in nearly every state.

    Each saves most of what those before it leave to be lost. The others follow as usual.
    """
    lost = np.where(np.isfinite(model.gap), model.gap, 0.0).max(axis=1)
    order: list[int] = []
    while len(order) < model.n_actions:
        saved = share @ np.maximum(lost[:, None] - model.gap, 0.0)
        saved[order] = -1.0
        best = int(np.argmax(saved))
        if order and saved[best] <= _COVERED * spent * (1.0 - model.gamma):
            break
        order.append(best)
        lost = np.minimum(lost, model.gap[:, best])
    return np.array([*order, *(a for a in usual.tolist() if a not in order)])
