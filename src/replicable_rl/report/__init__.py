"""Documents: what a result says, as a list of blocks, and the writers that show it.

    class Weather(Documented):
        def document(self):
            return [Heading("Weather", 1), Text("It rains.", tone="bad"), Facts([("rain", 0.8)])]

A result inherits from :class:`Documented` and says once what there is to say; ``print``, a notebook and ``save_page``
show it. The first block is a heading of level 1: the title.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from replicable_rl.errors import check_integer
from replicable_rl.files import write_text
from replicable_rl.report.blocks import (
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
)
from replicable_rl.report.html import fragment, page
from replicable_rl.report.text import text

__all__ = [
    "Block",
    "Cell",
    "Command",
    "Documented",
    "Facts",
    "Figure",
    "Heading",
    "Interval",
    "Intervals",
    "Mark",
    "Policy",
    "Table",
    "Text",
    "Tone",
    "fragment",
    "page",
    "text",
]


class Documented(ABC):
    """A result that is more than a line: it says once what there is to say, and every writer shows it."""

    @abstractmethod
    def document(self) -> list[Block]:
        """Return the blocks; the first is a heading of level 1, the title."""

    def text(self, width: int = 80, details: bool = False) -> str:
        """Return the document as text, at most ``width`` columns wide; with ``details``, all of it."""
        width = check_integer("text", "width", width, low=1, high=10_000)
        return text(self.document(), width, details)

    def save_page(self, path: str | os.PathLike[str], command: str | None = None) -> None:
        """Write the document as an HTML file that needs no network; ``command`` is what made it."""
        title, *blocks = self.document()
        assert isinstance(title, Heading)
        write_text(path, page(title.text, blocks, command))

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return fragment(self.document())
