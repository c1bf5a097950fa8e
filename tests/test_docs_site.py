"""The documentation site: it builds strictly, links lead somewhere, nothing is fetched, every public name is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import replicable_rl as rr

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
API = sorted((DOCS / "api").glob("*.md"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


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


def pages_of(site: Path) -> dict[Path, Page]:
    """Read every page but the one of web servers for wrong addresses, whose links are absolute."""
    paths = (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")
    return {path: Page(path.read_text(encoding="utf-8")) for path in paths}


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with the links and resources of a site."""
    pages = pages_of(site)
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
    """A cell of a notebook that fails ends the build."""
    for module in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(module, reason="the extra 'docs' is not installed")
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
    pages = pages_of(site)
    assert {page.relative_to(DOCS).with_suffix(".html") for page in [*DOCS.rglob("*.md"), *NOTEBOOKS]} == {
        page.relative_to(site) for page in pages
    }
    search = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "ReplicablePhasedVI" in search  # pages opened from files are searched


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<a href="other.html#here">', []),
        ('<a href="gone.html">', ["index.html: gone.html leads nowhere"]),
        ('<a href="#bottom">', ["index.html: #bottom has no such anchor"]),
        ('<script src="https://example.org/x.js">', ["index.html: fetches https://example.org/x.js"]),
    ],
)
def test_checker_of_links(html: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h1 id="here">')
    (tmp_path / "index.html").write_text(f'<h1 id="top">{html}')
    assert list(faults(tmp_path.resolve())) == expected


def test_every_public_name_is_in_the_reference() -> None:
    overview = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)`", overview)
    assert sorted(name for name in named if name in rr.__all__) == sorted(rr.__all__)
    directives = {
        path for page in API for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {path.rpartition(".")[2] for path in directives} >= set(rr.__all__)
