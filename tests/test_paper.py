"""The paper's numbers: read from its LaTeX, shown beside labels, stored nowhere; and the map from paper to code."""

from __future__ import annotations

import importlib
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from replicable_rl.paper import NUMBERS, PAPER_URL, cited
from replicable_rl.records import Claim, Claims
from tests.paper_numbers import Item, compared, items

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
ITEMS = [Item(**one) for one in json.loads((ROOT / "tests/vectors/paper.json").read_text(encoding="utf-8"))]
LATEX = Path(os.environ.get("PAPER_TEX", "paper.tex"))
ROW = re.compile(
    r"^\| (?P<item>[A-Z]\w+ [\w.]+(?: \(`[\w:-]+`\))?) \|(?P<words>[^|\n]*)\|(?P<code>[^|\n]*)\|(?P<test>[^|\n]*)\|",
    re.MULTILINE,
)

SMALL = r"""
\newif\ifarxiv \arxivtrue
\newtheorem{theorem}{Theorem}[section] \newtheorem{lemma}{Lemma}[section]
\begin{document}
\section{One} \label{sec:one}
\begin{theorem}[A name, \cite{them}]\label{thm:a} Text. \begin{equation} x \label{eq:x} \end{equation}\end{theorem}
% \begin{theorem} is commented out \end{theorem}
\ifarxiv \begin{lemma}\label{lem:a} \end{lemma} \else \begin{lemma} \end{lemma} \begin{theorem} \end{theorem} \fi
\subsection{Below}
\begin{restatable}[Again]{lem}{again} \label{lem:undeclared} \end{restatable}
\begin{algorithm} \caption{First} \label{alg:a} \end{algorithm}
\begin{figure} \caption*{Not counted} \caption{Counted} \label{fig:a} \end{figure}
\section{Two}
\begin{theorem} \label{thm:b} \end{theorem}
\appendix
\section{More} \begin{theorem}\label{thm:c}\end{theorem} \subsubsection{Deep}
\end{document}
"""


def _key(one: Item) -> str:
    return f"{one.kind} {one.number}" + f" (`{one.label}`)" * bool(one.label)


# --- numbers -----------------------------------------------------------------------------------


def test_a_small_paper_is_counted_as_latex_counts() -> None:
    assert [one[:3] for one in items(SMALL)] == [
        ("Section", "1", "sec:one"),
        ("Theorem", "1.1", "thm:a"),
        ("Equation", "1", "eq:x"),
        ("Lemma", "1.1", "lem:a"),
        ("Section", "1.1", ""),
        ("Lemma", "1.1", "lem:undeclared"),
        ("Algorithm", "1", "alg:a"),
        ("Figure", "1", "fig:a"),
        ("Section", "2", ""),
        ("Theorem", "2.1", "thm:b"),
        ("Appendix", "A", ""),
        ("Theorem", "A.1", "thm:c"),
        ("Appendix", "A.1", ""),
    ]
    assert items(SMALL)[1].title == "A name"
    assert "Lemma 1.2" not in {f"{one.kind} {one.number}" for one in items(SMALL.replace(r"\arxivtrue", ""))}
    assert ("Theorem", "1.2", "") in [one[:3] for one in items(SMALL.replace(r"\arxivtrue", r"\arxivfalse"))]


def test_labels_are_compared_with_what_latex_wrote() -> None:
    found = [Item("Theorem", "1.1", "thm:a", ""), Item("Lemma", "1.2", "lem:b", "")]
    aux = r"\newlabel{thm:a}{{1.1}{3}{A name}{theorem.1.1}{}}" + "\n" + r"\newlabel{lem:b}{{1.3}{4}{}{lemma.1.3}{}}"
    assert compared(found, aux) == ["lem:b: 1.2 here, 1.3 in the .aux"]
    assert compared(found[:1], aux.splitlines()[0]) == []


@pytest.mark.skipif(not LATEX.is_file(), reason="the paper's LaTeX is not here; PAPER_TEX names it")
def test_the_list_is_that_of_the_latex() -> None:
    assert items(LATEX.read_text(encoding="utf-8")) == ITEMS


def test_the_code_knows_every_label_by_its_number() -> None:
    assert dict(NUMBERS) == {one.label: f"{one.kind} {one.number}" for one in ITEMS if one.label}


# --- how they are shown ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("nothing of the paper", "nothing of the paper"),
        ("thm:rpvi", "Theorem 4.1 (thm:rpvi)"),
        ("thm:rpvi-v2 and xthm:rpvi and thm:", "thm:rpvi-v2 and xthm:rpvi and thm:"),
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
    claim = Claim("replicability", "proved", "two runs agree", 0.2, "the sharp form of thm:rpvi")
    claims = Claims((claim,), {"accuracy": "calls=1 where thm:rpvi needs 2"})
    assert "Theorem 4.1, thm:rpvi" in str(claim)
    assert "where Theorem 4.1 (thm:rpvi) needs" in str(claims)
    assert "Theorem" not in json.dumps(claims.to_json())
    assert Claims.from_json(claims.to_json()) == claims


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


@pytest.mark.parametrize("one", ITEMS, ids=_key)
def test_every_item_of_the_paper_is_on_the_map(one: Item) -> None:
    rows = [row["item"] for row in ROW.finditer(PAGE)]
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    is_heading = one.kind in ("Section", "Appendix") and any(_key(one) in heading for heading in headings)
    assert is_heading or rows.count(_key(one)) == 1


def test_the_map_has_nothing_that_the_paper_has_not() -> None:
    known = {_key(one) for one in ITEMS}
    rows = [row["item"] for row in ROW.finditer(PAGE)]
    assert len(rows) == len(set(rows)) == len(re.findall(r"^\| [A-Z]", PAGE, re.MULTILINE))
    assert set(rows) <= known


def test_every_name_on_the_map_is_importable_and_every_test_is_there() -> None:
    for row in ROW.finditer(PAGE):
        names, tests = (re.findall(r"`([^`]+)`", row[column]) for column in ("code", "test"))
        assert names, row["item"]
        assert tests, row["item"]
        for name in names:
            assert _exists(name), f"{row['item']}: replicable_rl.{name} cannot be imported"
        for test in tests:
            module, _, function = test.partition("::")
            text = (ROOT / "tests" / f"{module}.py").read_text(encoding="utf-8")
            assert f"def {function}(" in text if function else "def test_" in text, f"{row['item']}: no {test}"


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
