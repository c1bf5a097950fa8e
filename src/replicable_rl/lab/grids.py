"""A grid that somebody draws: a text of lines, in which one paints cells and moves the border."""

from typing import NamedTuple

from replicable_rl.errors import InvalidInput, check_choice, check_integer
from replicable_rl.mdp import Labels

START = "G.G\n.#.\n.S."
BRUSHES = {"wall": "#", "free": ".", "start": "S", "goal": "G"}
MOST_CELLS = 144  # as many squares as one can still click
_FREE, _WALL = ".", "#"
_SIGNS = {_FREE: "·", _WALL: "█"}
_CHANGES = {"a row more": (1, 0), "a row less": (-1, 0), "a column more": (0, 1), "a column less": (0, -1)}
CHANGES = tuple(_CHANGES)


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a drawing, all of one length: what is missing is wall.

    >>> lines_of("G.G\n.")
    ['G.G', '.##']
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    width = max((len(line) for line in lines), default=0)
    if width * len(lines) > MOST_CELLS:
        raise InvalidInput(
            f"lab: a grid to draw has at most {MOST_CELLS} cells, got {len(lines)} x {width}. Draw a smaller one; "
            "`replicable-rl solve` takes larger ones."
        )
    return [line.ljust(width, _WALL) for line in lines]


class Square(NamedTuple):
    """A square to click on: its sign, what it is in words, and where it is."""

    sign: str
    said: str
    at: tuple[int, int]


def squares(text: str) -> list[Square]:
    """Return the squares of a drawing, line by line; none of one that is too large.

    >>> squares("G#")
    [Square(sign='G', said='goal', at=(0, 0)), Square(sign='█', said='wall', at=(0, 1))]
    """
    try:
        lines = lines_of(text)
    except InvalidInput:
        return []
    names = {letter: name for name, letter in BRUSHES.items()}
    return [
        Square(_SIGNS.get(letter, letter if letter in names else "?"), names.get(letter, "not known"), (row, column))
        for row, column, letter, _ in Labels(layout=tuple(lines)).cells()
    ]


def painted(text: str, row: int, column: int, brush: str) -> str:
    """Return the drawing with one cell painted.

    >>> painted("G.G", 0, 1, "wall")
    'G#G'
    """
    letter = BRUSHES[check_choice("lab", "brush", brush, tuple(BRUSHES))]
    lines = lines_of(text)
    row = check_integer("lab", "row", row, low=0, high=len(lines) - 1)
    column = check_integer("lab", "column", column, low=0, high=len(lines[row]) - 1)
    lines[row] = lines[row][:column] + letter + lines[row][column + 1 :]
    return "\n".join(lines)


def resized(text: str, change: str) -> str:
    r"""Return the drawing with a row or a column more, of free cells, or less; one cell stays.

    >>> resized("G.G", "a row more"), resized("G.G", "a column less"), resized("G", "a row less")
    ('G.G\n...', 'G.', 'G')
    """
    rows, columns = _CHANGES[check_choice("lab", "change", change, CHANGES)]
    lines = lines_of(text) or [_FREE]
    width = max(1, len(lines[0]) + columns)
    height = max(1, len(lines) + rows)
    if width * height > MOST_CELLS:
        return "\n".join(lines)
    lines = [line[:width].ljust(width, _FREE) for line in lines[:height]]
    return "\n".join([*lines, *[_FREE * width] * (height - len(lines))])
