"""Progress of long work, reported to whoever listens and to nobody otherwise.

Loops wrap their range in :func:`track`. Who listens is decided above them: the verbs show a bar where a person looks
(`replicable_rl.progress_bar`), the command line does so too, and :func:`quiet` lets nobody listen.
"""

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # (what, done, total)


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("replicable_rl_progress", default=None)

_hear: contextvars.ContextVar[Callable[[str], None] | None] = contextvars.ContextVar("replicable_rl_hear", default=None)


def track(items: Iterable[T], what: str, total: int = 0) -> Iterator[T]:
    """Yield the items and report (what, done, total) at the start and after each; a generator has no length to ask.

    >>> seen = []
    >>> with listening(lambda what, done, total: seen.append((what, done, total))):
    ...     for _ in track(range(2), "iterations"):
    ...         pass
    >>> seen
    [('iterations', 0, 2), ('iterations', 1, 2), ('iterations', 2, 2)]
    """
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
    """Say in every report from the block of what it is a part.

    >>> with listening(lambda what, done, total: print(what, done)), within("samples=64"):
    ...     report("runs", 3, 9)
    samples=64, runs 3
    """
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
