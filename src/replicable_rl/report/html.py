"""From pages to HTML: the templates, what they may call, and the policy that keeps everything else out.

Three nets, one under the other. Jinja2 escapes every text. Data for the script is JSON in which ``<``, ``>``,
``&`` and ``'`` are written as escapes, so that no text ends its element. And the page tells the browser to run no
script but the one whose SHA-256 it names, and to fetch nothing at all.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import TYPE_CHECKING, Any

from replicable_rl.report.blocks import Cell, Code, DataTable, Mark, aligned, text_of
from replicable_rl.report.markup import code, inline, plain

if TYPE_CHECKING:
    import jinja2

    from replicable_rl.report.page import Page

__all__ = ["to_html"]

_SHORT = 24  # characters of a cell that is not broken into lines
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
