"""What a document is made of: paragraphs, facts, tables, intervals, policies, figures, commands.

A block is frozen, plain data. It knows nothing of terminals or of HTML: the writers (:mod:`~replicable_rl.report.text`,
:mod:`~replicable_rl.report.html`) decide how it looks. Every text is plain text, in which every character stands for
itself. A block with ``detail=True`` is left out of a text unless details are asked for, and folded on a page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from replicable_rl.wording import minus, number, plural, visible

Tone = Literal["good", "bad", "unsure", "plain"]
SIGNS = {"good": "✓", "bad": "✗", "unsure": "?", "plain": ""}
WALL, OPEN = "#", ".SF"  # letters of a map: no state; cells that show the action
ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}
_STATES = 40  # in the table of a policy
_NUMERALS = re.compile(r"[-−+]?[0-9][-−+0-9.,e–×% ()]*")  # a number, or an interval


@dataclass(frozen=True)
class Mark:
    """A word with a tone, such as a verdict: a cell of a table or of facts."""

    text: str
    tone: Tone = "plain"


Cell = str | float | Mark | None


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a document; ``detail`` marks what few readers need."""

    detail: bool = False


@dataclass(frozen=True)
class Text(Block):
    """A paragraph; a tone other than "plain" sets it apart on a page."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Heading(Block):
    """A title: level 1 is that of the document, 2 that of a section in the table of contents, 3 one below it."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Facts(Block):
    """Names and values, one pair a line."""

    pairs: Sequence[tuple[str, Cell]]


@dataclass(frozen=True)
class Table(Block):
    """Rows under columns; a column of numbers is set flush right, and None is a dash."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    @cached_property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers alone."""
        return [
            any(cell is not None for cell in column) and all(map(_is_number, column))
            for column in ([row[i] for row in self.rows] for i in range(len(self.columns)))
        ]

    @cached_property
    def texts(self) -> list[list[str]]:
        """The cells as texts; the numbers of a column have equally many digits after the point.

        >>> Table(["loss", "verdict"], [[1.0, "met"], [0.25, Mark("not met", "bad")], [None, None]]).texts
        [['1.00', 'met'], ['0.25', 'not met'], ['–', '–']]
        """
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        written = [
            _aligned(column) if numeric else [cell_text(cell) for cell in column]
            for column, numeric in zip(columns, self.numeric, strict=True)
        ]
        return [list(row) for row in zip(*written, strict=True)]


@dataclass(frozen=True)
class Interval:
    """An estimate in [0, 1], the ends of its interval, and the value required of it."""

    label: str
    estimate: float
    low: float
    high: float
    required: float | None = None
    tone: Tone = "plain"


@dataclass(frozen=True)
class Intervals(Block):
    """Estimates with their intervals, on one axis from 0 to 1."""

    rows: Sequence[Interval]
    caption: str = ""
    axis: str = "agreement"


@dataclass(frozen=True)
class Policy(Block):
    """The actions of one run, or of several runs side by side; states with different actions are marked.

    Attributes
    ----------
    states : sequence of str
        The names of the states.
    runs : sequence of (str, sequence of str)
        What each run is called, and the name of its action in every state.
    layout : sequence of str, optional
        A map, one line a row: ``#`` is a wall, the other letters are the states 0, 1, 2, ... line by line. ``.``, ``S``
        and ``F`` show the action, the others themselves.
    """

    states: Sequence[str]
    runs: Sequence[tuple[str, Sequence[str]]]
    layout: Sequence[str] | None = None
    caption: str = ""

    @cached_property
    def differing(self) -> list[int]:
        """The states in which the runs take different actions.

        >>> Policy(["a", "b"], [("first", ["up", "up"]), ("second", ["up", "down"])]).differing
        [1]
        """
        return [
            s for s, actions in enumerate(zip(*(run[1] for run in self.runs), strict=True)) if len(set(actions)) > 1
        ]

    @property
    def table(self) -> Table:
        """The states with their actions; states with different actions come first, with stars."""
        differing, size = set(self.differing), len(self.states)
        order = [*self.differing, *(s for s in range(size) if s not in differing)][:_STATES]
        names = [name for name, _ in self.runs] if len(self.runs) > 1 else ["action"]
        rows = [[self.states[s], *("*" * (s in differing) + actions[s] for _, actions in self.runs)] for s in order]
        more = f"{plural(size - _STATES, 'more state')} not listed. " if size > _STATES else ""
        return Table(["state", *names], rows, f"{more}{self.caption}")

    @cached_property
    def cells(self) -> list[list[tuple[str, int | None]]]:
        """The letters of the map row by row, each with its state; None for a wall."""
        states = iter(range(len(self.states)))
        return [
            [(letter, None if letter == WALL else next(states, None)) for letter in line] for line in self.layout or ()
        ]


@dataclass(frozen=True)
class Figure(Block):
    """A picture: the text of an SVG file, words for readers who cannot see it, and how to read it."""

    svg: bytes
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Command(Block):
    """A command to copy, and files beside the page to download."""

    text: str
    files: Sequence[str] = ()


def cell_text(cell: Cell) -> str:
    """Write a cell on one line, with control characters made visible.

    >>> [cell_text(cell) for cell in (12967, -0.25, None, Mark("met", "good"))]
    ['12967', '−0.25', '–', 'met']
    """
    if cell is None:
        return "–"
    text = cell.text if isinstance(cell, Mark) else cell if isinstance(cell, str) else minus(number(cell))
    return visible(" ".join(text.split()))


def letters(policy: Policy) -> dict[str, str]:
    """Return a sign of few letters for every action: an arrow, or the shortest beginnings that tell actions apart.

    >>> letters(Policy(["a"], [("run", ["up"])])), letters(Policy(["a", "b"], [("run", ["treat", "test"])]))
    ({'up': '↑'}, {'treat': 'tr', 'test': 'te'})
    """
    names = list(dict.fromkeys(action for _, actions in policy.runs for action in actions))
    if all(name in ARROWS for name in names):
        return {name: ARROWS[name] for name in names}
    numbers = {name: str(i) for i, name in enumerate(names)}
    beginnings = ({name: cell_text(name)[:length] for name in names} for length in (1, 2, 3))
    return next((signs for signs in beginnings if len(set(signs.values())) == len(names)), numbers)


def _aligned(column: Sequence[Cell]) -> list[str]:
    texts = [cell_text(cell) for cell in column]
    digits = max((len(text.partition(".")[2]) for text in texts), default=0)
    if not digits or any("e" in text for text in texts):
        return texts
    return [
        minus(f"{cell:.{digits}f}") if isinstance(cell, float) else text
        for cell, text in zip(column, texts, strict=True)
    ]


def _is_number(cell: Cell) -> bool:
    if isinstance(cell, str):
        return _NUMERALS.fullmatch(cell) is not None
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))
