"""Making runs: in chunks that end after a fraction of a second, here or on joblib's workers.

A chunk goes to a worker with many runs and comes back with those that it made in time; the others go back into the
queue. So fast runs do not drown in overhead, slow ones travel one by one, and whoever kills an audit loses a fraction
of a second of finished runs. The order in which runs finish has no influence on any result.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from replicable_rl.audit.evidence import Job
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.progress import unheard
from replicable_rl.registry import unshipped_levels
from replicable_rl.runs import LEVELS, Level, Run, RunSpec, made_with
from replicable_rl.store import RunStore, packed
from replicable_rl.wording import sentence

OnError = Literal["raise", "record"]
Contents = dict[str, bytes]  # outputs by their fingerprints
Batch = tuple[int, list[Run], Contents]  # the number of the chunk, and what came of it
_PATIENCE = 0.3  # seconds of runs that a chunk brings
_LARGEST = 2000  # runs of a chunk
_LOOK = 1.0  # seconds between two looks of a worker at its parent


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


# --- runs, one after the other ------------------------------------------------------------------------------------


def run_chunk(number: int, job: Job, specs: Sequence[RunSpec], on_error: OnError) -> Batch:
    """Make runs in order for a fraction of a second; a failed one is the last, unless it is recorded.

    The runs come without their outputs, and each distinct output comes once.
    """
    runs: list[Run] = []
    contents: Contents = {}
    context, began = unheard(), time.perf_counter()  # the audit's own progress is runs, not iterations
    for spec in specs:
        started = time.perf_counter()
        if runs and started - began > _PATIENCE:
            break
        try:
            run = context.run(job.run, spec)
        except (Exception, SystemExit) as error:
            seconds = time.perf_counter() - started
            runs.append(Run.failed(spec, _describe(error), seconds, traceback=_traceback(error)))
            if on_error == "raise":
                break
        else:
            # The spec of the audit: somebody's own code is known there by the name that its author gave it.
            seconds = time.perf_counter() - started
            runs.append(packed(run, contents, spec=spec, made_with=made_with(), seconds=seconds))
    return number, runs, contents


def _describe(error: BaseException) -> str:
    """Say what went wrong in one line; where, if it was not our own refusal."""
    try:
        message = sentence(error) + "." * str(error).rstrip().endswith(".")
    except Exception:  # an exception that cannot even be written
        message = ""
    if isinstance(error, InvalidInput):
        return message
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"


def _traceback(error: BaseException) -> str | None:
    """Return the traceback as Python prints it; None where our own refusal says all."""
    if isinstance(error, InvalidInput):
        return None
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # an exception that cannot even be written
        text = "".join(traceback.format_tb(error.__traceback__))
    return text.encode("utf-8", "backslashreplace").decode()


# --- what is left to make -----------------------------------------------------------------------------------------


class Queue:
    """The runs that audits still lack, in their order, handed out in chunks."""

    def __init__(self, lacking: Sequence[tuple[Job, Sequence[RunSpec]]], store: RunStore) -> None:
        self._jobs = [job for job, _ in lacking]
        self._left = [deque(specs) for _, specs in lacking]
        self._store = store
        self._out: dict[int, tuple[int, list[RunSpec]]] = {}  # chunks that are being made: of which audit, and its runs
        self._lock = threading.Lock()  # joblib asks for work from threads of its own

    def __len__(self) -> int:
        return sum(map(len, self._left))

    def chunks(self, workers: int) -> Iterator[tuple[int, Job, list[RunSpec]]]:
        """Yield chunks until no run is left; what another process finished meanwhile is left out."""
        while len(self):
            with self._lock:
                audit = next((i for i, left in enumerate(self._left) if left), None)
                if audit is None:
                    return
                left = self._left[audit]
                chunk = [left.popleft() for _ in range(min(_LARGEST, -(-len(left) // (2 * workers))))]
                chunk = self._unfinished(chunk)
                number = len(self._out)
                self._out[number] = audit, chunk
            if chunk:
                yield number, self._jobs[audit], chunk

    def _unfinished(self, chunk: list[RunSpec]) -> list[RunSpec]:
        """Leave out the runs that another process has finished."""
        if self._store.path is not None:
            with contextlib.suppress(InvalidFile):  # nobody hears a thread of joblib's; the next `add` says it
                finished = self._store.finished(spec.digest for spec in chunk)
                return [spec for spec in chunk if spec.digest not in finished]
        return chunk

    def take_back(self, number: int, runs: int, *, rivals: bool) -> int:
        """Take the runs of a chunk back that were not made, and return of which audit they are."""
        with self._lock:
            audit, chunk = self._out[number]
            self._out[number] = audit, []
            self._left[audit].extendleft(reversed(chunk[runs:]))
            if rivals:  # another process works in the same order, and would be met at every chunk
                random.Random().shuffle(self._left[audit])
        return audit


# --- workers ------------------------------------------------------------------------------------------------------


def batches_of(queue: Queue, store: RunStore, n_jobs: int | None, on_error: OnError) -> Generator[Batch, None, None]:
    """Make the runs of a queue: in this thread, or on the workers that n_jobs or `joblib.parallel_config` asks for."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        yield from (run_chunk(*chunk, on_error) for chunk in queue.chunks(1))
        return
    try:
        while len(queue):  # chunks that came back with runs left may have met the end of the queue
            yield from _on_joblib(queue, n_jobs, on_error)
    except InvalidInput:
        raise
    except Exception as error:
        raise RunFailed(
            f"audit: a worker failed ({type(error).__name__}: {sentence(error)}). Use fewer workers if memory is "
            f"short, and threads for what cannot be pickled; {kept_where(store)}."
        ) from error


