"""What README.md and the pages of docs/ show is what happens: code is run, output compared, links followed.

``python`` blocks of one file share a namespace, in order; those with prompts are doctests.
``console`` blocks run for real, piped, in a directory of their own, with 80 columns: those of README.md each in a
process of its own, those of other pages in this one, which takes half the time. There a line ``...`` alone stands for
any lines, and a command that ends in a backslash goes on in the next line.
A block with ``title="name"`` is a file of that directory.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_here

ROOT = Path(__file__).resolve().parent.parent
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]
COMMAND = Path(sys.executable).parent / "replicable-rl"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_LINK = re.compile(r"\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)

SURROUNDINGS = {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}


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
    kept: list[str] = []
    start = 0
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opening is None:
            if fence:
                opening, kept, start = fence, [], number + 1
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["info"].strip():
            title = re.search(r'title="([\w.-]+)"', opening["info"])
            language = (opening["info"].split() or [""])[0].lower()
            yield Block(language, "\n".join(kept) + "\n", start, title and title[1])
            opening = None
        else:
            kept.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        raise WrongDocs(f"line {start - 1}: the block is never closed")


def in_a_process(words: list[str], directory: Path) -> str:
    """Return what a command prints."""
    return subprocess.run(
        [str(COMMAND), *words],
        cwd=directory,
        env={**os.environ, **SURROUNDINGS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
    ).stdout


def in_this_process(words: list[str], directory: Path) -> str:
    """Return what a command prints; it knows nothing of what the page has registered in Python."""
    return run_here(words, directory, SURROUNDINGS, together=True).out


Runner = Callable[[list[str], Path], str]


def check_page(name: str, markdown: str, directory: Path, run: Runner = in_this_process) -> int:
    """Run every block of a page; return how many were run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    checked = 0
    for block in blocks(markdown):
        where = f"{name}:{block.line}"
        if block.title is not None:
            (directory / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            run_python(where, block, namespace)
        elif block.language == "console":
            run_console(where, block, directory, run)
        else:
            continue
        checked += 1
    return checked


def run_python(where: str, block: Block, namespace: dict[str, Any]) -> None:
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


def run_console(where: str, block: Block, directory: Path, run: Runner) -> None:
    """Run each ``$ replicable-rl ...`` and compare what follows it."""
    before, *shown = re.split(r"^\$ ?", block.text, flags=re.MULTILINE)
    if before.strip() or not shown:
        raise WrongDocs(f"{where}: a console block starts with a line `$ command`")
    for one in shown:
        command, _, expected = re.sub(r"\\\n *", "", one).partition("\n")
        words = shlex.split(command, comments=True)
        if words[:1] != ["replicable-rl"]:
            raise WrongDocs(f"{where}: only replicable-rl is run in console blocks, not {command!r}; make it `sh`")
        printed = run(words[1:], directory)
        if not matches(expected, printed):
            raise WrongDocs(f"{where}: $ {command}\nshown:\n{expected}\nprinted:\n{printed}")


def matches(expected: str, printed: str) -> bool:
    """Compare line by line, trailing spaces and trailing empty lines aside; ``...`` is any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in _lines(expected)
    )  # `.` does not match a newline
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere: no such file, or no such heading."""
    markdown = page.read_text(encoding="utf-8")
    prose = re.sub(r"^ *(`{3,}|~{3,}).*?^ *\1[ \t]*$|`[^`\n]*`", "", markdown, flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in _LINK.finditer(prose):
        target, _, anchor = link["target"].partition("#")
        if _SCHEME.match(target):
            continue
        path = (page.parent / target) if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(link["target"])
    return broken


def anchors(page: Path) -> set[str]:
    """Return the anchors GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ +(.+?) *#*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# --- the pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_a_page_are_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what the examples write stays here
    run = in_a_process if page.name == "README.md" else in_this_process
    check_page(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"), tmp_path, run)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


# --- the checker itself ------------------------------------------------------------------------

TRUE_PAGE = """\
# A page

```python
import replicable_rl as rr
mdp = rr.make("chain-v1")
```

```python
>>> mdp.n_states, mdp.n_actions     # the namespace is shared
(5,   2)
>>> name = "chain"
>>> rr.make("chian-v1")
Traceback (most recent call last):
...
replicable_rl.errors.InvalidInput: No problem or algorithm is called 'chian-v1'. Did you mean 'chain-v1'? Name an id of
`replicable-rl list`, a Gymnasium id, or a saved .npz file.
```

  ```python
  assert name == "chain"
  ```

```text
$ this is not run
```

```text title="notes.npz"
mine
```

```console
$ replicable-rl solve nowhere.npz phased-vi-v1 --shared-seed 1   # a comment
replicable-rl: nowhere.npz: no such file.
$ replicable-rl audit \\
    notes.npz phased-vi-v1 --epsilon 0.1 --delta 0.1
replicable-rl: notes.npz: is no file of this library (BadZipFile: File is not a zip file).
$ replicable-rl list
...
 value   policy
...
```
"""


@pytest.mark.parametrize("run", [in_a_process, in_this_process])
def test_checker_accepts_a_true_page(run: Runner, tmp_path: Path) -> None:
    assert check_page("page", TRUE_PAGE, tmp_path, run) == 5


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(5,   2)", "(5, 3)"),
        ("Did you mean 'chain-v1'?", "Did you mean 'chains-v1'?"),
        ('name == "chain"', 'name == "chains"'),
        ('rr.make("chain-v1")', 'rr.make("chain-v0")'),
        ("nowhere.npz: no such file.", "nowhere.npz: no such directory."),
        ('title="notes.npz"', ""),
        ("nowhere.npz: no such file.\n", "nowhere.npz: no such file.\nand more\n"),
        ("nowhere.npz: no such file.\n", ""),
        ("value   policy", "value   model"),
        (" policy\n...\n", " policy\n"),  # lines are missing and not elided
        ("audit \\\n", "audit\n"),
        ("$ replicable-rl solve", "$ replicable solve"),
        ("$ replicable-rl solve", "replicable-rl solve"),
        ("...\n```\n", "...\n"),  # never closed
    ],
)
def test_checker_refuses_a_wrong_page(right: str, wrong: str, tmp_path: Path) -> None:
    assert right in TRUE_PAGE
    with pytest.raises(WrongDocs):
        check_page("page", TRUE_PAGE.replace(right, wrong, 1), tmp_path)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\nb\n", "a\n\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("...\nd\n", "c\nd\ne\n", False),
        ("a...\n", "abc\n", False),
        ("  ...\n", "abc\n", False),
        ("a.c\n", "abc\n", False),
        ("", "", True),
        ("", "a\n", False),
    ],
)
def test_matching_of_output(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same


def test_checker_finds_broken_links(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One heading: here\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](other.md) [b](missing.md) [c](https://example.org/missing) [d](other.md#one-heading-here)\n"
        '[e](other.md#no-such-heading) [f](#top) [g](#bottom) ![h](missing.png "title") `[i](code.md)`\n'
        "```text\n[j](block.md)\n```\n[k](<gone.md>)\n"
    )
    assert broken_links(page) == ["missing.md", "other.md#no-such-heading", "#bottom", "missing.png", "gone.md"]
