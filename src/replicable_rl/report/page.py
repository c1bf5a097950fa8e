"""A page: one HTML file that needs nothing else, neither a server nor a network.

    page = Page("Title", "What this is.", [Section("first", "First", [Text(["A sentence with `code`."])])])
    write(page, "results/index.html")

The same page gives the same bytes: nothing is drawn from a clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from replicable_rl.errors import InvalidInput
from replicable_rl.files import replacing
from replicable_rl.report.blocks import Callout, DataTable, Facts, Figure, Heading, Inline, Intervals, Text
from replicable_rl.report.policy import PolicyPicture

Block = Text | Heading | Callout | Facts | Figure | DataTable | Intervals | PolicyPicture

_ID = re.compile(r"[a-z][a-z0-9-]*")
_TAKEN = ("top", "contents")  # ids of the page itself


@dataclass(frozen=True)
class Section:
    """A part of the page with its own line in the table of contents.

    ``id`` is its anchor. In the table of contents it is called ``label`` where the title is too long for that, under
    the name of its ``group`` where it has one.
    """

    id: str
    title: Inline
    blocks: Sequence[Block]
    label: Inline | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or self.id in _TAKEN:
            raise InvalidInput(
                f"Section: id must be lower-case letters, digits and '-', and not {' or '.join(_TAKEN)}; "
                f"got {self.id!r}."
            )


@dataclass(frozen=True)
class Page:
    """A title, a first sentence that says what this is, and the sections; ``command`` is what made the page."""

    title: str
    lead: Inline
    sections: Sequence[Section]
    command: str | None = None

    def __post_init__(self) -> None:
        ids = [section.id for section in self.sections]
        for id in ids:
            if ids.count(id) > 1:
                raise InvalidInput(f"Page: two sections have the id {id!r}. Give each its own.")


def render(page: Page) -> str:
    """Return the HTML of a page.

    >>> "<script>alert" in render(Page("<script>alert(1)</script>", "", []))
    False
    """
    from replicable_rl.report.html import to_html

    return to_html(page)


def write(page: Page, path: str | os.PathLike[str]) -> None:
    """Write a page to a file, whole or not at all."""
    text = render(page)
    with replacing(path) as stream:
        stream.write(text.encode())
