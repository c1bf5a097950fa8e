"""The policies of two runs, drawn side by side; every state tells its action values in both.

A problem with a map is drawn as its map, any other as a strip of numbered states. What the page says of a state
is put into words and digits here, so that the script of the page shows texts and computes nothing. Numbers are written
with as many digits as it takes to see that they differ: two values that print alike *are* alike, to the last bit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidInput
from replicable_rl.pages.blocks import Inline
from replicable_rl.problem.table import OPEN_CELLS, Cell, Labels
from replicable_rl.wording import listed, minus, number

MOST_STATES = 400  # drawn in one picture; more are no picture any more
_DIGITS = 4  # after the point, where two numbers are the same or differ early
_MOST_ACTIONS = 12  # told of one state
_STRIP = 10  # states in a row where there is no map
_ANGLES = {"right": 0, "east": 0, "down": 90, "south": 90, "left": 180, "west": 180, "up": 270, "north": 270}


class PolicyRun(NamedTuple):
    """One of the two runs: its name, the action of every state, and the action values if they are known."""

    name: str
    policy: NDArray[np.int64]
    q: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class PolicyPicture:
    """Two policies as pictures; :func:`picture_of` makes one.

    ``states`` and ``actions`` are names, ``layout`` is the map as in :class:`~replicable_rl.problem.Labels` (None draws
    a strip), ``shown`` are the states that are drawn, and ``note`` says what was left out.
    """

    kind: ClassVar[str] = "policy"
    runs: tuple[PolicyRun, PolicyRun]
    states: Sequence[str]
    actions: Sequence[str]
    layout: Sequence[str] | None
    shown: Sequence[int]
    caption: Inline
    command: str | None = None
    note: Inline | None = None

    @cached_property
    def differing(self) -> list[int]:
        """The states in which the two runs choose different actions."""
        one, two = self.runs
        return [int(s) for s in np.flatnonzero(one.policy != two.policy)]

    @cached_property
    def squares(self) -> list[Cell]:
        """What is drawn; states that the map leaves out are a row of their own under it."""
        cells = list(Labels(layout=None if self.layout is None else tuple(self.layout)).cells())
        top, drawn = len(self.layout or ()), sum(cell.state is not None for cell in cells)
        places = (divmod(i, self.columns) for i in range(len(self.shown) - drawn))
        below = (Cell(top + row, column, OPEN_CELLS[0], 0) for row, column in places)
        return [*cells, *(cell._replace(state=s) for cell, s in zip(below, self.shown[drawn:], strict=True))]

    @property
    def columns(self) -> int:
        """How many squares a row has."""
        return len(self.layout[0]) if self.layout else min(_STRIP, len(self.shown))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return 1 + max(square.row for square in self.squares)

    @property
    def first(self) -> int:
        """The state that the page tells of before anybody chose one: where the runs differ, if they do."""
        drawn = [square.state for square in self.squares if square.state is not None and square.open]
        differing = set(self.differing)
        return next((s for s in drawn if s in differing), drawn[0] if drawn else self.shown[0])

    def angle(self, action: int) -> int | None:
        """Return where the arrow of an action points, clockwise from the right; None where it has none."""
        return _ANGLES.get(self.actions[action].lower()) if self._has_arrows else None

    def letters(self, action: int) -> str:
        """Return the short name of an action, for a square."""
        return self._letters[action]

    @cached_property
    def legend(self) -> list[tuple[str, str]]:
        """Short and full names of actions that need telling."""
        if self._has_arrows:
            return []
        return [(short, name) for short, name in zip(self._letters, self.actions, strict=True) if short != name][:12]

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the script of the page shows, as JSON."""
        return {
            "first": self.first,
            "runs": [run.name for run in self.runs],
            "states": {str(s): state_words(s, self.states[s], self.actions, self.runs) for s in self.shown},
        }

    @cached_property
    def _has_arrows(self) -> bool:
        return all(name.lower() in _ANGLES for name in self.actions)

    @cached_property
    def _letters(self) -> list[str]:
        """The shortest beginnings of up to three letters that tell the actions apart, else their numbers."""
        for length in (1, 2, 3):
            short = [name[:length] for name in self.actions]
            if len(set(short)) == len(short):
                return short
        return [str(action) for action in range(len(self.actions))]


def policy_run(name: str, policy: ArrayLike, q: ArrayLike | None = None) -> PolicyRun:
    """Return a run by its name: S actions, and S × A values where they are known."""
    return PolicyRun(name, np.asarray(policy, dtype=np.int64), None if q is None else np.asarray(q, dtype=np.float64))


