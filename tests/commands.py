"""Commands as a new process would run them, in this one: to start a process takes longer than most commands."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import io
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest import mock

from replicable_rl.cli import main
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.runs import LEVELS

COMMAND = str(Path(sys.executable).parent / "replicable-rl")
SHIPPED = [(cast("dict[str, Any]", table), dict(table)) for table in (LEVELS, PROBLEMS, ALGORITHMS)]


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


class Run:
    """Calls the command in this process."""

    def __init__(self, capsys: Any) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Result:
        self.capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = self.capsys.readouterr()
        return Result(code, printed.out, printed.err)

    def good(self, *arguments: object) -> str:
        result = self(*arguments)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def refused(self, *arguments: object) -> str:
        return one_line(self(*arguments))


def one_line(result: Result) -> str:
    """Return the one line of a refusal, without the command's name."""
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1), result
    assert result.err.startswith("replicable-rl: ")
    return result.err.removeprefix("replicable-rl: ").rstrip("\n")


def environment(**changes: str) -> dict[str, str]:
    """The environment of a plain terminal, whatever runs these tests."""
    colours = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if name not in colours}
    return {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **changes}


def piped(*arguments: object, stdout: Any = subprocess.PIPE, **env: str) -> Result:
    """Run the real command with its output piped."""
    words = [COMMAND, *map(str, arguments)]
    done = subprocess.run(
        words, env=environment(**env), stdout=stdout, stderr=subprocess.PIPE, encoding="utf-8", timeout=60
    )
    return Result(done.returncode, done.stdout or "", done.stderr)


@contextlib.contextmanager
def terminal(columns: int = 80) -> Iterator[tuple[int, int]]:
    """Yield the two ends of a pseudo-terminal: ours, and the command's."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        with contextlib.suppress(OSError):  # closed already where the command had it alone
            os.close(theirs)


def read_all(descriptor: int) -> str:
    """Return what a terminal shows, without colours."""
    content = b""
    with contextlib.suppress(OSError):  # Linux reports a terminal without a user as an error
        while piece := os.read(descriptor, 65536):
            content += piece
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", content.decode()).replace("\r\n", "\n")


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
