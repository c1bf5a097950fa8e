r"""Read the numbers of theorems, algorithms and figures from the paper's LaTeX, as LaTeX would count them.

``python tests/paper_numbers.py paper.tex`` prints what tests/vectors/paper.json keeps. With ``--aux paper.aux`` it
compares every label with the file that pdflatex wrote, and says how many agree. No sentence of the paper is kept.

What is counted: ``\section`` and its kin, environments that ``\newtheorem`` declares, algorithms and figures with a
``\caption``, and ``equation``. Of ``\ifarxiv`` the branch that the file itself chooses is read. The paper restates two
lemmas in an environment ``lem`` that it never declares: LaTeX prints no heading there, and references show the number
of the subsection. This reader does the same.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import NamedTuple

_TOKEN = re.compile(
    r"\\(?P<section>(?:sub){0,2}section)\{"
    r"|\\(?P<appendix>appendix)\b"
    r"|\\begin\{restatable\}\[(?P<restated>[^\]]*)\]\{(?P<environment>\w+)\}\{\w+\}"
    r"|\\begin\{(?P<begin>\w+\*?)\}(?:\[(?P<title>(?:[^\][]|\[[^\]]*\])*)\])?"
    r"|\\end\{(?P<end>\w+\*?)\}"
    r"|\\(?P<caption>caption)\{"
    r"|\\label\{(?P<label>[^}]*)\}"
)
_FLOATS = ("algorithm", "figure")


class Item(NamedTuple):
    """One numbered thing: what it is, its number, its label or "", and its title or ""."""

    kind: str
    number: str
    label: str
    title: str


def chosen(tex: str) -> str:
    r"""Return a text with every ``\ifarxiv`` resolved as the file sets it."""
    arxiv = "\\arxivtrue" in tex
    kept, inside = [], []
    for part in re.split(r"(\\newif\\ifarxiv|\\ifarxiv|\\else\b|\\fi\b)", re.sub(r"(?<!\\)%.*", "", tex)):
        if part == "\\ifarxiv":
            inside.append(arxiv)
        elif part == "\\else" and inside:
            inside[-1] = not inside[-1]
        elif part == "\\fi" and inside:
            inside.pop()
        elif all(inside):
            kept.append(part)
    return "".join(kept)


def items(tex: str) -> list[Item]:
    """Return what is numbered, in the order of the text."""
    tex = chosen(tex)
    theorems = dict(re.findall(r"\\newtheorem\{(\w+)\}\{(\w+)\}\[section\]", tex))
    tex = tex[tex.index(r"\begin{document}") :]
    levels, counters, found = [0, 0, 0], dict.fromkeys([*theorems, *_FLOATS, "equation"], 0), list[Item]()
    letters, scopes = False, [-1]  # the item that a \label would name, by nested environment

    def add(kind: str, number: str, title: str = "") -> None:
        found.append(Item(kind, number, "", _plain(title)))
        scopes[-1] = len(found) - 1

    def section() -> str:
        first = chr(64 + levels[0]) if letters else str(levels[0])
        return ".".join([first, *(str(level) for level in levels[1:] if level)])

    for token in _TOKEN.finditer(tex):
        if depth := token["section"]:
            place = depth.count("sub")
            levels[place:] = [levels[place] + 1, *[0] * (2 - place)]
            if place == 0:
                counters.update(dict.fromkeys(theorems, 0))
            add("Appendix" if letters else "Section", section(), _argument(tex, token.end()))
        elif token["appendix"]:
            letters, levels = True, [0, 0, 0]
        elif token["restated"] is not None:
            scopes.append(scopes[-1])
            if token["environment"] not in theorems:
                add("Lemma", section(), token["restated"])
        elif name := token["begin"]:
            scopes.append(scopes[-1])
            if name in theorems or name == "equation":
                counters[name] += 1
                number = str(counters[name]) if name == "equation" else f"{section().split('.')[0]}.{counters[name]}"
                add(theorems.get(name, "Equation"), number, token["title"] or "")
        elif token["end"]:
            scopes.pop()
        elif token["caption"]:
            kind = next(
                one for one in reversed(re.findall(r"\\begin\{(\w+)\}", tex[: token.start()])) if one in _FLOATS
            )
            counters[kind] += 1
            add(kind.capitalize(), str(counters[kind]))
        elif (label := token["label"]) and scopes[-1] >= 0 and not found[scopes[-1]].label:
            found[scopes[-1]] = found[scopes[-1]]._replace(label=label)
    return found


def _argument(tex: str, start: int) -> str:
    """Return the text from a place to the brace that closes there."""
    depth, end = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(tex[end], 0)
        end += 1
    return tex[start : end - 1]


def _plain(title: str) -> str:
    """Return a title without citations and commands."""
    title = re.sub(r",?\s*(\\protect)?\s*~?\\cite\w*\s*\{[^}]*\}", "", title)
    title = re.sub(r"~?\\ref\{([^}]*)\}", r" \1", title)
    return re.sub(r"\\&", "&", title.replace(r"$\rpvi$", "rPVI")).strip()


def compared(found: list[Item], aux: str) -> list[str]:
    """Return a line for every label whose number is another one in what LaTeX wrote."""
    written = dict(re.findall(r"\\newlabel\{([^}@]+)\}\{\{([\w.]+)\}", aux))
    read = {one.label: one.number for one in found if one.label}
    names = sorted(written.keys() | read.keys())
    return [
        f"{name}: {read.get(name)} here, {written.get(name)} in the .aux"
        for name in names
        if read.get(name) != written.get(name)
    ]


def main() -> None:
    """Print the items as JSON, or compare them with a .aux file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tex", type=Path)
    parser.add_argument("--aux", type=Path)
    given = parser.parse_args()
    found = items(given.tex.read_text(encoding="utf-8"))
    if given.aux is None:
        print(json.dumps([one._asdict() for one in found], indent=1, ensure_ascii=False))
        return
    wrong = compared(found, given.aux.read_text(encoding="utf-8"))
    print("\n".join(wrong) or f"All {sum(bool(one.label) for one in found)} labels have the numbers of the .aux file.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
