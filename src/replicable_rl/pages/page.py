"""A page: one HTML file that needs nothing else, neither a server nor a network.

    page = Page("Title", "What this is.", [Section("first", "First", [Text(["A sentence with `code`."])])])
    write(page, "results/index.html")

The same page gives the same bytes: nothing is drawn from a clock. Our own sentences have a little markup, ```code```
and ``*emphasis*``; everything else is text.

Three nets, one under the other, keep everything else out. Jinja2 escapes every text. Data for the script is JSON in
which ``<``, ``>``, ``&`` and ``'`` are written as escapes, so that no text ends its element. And the page tells the
browser to run no script but the one whose SHA-256 it names, and to fetch nothing at all.
"""

import base64
import functools
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup, escape

from replicable_rl.files import write_text
from replicable_rl.pages.blocks import (
    Callout,
    Cell,
    Code,
    DataTable,
    Facts,
    Figure,
    Heading,
    Inline,
    Intervals,
    Mark,
    Plain,
    Text,
    aligned,
    text_of,
)
from replicable_rl.wording import visible

Block = Text | Heading | Callout | Facts | Figure | DataTable | Intervals

_SHORT = 24  # characters of a cell that is not broken into lines
_SPAN = re.compile(r"`([^`]+)`|\*([^*\s](?:[^*]*[^*\s])?)\*")
_SIGNS = {"good": "✓", "bad": "✗", "unsure": "?", "plain": ""}


@dataclass(frozen=True)
class Section:
    """A part of the page with its own line in the table of contents.

    ``id`` is its anchor: lower-case letters, digits and "-". In the table of contents it is called ``label`` where the
    title is too long for that, under the name of its ``group`` where it has one.
    """

    id: str
    title: Inline
    blocks: Sequence[Block]
    label: Inline | None = None
    group: str | None = None


@dataclass(frozen=True)
class Page:
    """A title, a first sentence that says what this is, and the sections; ``command`` is what made the page."""

    title: str
    lead: Inline
    sections: Sequence[Section]
    command: str | None = None


def write(page: Page, path: str | os.PathLike[str]) -> None:
    """Write a page to a file, whole or not at all."""
    write_text(path, render(page))


def render(page: Page) -> str:
    """Return the HTML of a page.

    >>> "<script>alert" in render(Page("<script>alert(1)</script>", "", []))
    False
    """
    templates = _templates()
    script, style = (templates.get_template(name).render() for name in ("script.js", "style.css"))
    html = templates.get_template("page.html").render(page=page, style=style, script=script, policy=_policy(script))
    return visible(html)  # a text may turn the direction of writing, or be none that a file can hold


def _policy(script: str) -> str:
    """Return the Content-Security-Policy: nothing from elsewhere, and this one script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    rules = {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",  # sizes of pictures
        "script-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("replicable_rl.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": inline, "code": code, "plain": plain, "text": text_of}
    environment.globals |= {"kind_of": _kind_of, "signs": _SIGNS, "rows_of": _rows, "version": version("replicable-rl")}
    return environment


def _kind_of(cell: Any) -> str:
    return "code" if isinstance(cell, Code) else "mark" if isinstance(cell, Mark) else "text"


def _rows(table: DataTable) -> list[list[tuple[str, Cell]]]:
    """Return the cells as classes and what is shown: numbers of a column have their points under each other."""
    columns = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    shown = [aligned(column) if numeric else column for column, numeric in zip(columns, table.numeric, strict=True)]
    kinds = ["number" if numeric else "words" for numeric in table.numeric]
    return [
        [
            (kind if len(text_of(cell)) > _SHORT else f"{kind} short", cell)
            for kind, cell in zip(kinds, row, strict=True)
        ]
        for row in zip(*shown, strict=True)
    ]


def inline(text: Inline) -> Markup:
    """Return a sentence as HTML, escaped.

    >>> print(inline("run `a<b` *twice*"))
    run <code>a&lt;b</code> <em>twice</em>
    >>> print(inline(["made by ", Code("*<script>*")]))
    made by <code>*&lt;script&gt;*</code>
    """
    pieces = [text] if isinstance(text, str) else text
    return Markup("").join(map(_piece, pieces))


def plain(text: Inline) -> str:
    """Return a sentence without its markup, for where only text can stand.

    >>> plain(["run `a` ", Code("*b*")])
    'run a *b*'
    """
    pieces = [text] if isinstance(text, str) else text
    return "".join(
        _SPAN.sub(lambda span: span[1] or span[2], piece) if isinstance(piece, str) else piece.text for piece in pieces
    )


def code(text: str) -> Markup:
    """Return code as HTML; a long name is broken after a comma or a colon, if need be.

    >>> print(code("a:b=1,c=2"))
    <code>a:<wbr>b=1,<wbr>c=2</code>
    """
    return Markup("<code>{}</code>").format(Markup("<wbr>").join(map(escape, re.split(r"(?<=[:,])(?=[^\s])", text))))


def _piece(piece: str | Code | Plain) -> Markup:
    if isinstance(piece, Code):
        return code(piece.text)
    return escape(piece.text) if isinstance(piece, Plain) else _marked_up(piece)


def _marked_up(text: str) -> Markup:
    done, at = Markup(""), 0
    for span in _SPAN.finditer(text):
        done += escape(text[at : span.start()])
        done += code(span[1]) if span[1] else Markup("<em>{}</em>").format(span[2])
        at = span.end()
    return done + escape(text[at:])
