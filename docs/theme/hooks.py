"""What the site does beyond MkDocs: links that leave docs/ lead to copies of the files, so that they work here too."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_OUTSIDE = ("examples/*.py", "CHANGELOG.md", "CITATION.cff", "LICENSE")
_LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add copies of what pages link to outside docs/: `examples/sb3.py` is `files/examples/sb3.py.txt` in the site."""
    root = Path(config.config_file_path).parent
    for pattern in _OUTSIDE:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root).as_posix()
            if path.name != "__init__.py":
                files.append(File.generated(config, f"files/{name}.txt", content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead `../examples/sb3.py`, as GitHub wants it, to the copy."""
    folder = posixpath.dirname(page.file.src_uri)

    def to_copy(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        copy = f"files/{target}.txt"
        if files.get_file_from_path(copy) is None:
            return link[0]
        return f"]({posixpath.relpath(copy, folder or '.')}"

    return _LINK.sub(to_copy, markdown)
