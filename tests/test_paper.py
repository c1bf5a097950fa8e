"""The paper's numbers: shown beside labels, stored nowhere; and the map from paper to code."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

from replicable_rl.paper import NUMBERS, PAPER_URL, cited
from replicable_rl.runs import OURS, Claims, LibraryClaim

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| [A-Z]\w+ [\w.]+(?: \(`[\w:-]+`\))? \|[^|\n]*\|(?P<code>[^|\n]*)\|", re.MULTILINE)


# --- how they are shown ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("nothing of the paper", "nothing of the paper"),
        ("thm:rpvi", "Theorem 4.1 (thm:rpvi)"),
        ("thm:rpvi-v1 and xthm:rpvi and thm:", "thm:rpvi-v1 and xthm:rpvi and thm:"),
        ("thm:rpvi; obs:rep-mdp", "Theorem 4.1 (thm:rpvi); Observation B.1 (obs:rep-mdp)"),
        ("(thm:rpvi)", "(Theorem 4.1, thm:rpvi)"),
        ("(a thm:rpvi b) thm:rpvi.", "(a Theorem 4.1, thm:rpvi, b) Theorem 4.1 (thm:rpvi)."),
        (":) thm:rpvi", ":) Theorem 4.1 (thm:rpvi)"),
    ],
)
def test_a_number_stands_beside_its_label(text: str, shown: str) -> None:
    assert cited(text) == shown


def test_numbers_are_shown_and_labels_are_stored() -> None:
    """What is stored must not change: identities and old files depend on it."""
    claim = LibraryClaim("replicability", "proved", "two runs agree", 0.2, "the sharp form of thm:rpvi")
    claims = Claims((claim,), {"accuracy": "calls=1 where thm:rpvi needs 2"})
    assert "Theorem 4.1, thm:rpvi" in str(claim)
    assert "where Theorem 4.1 (thm:rpvi) needs" in str(claims)
    assert "Theorem" not in json.dumps(claims.to_json())
    assert Claims.from_json(claims.to_json(), OURS) == claims


def test_pages_never_show_a_label_without_its_number() -> None:
    label = re.compile(rf"(?P<before>.{{0,24}})`(?P<label>{'|'.join(map(re.escape, NUMBERS))})`")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    bare = []
    for page in pages:
        text = page.read_text(encoding="utf-8").partition("Three things to know" if page.name == "paper.md" else "\0")[
            0
        ]
        for found in label.finditer(text):
            if not found["before"].endswith((f"{NUMBERS[found['label']]} (", f"{NUMBERS[found['label']]}, ")):
                bare.append(f"{page.name}: {found[0]}")
    assert bare == []


# --- the map -----------------------------------------------------------------------------------


def test_every_name_on_the_map_is_importable() -> None:
    rows = list(ROW.finditer(PAGE))
    assert len(rows) > 30
    for row in rows:
        names = re.findall(r"`([^`]+)`", row["code"])
        assert [name for name in names if not _exists(name)] == []
        assert names


def _exists(name: str) -> bool:
    """Whether a dotted name below the package is there: a module, or something in one."""
    *path, last = name.split(".")
    for depth in range(len(path), -1, -1):
        try:
            thing = importlib.import_module(".".join(["replicable_rl", *path[:depth]]))
        except ModuleNotFoundError:
            continue
        for part in [*path[depth:], last]:
            if not hasattr(thing, part):
                break
            thing = getattr(thing, part)
        else:
            return True
    return False


def test_the_checker_of_names_can_fail() -> None:
    assert _exists("theory.rstat")
    assert _exists("algorithms.phased_vi.phased_value_iteration")
    assert not _exists("theory.no_such_name")
    assert not _exists("no_such_module.rstat")


# --- the package -------------------------------------------------------------------------------


def _texts() -> dict[str, str]:
    """Return all that people read, by the name of its file."""
    patterns = ("README.md", "docs/**/*.md", "src/**/*.py", "examples/*.py", "dev/**/*.py")
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in ROOT.glob(pattern)
    }


def test_what_is_to_be_installed_can_be_installed() -> None:
    """The package is published nowhere yet: it comes from a checkout, and other libraries by their own names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = {re.split(r"[>=<]", one)[0] for extra in [project["dependencies"], *extras.values()] for one in extra}
    asked = [
        (name, remedy.strip("'\""))
        for name, text in _texts().items()
        for remedy in re.findall(
            r"pip install (?:-e |--force-reinstall )?('[^']+'|\"[^\"]+\"|[\w.\[\]-]*[\w\]]|\.)", text
        )
        if "{" not in remedy  # filled in when it is said
    ]
    assert len(asked) > 8
    for name, remedy in asked:
        if remedy.startswith("."):
            inside = remedy.strip(".[]")
            assert all(extra in extras for extra in inside.split(",") if extra), f"{name}: no extra {remedy}"
        else:
            assert remedy in needed, f"{name}: pip install {remedy} is not what the extras ask for"


def test_links_of_the_project_are_true() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"] == {"Paper": PAPER_URL}
    for name in ("README.md", "CITATION.cff", "docs/index.md", "docs/paper.md"):
        assert PAPER_URL in (ROOT / name).read_text(encoding="utf-8"), name
