"""Progress of long work: a bar on a terminal, one line a minute when piped."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from replicable_rl.cli.quiet import is_quiet
from replicable_rl.progress import listening
from replicable_rl.progress_bar import Pace, bar

_MINUTE = 60.0


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """Show the progress of long work inside the block on standard error."""
    if is_quiet():  # somebody hears of it already, and says nothing
        yield
        return
    if not sys.stderr.isatty():
        with listening(_line_a_minute()):
            yield
        return
    with bar():
        yield


def _line_a_minute() -> Callable[[str, int, int], None]:
    pace = Pace()
    last = time.monotonic()

    def listener(what: str, done: int, total: int) -> None:
        nonlocal last
        pace.note(what, done)
        if time.monotonic() - last >= _MINUTE:
            last = time.monotonic()
            left = pace.seconds * (total - done) / max(done - pace.first, 1)
            print(f"{done} of {total} {what}, {pace.text(done)}, {_duration(left)} left", file=sys.stderr, flush=True)

    return listener


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
