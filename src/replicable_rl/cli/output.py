"""Printing where somebody may not read, or not be able to."""

import contextlib
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from replicable_rl.canonical import Json, json_text
from replicable_rl.pages.drawing import can_encode
from replicable_rl.pages.layout import NARROWEST
from replicable_rl.progress import is_quiet
from replicable_rl.wording import visible

EXIT_CODES = {True: 0, False: 1, None: 3}  # of what is asked: met, refuted, cannot tell; 2 is bad input
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
    """Print on standard error, as `print_all` does; in lines that a terminal has room for, whole for a program."""
    if sys.stderr.isatty():
        text = _filled(text, min(80, _columns(sys.stderr)))
    print(visible(text), file=sys.stderr, flush=True)


def print_lines(text: str) -> None:
    """Print sentences, in lines that a terminal has room for; whole for a program."""
    print_all(_filled(text, text_width()) if sys.stdout.isatty() else text)


def print_note(text: str) -> None:
    """Print what helps a reader and is no part of the result: nothing with ``--quiet``."""
    if not is_quiet():
        print_lines(text)


def terminal_width() -> int:
    """Return the columns of the terminal that standard output is; 80 when it is piped."""
    return _columns(sys.stdout)


def text_width() -> int:
    """Return the columns of tables and sentences: 80, or those of a narrower terminal."""
    return max(NARROWEST, min(80, terminal_width()))


def _filled(text: str, width: int) -> str:
    """Break lines between words; a path or a command that is longer stays whole."""
    lines = (textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.splitlines())
    return "\n".join(lines)


def _columns(stream: TextIO) -> int:
    """Return the columns of a terminal, or what the user says they are; 80 of what is no terminal."""
    if not stream.isatty():
        return 80
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and 0 < len(said) < 6 and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a stream that only looks like a terminal
        return 80


def print_json(data: Json) -> None:
    """Print JSON on one line."""
    print_all(json_text(data).replace("\x7f", "\\u007f"))  # the one control character that JSON leaves as it is


def drop_output() -> None:
    """Send what is left in the buffer nowhere; at exit it would raise again."""
    with contextlib.suppress(OSError):  # a captured stdout has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def saying_what_is_kept(store: Path | None) -> Iterator[None]:
    """Say, when a command is interrupted, that a store has what was finished."""
    try:
        yield
    except KeyboardInterrupt:
        if store is not None and store.exists() and not is_quiet():
            print_error(f"Finished runs are kept in {store}; the same command resumes.")
        raise
