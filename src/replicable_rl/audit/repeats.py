"""Code that remembers: a few runs are made again, each in a process in which none was made before.

An interval holds for runs that depend on their seeds alone. Code that keeps something from one call to the next, in a
global, a cache or a file, makes runs alike (or different) that would not be so in two laboratories. Nobody sees that in
the runs themselves. So before its first run an audit forks a process, which waits. When all runs are there, that
process is asked for a few of them, those first that came after another run with the same shared seed. It makes each in
a fork of its own and in an empty folder; one that fails there, in a folder with what the working directory holds and
nobody has changed since the audit began, at any depth. Temporary files go to that folder, too. The same seeds must give
the same outputs. What code keeps in a file of another folder, or in another program, is not seen.

A fork needs nothing that can be pickled, costs a few milliseconds, and has what the program held before the audit.
Modules of functions are imported again in it, so that what they remember from before is forgotten, too; what was typed
in, or is held in closures and objects, stays as it was.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from replicable_rl.audit.evidence import Repeat
from replicable_rl.audit.jobs import Job, run_one_by_one
from replicable_rl.audit.workers import belong_to
from replicable_rl.runs import Run, RunSpec, is_our_file, made_with

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_FEWEST, _MOST = 3, 12  # runs that are made again; every tenth between them
_PATIENCE = 30.0  # seconds, and three times as long as the run itself took
_DIED, _ENDLESS = "the process ended", "it did not end"
_DONE = 17  # how a fork ends that did its work; somebody's own code may end it otherwise
_PYTHON = sysconfig.get_path("stdlib")


class Pristine:
    """A process as it was before the first run of an audit; none where no job asks for it, or the system cannot fork.

    Parameters
    ----------
    jobs : mapping of int to Job
        What makes the runs.
    """

    def __init__(self, jobs: Mapping[int, Job]) -> None:
        self._process, self._state = 0, ""
        if not jobs or not hasattr(os, "fork"):
            return
        self._folder = tempfile.TemporaryDirectory(prefix="replicable-rl-", ignore_cleanup_errors=True)
        since = Path(self._folder.name).stat().st_ctime_ns  # by the clock of files
        self._pipe, theirs = Pipe()
        with warnings.catch_warnings(action="ignore"):  # of threads, whose locks nobody asks for in there
            self._process = os.fork()
        if not self._process:
            _and_end(lambda: _wait(jobs, theirs, os.getppid(), since))
        theirs.close()
        with contextlib.suppress(OSError):  # it may have done so itself
            os.setpgid(self._process, self._process)
        time.sleep(0.02)  # the clock of files may go by steps of 0.01 s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._pipe.close()
            self._folder.cleanup()

    def repeats(self, number: int, runs: Sequence[Run], each: int) -> list[Repeat]:
        """Make a few runs of a job again, ``each`` under one shared seed, until one is not the same."""
        found: list[Repeat] = []
        if self._process and not self._state:  # asked once for all audits
            self._state = self._answer(_PATIENCE)
        for run in _chosen(runs, each):
            found.append(self._repeat(number, run))
            if not found[-1].same:
                break
        return found or [Repeat(run.key, None, "they failed, or other versions made them") for run in runs[:1]]

    def _repeat(self, number: int, run: Run) -> Repeat:
        if not self._process:
            return Repeat(run.key, None, "this system cannot fork")
        if self._state != "ready":
            return Repeat(run.key, None, self._state)
        told: Any = None
        for linked in (False, True):
            with contextlib.suppress(OSError):
                self._pipe.send((number, run.spec, tempfile.mkdtemp(dir=self._folder.name), linked))
            told = self._answer(_PATIENCE + 3.0 * run.seconds)
            if isinstance(told, dict):
                return Repeat(run.key, told == dict(run.fingerprints))
            if told == _ENDLESS:
                self._state = told  # it may answer later, when another run is asked for
            if told in (_DIED, _ENDLESS):
                break
        return Repeat(run.key, None, told)

    def _answer(self, seconds: float) -> Any:
        with contextlib.suppress(EOFError, OSError):
            return self._pipe.recv() if self._pipe.poll(seconds) else _ENDLESS
        return _DIED


def _chosen(runs: Sequence[Run], each: int) -> list[Run]:
    """Return some runs, the last one first, that another one with the same shared seed came before."""
    here = made_with()
    some = [run for i, run in enumerate(runs) if i % each and run.error is None and dict(run.made_with) == dict(here)]
    most = min(max(len(runs) // 10, _FEWEST), _MOST)
    return some[::-1][:: max(1, -(-len(some) // most))]


def _and_end(work: Callable[[], object]) -> None:
    """Do the work of a forked process, and end it without what its parent would do at the end."""
    try:
        work()
    except BaseException:
        os._exit(1)
    os._exit(_DONE)


def _wait(jobs: Mapping[int, Job], pipe: Connection, parent: int, since: int) -> None:
    """Wait to be asked for runs, and make each in a fork."""
    os.setpgid(0, 0)  # Ctrl-C is for the parent, which ends this process
    belong_to(parent)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # it stays open as long as the process
    sys.path[:] = [str(Path(one).absolute()) for one in sys.path]
    jobs = _anew(jobs)
    pipe.send("ready")
    while True:
        number, spec, folder, linked = pipe.recv()
        if not (child := os.fork()):
            belong_to(os.getppid())
            _and_end(lambda: pipe.send(_made_in(folder, since if linked else None, jobs[number], spec)))  # noqa: B023
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != _DONE:
            pipe.send(_DIED)


def _made_in(folder: str, since: int | None, job: Job, spec: RunSpec) -> dict[str, str] | str:
    """Return the fingerprints of a run, or why it failed; in the folder is what has not changed ``since``."""
    if since is not None:
        _link(Path.cwd(), Path(folder).resolve(), since)
    os.chdir(folder)
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    # In a thread of its own: OpenMP waits for ever for the threads that the main one had before it was forked.
    (run,) = ThreadPoolExecutor(1).submit(lambda: list(run_one_by_one(job, [spec], "record", {}))).result()
    return dict(run.fingerprints) if run.error is None else run.error


def _link(here: Path, there: Path, since: int) -> None:
    """Link to what a folder holds unchanged; a folder in it that has changed is made anew, with what has not."""
    for path in here.iterdir():
        if _is_unchanged(path, since):
            (there / path.name).symlink_to(path)
        elif path.is_dir() and not path.is_symlink() and not there.is_relative_to(path):
            (there / path.name).mkdir()
            _link(path, there / path.name, since)


def _is_unchanged(path: Path, since: int) -> bool:
    """Whether a file has not changed since then, and nothing in a folder has."""
    with contextlib.suppress(OSError):  # nobody may look into it
        inside = path.iterdir() if path.is_dir() and not path.is_symlink() else ()
        return path.lstat().st_ctime_ns <= since and all(_is_unchanged(one, since) for one in inside)
    return True


def _anew(jobs: Mapping[int, Job]) -> Mapping[int, Job]:
    """Return jobs whose own modules are imported again; as they are where a module cannot be."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or _PYTHON
        if name != "__main__" and not (file.startswith(_PYTHON) or "-packages" in file or is_our_file(file)):
            del sys.modules[name]
    with contextlib.suppress(BaseException):  # whatever somebody's module raises
        return {i: job.anew() for i, job in jobs.items()}
    return jobs
