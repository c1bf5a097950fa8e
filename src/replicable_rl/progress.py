"""Progress of long work, reported to whoever listens and to nobody otherwise.

Loops wrap their range in :func:`track`. Who listens is decided above them: the verbs show a bar with the rate and the
time left where a person looks, on a terminal and in a notebook, the command line does so too, and :func:`quiet` lets
nobody listen.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from html import escape
from typing import Any, TypeVar

from replicable_rl.wording import duration

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # (what, done, total)
_PATIENCE = 0.5  # seconds of work before the bar appears
_EVERY = 0.1  # seconds between two changes of what is shown
_only_one = threading.Lock()  # also where several threads work: two bars would write over each other

_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("replicable_rl_progress", default=None)
_hear: contextvars.ContextVar[Callable[[str], None] | None] = contextvars.ContextVar("replicable_rl_hear", default=None)


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


def is_heard() -> bool:
    """Whether anybody listens, or nobody shall."""
    return _listener.get() is not None


def announce(sentence: str) -> None:
    """Tell whoever listens why nothing moves for a while."""
    hear = _hear.get()
    if hear is not None:
        hear(sentence)


@contextlib.contextmanager
def listening(listener: Listener, hear: Callable[[str], None] | None = None) -> Iterator[None]:
    """Send the progress of everything inside the block to ``listener``, and announcements to ``hear``."""
    tokens = _listener.set(listener), _hear.set(hear or _hear.get())
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _hear.reset(tokens[1])


@contextlib.contextmanager
def within(name: str) -> Iterator[None]:
    """Say in every report from the block of what it is a part."""
    listener = _listener.get()
    if listener is None:
        yield
        return
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
    with listening(_ignore, _ignore):
        yield


def is_quiet() -> bool:
    """Whether nobody shall hear: inside `quiet`, or because the environment asks for silence."""
    return _listener.get() is _ignore or os.environ.get("REPLICABLE_RL_QUIET", "") not in ("", "0")


def unheard() -> contextvars.Context:
    """Return a context in which nobody hears of the work: it is a part of work that reports itself."""
    context = contextvars.copy_context()
    context.run(_listener.set, _ignore)
    return context


def _ignore(*_: object) -> None:
    """Hear and do nothing."""


# --- the bar ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def bar_where_it_is_seen() -> Iterator[None]:
    """Show a bar on a terminal or in a notebook if nobody listens yet; a verb is decorated with this.

    There is one bar at a time, so a verb that calls others shows the only one.
    """
    if is_heard() or not _only_one.acquire(blocking=False):
        yield
        return
    try:
        view = _view()
        with contextlib.nullcontext() if view is None else _shown(view):
            yield
    finally:
        _only_one.release()


@contextlib.contextmanager
def bar() -> Iterator[None]:
    """Show the progress of long work inside the block on standard error."""
    with _shown(_Terminal()):
        yield


@contextlib.contextmanager
def _shown(view: _Terminal | _Notebook) -> Iterator[None]:
    with contextlib.closing(_Listener(view)) as listener, listening(listener.note, listener.say):
        yield


class _Listener:
    """Hears of every item, which must cost nothing, and lets a view show it now and then, once the work is long.

    A clock of its own lets the bar appear also where the first item takes minutes.
    """

    def __init__(self, view: _Terminal | _Notebook) -> None:
        self._view, self._pace, self._lock = view, Pace(), threading.RLock()
        self._since = self._next = time.monotonic() + _PATIENCE
        self._clock: threading.Timer | None = None
        self._open = True

    def note(self, what: str, done: int, total: int) -> None:
        self._pace.note(what, done, total)
        now = time.monotonic()
        if now >= self._next or (done == total and now >= self._since):  # that all is done is always shown
            self._show()
        elif self._clock is None:
            inside = contextvars.copy_context()  # a notebook knows by it which cell is at work
            self._clock = threading.Timer(_PATIENCE, inside.run, [self._show])
            self._clock.daemon = True
            self._clock.start()

    def _show(self) -> None:
        with self._lock:
            if self._open:
                self._view.show(self._pace)
                self._next = time.monotonic() + _EVERY

    def say(self, sentence: str) -> None:
        with self._lock:
            if self._open:
                self._view.say(sentence)

    def close(self) -> None:
        with self._lock:
            self._open = False
            if self._clock is not None:
                self._clock.cancel()
            self._view.close()


class Pace:
    """How fast the present work goes, counted from its first report: what a store already had was not work."""

    def __init__(self) -> None:
        self.what = ""
        self.first = self.done = self.total = 0
        self._started = self._noted = time.monotonic()

    def note(self, what: str, done: int, total: int) -> None:
        """Note a report."""
        self._noted = time.monotonic()
        if what != self.what or done < self.first:
            self.what, self.first, self._started = what, done, self._noted
        self.done, self.total = done, total

    @property
    def rate(self) -> str:
        """The rate, in the unit that reads best; nothing where it is not known yet."""
        rate = (self.done - self.first) / max(self._noted - self._started, 1e-9)
        if rate == 0.0:
            return ""
        if rate < 1.0:
            return f"{60.0 * rate:.3g}/min"
        thousands = min(3, int(math.log10(rate) / 3.0))
        return f"{rate / 1000.0**thousands:.3g}{('', ' k', ' M', ' G')[thousands]}/s"

    @property
    def left(self) -> str:
        """The time left if it goes on like this; nothing where that is not known yet."""
        if self.done <= self.first:
            return ""
        whole = (self._noted - self._started) * (self.total - self.done) / (self.done - self.first)
        return f"{duration(max(0.0, whole - (time.monotonic() - self._noted)))} left"


class _Terminal:
    """A bar of rich on standard error, which vanishes when the work is done."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None

    def show(self, pace: Pace) -> None:
        progress = self._opened(pace)
        progress.update(self._task, description=pace.what, completed=pace.done, total=pace.total)
        if not progress.live.is_started:
            progress.start()

    def say(self, sentence: str) -> None:
        self._opened().console.print(sentence, highlight=False)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _opened(self, pace: Pace | None = None) -> Any:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            words = TextColumn("{task.description}", markup=False)
            speed = TextColumn("{task.fields[pace].rate}"), TextColumn("{task.fields[pace].left}")
            columns = words, BarColumn(), MofNCompleteColumn(), *speed
            both = sys.stdout is not None and sys.stdout.isatty()  # else what is printed belongs to a file or a pipe
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=both)
            self._task = self._progress.add_task("", total=None, pace=Pace())
        if pace is not None:
            self._progress.tasks[0].fields["pace"] = pace
        return self._progress


class _Notebook:
    """A line of a cell's output that is updated in place, and empty when the work is done."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, pace: Pace) -> None:
        words = " · ".join(filter(None, (f"{pace.done}/{pace.total}", pace.rate, pace.left)))
        drawn = f'<progress value="{pace.done}" max="{max(pace.total, 1)}"></progress>'
        self._put(f"{escape(pace.what)} {drawn} {escape(words)}", f"{pace.what} {words}")

    def say(self, sentence: str) -> None:
        self._put(escape(sentence), sentence)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)

    def _put(self, html: str, plain: str) -> None:
        from IPython.display import display

        data = {"text/html": f'<div role="status">{html}</div>', "text/plain": plain}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _view() -> _Terminal | _Notebook | None:
    """Return where a person would see a bar; None where nobody would."""
    if is_quiet():
        return None
    return _Notebook() if _in_a_notebook() else _Terminal() if _is_a_terminal() else None


def _is_a_terminal() -> bool:
    """Whether standard error is a terminal; one that is closed, or that cannot say, is none."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return bool(sys.stderr.isatty())
    return False


def _in_a_notebook() -> bool:
    """Whether this is the process of a notebook: IPython is loaded there, and its shell has a kernel."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return getattr(shell, "kernel", None) is not None
