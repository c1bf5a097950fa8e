"""Run what an audit still lacks, in chunks, here or on joblib's workers, and store it.

Chunks last a fraction of a second, so that fast runs do not drown in overhead and a killed audit
repeats little; slow runs travel one by one. The order in which runs finish has no influence on
any result: records are looked up by their keys.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from replicable_rl.audit.backends import check_n_jobs
from replicable_rl.audit.jobs import Job, OnError, Task, check_travels, run_chunk, run_one_by_one
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.progress import report
from replicable_rl.records import RunFamily, RunRecord
from replicable_rl.store import RunStore
from replicable_rl.store.arrays import Encoded

__all__ = ["RunFailed", "check_settings", "finish"]

_COMMIT_EVERY = 0.2  # seconds of finished runs that a kill may cost
_CHUNK = 0.5  # seconds that a chunk should take on a worker
_LARGEST_CHUNK = 2000
_DEATHS = ("TerminatedWorkerError", "KilledWorker", "ActorDiedError", "WorkerCrashedError")  # loky, Dask, Ray, Ray

Batch = tuple[list[RunRecord], dict[str, Encoded]]
Call = tuple[Callable[..., Batch], tuple[Any, ...], dict[str, Any]]  # what joblib.delayed makes


class RunFailed(InvalidInput):
    """A run of an audit raised; the runs that had finished are kept."""


def check_settings(n_jobs: int | None, on_error: str) -> int | None:
    """Refuse settings that nothing can be run with; return the number of workers."""
    if on_error not in ("raise", "record"):
        raise InvalidInput(f"audit: on_error must be 'raise' or 'record', got {on_error!r}.")
    return check_n_jobs(n_jobs)


def finish(
    job: Job,
    family: RunFamily,
    tasks: Sequence[Task],
    store: RunStore,
    *,
    n_jobs: int | None,
    on_error: OnError,
    at_most: int | None = None,
) -> int:
    """Make the runs that the store lacks, or the first of them, add them to it, and return how many were made."""
    n_jobs = check_settings(n_jobs, on_error)
    done = store.keys(family, failed=on_error == "record")
    missing = [task for task in tasks if task.key not in done]
    if not missing:
        return 0
    queue = _Queue(missing[:at_most], store)
    batches = _on_workers(job, queue, n_jobs, on_error) if _wants_workers(n_jobs) else _here(job, queue, on_error)
    before = finished = len(tasks) - len(missing)
    with contextlib.closing(batches):
        for records, arrays in batches:
            kept = [record for record in records if record.error is None or on_error == "record"]
            new = store.add(family, kept, arrays)
            queue.learn(records, rivals=new < sum(record.error is None for record in records))
            finished += len(records)
            report("runs", min(finished, len(tasks)), len(tasks))
            if on_error == "raise":
                _refuse_failures(records, tasks, store)
    return finished - before


class _Queue:
    """The tasks still to make, handed out in chunks that last about as long as asked."""

    def __init__(self, tasks: Sequence[Task], store: RunStore) -> None:
        self._tasks = list(reversed(tasks))  # taken from the end
        self.store = store
        self._seconds = self._runs = 0.0
        self._lock = threading.Lock()  # joblib asks for work from threads of its own

    def learn(self, records: Sequence[RunRecord], *, rivals: bool) -> None:
        """Take note of how long runs last, and get out of the way of another process."""
        with self._lock:
            self._seconds += sum(record.seconds for record in records)
            self._runs += len(records)
            if rivals:  # it works in the same order and would be met at every chunk
                random.Random().shuffle(self._tasks)

    def chunks(self, workers: int) -> Iterator[list[Task]]:
        """Yield chunks until no task is left; what another process finished meanwhile is left out."""
        while True:
            with self._lock:
                size = int(_CHUNK * self._runs / self._seconds) if self._seconds else 1
                size = max(1, min(size, _LARGEST_CHUNK, len(self._tasks) // (2 * workers)))
                chunk = [self._tasks.pop() for _ in range(min(size, len(self._tasks)))]
            if not chunk:
                return
            if self.store.path is not None:
                with contextlib.suppress(InvalidFile):  # nobody hears a thread of joblib's; the next `add` will say it
                    finished = self.store.finished(task.key for task in chunk)
                    chunk = [task for task in chunk if task.key not in finished]
            if chunk:
                yield chunk


def _here(job: Job, queue: _Queue, on_error: OnError) -> Generator[Batch, None, None]:
    """Run in this process; yield what has finished every so often, and what is left when interrupted."""
    for chunk in queue.chunks(workers=1):
        records: list[RunRecord] = []
        arrays: dict[str, Encoded] = {}
        since = time.monotonic()
        runs = run_one_by_one(job, chunk, on_error, arrays)
        while True:
            try:
                records.append(next(runs))
            except StopIteration:
                break
            except BaseException:
                if records:  # Ctrl-C: what has finished is kept
                    yield records, arrays
                raise
            if time.monotonic() - since >= _COMMIT_EVERY:
                yield records, arrays
                records, since = [], time.monotonic()
                arrays.clear()  # they are stored
        if records:
            yield records, arrays


def _on_workers(job: Job, queue: _Queue, n_jobs: int | None, on_error: OnError) -> Generator[Batch, None, None]:
    """Run on joblib's workers: processes, or threads where they do as well, or those of `joblib.parallel_config`."""
    import joblib
    from joblib.parallel import get_active_backend

    prefer = "threads" if getattr(job, "threads", False) else "processes"
    backend, _ = get_active_backend(prefer=prefer)
    client = getattr(backend, "client", None)
    with _as_run_failed(queue.store):
        workers = max(1, joblib.effective_n_jobs(n_jobs))
        if client is not None or (workers > 1 and not getattr(backend, "supports_sharedmem", False)):
            check_travels(job)
        calls = (joblib.delayed(run_chunk)(job, chunk, on_error) for chunk in queue.chunks(workers))
        yield from _on_joblib(calls, n_jobs, workers, prefer) if client is None else _on_dask(backend, calls, workers)


