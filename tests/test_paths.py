"""The README leads to a first result in two minutes of reading, and the docs have one path for each kind of user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
READERS = ["theorist", "table or a simulator", "logs", "training code", "reviewer", "teacher", "developer"]
WORDS_A_MINUTE = 230
STEP = re.compile(r"^\d\. \[[^\]]+\]\((?P<page>[\w-]+\.md)\), (?P<minutes>\d+) min: ", re.MULTILINE)


def prose(markdown: str) -> int:
    """Count the words outside of fenced blocks, and of tables that a command has made: those are looked up."""
    markdown = re.sub(r"<!-- made by .*?<!-- end -->", "", markdown, flags=re.DOTALL)
    return len(re.sub(r"^ *```.*?^ *```$|^\|[-:| ]+\|$", "", markdown, flags=re.MULTILINE | re.DOTALL).split())


def path_of(reader: str) -> str:
    (found,) = re.findall(rf"^### You are an? [^\n]*{reader}[^\n]*\n(.*?)(?=^### |\Z)", INDEX, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_first_result_is_two_minutes_into_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, _, rest = readme.partition("## Where to go from here")
    assert rest
    assert "pip install ." in first
    assert "assert one.fingerprints.policy == two.fingerprints.policy" in first
    assert "$ replicable-rl audit" in first
    assert len(first.split()) <= 2 * WORDS_A_MINUTE, "code and output count too"


@pytest.mark.parametrize("reader", READERS)
def test_a_path_is_a_few_pages_with_true_minutes(reader: str) -> None:
    steps = [(step["page"], int(step["minutes"])) for step in STEP.finditer(path_of(reader))]
    assert 3 <= len(steps) <= 5
    assert f"About {sum(minutes for _, minutes in steps)} minutes" in path_of(reader)
    for page, said in steps:
        takes = prose((DOCS / page).read_text(encoding="utf-8")) / WORDS_A_MINUTE
        assert abs(said - takes) <= max(1.5, 0.35 * takes), f"{page} takes {takes:.1f} minutes, not {said}"


@pytest.mark.parametrize("reader", READERS)
def test_the_navigation_follows_the_path(reader: str) -> None:
    """Pages of a path that stand in one section of the navigation stand there in the order of the path."""
    pages = [step["page"] for step in STEP.finditer(path_of(reader))]
    for section in re.split(r"^  - ", NAV, flags=re.MULTILINE):
        listed = re.findall(r": ([\w-]+\.md)$", section, re.MULTILINE)
        assert [page for page in listed if page in pages] == [page for page in pages if page in listed]


def test_every_page_can_be_reached_from_the_first() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    reached, ahead = {"index.md"}, ["index.md"]
    while ahead:
        page = DOCS / ahead.pop()
        for link in re.findall(r"\]\(([\w./-]+\.md)[)#]", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            name = str(target.relative_to(DOCS)) if target.is_relative_to(DOCS) else ""
            if name in pages and name not in reached:
                reached.add(name)
                ahead.append(name)
    assert pages - reached == set()


def test_every_library_that_people_ask_about_is_compared() -> None:
    page = (DOCS / "compared.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([^\]]+)\]\(https://[^)]+\) \|.*\|.*\|.*\|$", page, re.MULTILINE)
    assert rows == ["rlberry", "QuantEcon.py", "pymdptoolbox", "Stable-Baselines3", "rliable", "Minari", "d3rlpy"]
    assert "## Where we stop" in page
