"""Pages: what the blocks say, that every text is escaped, and that nothing comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replicable_rl.pages.blocks import (
    Callout,
    Code,
    DataTable,
    Facts,
    Figure,
    Heading,
    Interval,
    Intervals,
    Mark,
    Plain,
    Text,
    aligned,
)
from replicable_rl.pages.page import Block, Page, Section, inline, plain, render, write
from replicable_rl.pages.policy import PolicyPicture, pair_of_numbers, picture_of, policy_run
from replicable_rl.problem.table import Labels

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&`*"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="9" height="9"/></svg>'


def picture(name: str = "First", *, actions: tuple[str, ...] = ("up", "down", "left", "right")) -> PolicyPicture:
    one = policy_run(name, [0, 3, 3], np.array([[1.0, 0, 0, 0], [0, 0, 1.0, 1.0], [0, 0, 0, 0]]))
    two = policy_run("Second", [0, 2, 3], np.array([[1.0, 0, 0, 0], [0, 0, 1.0 + 2**-52, 1.0], [0, 0, 0, 0]]))
    labels = Labels(("(0,0)", "(0,1)", "(1,0)"), actions, (".G", ".#"))
    return picture_of(labels, (one, two), caption="Two runs.", command="replicable-rl solve")


def every_block(text: str) -> list[Block]:
    """Every kind of block with a text wherever one can stand for itself."""
    return [
        Text([[Code(text), Plain(text)], text]),
        Heading(text),
        Callout([Plain(text)], "good"),
        Facts([(text, text), ("code", Code(text)), ("mark", Mark(text, "bad"))]),
        Figure(SVG, text, text, text, downloads=[(text, "data.csv")]),
        DataTable([text], [[text], [Code(text)], [Mark(text, "unsure")], [None], [1]], text, text, note=text),
        Intervals([Interval(text, 0.5, 0.25, 1.0, 0.8, "bad", "#first")], text, text, text),
        picture(text, actions=(text, "down", "left", "right")),
    ]


class Elements(html.parser.HTMLParser):
    """Collects what a browser would run, fetch, or show."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(page: Page) -> Elements:
    found = Elements()
    found.feed(render(page))
    return found


def test_a_page_is_whole_and_the_same_every_time(tmp_path: Path) -> None:
    page = Page("A title", "A *lead*.", [Section("first", "First", every_block("plain"))], "replicable-rl x")
    text = render(page)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert text == render(page)
    write(page, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    assert '<a href="#first">First</a>' in text
    assert "A <em>lead</em>." in text


def test_planted_html_is_shown_and_never_run() -> None:
    found = elements(Page(EVIL, EVIL, [Section("first", EVIL, every_block(EVIL), EVIL, EVIL)], EVIL))
    scripts = [attributes for tag, attributes in found.tags if tag == "script"]
    assert scripts == [{"type": "application/json"}, {}]  # the data of the picture, and our own
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert all((attributes["src"] or "").startswith("data:") for tag, attributes in found.tags if tag == "img")
    assert found.text.count("<img src=x onerror=alert(1)>") >= 10


@given(st.text(min_size=1))
def test_any_text_stands_for_itself(text: str) -> None:
    for said in (Code(text), Plain(text)):
        found = Elements()
        found.feed(f"<p>{inline([said])}</p>")
        assert {tag for tag, _ in found.tags} <= {"p", "code", "wbr"}
    assert plain([Code(text)]) == text


def test_markup_is_code_and_emphasis_and_nothing_else() -> None:
    assert str(inline("`a*b*` 2 * 3 * 4 *yes* <b>")) == "<code>a*b*</code> 2 * 3 * 4 <em>yes</em> &lt;b&gt;"
    assert plain("run `it` *twice*") == "run it twice"


def test_nothing_comes_from_elsewhere() -> None:
    text = render(Page("t", "l", [Section("first", "First", every_block("x"))]))
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", text)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy is not None
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in policy[1]
    assert "default-src &#39;none&#39;" in policy[1]


def test_a_picture_is_an_image_and_never_part_of_the_page() -> None:
    hostile = Figure(b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "a", "c")
    text = render(Page("t", "l", [Section("first", "F", [hostile])]))
    assert "alert(1)" not in text
    assert hostile.uri in text


def test_numbers_stand_under_each_other() -> None:
    table = DataTable(["name", "n", "interval"], [["a", 1.0, "0.9 (0.8–1.0)"], ["b", 0.25, "0.5 (0.1–0.9)"]], "c")
    assert table.numeric == [False, True, True]
    assert aligned([1.0, 0.25]) == ["1.00", "0.25"]
    assert aligned([12, 3.5, None]) == ["12", "3.5", "–"]
    assert '<td class="number short">1.00</td>' in render(Page("t", "l", [Section("a", "a", [table])]))


# --- pictures of policies ------------------------------------------------------------------------


def test_a_picture_says_what_both_runs_choose_and_how_close_it_was() -> None:
    drawn = picture()
    assert drawn.differing == [1]
    assert drawn.first == 0  # the state where they differ shows a letter
    same, other, tied = (drawn.data["states"][s] for s in "012")
    assert same["says"] == "Both choose up."
    assert same["rows"][0] == ["up", "1.0000", "1.0000", "=", [1, 1]]
    assert "All values are the same to the last bit." in same["remarks"]
    assert other["says"] == "First: right; Second: left."
    assert other["rows"][2] == ["left", "1.0000000000000000", "1.0000000000000002", "+2.2e−16", [0, 1]]
    assert other["remarks"] == ["First: left and right tie exactly.", "Second: left leads right by 2.2e−16."]
    assert "In both: all actions tie exactly." in tied["remarks"]


def test_the_map_of_a_picture() -> None:
    squares = {(square.row, square.column): square for square in picture().squares}
    assert squares[0, 1].letter == "G"
    assert squares[1, 1].state is None
    assert [squares[cell].state for cell in ((0, 0), (0, 1), (1, 0))] == [0, 1, 2]


def test_of_a_large_problem_the_states_that_differ_come_first() -> None:
    one, two = np.zeros(5_000, dtype=int), np.zeros(5_000, dtype=int)
    two[[4_321, 17]] = 1
    drawn = picture_of(None, (policy_run("a", one), policy_run("b", two)), caption="c", most=50)
    assert list(drawn.shown[:3]) == [17, 4_321, 0]
    assert len(drawn.squares) == 50
    assert "Of 5000 states, 50 are drawn" in str(drawn.note)
    assert len(render(Page("t", "l", [Section("a", "a", [drawn])]))) < 200_000


def test_of_many_actions_the_best_and_the_chosen_are_told() -> None:
    q = np.arange(100.0)[None, :]
    run = policy_run("a", [3], q)
    told = picture_of(None, (run, run), caption="c").data["states"]["0"]
    assert len(told["rows"]) == 11
    assert told["rows"][0][0] == "3"
    assert told["remarks"][0] == "89 more actions have smaller values."
    assert "99 leads 98 by 1, yet 3 is chosen" in told["remarks"][1]


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_print_alike_only_if_they_are_alike(one: float, two: float) -> None:
    first, second, gap = pair_of_numbers(one, two)
    assert (first == second) == (one == two) == (gap == "=")


def test_the_data_of_a_picture_is_json_that_cannot_end_its_element() -> None:
    text = render(Page("t", "l", [Section("a", "a", [picture(EVIL)])]))
    data = re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert not set(data[1]) & set("<>&'")
    assert json.loads(data[1])["runs"][0] == EVIL
