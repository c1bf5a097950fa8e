"""Names for people: of states and actions, and a map for drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidMDP, shown

OPEN_CELLS = ".SF"  # letters of a layout whose cells show the policy
WALL = "#"  # the letter of a cell that is no state


@dataclass(frozen=True)
class Labels:
    """Names for people; no part of the content digest.

    ``layout`` is a text map for drawing: one string per line, ``#`` for a wall. The
    other cells, read line by line, are the states 0, 1, 2, ...; states beyond the last
    cell are not drawn. Cells marked ``.``, ``S`` or ``F`` show the action of the policy,
    others (goals, holes) their letter.
    """

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    layout: tuple[str, ...] | None = None

    __repr__ = short_repr

    def cells(self) -> Iterator[Cell]:
        """Yield the cells of the map line by line: the one place that knows how a map numbers its states.

        >>> [cell.state for cell in Labels(layout=("G#.",)).cells()]
        [0, None, 1]
        """
        state = 0
        for row, line in enumerate(self.layout or ()):
            for column, letter in enumerate(line):
                wall = letter == WALL
                yield Cell(row, column, letter, None if wall else state)
                state += not wall


class Cell(NamedTuple):
    """A cell of a map: where it is, its letter, and its state; a wall has none."""

    row: int
    column: int
    letter: str
    state: int | None

    @property
    def open(self) -> bool:
        """Whether the cell shows the policy."""
        return self.letter in OPEN_CELLS


def check_labels(labels: Labels | None, n_states: int, n_actions: int) -> Labels:
    """Return names that fit the sizes, as texts."""
    if labels is None:
        return Labels()
    if not isinstance(labels, Labels):
        raise InvalidMDP(f"TabularMDP: labels must be a Labels object, got {shown(labels)}.")
    for kind, names, size in (("states", labels.states, n_states), ("actions", labels.actions, n_actions)):
        if names is not None and len(names) != size:
            raise InvalidMDP(f"TabularMDP: labels.{kind} must hold {size} names, got {len(names)}.")
    cells = sum(cell.state is not None for cell in labels.cells())
    if len({len(line) for line in labels.layout or ()}) > 1 or cells > n_states:
        raise InvalidMDP(f"TabularMDP: labels.layout must have lines of one length, and at most {n_states} states.")
    given = (labels.states, labels.actions, labels.layout)
    return Labels(*(None if names is None else tuple(map(str, names)) for names in given))
