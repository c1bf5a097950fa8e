"""Progress of long work: a bar on a terminal, one line a minute when piped."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from replicable_rl.progress import listening

_PATIENCE = 0.5  # seconds of silence before the bar appears
_MINUTE = 60.0


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """Show the progress of long work inside the block on standard error."""
    if not sys.stderr.isatty():
        with listening(_line_a_minute()):
            yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]}")
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None, rate="")
    pace = _Pace()

    def listener(what: str, done: int, total: int) -> None:
        pace.note(what, done)
        if not bar.live.is_started and pace.seconds < _PATIENCE:
            return
        bar.update(task, description=what, completed=done, total=total, rate=pace.text(done))
        if not bar.live.is_started:
            bar.start()

    try:
        with listening(listener, lambda sentence: bar.console.print(sentence, highlight=False)):
            yield
    finally:
        bar.stop()


def _line_a_minute() -> Callable[[str, int, int], None]:
    pace = _Pace()
    last = time.monotonic()

    def listener(what: str, done: int, total: int) -> None:
        nonlocal last
        pace.note(what, done)
        if time.monotonic() - last >= _MINUTE:
            last = time.monotonic()
            left = pace.seconds * (total - done) / max(done - pace.first, 1)
            print(f"{done} of {total} {what}, {pace.text(done)}, {_duration(left)} left", file=sys.stderr, flush=True)

    return listener


class _Pace:
    """How fast the present work goes, counted from its first report: what a store already had was not work."""

    def __init__(self) -> None:
        self._what = ""
        self.first = 0
        self._started = time.monotonic()

    def note(self, what: str, done: int) -> None:
        if what != self._what or done < self.first:
            self._what, self.first, self._started = what, done, time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def text(self, done: int) -> str:
        """The rate, in the unit that reads best."""
        rate = (done - self.first) / max(self.seconds, 1e-9)
        return f"{rate:.3g}/s" if rate >= 1.0 else f"{60.0 * rate:.3g}/min"


def _duration(seconds: float) -> str:
    """Write a time for a person.

    >>> _duration(42), _duration(95), _duration(7300)
    ('42 s', '1 min 35 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
