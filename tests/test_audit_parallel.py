"""Audits on many workers and through deaths: serial = threads = processes = killed and resumed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, RunFailed
from replicable_rl.audit.workers import Pristine
from replicable_rl.runs import Algorithm
from tests.statistics import SEED

COMMAND = str(Path(sys.executable).parent / "replicable-rl")
RPVI = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=20_000, iterations=20)  # agrees in a part of the pairs
RPVI_TEXT = "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,calls=20000,iterations=20"
SEEDS = 30
DEADLY = 7  # the shared seed under which a worker dies, where it is told to


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """Turn what would wait for ever into a failure."""

    def late(*_: object) -> None:
        raise TimeoutError("the test takes too long: somebody waits for what will never come")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def grid() -> rr.TabularMDP:
    return rr.make("two-goals-v1")


def everything(result: AuditResult) -> tuple[Any, ...]:
    """All that an audit tells: texts, JSON and rows."""
    return result.text(details=True), result.to_json(), result.runs


def watched(folder: Path) -> Algorithm:
    """A user's own algorithm, local, so that workers cannot import it; a file in ``folder`` makes it deadly."""

    @dataclass(frozen=True)
    class Watched(rr.Algorithm):
        folder: str
        version: ClassVar[str] = "1"

        def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
            folder = Path(self.folder)
            (folder / f"pid-{os.getpid()}").touch()
            if (folder / "deadly").exists() and shared.seed == DEADLY:
                time.sleep(0.5)  # what other workers have made is there by then
                os.kill(os.getpid(), signal.SIGKILL)
            return rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=1000, iterations=5).solve(source, shared, rng)

    return Watched(str(folder))


def seen_pids(folder: Path) -> set[int]:
    return {int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")}


def finished_runs(store: Path) -> int:
    """How many runs a store holds, asked from outside."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=rw", uri=True, timeout=30)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM runs").fetchone()
            return int(count)
    except sqlite3.OperationalError:  # not there yet, or still without tables
        return 0


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


# --- wherever it runs, the same bits ----------------------------------------------------------------


@pytest.mark.parametrize("runs", [2, 3])
def test_serial_threads_and_processes_find_the_same(runs: int, grid: rr.TabularMDP, tmp_path: Path) -> None:
    def audited(**how: Any) -> tuple[Any, ...]:
        return everything(rr.audit(grid, RPVI, shared_seeds=SEEDS, runs_per_seed=runs, **how))

    serial = rr.audit(grid, RPVI, shared_seeds=SEEDS, runs_per_seed=runs)
    assert 0.0 < serial.agreement("policy").estimate < 1.0, "a part of the pairs agrees, so that order would show"
    expected = everything(serial)
    assert audited(n_jobs=1, store=tmp_path / "serial.sqlite") == expected
    assert audited(n_jobs=2, store=tmp_path / "processes.sqlite") == expected
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert audited() == expected
        assert audited(n_jobs=3, store=tmp_path / "threads.sqlite") == expected


def test_runs_are_made_where_they_were_asked_for(
    grid: rr.TabularMDP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pristine, "repeats", lambda *_: [])  # which are made elsewhere
    places: dict[str, set[int]] = {}
    for name in ("", "threading", "loky"):
        folder = tmp_path / f"of {name}"
        folder.mkdir()
        with joblib.parallel_config(backend=name, n_jobs=2) if name else contextlib.nullcontext():
            rr.audit(grid, watched(folder), shared_seeds=10)
        places[name] = seen_pids(folder)
    assert places[""] == places["threading"] == {os.getpid()}
    assert os.getpid() not in places["loky"]


# --- death of a worker ------------------------------------------------------------------------------


def test_worker_that_dies_ends_the_audit_with_a_sentence_and_it_resumes(grid: rr.TabularMDP, tmp_path: Path) -> None:
    mine, store = watched(tmp_path), tmp_path / "runs.sqlite"
    (tmp_path / "deadly").touch()
    with joblib.parallel_config("loky", n_jobs=2):
        with pytest.raises(RunFailed, match=rf"a worker failed .*finished runs are kept in {store}"):
            rr.audit(grid, mine, shared_seeds=range(12), store=store)
        assert finished_runs(store) < 24
        (tmp_path / "deadly").unlink()
        result = rr.audit(grid, mine, shared_seeds=range(12), store=store)
    assert finished_runs(store) == 24
    assert everything(result) == everything(rr.audit(grid, mine, shared_seeds=range(12)))


def test_a_run_that_fails_on_workers_is_one_error_and_no_warning(grid: rr.TabularMDP) -> None:
    @dataclass(frozen=True)
    class Failing(rr.Algorithm):
        def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
            if shared.seed == DEADLY:
                raise ZeroDivisionError("one over nothing")
            return RPVI.solve(source, shared, rng)

    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend, n_jobs=2), pytest.raises(RunFailed, match="ZeroDivisionError") as caught:
            rr.audit(grid, Failing(), shared_seeds=range(12))
        assert "ZeroDivisionError" in (caught.value.traceback or "")
        with joblib.parallel_config(backend, n_jobs=2):
            result = rr.audit(grid, Failing(), shared_seeds=range(12), on_error="record")
        assert [run.shared_seed for run in result.failures] == [DEADLY, DEADLY]


def test_what_cannot_be_pickled_is_one_sentence(grid: rr.TabularMDP) -> None:
    lock = contextlib.ExitStack(), sys._getframe()
    with pytest.raises(RunFailed, match=r"a worker failed .*threads for what cannot be pickled"):
        rr.audit_callable(lambda shared, sample: [len(lock)], shared_seeds=2, n_jobs=2)


# --- death of the audit itself ----------------------------------------------------------------------


# A process that makes audits in children of its own: each starts at once, for all is imported already.
NURSERY = """
import os, signal, sys
import joblib, replicable_rl as rr
problem, algorithm = rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=20_000, iterations=200)
rr.solve(problem, algorithm, shared_seed=1, sample_seed=1)
made = open(sys.argv[2], "a", buffering=1)
add = rr.RunStore.add
def counted(store, runs, contents):
    new = add(store, runs, contents)
    made.write(f"{new}\\n")
    return new
