"""A bar with the rate and the time left, on a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from replicable_rl.progress import is_heard, listening

_PATIENCE = 0.5  # seconds of silence before the bar appears


@contextlib.contextmanager
def bar_on_a_terminal() -> Iterator[None]:
    """Show a bar on standard error if that is a terminal and nobody listens yet."""
    if is_heard() or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with bar():
        yield


@contextlib.contextmanager
def bar() -> Iterator[None]:
    """Show the progress of long work inside the block on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]}")
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    task = shown.add_task("", total=None, rate="")
    pace = Pace()

    def listener(what: str, done: int, total: int) -> None:
        pace.note(what, done)
        if not shown.live.is_started and pace.seconds < _PATIENCE:
            return
        shown.update(task, description=what, completed=done, total=total, rate=pace.text(done))
        if not shown.live.is_started:
            shown.start()

    try:
        with listening(listener, lambda sentence: shown.console.print(sentence, highlight=False)):
            yield
    finally:
        shown.stop()


class Pace:
    """How fast the present work goes, counted from its first report: what a store already had was not work."""

    def __init__(self) -> None:
        self._what = ""
        self.first = 0
        self._started = time.monotonic()

    def note(self, what: str, done: int) -> None:
        """Note a report."""
        if what != self._what or done < self.first:
            self._what, self.first, self._started = what, done, time.monotonic()

    @property
    def seconds(self) -> float:
        """The time since the first report."""
        return time.monotonic() - self._started

    def text(self, done: int) -> str:
        """The rate, in the unit that reads best."""
        rate = (done - self.first) / max(self.seconds, 1e-9)
        return f"{rate:.3g}/s" if rate >= 1.0 else f"{60.0 * rate:.3g}/min"
