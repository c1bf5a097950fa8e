"""From pages to HTML: the templates, what they may call, and the policy that keeps everything else out.

Our own sentences have a little markup, ```code``` and ``*emphasis*``; everything else is text.

Three nets, one under the other. Jinja2 escapes every text. Data for the script is JSON in which ``<``, ``>``,
``&`` and ``'`` are written as escapes, so that no text ends its element. And the page tells the browser to run no
script but the one whose SHA-256 it names, and to fetch nothing at all.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from typing import TYPE_CHECKING, Any

from replicable_rl.report.blocks import Cell, Code, DataTable, Inline, Mark, Plain, aligned, text_of

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

    from replicable_rl.report.page import Page

_SHORT = 24  # characters of a cell that is not broken into lines
_SPAN = re.compile(r"`([^`]+)`|\*([^*\s](?:[^*]*[^*\s])?)\*")
_SIGNS = {"good": "✓", "bad": "✗", "unsure": "?", "plain": ""}


def to_html(page: Page) -> str:
    """Return the text of the file."""
    templates = _templates()
    script = templates.get_template("script.js").render()
    return templates.get_template("page.html").render(
        page=page, style=templates.get_template("style.css").render(), script=script, policy=_policy(script)
    )


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
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("replicable_rl.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": inline, "code": code, "plain": plain, "text": text_of}
    environment.globals |= {"kind_of": _kind_of, "signs": _SIGNS, "rows_of": _rows, "version": _version()}
    return environment


def _version() -> str:
    from importlib.metadata import version

    return version("replicable-rl")


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
    from markupsafe import Markup

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
    from markupsafe import Markup, escape

    return Markup("<code>{}</code>").format(Markup("<wbr>").join(map(escape, re.split(r"(?<=[:,])(?=[^\s])", text))))


def _piece(piece: str | Code | Plain) -> Markup:
    from markupsafe import escape

    if isinstance(piece, Code):
        return code(piece.text)
    return escape(piece.text) if isinstance(piece, Plain) else _marked_up(piece)


def _marked_up(text: str) -> Markup:
    from markupsafe import Markup, escape

    done, at = Markup(""), 0
    for span in _SPAN.finditer(text):
        done += escape(text[at : span.start()])
        done += code(span[1]) if span[1] else Markup("<em>{}</em>").format(span[2])
        at = span.end()
    return done + escape(text[at:])
