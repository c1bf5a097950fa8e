"""Printing for readers and for programs, who may have left."""

import contextlib
import os
import shutil
import sys
from collections.abc import Sequence

from replicable_rl.canonical import Json, json_text
from replicable_rl.progress import is_quiet
from replicable_rl.report import Block, text
from replicable_rl.wording import visible

EXIT_CODES = {True: 0, False: 1, None: 3}  # of what is asked: met, refuted, cannot tell; 2 is bad input
_WIDEST = 100  # columns of text that reads well


def print_all(lines: str) -> None:
    """Print and flush; a reader who has left is no reason to end otherwise than the work did.

    Names may come from a stranger: what could command the terminal is shown as it is written.
    """
    try:
        print(visible(lines), flush=True)
    except BrokenPipeError:
        drop_output()


def print_blocks(blocks: Sequence[Block], details: bool = False) -> None:
    """Print a document as wide as the terminal, or in 80 columns where there is none."""
    width = min(_WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 80
    print_all(text(blocks, width, details))


def print_json(data: Json) -> None:
    """Print JSON on one line."""
    print_all(json_text(data).replace("\x7f", "\\u007f"))  # the one control character that JSON leaves as it is


def print_note(note: str) -> None:
    """Print what helps a reader and is no part of the result: nothing with ``--quiet``."""
    if not is_quiet():
        print_all(note)


def print_error(message: str) -> None:
    """Print on standard error."""
    print(visible(message), file=sys.stderr, flush=True)


def drop_output() -> None:
    """Send what is left in the buffer nowhere; at exit it would raise again."""
    with contextlib.suppress(OSError):  # a captured stdout has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
