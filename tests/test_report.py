"""Documents: what every writer shows of a block, that texts are escaped, and that a page runs and fetches nothing."""

from __future__ import annotations

import html.parser
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.report import (
    Block,
    Cell,
    Command,
    Documented,
    Facts,
    Figure,
    Heading,
    Interval,
    Intervals,
    Mark,
    Policy,
    Table,
    Text,
    fragment,
    page,
    text,
)

EVIL = "</style></script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&`*\x1b[31m\u202e"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
GRID = Policy([f"s{i}" for i in range(5)], [("a", ["up"] * 5), ("b", ["up", "left"] + ["up"] * 3)], ["G.", "#.", ".."])


def every_block(word: str, detail: bool = False) -> list[Block]:
    """Every kind of block with a word wherever a text may stand."""
    return [
        Text(word, detail=detail),
        Text(word, "bad", detail=detail),
        Heading(word, 3, detail=detail),
        Facts([(word, word), (word, Mark(word, "good")), (word, None)], detail=detail),
        Table([word, "n"], [[word, 1.0], [Mark(word, "unsure"), 0.25], [None, None]], word, detail=detail),
        Intervals([Interval(word, 0.5, 0.25, 1.0, 0.8, "bad")], word, word, detail=detail),
        Policy([word, "t"], [(word, [word, "up"]), ("other", [word, word])], caption=word, detail=detail),
        Figure(SVG, word, word, detail=detail),
        Command(word, [word], detail=detail),
    ]


class Elements(html.parser.HTMLParser):
    """What a browser would run, fetch or show."""

    def __init__(self, document: str = "") -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("document", [page(EVIL, every_block(EVIL), EVIL), fragment(every_block(EVIL))])
def test_planted_html_is_shown_and_never_run(document: str) -> None:
    elements = Elements(document)
    assert "script" not in {tag for tag, _ in elements.tags}
    assert not any(name.startswith("on") for _, attributes in elements.tags for name in attributes)
    sources = [attributes["src"] or "" for tag, attributes in elements.tags if tag == "img"]
    assert [source.startswith("data:image/svg+xml;base64,") for source in sources] == [True]
    assert elements.text.count("<img src=x onerror=alert(1)>") >= 9
    assert "\x1b" not in document
    assert "\u202e" not in document


def test_a_page_forbids_scripts_and_fetches_nothing() -> None:
    blocks = [Heading("First"), Heading("Second"), Heading("Third"), *every_block("word")]
    document = page("A title", blocks, "a command")
    policy = next(attributes["content"] for tag, attributes in Elements(document).tags if "http-equiv" in attributes)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert not any(outside in document for outside in ("http:", "https:", "@import", "url("))
    assert document == page("A title", blocks, "a command")
    links = [attributes["href"] for tag, attributes in Elements(document).tags if tag == "a"]
    assert links == ["word"]


@given(st.text(min_size=1), st.integers(1, 90))
def test_any_text_is_one_of_its_own(word: str, width: int) -> None:
    assert not {tag for tag, _ in Elements(fragment([Text(word)])).tags} - {"div", "style", "p"}
    for line in text(every_block(word), width, details=True).splitlines():
        assert not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in line)


@pytest.mark.parametrize("width", [40, 57, 80])
def test_lines_fit_their_width_and_lose_nothing(width: int) -> None:
    rows: list[list[Cell]] = [
        [f"state {i}", "left in 21 runs, right in 19 of them, " * i, i / 7, 12345678.0] for i in range(4)
    ]
    columns = ["state", "actions", "agreement", "a long heading of numbers"]
    blocks = [Table(columns, rows, "caption " * 20), Facts([("name " * 9, "value " * 30)]), *every_block("word " * 30)]
    lines = text([block for block in blocks if not isinstance(block, Command)], width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(f"{i / 7:.4f}" in "\n".join(lines) for i in range(1, 4)), "no number is cut"


def test_details_are_printed_when_asked_for_and_folded_on_a_page() -> None:
    blocks = [Text("plain"), *every_block("rare", detail=True)]
    assert text(blocks) == "plain"
    assert text(blocks, details=True).count("rare") > 9
    assert "<details>" in page("t", blocks)
    assert "<details>" not in page("t", [Text("plain")])


def test_numbers_stand_under_each_other_and_negative_ones_keep_their_sign() -> None:
    table = Table(["name", "n", "interval"], [["a", -1.0, "0.9 (0.8–1.0)"], ["b", 0.25, "0.5 (0.1–0.9)"]])
    assert table.numeric == [False, True, True]
    assert [row[1] for row in table.texts] == ["−1.00", "0.25"]


def test_a_map_marks_where_two_runs_differ() -> None:
    assert text([GRID]).splitlines()[1] == "│ G │*↑ │      │ G │*← │"
    assert fragment([GRID]).count('class="unequal"') == 2
    wide = Policy(["a"] * 30, [("run", ["up"] * 30)], ["." * 30])
    assert "state" in text([wide]), "a map that does not fit is a table"
    long = Policy([str(i) for i in range(500)], [("a", ["up"] * 500), ("b", ["up"] * 499 + ["down"])])
    assert text([long]).splitlines()[1].split() == ["499", "*up", "*down"]
    assert "460 more states" in text([long])
    assert "460 more states" in fragment([long])


class Weather(Documented):
    def document(self) -> list[Block]:
        return [Heading("Weather", 1), Text("It rains.", "bad"), Text("Since noon.", detail=True)]


def test_a_documented_result_is_written_by_every_writer(tmp_path: Path) -> None:
    weather = Weather()
    assert str(weather) == weather.text() == "Weather\n\nIt rains."
    assert weather.text(details=True).endswith("Since noon.")
    assert weather._repr_html_() == fragment(weather.document())
    weather.save_page(tmp_path / "page.html", "a command")
    written = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert written.count("Weather") == 2, "the title and the heading"
    assert "a command" in written
    with pytest.raises(rr.InvalidInput, match="width"):
        weather.text(width=0)
