"""The little markup of our own sentences: ```code``` and ``*emphasis*``; everything else is text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from replicable_rl.report.blocks import Code, Inline, Plain

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["code", "inline", "plain"]

_SPAN = re.compile(r"`([^`]+)`|\*([^*\s](?:[^*]*[^*\s])?)\*")


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
