"""Policies drawn with letters, for a terminal: a map where the problem has one, a table otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from replicable_rl.pages.decided import Decided, both, differ
from replicable_rl.wording import brief, visible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}
_PLAIN_ARROWS = {"up": "^", "down": "v", "left": "<", "right": ">"}
_WIDTH = 80
_MOST_ROWS = 40  # states in a table
_LONGEST = 24  # letters of a name there
_APART = 6  # spaces between two drawings


class Drawing(str):
    """A text that is shown as it is: at a prompt and in a notebook too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.2">{escape(self)}</pre>'


def draw(solution: Any, other: Any = None, *, problem: Any = None) -> Drawing:
    """Return a policy as the terminal draws it; of two, side by side, a star marks the states where they differ.

    Parameters
    ----------
    solution : Run, Cuts or list of actions
        What is drawn.
    other : Run, Cuts or list of actions, optional
        What it is compared with.
    problem : TabularMDP or Dataset, optional
        Whose states these are. None takes the problem of a run, where that has an id; for arrays of your own, pass it.

    Returns
    -------
    Drawing
        A text. At a prompt and in a notebook it shows itself; elsewhere ``print`` it.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> one, two = (rr.solve(mdp, rr.PhasedVI(0.1, 0.001), shared_seed=1, sample_seed=seed) for seed in (1, 4))
    >>> draw(one, two)
    ┌───┬───┬───┐      ┌───┬───┬───┐
    │ G │*→ │ G │      │ G │*← │ G │
    ├───┼───┼───┤      ├───┼───┼───┤
    │ ↑ │███│ ↑ │      │ ↑ │███│ ↑ │
    ├───┼───┼───┤      ├───┼───┼───┤
    │ ↑ │*→ │ ↑ │      │ ↑ │*← │ ↑ │
    └───┴───┴───┘      └───┴───┴───┘
    >>> draw([0, 1, 1])
    state  action
    0      0
    1      1
    2      1
    """
    one, two = both("draw", solution, other, problem)
    marked = None if two is None else differ(one, two)
    layout = one.labels.layout
    if layout and 4 * len(layout[0]) + 1 <= _WIDTH:
        unicode = getattr(sys.stdout, "encoding", None) is None or can_encode("↑█┼")  # no file: letters as they are
        pictures = ["".join(text for text, _ in grid(each, marked, unicode)) for each in (one, two) if each is not None]
        return Drawing(_side_by_side(pictures))
    return Drawing("\n".join(_table(one, two, marked)))


def can_encode(text: str) -> bool:
    """Whether the terminal can show a text."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def grid(solution: Decided, marked: NDArray[np.bool_] | None, unicode: bool) -> Iterator[tuple[str, str]]:
    """Yield a picture of the map in pieces, each with its style: arrows in open cells, else the map's own letters."""
    labels = solution.labels
    arrows = _ARROWS if unicode else _PLAIN_ARROWS
    wall, bar, cross, dash = ("███", "│", "┼", "───") if unicode else ("###", "|", "+", "---")
    width = max((len(line) for line in labels.layout or ()), default=0)
    rule = cross.join([dash] * width)
    for cell in labels.cells():
        if cell.column == 0:
            yield f"{_edge(rule, cell.row == 0, unicode)}\n{bar}", ""
        if cell.state is None:
            yield wall, "dim"
        elif cell.open:
            action = solution.action(int(solution.policy[cell.state]))
            is_marked = marked is not None and bool(marked[cell.state])
            arrow = arrows.get(action, action[:1])
            yield f"{'*' if is_marked else ' '}{arrow} ", "bold yellow" if is_marked else "cyan"
        else:
            yield f" {cell.letter} ", "bold green"
        yield (f"{bar}\n" if cell.column == width - 1 else bar), ""
    yield _edge(rule, False, unicode, last=True), ""


def _edge(rule: str, first: bool, unicode: bool, last: bool = False) -> str:
    if not unicode:
        return f"+{rule}+"
    left, middle, right = ("┌", "┬", "┐") if first else ("└", "┴", "┘") if last else ("├", "┼", "┤")
    return left + rule.replace("┼", middle) + right


def _side_by_side(pictures: list[str]) -> str:
    """Put pictures beside each other, or under each other where the terminal has no room."""
    lines = [picture.split("\n") for picture in pictures]
    width = max(map(len, lines[0]))
    if len(pictures) * (width + _APART) - _APART > _WIDTH:
        return "\n\n".join(pictures)
    return "\n".join((" " * _APART).join(row).rstrip() for row in zip_longest(*lines, fillvalue=" " * width))


def _table(one: Decided, two: Decided | None, marked: NDArray[np.bool_] | None) -> Iterator[str]:
    """Yield the lines of a table: states where two differ first, for a long one is cut."""
    states = range(one.policy.size) if marked is None else [*marked.nonzero()[0].tolist(), *(~marked).nonzero()[0]]
    rows = [["state", "action", *(["other"] if two is not None else []), *(["value"] if one.q is not None else [])]]
    for s in states[:_MOST_ROWS]:
        star = "*" if marked is not None and marked[s] else ""
        row = [one.state(s), *(star + each.action(int(each.policy[s])) for each in (one, two) if each is not None)]
        row += [] if one.q is None else [f"{one.q[s].max():.4f}"]
        rows.append([brief(visible(cell), _LONGEST) for cell in row])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
    if one.policy.size > _MOST_ROWS:
        yield f"{one.policy.size - _MOST_ROWS} more states are not shown."
