"""Commands as a new process would run them, in this one: to start a process takes longer than most commands."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest import mock

from replicable_rl.cli import main
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.runs import LEVELS

SHIPPED = [(cast("dict[str, Any]", table), dict(table)) for table in (LEVELS, PROBLEMS, ALGORITHMS)]


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


def run_here(
    words: list[str], folder: Path, environment: Mapping[str, str] | None = None, *, together: bool = False
) -> Result:
    """Run a command in a folder; ``together`` writes errors where the output goes.

    It finds what ships, and nothing that was registered since; of what it registers and imports itself nothing stays.
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = out if together else io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.ExitStack() as stack:
        for table, shipped in SHIPPED:
            stack.enter_context(mock.patch.dict(table, shipped, clear=True))
        stack.enter_context(mock.patch.dict(os.environ, environment or {}))
        stack.enter_context(mock.patch.object(sys, "path", list(sys.path)))
        stack.enter_context(_own_modules(words, folder))
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        code = main(words)
    return Result(code, _text(out), "" if together else _text(err))


@contextlib.contextmanager
def _own_modules(words: list[str], folder: Path) -> Iterator[None]:
    """Import plugins, and the modules of the folder, anew, and forget them."""
    plugins = {after: sys.modules.pop(after, None) for word, after in itertools.pairwise(words) if word == "--plugin"}
    before = set(sys.modules)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if name in plugins or os.path.dirname(file) == str(folder):  # noqa: PTH120  # of thousands, quickly
                del sys.modules[name]
        sys.modules.update({name: module for name, module in plugins.items() if module is not None})


def _text(stream: io.TextIOWrapper) -> str:
    return cast("io.BytesIO", stream.buffer).getvalue().decode()
