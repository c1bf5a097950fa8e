"""A few threads that compute for one caller, and always end when the caller is interrupted.

`concurrent.futures` and `threading` wait with locks that Python acquires in steps. A Ctrl-C between two of these steps
leaves a lock taken: the worker waits for the lock, the program for the worker, and nothing ends. The queues and threads
of this module are made of single steps.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

Answer = SimpleQueue[tuple[Any, BaseException | None]]  # of one task: what it returned, or what it raised
_Tasks = SimpleQueue[tuple[Answer, Callable[..., Any], tuple[Any, ...]] | None]  # None: there are no more


class Threads:
    """Threads that take tasks in their order; they start with the first task, and end with the block.

    >>> with Threads(2) as threads:
    ...     [result_of(answer) for answer in [threads.submit(pow, 2, n) for n in range(4)]]
    [1, 2, 4, 8]
    """

    def __init__(self, size: int) -> None:
        self._size, self._running = size, 0
        self._tasks: _Tasks = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *reason: object) -> None:
        """Forget the tasks that no thread has begun, and wait for the others."""
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            self._tasks.put(None)
        for _ in range(self._running):
            self._ended.get()
        self._running, self._tasks = 0, SimpleQueue()  # the threads may be used again

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Answer:
        """Hand a task to a thread; `result_of` waits for what comes back."""
        while self._running < self._size:
            _thread.start_new_thread(_work, (self._tasks, self._ended))
            self._running += 1
        answer: Answer = SimpleQueue()
        self._tasks.put((answer, function, arguments))
        return answer


def result_of(answer: Answer) -> Any:
    """Wait for a task, and return what it returned or raise what it raised."""
    result, error = answer.get()
    if error is not None:
        raise error
    return result


def _work(tasks: _Tasks, ended: SimpleQueue[None]) -> None:
    while (task := tasks.get()) is not None:
        answer, function, arguments = task
        try:
            answer.put((function(*arguments), None))
        except BaseException as error:  # it is the caller's
            answer.put((None, error))
        del task, answer, function, arguments  # not kept while there is nothing to do
    tasks.put(None)  # for the others
    ended.put(None)