def picture_of(
    labels: Labels | None,
    runs: tuple[PolicyRun, PolicyRun],
    *,
    caption: Inline,
    command: str | None = None,
    most: int = MOST_STATES,
) -> PolicyPicture:
    """Draw two runs of one problem; of a very large one, the states in which they differ come first.

    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> runs = [rr.solve(mdp, rr.PhasedVI(0.1, 0.001), shared_seed=7, sample_seed=i) for i in (1, 2)]
    >>> one, two = (policy_run(f"run {i}", run.policy, run.q) for i, run in enumerate(runs, start=1))
    >>> picture = picture_of(mdp.labels, (one, two), caption="Two runs.")
    >>> picture.rows, picture.columns, len(picture.squares)
    (3, 3, 9)
    """
    labels = labels or Labels()
    S, shapes = runs[0].policy.size, [run.policy.shape if run.q is None else run.q.shape for run in runs]
    if shapes[0] != shapes[1]:
        raise InvalidInput(f"picture_of: the runs have tables of shapes {shapes[0]} and {shapes[1]}; draw one problem.")
    A = 1 + max(int(run.policy.max()) if run.q is None else run.q.shape[1] - 1 for run in runs)
    actions = labels.actions if labels.actions and len(labels.actions) >= A else tuple(map(str, range(A)))
    states = labels.states if labels.states and len(labels.states) == S else tuple(map(str, range(S)))
    picture = PolicyPicture(runs, states, actions, labels.layout, range(S), caption, command)
    drawn = sum(len(line) for line in labels.layout or ())
    if max(S, drawn) <= most:
        return picture
    differing = set(picture.differing)
    order = [*picture.differing, *(s for s in range(min(S, 2 * most)) if s not in differing)][:most]
    note = f"Of {S} states, {len(order)} are drawn; those in which the runs differ ({len(differing)}) come first."
    return replace(picture, layout=None, shown=order, note=note)


def state_words(state: int, name: str, actions: Sequence[str], runs: Sequence[PolicyRun]) -> dict[str, Any]:
    """Return what the page says of a state: a sentence, a row for every action, and remarks."""
    chosen = [int(run.policy[state]) for run in runs]
    told = [actions[action] for action in chosen]
    same = chosen[0] == chosen[1]
    first, second = (run.name for run in runs)
    sentence = f"Both choose {told[0]}." if same else f"{first}: {told[0]}; {second}: {told[1]}."
    words: dict[str, Any] = {"name": name, "same": same, "says": sentence, "rows": [], "remarks": []}
    tables = [run.q for run in runs]
    if tables[0] is None or tables[1] is None:
        return words
    one, two = tables[0][state], tables[1][state]
    told_of = _listed(one, two, chosen)
    words["rows"] = [[actions[a], *pair_of_numbers(one[a], two[a]), [int(c == a) for c in chosen]] for a in told_of]
    missing = [actions[a] for a in _not_allowed(one, two)]
    if len(told_of) < one.size - len(missing):
        words["remarks"].append(f"{one.size - len(missing) - len(told_of)} more actions have smaller values.")
    if missing:
        some = f"{', '.join(missing[:_MOST_ACTIONS])}, ..." if len(missing) > _MOST_ACTIONS else listed(missing)
        words["remarks"].append(f"Not allowed here: {some}.")
    remarks = [_lead(q, action, actions) for q, action in zip((one, two), chosen, strict=True)]
    if remarks[0] == remarks[1]:
        words["remarks"].append(f"In both: {remarks[0]}.")
    else:
        words["remarks"] += [f"{run.name}: {remark}." for run, remark in zip(runs, remarks, strict=True)]
    if np.array_equal(one, two):
        words["remarks"].append("All values are the same to the last bit.")
    return words


def pair_of_numbers(one: float, two: float) -> tuple[str, str, str]:
    """Write two numbers with digits enough to tell them apart, and their difference.

    >>> pair_of_numbers(6.26941, 6.26941)
    ('6.2694', '6.2694', '=')
    >>> pair_of_numbers(6.26941, 6.26938)
    ('6.26941', '6.26938', '−3e−05')
    >>> pair_of_numbers(1.0, 1.0 + 2**-52)
    ('1.0000000000000000', '1.0000000000000002', '+2.2e−16')
    """
    largest = max(abs(one), abs(two))
    form = "f" if largest == 0.0 or 1e-3 <= largest < 1e7 else "e"  # digits after the point, which stand under another
    for digits in range(_DIGITS, 18):
        texts = _number(one, digits, form), _number(two, digits, form)
        if one == two or texts[0] != texts[1]:
            break
    if one == two:
        return *texts, "="
    gap = float(two) - float(one)
    return *texts, minus(f"{gap:+.2g}") if math.isfinite(gap) else "≠"


def _number(x: float, digits: int, form: str) -> str:
    return minus(f"{float(x) + 0.0:.{digits}{form}}")


def _listed(one: NDArray[np.float64], two: NDArray[np.float64], chosen: Sequence[int]) -> list[int]:
    """The actions to tell of: all of few that are allowed; of many, the best and the chosen."""
    missing = set(_not_allowed(one, two))
    if one.size - len(missing) <= _MOST_ACTIONS:
        return [a for a in range(one.size) if a not in missing]
    best = np.argsort(-np.maximum(one, two), kind="stable")[: _MOST_ACTIONS - 2].tolist()
    return sorted({*best, *chosen})


def _not_allowed(one: NDArray[np.float64], two: NDArray[np.float64]) -> list[int]:
    """The actions that the state has not: their value is -inf."""
    return [int(a) for a in np.flatnonzero(np.isneginf(one) & np.isneginf(two))]


def _lead(q: NDArray[np.float64], chosen: int, actions: Sequence[str]) -> str:
    """Say how close the decision was."""
    top, many = np.flatnonzero(q == q.max()).tolist(), int((q > -np.inf).sum())
    if len(top) == many:
        return "all actions tie exactly" if many > 1 else "there is one action"
    if len(top) > 1:
        return f"{listed([actions[a] for a in top[:4]])} tie exactly"
    (best,) = top
    rest = np.delete(np.arange(q.size), best)
    rival = int(rest[np.argmax(q[rest])])
    said = f"{actions[best]} leads {actions[rival]} by {minus(number(float(q[best] - q[rival]), 2))}"
    return said if best == chosen else f"{said}, yet {actions[chosen]} is chosen"
