"""Chunks of runs on joblib's workers: processes, threads, a Dask or a Ray cluster."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from replicable_rl.audit.jobs import Contents, Job, OnError, check_travels, run_chunk
from replicable_rl.errors import InvalidInput
from replicable_rl.registry import unshipped_levels
from replicable_rl.runs import LEVELS, Level, Run, RunSpec
from replicable_rl.store import RunStore
from replicable_rl.wording import sentence

_LOOK = 1.0  # seconds between two looks of a worker at its parent
_DEATHS = ("TerminatedWorkerError", "KilledWorker", "ActorDiedError", "WorkerCrashedError")  # loky, Dask, Ray, Ray

Chunk = tuple[int, Job, list[RunSpec]]  # of which audit
Batch = tuple[int, list[Run], Contents]
Call = tuple[Callable[..., Batch], tuple[Any, ...], dict[str, Any]]  # what joblib.delayed makes


class RunFailed(InvalidInput):
    """A run of an audit raised; the runs that had finished are kept.

    Attributes
    ----------
    traceback : str or None
        Where it raised, as Python prints it, also where that was in another process. Python shows it when nobody
        catches the exception.
    """

    def __init__(self, message: object = "", traceback: str | None = None) -> None:
        super().__init__(message)
        self.traceback = traceback
        if traceback is not None:
            self.__cause__ = _InTheRun(traceback)

    def __reduce__(self) -> tuple[type[RunFailed], tuple[str, str | None]]:
        return type(self), (str(self), self.traceback)


class _InTheRun(Exception):
    """What happened in a run, for Python to show above the `RunFailed` that it caused."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def wants_workers(n_jobs: int | None) -> bool:
    """Whether n_jobs, or a backend that the user has set up in joblib, asks for more than this thread."""
    if n_jobs is not None or "joblib" not in sys.modules:
        return n_jobs not in (None, 1)
    import joblib
    from joblib.parallel import get_active_backend

    return hasattr(get_active_backend()[0], "client") or bool(joblib.effective_n_jobs(None) != 1)


def on_workers(
    chunks: Callable[[int], Iterator[Chunk]],
    jobs: Sequence[Job],
    store: RunStore,
    n_jobs: int | None,
    on_error: OnError,
) -> Generator[Batch, None, None]:
    """Run on joblib's workers: processes, or threads where they do as well, or those of `joblib.parallel_config`."""
    import joblib
    from joblib.parallel import get_active_backend

    prefer = "threads" if all(job.threads for job in jobs) else "processes"
    backend, _ = get_active_backend(prefer=prefer)
    client = getattr(backend, "client", None)
    with _as_run_failed(store):
        workers = max(1, joblib.effective_n_jobs(n_jobs))
        if client is not None or (workers > 1 and not getattr(backend, "supports_sharedmem", False)):
            for job in jobs:
                check_travels(job)
        own, parent = unshipped_levels(), os.getpid() if _are_children(backend) else None
        calls = (joblib.delayed(_run_chunk)(*chunk, on_error, own, parent) for chunk in chunks(workers))
        yield from _on_joblib(calls, n_jobs, workers, prefer) if client is None else _on_dask(backend, calls, workers)


def _run_chunk(
    number: int,
    job: Job,
    specs: Sequence[RunSpec],
    on_error: OnError,
    own: dict[str, Level],
    parent: int | None,
) -> Batch:
    if parent not in (None, os.getpid()):
        belong_to(parent)
    LEVELS.update(own)  # levels of the program that this process has not run
    return number, *run_chunk(job, specs, on_error)


def _are_children(backend: Any) -> bool:
    """Whether the workers of a backend are child processes of this one: joblib's own, not those of a cluster."""
    return type(backend).__module__.startswith("joblib.") and not hasattr(backend, "client")


@functools.cache
def belong_to(parent: int | None) -> None:
    """Leave Ctrl-C to the parent, which ends this worker, and end it soon after the parent has gone in another way.

    Ctrl-C reaches every process of a terminal. Between two chunks a worker would answer with a traceback.
    """
    with contextlib.suppress(ValueError):  # not the main thread, which Ctrl-C does not reach
        signal.signal(signal.SIGINT, lambda *_: None)  # and not SIG_IGN, which programs that a run starts would inherit

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)  # in the middle of a run; it has kept nothing

    threading.Thread(target=look, name="replicable-rl: end with the parent", daemon=True).start()


def _on_joblib(calls: Iterator[Call], n_jobs: int | None, workers: int, prefer: str) -> Iterator[Batch]:
    import joblib

    # A worker that has loaded a large library is replaced by a fresh one, and joblib says so in a thread of its own.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given", category=UserWarning)
    _leave_stopped_pools_in_peace()
    try:
        parallel = joblib.Parallel(n_jobs=n_jobs, batch_size=1, prefer=prefer, return_as="generator_unordered")
    except ValueError:  # Ray and multiprocessing return lists only: go round by round
        with joblib.Parallel(n_jobs=n_jobs, batch_size=1, prefer=prefer) as parallel:
            while some := list(itertools.islice(calls, 2 * workers)):
                yield from parallel(some)
    else:
        batches = parallel(calls)
        try:
            for batch in batches:  # noqa: UP028  # `yield from` would close it outside of what follows
                yield batch
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib has advice for those who stop early
                batches.close()


@functools.cache
def _leave_stopped_pools_in_peace() -> None:
    """Keep one traceback from the screen: joblib's pool forgets its work when it is stopped, and may then ask for it.

    It does when a chunk was handed to it in the very moment in which it was stopped; its workers have ended by then.
    """
    heard = threading.excepthook

    def hook(told: threading.ExceptHookArgs) -> None:
        stopped = getattr(getattr(told.thread, "executor_flags", None), "shutdown", False)
        if not (stopped and issubclass(told.exc_type, KeyError)):
            heard(told)

    threading.excepthook = hook


def _on_dask(backend: Any, calls: Iterator[Call], workers: int) -> Iterator[Batch]:
    """Run on the cluster of joblib's Dask backend, which itself never learns of a chunk that Dask has given up."""
    from dask.distributed import as_completed

    client, options = backend.client, {"pure": False, **backend.submit_kwargs}

    def submitted(how_many: int) -> list[Any]:
        some = itertools.islice(calls, how_many)
        return [client.submit(function, *given, **named, **options) for function, given, named in some]

    running = as_completed(submitted(2 * workers))
    try:
        for future in running:
            batch = future.result()
            running.update(submitted(1))
            yield batch
    finally:
        client.cancel(list(running.futures))


@contextlib.contextmanager
def _as_run_failed(store: RunStore) -> Iterator[None]:
    """Word what befalls the workers; what the runs themselves raise comes back as runs."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        if type(error).__name__ in _DEATHS:
            raise RunFailed(
                "audit: a worker process died, by a crash, a signal or too little memory. Use fewer workers if memory "
                f"is short; {kept_where(store)}."
            ) from None
        what = f"{type(error).__name__}: {sentence(error)}"
        raise RunFailed(f"audit: the workers failed ({what}); {kept_where(store)}.") from error


def kept_where(store: RunStore) -> str:
    """Say what becomes of the runs that have finished."""
    if store.path is None:
        return "give a store to keep the runs that finished before it"
    return f"finished runs are kept in {store.path}, and the same call resumes"
