"""Documents as HTML: a page that needs neither a server nor a network, and a fragment for notebooks.

Every text is escaped. A page runs no script, and its Content-Security-Policy forbids the browser to run one or to fetch
anything. The same document gives the same bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby

from replicable_rl.report.blocks import (
    ARROWS,
    OPEN,
    SIGNS,
    Block,
    Cell,
    Command,
    Facts,
    Figure,
    Heading,
    Interval,
    Intervals,
    Mark,
    Policy,
    Table,
    Text,
    Tone,
    cell_text,
    letters,
)
from replicable_rl.wording import share, visible

_SECURITY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SHORT = 24  # characters of a cell that is not broken into lines
_SQUARE = 40  # units of a square of a map
_SQUARES = 400  # of a map that is drawn


def page(title: str, blocks: Sequence[Block], command: str | None = None) -> str:
    """Return a document as one HTML file; ``command`` is what made it.

    >>> "<script>" in page("<script>alert(1)</script>", [Text("<script>")])
    False
    """
    made_by = f" with <code>{_text(command)}</code>" if command else ""
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_SECURITY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{_text(title)}</title>",
        f"<style>{_style('blocks.css')}{_style('page.css')}</style></head>",
        '<body><main class="rr">',
        f"<h1>{_text(title)}</h1>",
        *_body(blocks),
        f"<footer>Made by replicable-rl {version('replicable-rl')}{made_by}.</footer>",
        "</main></body></html>",
    ]
    return "\n".join(lines) + "\n"


def fragment(blocks: Sequence[Block]) -> str:
    """Return a document as a part of a page, for notebooks.

    >>> fragment([Text("a < b")]).endswith("<p>a &lt; b</p></div>")
    True
    """
    return f'<div class="rr"><style>{_style("blocks.css")}</style>' + "\n".join(_body(blocks)) + "</div>"


def _text(text: str) -> str:
    """Return a text as HTML: escaped, on one line, with control characters made visible."""
    return escape(visible(" ".join(text.split()))).replace(" %", "\u00a0%")


def _style(name: str) -> str:
    return files("replicable_rl.report").joinpath("templates", name).read_text(encoding="utf-8")


def _body(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the blocks; details that follow each other are folded together, but for maps."""
    for detail, group in groupby(blocks, key=_is_folded):
        if detail:
            yield "<details><summary>Details</summary>"
        for block in group:
            yield from _html(block)
        if detail:
            yield "</details>"


def _is_folded(block: Block) -> bool:
    return block.detail and not (isinstance(block, Policy) and block.layout)


def _html(block: Block) -> Iterator[str]:
    match block:
        case Text():
            opening = "<p>" if block.tone == "plain" else f'<p class="callout {block.tone}">{_sign(block.tone)}'
            yield f"{opening}{_text(block.text)}</p>"
        case Heading():
            level = max(2, block.level)
            yield f"<h{level}>{_text(block.text)}</h{level}>"
        case Facts():
            pairs = (f"<div><dt>{_text(name)}</dt><dd>{_cell(value)}</dd></div>" for name, value in block.pairs)
            yield f'<dl class="facts">{"".join(pairs)}</dl>'
        case Table():
            yield from _table(block)
        case Intervals():
            yield from _intervals(block)
        case Policy():
            yield from _policy(block)
        case Figure():
            data = base64.b64encode(block.svg).decode("ascii")
            picture = f'<img src="data:image/svg+xml;base64,{data}" alt="{_text(block.alt)}">'
            yield f'<figure><div class="picture">{picture}</div>{_caption(block.caption)}</figure>'
        case Command():
            links = ", ".join(f'<a href="{_text(name)}">{_text(name)}</a>' for name in block.files)
            yield f'<p class="origin"><code>{_text(block.text)}</code>{" · " if links else ""}{links}</p>'


def _sign(tone: Tone) -> str:
    return f'<span class="sign" aria-hidden="true">{SIGNS[tone]}</span> ' if SIGNS[tone] else ""


def _caption(caption: str) -> str:
    return f"<figcaption>{_text(caption)}</figcaption>" if caption else ""


def _cell(cell: Cell) -> str:
    written = escape(cell_text(cell))
    return f'<span class="mark {cell.tone}">{_sign(cell.tone)}{written}</span>' if isinstance(cell, Mark) else written


