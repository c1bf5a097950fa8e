"""Progress of long work, reported to whoever listens and to nobody otherwise.

Loops wrap their range in :func:`track`. Who listens is decided above them: the verbs show a bar on a terminal and in a
notebook, and write a line a minute elsewhere; :func:`quiet` lets nobody listen. rich draws the bar and knows the time
left.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

from replicable_rl.wording import duration

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # (what, done, total)
_PATIENCE = 0.5  # seconds of work before the bar appears
_EVERY = 0.1  # seconds between two changes of the bar
_MINUTE = 60.0  # seconds between two lines where standard error is a pipe or a file
_only_one = threading.Lock()  # two bars would write over each other
_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("replicable_rl_progress", default=None)


def track(items: Iterable[T], what: str, total: int = 0) -> Iterator[T]:
    """Yield the items and report (what, done, total) at the start and after each; a generator has no length to ask."""
    total = len(items) if isinstance(items, Sized) else total
    if total:
        report(what, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        report(what, done, total)


def report(what: str, done: int, total: int) -> None:
    """Tell whoever listens how far the work is."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


def announce(sentence: str) -> None:
    """Tell whoever listens why nothing moves for a while."""
    report(sentence, 0, 0)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the progress of everything inside the block to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def within(name: str) -> Iterator[None]:
    """Say in every report from the block of what it is a part."""
    listener = _listener.get() or _ignore
    with listening(lambda what, done, total: listener(f"{name}, {what}", done, total)):
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Show no bar, and announce nothing, inside the block.

    The environment variable ``REPLICABLE_RL_QUIET=1`` does the same for a whole process.

    >>> import replicable_rl as rr
    >>> with rr.quiet():
    ...     run = rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)
    """
    with listening(_ignore):
        yield


def is_quiet() -> bool:
    """Whether nobody shall hear: inside `quiet`, or because the environment asks for silence."""
    return _listener.get() is _ignore or os.environ.get("REPLICABLE_RL_QUIET", "") not in ("", "0")


def unheard() -> contextvars.Context:
    """Return a context in which nobody hears of the work: it is a part of work that reports itself."""
    context = contextvars.copy_context()
    context.run(_listener.set, _ignore)
    return context


def _ignore(what: str, done: int, total: int) -> None:
    """Hear and do nothing."""


# --- the bar ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def bar() -> Iterator[None]:
    """Show the progress of the block if nobody listens yet; a verb is decorated with this.

    There is one bar at a time, so a verb that calls others shows the only one.
    """
    seen = _in_a_notebook() or (sys.stderr is not None and not sys.stderr.closed)
    if not seen or _listener.get() is not None or is_quiet() or not _only_one.acquire(blocking=False):
        yield
        return
    shown = _Bar()
    try:
        with listening(shown.hear):
            yield
    finally:
        shown.close()
        _only_one.release()


class _Bar:
    """The reports of long work: a bar of rich on a terminal, else lines: one of a cell's output, or one a minute."""

    def __init__(self) -> None:
        self._in_lines = not _is_a_terminal() and not _in_a_notebook()
        self._every = _MINUTE if self._in_lines else _EVERY
        self._due = time.monotonic() + max(self._every, _PATIENCE)
        self._progress: Any = None

    def hear(self, what: str, done: int, total: int) -> None:
        """Show a report now and then, for loops report every item; an announcement is seen at once."""
        now = time.monotonic()
        if (total or self._in_lines) and now < self._due:
            return
        self._due = now + self._every
        progress = self._progress or self._open()
        if not progress.tasks or progress.tasks[0].description != what:  # the rate is that of the present work
            for task in progress.task_ids:
                progress.remove_task(task)
            progress.add_task(what, completed=done, total=total or None)
        (task,) = progress.tasks
        progress.update(task.id, completed=done, total=total or None)
        if self._in_lines or _in_a_notebook():
            left = "" if task.time_remaining is None else f", {duration(task.time_remaining)} left"
            self._write(f"{what} {done}/{total}{left}" if total else what)

    def _open(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        both = sys.stdout is not None and sys.stdout.isatty()  # else what is printed belongs to a file or a pipe
        text = TextColumn("{task.description}", markup=False)
        columns = text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        progress = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=both)
        self._progress = progress
        if _in_a_notebook():
            from IPython.display import display

            self._cell = display({"text/plain": ""}, raw=True, display_id=True)
        elif not self._in_lines:
            progress.start()
        return progress

    def _write(self, words: str) -> None:
        if self._in_lines:
            print(words, file=sys.stderr, flush=True)
        else:
            self._cell.update({"text/plain": words}, raw=True)

    def close(self) -> None:
        """Leave no trace of it."""
        if self._in_lines or self._progress is None:
            return
        if _in_a_notebook():
            self._write("")
        else:
            self._progress.stop()


def _is_a_terminal() -> bool:
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def _in_a_notebook() -> bool:
    return "ipykernel.kernelapp" in sys.modules
