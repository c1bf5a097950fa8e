"""Columns of text that fit a terminal: where there is no room for all, whole columns go, and no number is ever cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NARROWEST = 40  # columns of a table or of a sentence: below, everything is as wide as this
_GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    heading : str
    cells : sequence of str
    width : int
        Where there is room.
    align : str
        ``">"`` for numbers, ``"<"`` for words.
    gap : int
        Spaces before it, where there is room.
    rank : int
        0 for what is always shown; of the others, the highest goes first where there is no room.
    """

    heading: str
    cells: Sequence[str]
    width: int
    align: str = ">"
    gap: int = 0
    rank: int = 0


def laid_out(columns: Sequence[Column], width: int = 80) -> tuple[list[str], list[str]]:
    r"""Return the lines of a table, and the headings of the columns that were left out.

    >>> columns = [Column("m", ["100", "2000"], 8), Column("loss", ["0.1", "0.02"], 9, rank=1)]
    >>> print("\n".join(laid_out(columns, 20)[0]))
           m     loss
         100      0.1
        2000     0.02
    >>> print("\n".join(laid_out(columns, 10)[0]))
       m  loss
     100   0.1
    2000  0.02
    >>> laid_out(columns, 5)
    (['   m', ' 100', '2000'], ['loss'])
    """
    texts = [[one.heading, *one.cells] for one in columns]
    wide = [
        "".join(f"{' ' * one.gap}{cell:{one.align}{one.width}}" for one, cell in zip(columns, row, strict=True))
        for row in zip(*texts, strict=True)
    ]
    if max(map(len, wide)) <= width:
        return wide, []
    kept = list(columns)
    while _needed(kept) > width and (optional := max(kept, key=lambda one: one.rank)).rank > 0:
        kept.remove(optional)
    lines = [
        _GAP.join(f"{cell:{one.align}{_longest(one)}}" for one, cell in zip(kept, row, strict=True)).rstrip()
        for row in zip(*([one.heading, *one.cells] for one in kept), strict=True)
    ]
    return lines, [one.heading for one in columns if one not in kept]


def left_out(headings: Sequence[str]) -> str:
    """Say which columns a narrow terminal has no room for, '' if all are there.

    >>> left_out(["modal", "unique"])
    'Left out for want of room: modal, unique. A wider terminal, or --json, has them.'
    """
    if not headings:
        return ""
    return f"Left out for want of room: {', '.join(headings)}. A wider terminal, or --json, has them."


def _longest(column: Column) -> int:
    return max(map(len, (column.heading, *column.cells)))


def _needed(columns: Sequence[Column]) -> int:
    return sum(map(_longest, columns)) + len(_GAP) * (len(columns) - 1)
