"""Small pieces of HTML for notebooks: tables and paragraphs without colours, which every theme shows in its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from replicable_rl.wording import visible


def text(words: str) -> str:
    """Return a text that is no HTML, whatever it holds."""
    return escape(visible(words))


def paragraphs(lines: Sequence[str]) -> str:
    """Return a paragraph for every text that is not empty."""
    return "".join(f"<p>{text(line)}</p>" for line in lines if line)


def facts(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    body = "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in rows)
    return f"<table><caption>{text(title)}</caption><tbody>{body}</tbody></table>"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{text(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def more(count: int) -> str:
    """Say how many rows a table leaves out."""
    return f"<p>{count} more are not listed.</p>" if count > 0 else ""
