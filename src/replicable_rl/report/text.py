"""Documents as text, for terminals and files: no number is ever cut, however narrow the terminal is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from replicable_rl.report.blocks import (
    OPEN,
    Block,
    Cell,
    Command,
    Facts,
    Figure,
    Heading,
    Intervals,
    Policy,
    Table,
    Text,
    cell_text,
    letters,
)
from replicable_rl.wording import interval, share, visible

_NARROWEST = 40  # columns: in a narrower terminal, lines are as wide as this
_GAP = 2  # spaces between columns
_WORDS = 14  # columns that a column of words keeps
_BETWEEN = 6  # spaces between two maps


def text(blocks: Sequence[Block], width: int = 80, details: bool = False) -> str:
    r"""Write a document as lines of at most ``width`` columns; details only when they are asked for.

    >>> rows = [["100", 0.5], ["2000", 0.02]]
    >>> print(text([Text("Losses:"), Table(["samples", "loss"], rows), Text("Made today.", detail=True)]))
    Losses:
    <BLANKLINE>
    samples  loss
        100  0.50
       2000  0.02
    """
    width = max(width, _NARROWEST)
    lines: list[str] = []
    previous: Block | None = None
    for block in blocks:
        if block.detail and not details:
            continue
        if previous is not None and not (isinstance(block, Text) and isinstance(previous, Text)):
            lines.append("")
        lines += _lines(block, width)
        previous = block
    return "\n".join(line.rstrip() for line in lines)


def wrapped(paragraph: str, width: int, indent: str = "") -> list[str]:
    """Break a paragraph into lines; lines after the first are indented, and a number stays with its unit.

    >>> wrapped("Every interval holds with confidence 95 %.", 40)
    ['Every interval holds with confidence', '95 %.']
    """
    together = visible(" ".join(paragraph.split())).replace(" %", "\0%")
    lines = textwrap.wrap(together, max(1, width), subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def _lines(block: Block, width: int) -> Iterator[str]:
    match block:
        case Text() | Heading():
            yield from wrapped(block.text, width)
        case Facts():
            yield from _facts(block, width)
        case Table() | Intervals():
            yield from _table(block if isinstance(block, Table) else _intervals(block), width)
            yield from wrapped(block.caption, width)
        case Policy():
            yield from _policy(block, width)
        case Figure():
            yield from wrapped(f"Figure: {block.alt}. {block.caption}", width)
        case Command():
            yield f"  {cell_text(block.text)}"


def _intervals(block: Intervals) -> Table:
    required = any(row.required is not None for row in block.rows)
    rows: list[list[Cell]] = []
    for row in block.rows:
        requirement: Cell = None if row.required is None else f"{row.required:.6g}"
        rows.append([row.label, share(row.estimate), interval(row.low, row.high), *([requirement] if required else [])])
    return Table(["", block.axis, "interval", *(["required"] if required else [])], rows)


def _facts(block: Facts, width: int) -> Iterator[str]:
    names = [cell_text(name) for name, _ in block.pairs]
    column = min(max(map(len, names), default=0), width // 2)
    for name, (_, value) in zip(names, block.pairs, strict=True):
        parts = wrapped(name, column), wrapped(cell_text(value), width - column - _GAP)
        for term, detail in zip_longest(*parts, fillvalue=""):
            yield f"{term:<{column + _GAP}}{detail}"


def _table(table: Table, width: int) -> Iterator[str]:
    """Yield a table: columns of words become narrower where there is no room, and at last every row is a list."""
    headings = [cell_text(column) if column else "" for column in table.columns]
    widths = [max(map(len, column)) for column in zip(headings, *table.texts, strict=True)]
    words = [i for i, numeric in enumerate(table.numeric) if not numeric]
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        widest = max(words, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= _WORDS:
            yield from _records(table, headings, width)
            return
        widths[widest] -= 1
    aligns = [">" if numeric else "<" for numeric in table.numeric]
    for row in (headings, *table.texts):
        cells = [wrapped(cell, column) or [""] for cell, column in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            parts = (f"{cell:{align}{column}}" for cell, align, column in zip(line, aligns, widths, strict=True))
            yield (" " * _GAP).join(parts)


def _records(table: Table, headings: Sequence[str], width: int) -> Iterator[str]:
    for name, *cells in table.texts:
        yield from wrapped(name, width)
        for heading, cell in zip(headings[1:], cells, strict=True):
            yield from (f"  {line}" for line in wrapped(f"{heading} {cell}", width - 2, "  "))


def _policy(policy: Policy, width: int) -> Iterator[str]:
    """Yield maps side by side where there is room for them, or else a table of the states."""
    columns = max(map(len, policy.cells), default=0)
    if not columns or len(policy.runs) * (4 * columns + 1 + _BETWEEN) - _BETWEEN > width:
        yield from _lines(policy.table, width)
        return
    maps = [_map(policy, actions) for _, actions in policy.runs]
    for row in zip(*maps, strict=True):
        yield (" " * _BETWEEN).join(row)
    yield from wrapped(policy.caption, width)


def _map(policy: Policy, actions: Sequence[str]) -> Iterator[str]:
    signs, differing = letters(policy), set(policy.differing)
    rule = "┼".join(["───"] * max(map(len, policy.cells)))
    yield f"┌{rule.replace('┼', '┬')}┐"
    for i, row in enumerate(policy.cells):
        if i:
            yield f"├{rule}┤"
        squares = []
        for letter, state in row:
            mark = "*" if state in differing else " "
            sign = signs[actions[state]] if state is not None and letter in OPEN else letter
            squares.append("███" if state is None else f"{mark}{sign:<2}")
        yield f"│{'│'.join(squares)}│"
    yield f"└{rule.replace('┼', '┴')}┘"
