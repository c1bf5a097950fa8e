"""Another process, in which to run again what was run in this one."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

_T = TypeVar("_T")
_HASHES = "PYTHONHASHSEED"


class CannotBeSent(Exception):
    """There is no other process, or not everything that the call needs arrives there."""


class RunFailed(Exception):
    """The call raised an exception in the other process, or ended it."""


class Worker(AbstractContextManager["Worker"]):
    """One process besides this one, where texts have other hashes.

    It starts with the first call and ends with the block. It is a process of its own, not one of the workers that
    joblib shares, which may be anyone's: those are left as they are.

    >>> import os
    >>> with Worker() as worker:
    ...     other = worker.call(os.getpid)
    ...     other == os.getpid(), other == worker.call(os.getpid), worker.call(hash, "a text") == hash("a text")
    (False, True, False)
    """

    def __init__(self) -> None:
        self._executor: Any = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, if there is one; another call would start another."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)

    def call(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Return ``function(*arguments)`` as computed in the other process."""
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        if self._executor is None:
            self._executor = _start()
        try:
            failure, answer = self._executor.submit(_call, function, arguments).result()
        except TerminatedWorkerError as error:
            self.close()
            raise RunFailed(_named(error)) from error
        except Exception as error:  # of what cannot be written here or read there; those of the call are in the answer
            self.close()
            raise CannotBeSent(_reason(error)) from error
        if failure is not None:
            raise RunFailed(failure)
        return answer  # type: ignore[no-any-return]  # loky has no types


def _start() -> Any:
    from joblib.externals.loky import ProcessPoolExecutor

    hashes = "2" if os.environ.get(_HASHES) == "1" else "1"
    try:
        executor = ProcessPoolExecutor(max_workers=1, env={_HASHES: hashes})
        executor.submit(os.getpid).result()
    except Exception as error:  # of a system that allows no processes, or no semaphores
        raise CannotBeSent(_named(error)) from error
    return executor


def _call(function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[str | None, Any]:
    """Make the call in the other process; exceptions go back as texts, for not all of them can be sent."""
    try:
        return None, function(*arguments)
    except Exception as error:
        return _named(error), None


def _reason(error: Exception) -> str:
    """Return why something did not arrive: loky gives the traceback, whose last line says it."""
    lines = str(error.__cause__ or "").strip().strip('"').split("\n")
    told = [line for line in lines if line.strip()]
    return told[-1] if told else _named(error)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
