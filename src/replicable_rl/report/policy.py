"""The policies of two runs, drawn side by side; every state tells its action values in both.

A problem with a map is drawn as its map, any other as a strip of numbered states. What the page says of a state
is put into words and digits here, so that the script of the page shows texts and computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.mdp.tabular import OPEN_CELLS, Cell, Labels
from replicable_rl.report.blocks import Inline
from replicable_rl.report.state_words import state_words

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST_STATES = 400  # drawn in one picture; more are no picture any more
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

    ``states`` and ``actions`` are names, ``layout`` is the map as in :class:`~replicable_rl.mdp.Labels` (None draws a
    strip), ``shown`` are the states that are drawn, and ``note`` says what was left out.
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
    """Check the tables of a run: S actions, and S × A values where they are known."""
    actions = np.asarray(policy)
    values = None if q is None else np.asarray(q, dtype=np.float64)
    if actions.ndim != 1 or actions.size == 0 or actions.dtype.kind not in "iu" or actions.min() < 0:
        raise InvalidInput(f"PolicyRun: policy must hold an action >= 0 for every state, got {policy!r:.80}.")
    if values is not None and (values.ndim != 2 or len(values) != actions.size or actions.max() >= values.shape[1]):
        raise InvalidInput(f"PolicyRun: q must have shape (S, A) with S = {actions.size}, got {values.shape}.")
    return PolicyRun(name, actions.astype(np.int64), values)


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
