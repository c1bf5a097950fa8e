"""Many independent computations, on all cores where each takes long, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from replicable_rl.threads import Answer, Threads, result_of

T = TypeVar("T")
S = TypeVar("S")
_MANY = 10_000  # outcomes of a log: with fewer, a decision is mostly Python


def in_order(compute: Callable[[T], S], items: Iterable[T], *, threads: int) -> Iterator[S]:
    """Yield what is computed of every item, in their order; a few are computed ahead, if there are several threads.

    Threads pay where most of the time is spent in compiled loops, and not where it is Python's.

    >>> list(in_order(lambda x: x * x, range(5), threads=2))
    [0, 1, 4, 9, 16]
    """
    if threads < 2:
        yield from map(compute, items)
        return
    waiting: deque[Answer] = deque()
    with Threads(threads) as others:  # who has seen enough does not wait for the rest
        for item in items:
            waiting.append(others.submit(compute, item))
            if len(waiting) > threads:
                yield result_of(waiting.popleft())
        yield from map(result_of, waiting)


def threads_for(outcomes: int) -> int:
    """Return how many threads pay for decisions on a log with so many outcomes.

    >>> threads_for(100)
    1
    """
    from replicable_rl.compiled import THREADS

    return THREADS if outcomes >= _MANY else 1
