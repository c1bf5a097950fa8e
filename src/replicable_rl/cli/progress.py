"""Progress of long work: a bar on a terminal, one line a minute when piped."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from replicable_rl.progress import Pace, bar, is_quiet, listening

_MINUTE = 60.0


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """Show the progress of long work inside the block on standard error."""
    if is_quiet():
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
        pace.note(what, done, total)
        if time.monotonic() - last >= _MINUTE:
            last = time.monotonic()
            known = ", ".join(filter(None, (f"{done} of {total} {what}", pace.rate, pace.left)))
            print(known, file=sys.stderr, flush=True)

    return listener
