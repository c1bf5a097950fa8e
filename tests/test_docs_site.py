"""The documentation site: it builds strictly, links lead somewhere, nothing is fetched, every public name is there."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import replicable_rl as rr

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
API = sorted((DOCS / "api").glob("*.md"))
PICTURES = DOCS / "pictures"
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
        given = {name: value for name, value in attrs if value}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("prev", "next", "canonical") and "href" in given:
            self.resources.append(given["href"])
        if "src" in given:
            self.resources.append(given["src"])


def pages_of(site: Path) -> dict[Path, Page]:
    """Read every page but the one of web servers for wrong addresses, whose links are absolute."""
    found = (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")
    return {path: Page(path.read_text(encoding="utf-8")) for path in found}


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
    for path in NOTEBOOKS:  # a cell that fails ends the build
        check_executed(path, site / "notebooks" / f"{path.stem}.html")
    documented = {anchor.rpartition(".")[2] for path, page in pages.items() if path.parent.name == "api"
                  for anchor in page.anchors if anchor.startswith("replicable_rl.")}  # fmt: skip
    assert set(rr.__all__) <= documented
    reference = "".join(path.read_text(encoding="utf-8") for path in pages if path.parent.name == "api")
    assert not re.search(r"``|:(?:func|class|meth|mod):|={6}|<blockquote>", reference)  # docstrings not understood
    search = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "ReplicablePhasedVI" in search  # pages opened from files are searched


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="other.html#here">', None),
        ('<a href="https://example.org/gone">', None),
        ('<a href="#top">', None),
        ('<img src="data:image/png;base64,AA==">', None),
        ('<a href="gone.html">', "index.html: gone.html leads nowhere"),
        ('<a href="other.html#there">', "index.html: other.html#there has no such anchor"),
        ('<a href="#bottom">', "index.html: #bottom has no such anchor"),
        ('<img src="gone.svg">', "index.html: gone.svg leads nowhere"),
        ('<script src="https://example.org/x.js">', "index.html: fetches https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "index.html: fetches //example.org/x.css"),
    ],
)
def test_checker_of_links(html: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h1 id="here">')
    (tmp_path / "index.html").write_text(f'<h1 id="top">{html}')
    assert list(faults(tmp_path.resolve())) == ([] if fault is None else [fault])


def check_executed(source: Path, page: Path) -> None:
    """Check that a page shows what every cell of a notebook that ends in an expression printed or drew."""
    text = page.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(source.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    drawn = [cell for cell in cells if "alt" in cell["metadata"]]
    assert drawn
    for cell in drawn:
        alt = html.escape(cell["metadata"]["alt"])
        found = re.search(rf'<img alt="{re.escape(alt)}" src="([^"]+\.svg)"', text)
        assert found is not None, alt
        assert "<svg" in (page.parent / found[1]).read_text(encoding="utf-8")
    shown = len(re.findall('<div class="output">', text))
    assert shown >= len(cells) - len(drawn) - 1  # one may only import
    assert f'href="{source.name}"' in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    assert notebook["nbformat"] == 4
    assert cells[0]["source"][0].startswith("# ")
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code"
    )
    drawing = [cell for cell in cells if any("rr.plot." in line for line in cell["source"]) and "outputs" in cell]
    assert all(len(cell["metadata"]["alt"]) > 20 for cell in drawing), (
        "a picture is described for those who do not see it"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links_of_notebooks_lead_somewhere(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "".join(line for cell in cells if cell["cell_type"] == "markdown" for line in [*cell["source"], "\n"])
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []


BAR = """
import os
os.environ.pop("REPLICABLE_RL_QUIET")
import replicable_rl as rr
from replicable_rl import progress_bar

progress_bar._PATIENCE, seen, publisher = 0.0, [], get_ipython().display_pub
publish = publisher.publish
publisher.publish = lambda **given: (seen.append(given["data"]["text/plain"]), publish(**given))
rr.audit_callable(lambda shared_seed, sample_seed: [0], shared_seeds=2)
assert any(text.startswith("runs ") for text in seen), seen
assert seen[-1] == "", seen
"""


def test_a_kernel_shows_a_bar_and_a_cell_that_fails_ends_the_build(tmp_path: Path) -> None:
    for needed in ("mkdocs", "nbclient", "ipykernel"):
        pytest.importorskip(needed, reason="the extra 'docs' is not installed")
    import nbformat
    from mkdocs.exceptions import PluginError

    bad = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (BAR, "1 / 0")])
    nbformat.write(bad, tmp_path / "bad.ipynb")
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "theme" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        module.executed([tmp_path / "bad.ipynb"])


def test_navigation_lists_every_page_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    listed = re.findall(r": (\S+\.md)$", nav, flags=re.MULTILINE)
    pages = [*DOCS.rglob("*.md"), *(path.with_suffix(".md") for path in NOTEBOOKS)]  # made when the site is built
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in pages)


def test_every_public_name_is_in_the_reference() -> None:
    overview = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)`", overview)
    assert sorted(name for name in named if name in rr.__all__) == sorted(rr.__all__)
    directives = {
        path for page in API for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {path.rpartition(".")[2] for path in directives} >= set(rr.__all__)


def _draw() -> Any:
    spec = importlib.util.spec_from_file_location("draw", PICTURES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pictures_are_what_the_script_draws() -> None:
    drawn = {name: draw() for name, draw in _draw().PICTURES.items()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("*.svg")}
    assert drawn == kept, "run: python docs/pictures/draw.py"


def test_numbers_in_the_pictures_are_those_of_the_library() -> None:
    from replicable_rl.queries import rstat

    draw = _draw()
    for offset in (0.10, 0.05):
        rounded = rstat(list(draw.MEANS), offset / draw.BETA, draw.BETA).answer
        assert draw.answers(offset) == pytest.approx(rounded.tolist(), abs=1e-12)
    plan = rr.PaperPhasedVI(0.1, 0.001, 0.2).plan(rr.make("two-goals-v1"))
    assert f"m = {plan.calls:,}".replace(",", " ") in draw.counts()


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"], ids=lambda path: path.name)
def test_pictures_have_words(page: Path) -> None:
    for words in re.findall(r"!\[([^\]]*)\]", page.read_text(encoding="utf-8")):
        assert len(words) > 20, "a picture is described for those who do not see it"