def _on_joblib(queue: Queue, n_jobs: int | None, on_error: OnError) -> Iterator[Batch]:
    import joblib
    from joblib._dask import DaskDistributedBackend
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    workers = max(1, joblib.effective_n_jobs(n_jobs))
    own, parent = unshipped_levels(), os.getpid()
    calls = (joblib.delayed(_on_worker)(parent, own, *chunk, on_error) for chunk in queue.chunks(workers))
    if isinstance(backend, DaskDistributedBackend):
        yield from _on_dask(backend, calls, workers)
    elif backend.supports_return_generator:
        batches = joblib.Parallel(n_jobs, batch_size=1, return_as="generator_unordered")(calls)
        try:
            for batch in batches:  # noqa: UP028  # `yield from` would close it outside of what follows
                yield batch
        finally:
            with warnings.catch_warnings(action="ignore"):  # joblib has advice for those who stop early
                batches.close()
    else:  # Ray and multiprocessing return lists only: go round by round
        with joblib.Parallel(n_jobs, batch_size=1) as parallel:
            while some := list(itertools.islice(calls, 2 * workers)):
                yield from parallel(some)


def _on_dask(backend: Any, calls: Iterator[tuple[Callable[..., Batch], Any, Any]], workers: int) -> Iterator[Batch]:
    """Run on the cluster of joblib's Dask backend, which itself never learns of a chunk that Dask has given up."""
    from dask.distributed import as_completed

    def submitted(number: int) -> list[Any]:
        return [
            backend.client.submit(function, *arguments, pure=False, **backend.submit_kwargs)
            for function, arguments, _ in itertools.islice(calls, number)
        ]

    running = as_completed(submitted(2 * workers))
    try:
        for future in running:
            batch: Batch = future.result()
            running.update(submitted(1))
            yield batch
    finally:
        backend.client.cancel(list(running.futures))


def _on_worker(parent: int, own: dict[str, Level], *chunk: Any) -> Batch:
    if os.getppid() == parent:
        belong_to(parent)
    LEVELS.update(own)  # levels of the program that this process has not run
    return run_chunk(*chunk)


@functools.cache
def belong_to(parent: int) -> None:
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


def kept_where(store: RunStore) -> str:
    """Say what becomes of the runs that have finished."""
    if store.path is None:
        return "give a store to keep the runs that finished before it"
    return f"finished runs are kept in {store.path}, and the same call resumes"
