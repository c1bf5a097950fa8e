"""Making runs: in chunks that end after a fraction of a second, here or on joblib's workers; and making a few again.

A chunk goes to a worker with many runs and comes back with those that it made in time; the others go back into the
queue. So fast runs do not drown in overhead, slow ones travel one by one, and whoever kills an audit loses a fraction
of a second of finished runs. The order in which runs finish has no influence on any result.

*Code that remembers.* An interval holds for runs that depend on their seeds alone. Code that keeps something from one
call to the next, in a global or a cache, makes runs alike (or different) that would not be so in two laboratories.
Nobody sees that in the runs themselves. So before its first run an audit forks a process, which waits. When all runs
are there, that process is asked for a few of them, those first that came after another run with the same shared seed,
and makes each in a fork of its own. The same seeds must give the same outputs. What code keeps in files or in another
program is not seen. A fork needs nothing that can be pickled, costs a few milliseconds, and has what the program held
before the audit.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from replicable_rl.audit.evidence import Job, Repeat
from replicable_rl.errors import InvalidInput
from replicable_rl.progress import unheard
from replicable_rl.registry import unshipped_levels
from replicable_rl.runs import LEVELS, Level, Run, RunSpec, made_with
from replicable_rl.store import RunStore, packed
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

OnError = Literal["raise", "record"]
Contents = dict[str, bytes]  # outputs by their fingerprints
Batch = tuple[list[Run], Contents, Sequence[RunSpec]]  # of a chunk: what was made, and which runs were not
_PATIENCE = 0.3  # seconds of runs that a chunk brings
_LARGEST = 2000  # runs of a chunk
_LOOK = 1.0  # seconds between two looks of a worker at its parent
_FEWEST, _MOST = 3, 12  # runs that are made again; every tenth between them
_REPEAT = 30.0  # seconds, and three times as long as the run itself took


class RunFailed(InvalidInput):
    """A run of an audit raised; the runs that had finished are kept.

    Attributes
    ----------
    traceback : str or None
        Where it raised, as Python prints it, also where that was in another process. Python shows it when nobody
        catches the exception.
    """

    def __init__(self, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.traceback = traceback
        if traceback is not None:
            self.add_note(traceback)


# --- runs, one after the other ------------------------------------------------------------------------------------


def run_chunk(job: Job, specs: Sequence[RunSpec], on_error: OnError) -> Batch:
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
    return runs, contents, specs[len(runs) :]


def _describe(error: BaseException) -> str:
    """Say what went wrong in one line; where, if it was not our own refusal."""
    message = sentence(error) + "." * str(error).rstrip().endswith(".")
    if isinstance(error, InvalidInput):
        return message
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"


def _traceback(error: BaseException) -> str | None:
    """Return the traceback as Python prints it; None where our own refusal says all."""
    if isinstance(error, InvalidInput):
        return None
    return "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace").decode()


# --- what is left to make -----------------------------------------------------------------------------------------


class Queue:
    """The runs that an audit still lacks, handed out in chunks."""

    def __init__(self, job: Job, lacking: Sequence[RunSpec]) -> None:
        self._job, self._left = job, deque(lacking)
        self._lock = threading.Lock()  # joblib asks for work from threads of its own

    def __len__(self) -> int:
        return len(self._left)

    def chunks(self, workers: int) -> Iterator[tuple[Job, list[RunSpec]]]:
        """Yield chunks until no run is left."""
        while True:
            with self._lock:
                size = min(_LARGEST, -(-len(self._left) // (2 * workers)))
                chunk = [self._left.popleft() for _ in range(size)]
            if not chunk:
                return
            yield self._job, chunk

    def take_back(self, runs: Sequence[RunSpec]) -> None:
        """Take the runs of a chunk back that were not made."""
        with self._lock:
            self._left.extendleft(reversed(runs))


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
    from joblib.parallel import get_active_backend

    workers = max(1, joblib.effective_n_jobs(n_jobs))
    own, parent = unshipped_levels(), os.getpid()
    calls = (joblib.delayed(_on_worker)(parent, own, *chunk, on_error) for chunk in queue.chunks(workers))
    if get_active_backend()[0].supports_return_generator:
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


# --- a few runs again ---------------------------------------------------------------------------------------------


class Pristine:
    """A process as it was before the first run of an audit; none where no job asks for it, or the system cannot fork.

    Parameters
    ----------
    jobs : mapping of int to Job
        What makes the runs.
    """

    def __init__(self, jobs: Mapping[int, Job]) -> None:
        import multiprocessing  # it is slow to import

        self._process: Any = None
        if not jobs or "fork" not in multiprocessing.get_all_start_methods():
            return
        fork = multiprocessing.get_context("fork")
        self._pipe, theirs = fork.Pipe()
        self._process = fork.Process(target=_wait, args=(jobs, theirs, self._pipe))
        with warnings.catch_warnings(action="ignore"):  # of threads, whose locks nobody asks for in there
            self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
            self._pipe.close()

    def repeats(self, number: int, runs: Sequence[Run], each: int) -> list[Repeat]:
        """Make a few runs of a job again, ``each`` under one shared seed, until one is not the same."""
        repeats: list[Repeat] = []
        for run in _chosen(runs, each):
            repeats.append(self._repeat(number, run))
            if not repeats[-1].same:
                break
        return repeats or [Repeat(run.key, None, "they failed, or other versions made them") for run in runs[:1]]

    def _repeat(self, number: int, run: Run) -> Repeat:
        if self._process is None:
            return Repeat(run.key, None, "this system cannot fork")
        seconds = _REPEAT + 3.0 * run.seconds
        try:
            self._pipe.send((number, run.spec, seconds))
            answer = self._pipe.recv()
        except (EOFError, OSError):
            return Repeat(run.key, None, "the process ended")
        return Repeat(run.key, None, answer) if isinstance(answer, str) else Repeat(run.key, answer == run.fingerprints)


def _chosen(runs: Sequence[Run], each: int) -> list[Run]:
    """Return a few runs, the last one first, that other runs with the same shared seed came before."""
    here = made_with()
    later = [run for i, run in enumerate(runs) if i % each and run.error is None and dict(run.made_with) == dict(here)]
    number = min(max(len(runs) // 10, _FEWEST), _MOST)
    return later[::-1][:: max(1, -(-len(later) // number))]


def _wait(jobs: Mapping[int, Job], pipe: Connection, theirs: Connection) -> None:
    """Wait to be asked for runs, and make each in a fork; end with the parent, which holds the pipe's other end."""
    import multiprocessing

    theirs.close()
    os.setpgid(0, 0)  # Ctrl-C is for the parent, which ends this process and its forks
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # it stays open as long as the process
    fork = multiprocessing.get_context("fork")
    with contextlib.suppress(EOFError):
        while True:
            number, spec, seconds = pipe.recv()
            ours, answers = fork.Pipe(duplex=False)
            process = fork.Process(target=_make, args=(jobs[number], spec, answers))
            process.start()
            answers.close()
            try:
                answer = ours.recv() if ours.poll(seconds) else "it did not end"
            except EOFError:
                answer = "the process ended"
            process.kill()
            process.join()
            pipe.send(answer)


def _make(job: Job, spec: RunSpec, pipe: Connection) -> None:
    """Make a run, and send its fingerprints or why it failed."""
    from concurrent.futures import ThreadPoolExecutor

    # In a thread of its own: OpenMP waits for ever for the threads that the main one had before it was forked.
    (run,), _, _ = ThreadPoolExecutor(1).submit(run_chunk, job, [spec], "record").result()
    pipe.send(dict(run.fingerprints) if run.error is None else run.error)
