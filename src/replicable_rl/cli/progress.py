"""A progress bar on a terminal, nothing when piped."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from replicable_rl.progress import listening

__all__ = ["progress_bar"]

_PATIENCE = 0.5  # seconds of silence before the bar appears


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """Show the progress of long work inside the block on standard error."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)
    started = time.monotonic()

    def listener(what: str, done: int, total: int) -> None:
        if not bar.live.is_started:
            if time.monotonic() - started < _PATIENCE:
                return
            bar.update(task, description=what, completed=done, total=total)
            bar.start()
        bar.update(task, description=what, completed=done, total=total)

    try:
        with listening(listener):
            yield
    finally:
        bar.stop()
