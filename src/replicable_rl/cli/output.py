"""Printing where somebody may not read, or not be able to."""

import contextlib
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from replicable_rl.canonical import Json, json_text
from replicable_rl.report.drawing import can_encode
from replicable_rl.wording import visible

_PLAIN = str.maketrans({"–": "-", "−": "-", "×": "x", "ρ": "rho"})


def print_all(text: str) -> None:
    """Print and flush; a reader who has left is no reason to end otherwise than the work did.

    Names may come from a stranger: what could command the terminal is shown as it is written.
    """
    text = visible(text)
    try:
        print(text if can_encode(text) else text.translate(_PLAIN), flush=True)
    except BrokenPipeError:
        drop_output()


def print_error(text: str) -> None:
    """Print on standard error, as `print_all` does; in lines of 80 columns on a terminal, whole for a program."""
    if sys.stderr.isatty():
        lines = (textwrap.fill(line, 80, break_long_words=False, break_on_hyphens=False) for line in text.splitlines())
        text = "\n".join(lines)
    print(visible(text), file=sys.stderr, flush=True)


def print_json(data: Json) -> None:
    """Print JSON on one line."""
    print_all(json_text(data).replace("\x7f", "\\u007f"))  # the one control character that JSON leaves as it is


def drop_output() -> None:
    """Send what is left in the buffer nowhere; at exit it would raise again."""
    with contextlib.suppress(OSError):  # a captured stdout has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def saying_what_is_kept(store: Path | None, what: str = "Finished runs") -> Iterator[None]:
    """Say, when a command is interrupted, that a store has what was finished."""
    try:
        yield
    except KeyboardInterrupt:
        if store is not None and store.exists():
            print_error(f"{what} are kept in {store}; the same command resumes.")
        raise