rr.RunStore.add = counted
print("ready", flush=True)
for line in sys.stdin:
    seeds, workers = map(int, line.split())
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with joblib.parallel_config("threading" if workers > 1 else "sequential", n_jobs=workers):
                rr.audit(problem, algorithm, shared_seeds=seeds, store=sys.argv[1])
        except KeyboardInterrupt:
            os._exit(130)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    def __init__(self, store: Path) -> None:
        self.store, self.added = store, store.with_suffix(".added")
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY, str(store), str(self.added)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def audit(self, seeds: int, workers: int, ending: signal.Signals, moment: Callable[[], None]) -> int:
        """Start an audit, end it at a moment, and return how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seeds} {workers}\n")
        self.process.stdin.flush()
        child = int(self._line())
        moment()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, ending)
        return int(self._line())

    def runs_added(self) -> int:
        return sum(map(int, self.added.read_text().split())) if self.added.exists() else 0


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path / "runs.sqlite")
    yield nursery
    nursery.process.kill()
    nursery.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "times"), [(signal.SIGINT, 50), (signal.SIGKILL, 20)])
def test_an_audit_that_is_ended_at_random_moments_hangs_nowhere_and_loses_nothing(
    ending: signal.Signals, times: int, grid: rr.TabularMDP, nursery: Nursery
) -> None:
    """Alone and with threads; whatever was written stays, whole, and the next audit goes on from there."""
    rng, seeds, store, codes = random.Random(SEED), 20_000, nursery.store, list[int]()
    for attempt in range(times):
        before = finished_runs(store)

        def moment(attempt: int = attempt, before: int = before) -> None:
            if attempt % 4 > 1:
                wait_until(lambda: finished_runs(store) > before)
            time.sleep(rng.uniform(0.0, 0.5))

        codes.append(nursery.audit(seeds, 1 + attempt % 2, ending, moment))
        assert finished_runs(store) >= max(before, nursery.runs_added()), f"attempt {attempt}"
    assert codes == [130 if ending == signal.SIGINT else -signal.SIGKILL] * times
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert 0 < finished_runs(store) < 2 * seeds
    slower = replace(RPVI, iterations=200)
    resumed = rr.audit(grid, slower, shared_seeds=50, store=store)
    assert everything(resumed) == everything(rr.audit(grid, slower, shared_seeds=50))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_command_keeps_what_has_finished(workers: int, grid: rr.TabularMDP, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    words = ["audit", "two-goals-v1", RPVI_TEXT, "--shared-seeds", "20000", "--store", str(store)]
    process = subprocess.Popen(
        [COMMAND, *words, "--jobs", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: finished_runs(store) >= 20)
        before = finished_runs(store)
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the workers too
        out, err = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):  # joblib's workers outlive a parent that was killed
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, "Traceback" in err) == (130, "", False), err
    assert before <= finished_runs(store) < 40_000
    resumed = rr.audit(grid, RPVI, shared_seeds=20, store=store)
    assert everything(resumed) == everything(rr.audit(grid, RPVI, shared_seeds=20))


# --- chunks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_fast_runs_are_stored_many_at_a_time_and_slow_ones_one_by_one(
    workers: int, grid: rr.TabularMDP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    original = rr.RunStore.add

    def add(store: rr.RunStore, runs: Any, contents: Any) -> int:
        sizes.append(len(runs))
        return original(store, runs, contents)

    def slow(shared_seed: int, sample_seed: int) -> list[int]:
        time.sleep(0.35)
        return [0]

    monkeypatch.setattr(rr.RunStore, "add", add)
    fast = rr.PhasedVI(0.2, 0.05, calls=10, iterations=1)
    with joblib.parallel_config("threading", n_jobs=workers):
        rr.audit(grid, fast, shared_seeds=750, store=tmp_path / "runs.sqlite")
        assert sum(sizes) == finished_runs(tmp_path / "runs.sqlite") == 1500
        assert len(sizes) < 75
        sizes.clear()
        rr.audit_callable(slow, shared_seeds=3)
    assert sizes == [1] * 6
