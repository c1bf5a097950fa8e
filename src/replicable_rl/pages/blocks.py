"""What a page is made of: paragraphs, figures, tables, intervals, pictures of policies.

A block is plain, frozen data; it knows nothing of HTML. Where it is drawn is the business of one macro
of ``templates/blocks.html``, named as the block's ``kind``.

**Two sorts of text.** What we write ourselves (:data:`Inline`: paragraphs, captions, titles of columns) may say
```code``` and ``*emphasis*``. What comes out of a file that somebody else wrote (names, parameters, messages)
goes into :class:`Code`, :class:`Plain` or a cell of a table, where every character stands for itself. Neither is
ever HTML.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from replicable_rl.wording import minus, number

Tone = Literal["good", "bad", "unsure", "plain"]
_NUMERALS = re.compile(r"[-−+]?[0-9][-−+0-9.,e–×% ()]*")  # a number, or an interval of them


@dataclass(frozen=True)
class Code:
    """Text in which every character stands for itself, in the type of code."""

    text: str


@dataclass(frozen=True)
class Plain:
    """Text in which every character stands for itself."""

    text: str


@dataclass(frozen=True)
class Mark:
    """A word with a sign before it, as ✓ met: readable without its colour."""

    text: str
    tone: Tone = "plain"


Inline = str | Sequence[str | Code | Plain]
Cell = str | int | float | Code | Mark | None


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    kind: ClassVar[str] = "text"
    paragraphs: Sequence[Inline]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section, which the table of contents leaves out."""

    kind: ClassVar[str] = "heading"
    title: Inline


@dataclass(frozen=True)
class Callout:
    """The one sentence that a reader in a hurry should see."""

    kind: ClassVar[str] = "callout"
    text: Inline
    tone: Tone = "plain"


@dataclass(frozen=True)
class Facts:
    """Names and what they are, one under the other."""

    kind: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, Cell]]


@dataclass(frozen=True)
class Figure:
    """A picture, how to read it, and the command that made it.

    It is shown as an image, never as a part of the page: its ids cannot clash with those of another, and no
    script inside it runs.
    """

    kind: ClassVar[str] = "figure"
    svg: bytes  # the text of an SVG file
    alt: str  # what it shows, for those who cannot see it
    caption: Inline
    command: str | None = None
    downloads: Sequence[tuple[str, str]] = ()  # label and relative address of files beside the page

    @property
    def uri(self) -> str:
        """The picture as a ``data:`` address."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode('ascii')}"


@dataclass(frozen=True)
class DataTable:
    """Rows under columns. A column of numbers (or of texts of digits) is set flush right; ``None`` is a dash.

    Texts are shown as they are. ``note`` says what was left out.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[Inline]
    rows: Sequence[Sequence[Cell]]
    caption: Inline
    command: str | None = None
    downloads: Sequence[tuple[str, str]] = ()
    note: Inline | None = None

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold nothing but numbers."""
        return [
            any(cell is not None for cell in column) and all(_is_number(cell) for cell in column)
            for column in ([row[i] for row in self.rows] for i in range(len(self.columns)))
        ]


@dataclass(frozen=True)
class Interval:
    """One line of :class:`Intervals`: an estimate in [0, 1], the ends of its interval, and what is asked of it.

    ``href`` leads to the section that says more, as ``#audit-3``.
    """

    label: Inline
    estimate: float
    low: float
    high: float
    required: float | None = None
    tone: Tone = "plain"
    href: str | None = None


@dataclass(frozen=True)
class Intervals:
    """Estimates with their intervals on one axis from 0 to 1; a bar across marks what is required."""

    kind: ClassVar[str] = "intervals"
    rows: Sequence[Interval]
    caption: Inline
    axis: str = "agreement"
    command: str | None = None


def text_of(cell: Cell) -> str:
    """Write a cell for a person, with a real minus sign and a dash for nothing.

    >>> [text_of(x) for x in (12967, 8187898146367124, 0.25, None, Code("<b>"), Mark("met", "good"))]
    ['12967', '8.188e+15', '0.25', '–', '<b>', 'met']
    """
    if cell is None:
        return "–"
    if isinstance(cell, (Code, Mark)):
        return cell.text
    return cell if isinstance(cell, str) else minus(number(cell))


def aligned(column: Sequence[Cell]) -> list[Cell]:
    """Write a column of numbers with the same number of digits after the point, where none needs a power of ten.

    >>> aligned([1.0, 0.2333, None, 0.5]), aligned([3, 4]), aligned([1e-9, 0.5])
    (['1.0000', '0.2333', '–', '0.5000'], ['3', '4'], ['1e−09', '0.5'])
    """
    texts = [text_of(cell) for cell in column]
    digits = max((len(text.partition(".")[2]) for text in texts), default=0)
    if not digits or any("e" in text for text in texts):
        return list(texts)
    return [minus(f"{cell:.{digits}f}") if isinstance(cell, float) else text_of(cell) for cell in column]


def _is_number(cell: Cell) -> bool:
    if isinstance(cell, str):
        return _NUMERALS.fullmatch(cell) is not None
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))
