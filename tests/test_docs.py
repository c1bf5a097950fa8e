"""What README.md and the pages of docs/ show is what happens: code is run, output compared, links followed.

``python`` blocks of one file share a namespace, in order; those with prompts are doctests. ``console`` blocks run for
real, piped, in a directory of their own, with 80 columns. There a line ``...`` alone stands for any lines, and a
command that ends in a backslash goes on in the next line. A block with ``title="name"`` is a file of that directory.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import replicable_rl as rr
from tests.commands import run_here

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_SURROUNDINGS = {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}


class WrongDocs(AssertionError):
    """A page shows something that does not happen."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the number of its first line, and the file that it is."""

    language: str
    text: str
    line: int
    title: str | None = None


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page; one that is never closed is an error."""
    opening: re.Match[str] | None = None
    lines: list[str] = []
    start = 0
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opening is None:
            if fence:
                opening, lines, start = fence, [], number + 1
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["info"].strip():
            title = re.search(r'title="([\w.-]+)"', opening["info"])
            language = (opening["info"].split() or [""])[0].lower()
            yield Block(language, "\n".join(lines) + "\n", start, title and title[1])
            opening = None
        else:
            lines.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        raise WrongDocs(f"line {start - 1}: the block is never closed")


def check_page(name: str, markdown: str, directory: Path) -> int:
    """Run every block of a page; return how many were run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    checked = 0
    for block in blocks(markdown):
        where = f"{name}:{block.line}"
        if block.title is not None:
            (directory / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            _run_python(where, block, namespace)
        elif block.language == "console":
            _run_console(where, block, directory)
        else:
            continue
        checked += 1
    return checked


def _run_python(where: str, block: Block, namespace: dict[str, Any]) -> None:
    if not block.text.lstrip().startswith(">>>"):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), namespace)
        except Exception as error:
            raise WrongDocs(f"{where}: {type(error).__name__}: {error}") from error
        return
    test = doctest.DocTestParser().get_doctest(block.text, namespace, where, where, block.line - 1)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.append, clear_globs=False)
    if runner.failures or runner.tries == 0:
        raise WrongDocs("".join(report) or f"{where}: no example was found")
    namespace.update(test.globs)


def _run_console(where: str, block: Block, directory: Path) -> None:
    """Run each ``$ replicable-rl ...`` and compare what follows it."""
    before, *commands = re.split(r"^\$ ?", block.text, flags=re.MULTILINE)
    if before.strip() or not commands:
        raise WrongDocs(f"{where}: a console block starts with a line `$ command`")
    for text in commands:
        command, _, expected = re.sub(r"\\\n *", "", text).partition("\n")
        words = shlex.split(command, comments=True)
        if words[:1] != ["replicable-rl"]:
            raise WrongDocs(f"{where}: only replicable-rl is run in console blocks, not {command!r}; make it `sh`")
        printed = run_here(words[1:], directory, _SURROUNDINGS, together=True).out
        if not matches(expected, printed):
            raise WrongDocs(f"{where}: $ {command}\nshown:\n{expected}\nprinted:\n{printed}")


def matches(expected: str, printed: str) -> bool:
    """Compare line by line, trailing spaces and trailing empty lines aside; ``...`` is any lines."""
    wanted, got = ("".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines()) for text in (expected, printed))
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in wanted.splitlines()
    )  # `.` does not match a newline
    return re.fullmatch(pattern, got) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page_are_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what the examples write stays here
    check_page(page.name, page.read_text(encoding="utf-8"), tmp_path)


_TRUE = """\
```python
>>> 1 + 1
2
```
```python
assert True
```
```console
$ replicable-rl --version
replicable-rl 0.1.0
```
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("\n2\n", "\n3\n"),
        ("assert True", "assert False"),
        ("0.1.0", "0.2.0"),
        ("$ replicable-rl", "$ rm"),
        ("0.1.0\n```\n", "0.1.0\n"),
    ],
)
def test_a_wrong_page_is_refused(right: str, wrong: str, tmp_path: Path) -> None:
    assert check_page("page", _TRUE, tmp_path) == 3
    with pytest.raises(WrongDocs):
        check_page("page", _TRUE.replace(right, wrong), tmp_path)


def test_code_named_by_the_paper_page_is_there() -> None:
    rows = [line for line in (DOCS / "paper.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    names = {name for row in rows for name in re.findall(r"`((?:\w+\.)+\w+)`", row.split("|")[3])}
    assert len(names) > 15
    for name in names:
        module, *attributes = name.split(".")
        assert reduce(getattr, attributes, importlib.import_module(f"replicable_rl.{module}")) is not None


# --- the site ---------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page has (anchors), leads to (links), and needs to be shown (resources)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a":
            self.links += filter(None, [values.get("href")])
        elif tag == "link" and values.get("rel") not in ("prev", "next", "canonical"):
            self.resources += filter(None, [values.get("href")])
        self.resources += filter(None, [values.get("src")])


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with the links and resources of a site; the page of web servers for errors has none."""
    paths = (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    for path, page in pages.items():
        name = path.relative_to(site)
        for resource in page.resources:
            if urlsplit(resource).scheme not in ("", "data") or resource.startswith("//"):
                yield f"{name}: fetches {resource}"
        for link in [*page.links, *page.resources]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link} has no such anchor"


def test_site_builds_strictly_and_holds_together(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    assert built.returncode == 0, built.stdout
    assert list(faults(site)) == []
    (site / "wrong.html").write_text('<a href="gone.html"><a href="index.html#no"><script src="https://example.org/x">')
    assert len(list(faults(site))) == 3


def test_every_public_name_is_in_the_reference() -> None:
    directives = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {path.rpartition(".")[2] for path in directives} >= set(rr.__all__) - {"rules"}  # one by one