def _on_joblib(calls: Iterator[Call], n_jobs: int | None, workers: int, prefer: str) -> Iterator[Batch]:
    import joblib

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
    """Word what befalls the workers; what the runs themselves raise comes back as records."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        if type(error).__name__ in _DEATHS:
            raise RunFailed(
                "audit: a worker process died, by a crash, a signal or for want of memory. Use fewer workers if memory "
                f"is short; {_kept(store)}."
            ) from None
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}".rstrip(".")
        raise RunFailed(f"audit: the workers failed ({what}); {_kept(store)}.") from error


def _wants_workers(n_jobs: int | None) -> bool:
    """Whether n_jobs, or a backend that the user has set up in joblib, asks for more than this thread."""
    if n_jobs is not None or "joblib" not in sys.modules:
        return n_jobs not in (None, 1)
    import joblib
    from joblib.parallel import get_active_backend

    return hasattr(get_active_backend()[0], "client") or bool(joblib.effective_n_jobs(None) != 1)


def _refuse_failures(records: Sequence[RunRecord], tasks: Sequence[Task], store: RunStore) -> None:
    failed = next((record for record in records if record.error is not None), None)
    if failed is None:
        return
    number = 1 + next(i for i, task in enumerate(tasks) if task.key == failed.key)
    seeds = f"shared_seed={failed.shared_seed}, sample_seed={failed.sample_seed}"
    raise RunFailed(
        f"audit: run {number} of {len(tasks)} ({seeds}) failed: {(failed.error or '').rstrip('.')}. "
        f"Use on_error='record' to count failures and go on; {_kept(store)}."
    )


def _kept(store: RunStore) -> str:
    if store.path is None:
        return "pass store=... to keep the runs that finished before it"
    return f"finished runs are kept in {store.path}, and the same call resumes"
