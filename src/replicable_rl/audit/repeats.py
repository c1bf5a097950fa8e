"""Code that remembers: a few runs are made again, each in a process in which none was made before.

An interval holds for runs that depend on their seeds alone. Code that keeps something from one call to the next, in a
global or a cache, makes runs alike (or different) that would not be so in two laboratories. Nobody sees that in the
runs themselves. So before its first run an audit forks a process, which waits. When all runs are there, that process is
asked for a few of them, those first that came after another run with the same shared seed, and makes each in a fork of
its own. The same seeds must give the same outputs. What code keeps in files or in another program is not seen.

A fork needs nothing that can be pickled, costs a few milliseconds, and has what the program held before the audit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from replicable_rl.audit.evidence import Job, Repeat
from replicable_rl.audit.workers import run_chunk
from replicable_rl.runs import Run, RunSpec, made_with

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_FEWEST, _MOST = 3, 12  # runs that are made again; every tenth between them
_PATIENCE = 30.0  # seconds, and three times as long as the run itself took


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
        seconds = _PATIENCE + 3.0 * run.seconds
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
    _, (run,), _ = ThreadPoolExecutor(1).submit(run_chunk, 0, job, [spec], "record").result()
    pipe.send(dict(run.fingerprints) if run.error is None else run.error)