def _table(table: Table) -> Iterator[str]:
    kinds = ["number" if numeric else "words" for numeric in table.numeric]
    headings = (
        f'<th scope="col" class="{kind}">{_text(name)}</th>' for name, kind in zip(table.columns, kinds, strict=True)
    )
    yield f'<figure><div class="scroll" tabindex="0"><table><thead><tr>{"".join(headings)}</tr></thead><tbody>'
    for row, texts in zip(table.rows, table.texts, strict=True):
        cells = (
            f'<td class="{kind}{" short" if len(written) <= _SHORT else ""}">'
            f"{_cell(cell) if isinstance(cell, Mark) else escape(written)}</td>"
            for cell, written, kind in zip(row, texts, kinds, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield f"</tbody></table></div>{_caption(table.caption)}</figure>"


def _intervals(block: Intervals) -> Iterator[str]:
    yield '<figure><div class="intervals">'
    yield from map(_interval, block.rows)
    ticks = "".join(f"<span>{tick}</span>" for tick in ("0", "0.25", "0.5", "0.75", "1"))
    axis = f'<span>{_text(block.axis)}</span><span class="ticks">{ticks}</span><span></span>'
    yield f'<div class="interval scale" aria-hidden="true">{axis}</div></div>{_caption(block.caption)}</figure>'


def _interval(row: Interval) -> str:
    required = "" if row.required is None else f'<path class="required" d="M{100 * row.required:.2f} 0V10"/>'
    low, high = 100 * row.low, 100 * max(row.high, row.low + 0.004)
    return (
        f'<div class="interval"><span>{_text(row.label)}</span>'
        f'<svg class="{row.tone}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="axis" d="M0 5H100M0 3V7M25 3V7M50 3V7M75 3V7M100 3V7"/>'
        f'<path class="range" d="M{low:.2f} 5H{high:.2f}"/>'
        f'<path class="estimate" d="M{100 * row.estimate:.2f} 1V9"/>{required}</svg>'
        f'<span class="numbers">{share(row.estimate)} ({share(row.low)}–{share(row.high)}) '
        f'<b class="mark {row.tone}">{SIGNS[row.tone]}</b></span></div>'
    )


def _policy(policy: Policy) -> Iterator[str]:
    """Yield a map for every run, or a table of the states."""
    rows = policy.cells
    if not rows or sum(map(len, rows)) > _SQUARES:
        yield from _table(policy.table)
        return
    signs, columns = letters(policy), max(map(len, rows))
    yield '<figure><div class="boards">'
    for name, actions in policy.runs:
        size = f"flex-basis:{max(9, 2 * columns)}rem;max-width:{max(9, 4 * columns)}rem"
        box = f"-1 -1 {_SQUARE * columns + 2} {_SQUARE * len(rows) + 2}"
        yield f'<div class="board" style="{size}"><b>{_text(name)}</b>'
        yield f'<svg viewBox="{box}" role="img" aria-label="{_text(name)}">'
        for y, row in enumerate(rows):
            for x, (letter, state) in enumerate(row):
                square = _square(policy, letter, state, actions, signs)
                yield f'<g transform="translate({_SQUARE * x} {_SQUARE * y})">{square}</g>'
        yield "</svg></div>"
    legend = ", ".join(f"{sign}: {name}" for name, sign in signs.items() if sign not in (name, ARROWS.get(name)))
    marked = f"≠ marks the states in which the runs differ: {len(policy.differing)}." if policy.differing else ""
    yield f"</div>{_caption(' '.join(filter(None, [policy.caption, marked, legend])))}</figure>"


def _square(policy: Policy, letter: str, state: int | None, actions: Sequence[str], signs: dict[str, str]) -> str:
    if state is None:
        return '<rect class="wall" x="1" y="1" width="38" height="38" rx="3"/>'
    differs, action = state in policy.differing, actions[state]
    kind, sign = ("action", signs[action]) if letter in OPEN else ("goal", letter)
    return (
        f"<title>{_text(policy.states[state])}: {_text(action)}</title>"
        f'<rect class="state{" differs" * differs}" x="1.5" y="1.5" width="37" height="37" rx="3"/>'
        f'<text class="{kind}" x="20" y="27">{_text(sign)}</text>'
        + '<text class="unequal" x="32" y="13">≠</text>'
        * differs
    )
