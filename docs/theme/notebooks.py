"""Notebooks as pages of the site: they are run when it is built, and shown with what they printed and drew.

The sources in docs/notebooks/ have no outputs. All of them run in one kernel, for starting one takes seconds; between
two of them its names are forgotten. A cell that raises ends the build.
"""

from __future__ import annotations

import html
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

_LOCAL = Config({"KernelManager": {"transport": "ipc"}}) if os.name == "posix" else Config()  # no port is opened
_SETUP = "%config InlineBackend.figure_formats = ['svg']"
_FORGET = "%reset -f"
_LINK = re.compile(r"(\]\([\w./-]*notebooks/[\w-]+)\.ipynb")


def on_files(files: Files, config: Any) -> Files:
    """Run the notebooks, and add a page for each: `notebooks/two-runs.md`, with its pictures beside it."""
    sources = sorted((Path(config.docs_dir) / "notebooks").glob("*.ipynb"))
    for path, notebook in executed(sources).items():
        pictures: dict[str, str] = {}
        page = "\n\n".join(_page(path.stem, notebook, pictures))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead `notebooks/two-runs.ipynb`, as GitHub wants it, to the page."""
    return _LINK.sub(r"\1.md", markdown)


def executed(paths: list[Path]) -> dict[Path, Any]:
    """Return the notebooks with their outputs."""
    notebooks: dict[Path, Any] = {path: nbformat.read(path, as_version=4) for path in paths}
    whole = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_SETUP)])
    for notebook in notebooks.values():
        whole.cells += [*notebook.cells, nbformat.v4.new_code_cell(_FORGET)]
    loud = os.environ.get("REPLICABLE_RL_QUIET")
    os.environ["REPLICABLE_RL_QUIET"] = "1"  # bars are for people who wait
    try:
        NotebookClient(whole, timeout=300, kernel_name="python3", config=_LOCAL).execute()
    except CellExecutionError as error:
        raise PluginError(f"notebooks: a cell failed.\n{error}") from None
    finally:
        os.environ.pop("REPLICABLE_RL_QUIET")
        if loud is not None:
            os.environ["REPLICABLE_RL_QUIET"] = loud
    return notebooks


def _page(name: str, notebook: Any, pictures: dict[str, str]) -> Iterator[str]:
    """Yield the pieces of a page: texts as they are, code as blocks, and what each cell showed."""
    numbers = itertools.count(1)
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            yield cell.source
            if i == 0:
                download = f'<a href="{name}.ipynb" download>Download this notebook.</a>'
                yield f"{download} It was run when this page was built."
        elif cell.cell_type == "code":
            yield f"```python\n{cell.source}\n```"
            for output in cell.outputs:
                yield from _output(f"{name}-{next(numbers)}", output, cell.metadata.get("alt", ""), pictures)


def _output(name: str, output: Any, alt: str, pictures: dict[str, str]) -> Iterator[str]:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/svg+xml" in data:
        pictures[f"{name}.svg"] = "".join(data["image/svg+xml"])
        yield f"![{alt}]({name}.svg)"
    elif data.get("text/html"):
        yield f'<div class="output">{data["text/html"]}</div>'
    elif text := "".join(data.get("text/plain", "")).rstrip():
        yield f'<div class="output"><pre>{html.escape(text)}</pre></div>'
