"""Audits on many workers and through deaths: serial = threads = processes = Dask = Ray = killed and resumed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, RunFailed, workers
from replicable_rl.audit.jobs import SolveJob
from replicable_rl.audit.repeats import Pristine
from replicable_rl.errors import InvalidFile
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
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def grid() -> rr.TabularMDP:
    return rr.make("two-goals-v1")


def everything(result: AuditResult, folder: Path) -> tuple[list[str], str, bytes]:
    """All that an audit tells: tables, JSON and CSV."""
    path = folder / "everything.csv"
    result.to_csv(path)
    return [result.text(details=True)], json.dumps(result.to_json()), path.read_bytes()


def watched(folder: Path) -> Algorithm:
    """A user's own algorithm, local, so that workers cannot import it; files in ``folder`` make it slow or deadly."""

    @dataclass(frozen=True)
    class Watched(rr.Algorithm):
        folder: str
        version: ClassVar[str] = "1"

        def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
            folder = Path(self.folder)
            (folder / f"pid-{os.getpid()}").touch()
            if (folder / "slow").exists():
                time.sleep(0.05)
            if (folder / "deadly").exists() and shared.seed == DEADLY:
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
    def found(**how: Any) -> tuple[list[str], str, bytes]:
        return everything(rr.audit(grid, RPVI, shared_seeds=SEEDS, runs_per_seed=runs, **how), tmp_path)

    serial = rr.audit(grid, RPVI, shared_seeds=SEEDS, runs_per_seed=runs)
    assert 0.0 < serial.agreement("policy").estimate < 1.0, "a part of the pairs agrees, so that order would show"
    expected = everything(serial, tmp_path)
    assert found(n_jobs=1, store=tmp_path / "serial.sqlite") == expected
    assert found(n_jobs=2) == expected
    assert found(n_jobs=2, store=tmp_path / "processes.sqlite") == expected
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert found() == expected
    with joblib.parallel_config(backend="threading"):  # joblib's default is one
        assert found() == expected
        assert found(n_jobs=3, store=tmp_path / "threads.sqlite") == expected


def test_ray_finds_the_same_and_says_when_a_worker_dies(grid: rr.TabularMDP, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    mine = watched(tmp_path)
    register_ray()
    with (
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"),
        joblib.parallel_config("ray", n_jobs=-1),
    ):
        found = rr.audit(grid, RPVI, shared_seeds=SEEDS, runs_per_seed=3)
        serial = rr.audit(grid, RPVI, shared_seeds=SEEDS, runs_per_seed=3, n_jobs=1)
        assert everything(found, tmp_path) == everything(serial, tmp_path)
        (tmp_path / "deadly").touch()
        with pytest.raises(RunFailed, match="a worker process died"):
            rr.audit(grid, mine, shared_seeds=range(12), store=tmp_path / "ray.sqlite")
        assert 0 < finished_runs(tmp_path / "ray.sqlite") < 24
        assert os.getpid() not in seen_pids(tmp_path)
    (tmp_path / "deadly").unlink()
    resumed = rr.audit(grid, mine, shared_seeds=range(12), store=tmp_path / "ray.sqlite")
    assert everything(resumed, tmp_path) == everything(rr.audit(grid, mine, shared_seeds=range(12)), tmp_path)


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


def test_workers_are_used_only_where_somebody_asks_for_them() -> None:
    """That joblib is imported says nothing; alone, an audit keeps every run that has finished when interrupted."""
    assert not workers.wants_workers(None)
    assert not workers.wants_workers(1)
    assert workers.wants_workers(2)
    assert workers.wants_workers(-1)
    with joblib.parallel_config(backend="threading"):
        assert not workers.wants_workers(None)
    with joblib.parallel_config(n_jobs=2):
        assert workers.wants_workers(None)
        assert not workers.wants_workers(1)


# --- death of a worker ------------------------------------------------------------------------------


@contextlib.contextmanager
def dask_of_two_workers() -> Iterator[None]:
    """Dask tries a chunk on several workers before it gives up; joblib alone would then wait for ever."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    once = dask.config.set({"distributed.scheduler.allowed-failures": 1})  # two workers, and not four
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with once, distributed.Client(**options), joblib.parallel_config("dask"):
        yield


@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_worker_that_dies_ends_the_audit_with_a_sentence_and_it_resumes(
    backend: str, grid: rr.TabularMDP, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="distributed")
    mine, store = watched(tmp_path), tmp_path / "runs.sqlite"
    (tmp_path / "deadly").touch()
    with dask_of_two_workers() if backend == "dask" else joblib.parallel_config(backend, n_jobs=2):
        with pytest.raises(RunFailed) as caught:
            rr.audit(grid, mine, shared_seeds=range(12), store=store)
        assert str(caught.value) == (
            "audit: a worker process died, by a crash, a signal or too little memory. Use fewer workers if memory is "
            f"short; finished runs are kept in {store}, and the same call resumes."
        )
        kept = finished_runs(store)
        assert 0 < kept < 24
        (tmp_path / "deadly").unlink()
        result = rr.audit(grid, mine, shared_seeds=range(12), store=store)
    assert finished_runs(store) == 24
    assert everything(result, tmp_path) == everything(rr.audit(grid, mine, shared_seeds=range(12)), tmp_path)


def test_failing_run_on_workers_is_one_error_and_no_warning(grid: rr.TabularMDP) -> None:
    @dataclass(frozen=True)
    class Failing(rr.Algorithm):
        def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
            time.sleep(0.02)
            if shared.seed == DEADLY:
                raise ZeroDivisionError("one over nothing")
            return RPVI.solve(source, shared, rng)

    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend, n_jobs=2), pytest.raises(RunFailed, match="ZeroDivisionError: one"):
            rr.audit(grid, Failing(), shared_seeds=range(12))
        with joblib.parallel_config(backend, n_jobs=2):
            result = rr.audit(grid, Failing(), shared_seeds=range(12), on_error="record")
        assert [failed.shared_seed for failed in result.failures] == [DEADLY, DEADLY]


# --- death of the audit itself ----------------------------------------------------------------------

# A process that makes the audit in children of its own: each starts at once, for all is imported already.
NURSERY = """
import os, sys
import replicable_rl as rr
problem, algorithm = rr.make("two-goals-v1"), rr.ReplicablePhasedVI(**{params})
rr.solve(problem, algorithm, shared_seed=1, sample_seed=1)
print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        rr.audit(problem, algorithm, shared_seeds={seeds}, store={store!r}, n_jobs=1)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    def __init__(self, seeds: int, store: Path) -> None:
        params = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "calls": 20_000, "iterations": 20}
        script = NURSERY.format(params=params, seeds=seeds, store=str(store))
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def killed(self, moment: Callable[[], None]) -> int:
        """Start an audit, kill it when ``moment`` returns, and return how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        child = int(self._line())
        moment()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return int(self._line())

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def command(seeds: int, store: Path, workers: int) -> subprocess.Popen[str]:
    """Start the command in a session of its own, as in a terminal of its own."""
    arguments = ["audit", "two-goals-v1", RPVI_TEXT, "--shared-seeds", str(seeds), "--store", str(store)]
    return subprocess.Popen(
        [COMMAND, *arguments, "--jobs", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextlib.contextmanager
def nothing_left_of(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill what a command leaves: joblib's workers outlive a parent that was killed by some minutes."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def kill_command(seeds: int, store: Path, workers: int, moment: Callable[[], None]) -> int:
    process = command(seeds, store, workers)
    with nothing_left_of(process):
        moment()
        process.kill()
        return process.wait()


@pytest.mark.slow
def test_killed_twenty_times_and_resumed_finds_the_same(grid: rr.TabularMDP, tmp_path: Path) -> None:
    """At random moments, but before the audit could end; 2 of the 20 hit the command, one of them with workers."""
    rng, store, seeds = random.Random(SEED), tmp_path / "runs.sqlite", 1500
    counts = [0]
    nursery = Nursery(seeds, store)
    try:
        for attempt in range(20):
            before, quota = counts[-1], seeds * (attempt + 1) // 20  # of 2 * seeds runs

            def some_time(quota: int = quota) -> None:
                end = time.monotonic() + rng.uniform(0.0, 0.4)
                while time.monotonic() < end and finished_runs(store) < quota:
                    time.sleep(0.005)

            def some_time_after_the_first_run(before: int = before) -> None:
                wait_until(lambda: finished_runs(store) > before)
                time.sleep(rng.uniform(0.0, 0.1))

            if attempt in (2, 6):
                code = kill_command(seeds, store, 1 if attempt == 2 else 2, some_time_after_the_first_run)
            else:
                code = nursery.killed(some_time)
            assert code == -signal.SIGKILL, f"attempt {attempt} ended by itself"
            counts.append(finished_runs(store))
            assert counts[-1] >= before, "finished runs never go"
    finally:
        nursery.stop()
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert 0 < counts[-1] < 2 * seeds, counts
    assert len(set(counts)) > 5, f"kills hit different moments: {counts}"
    resumed = rr.audit(grid, RPVI, shared_seeds=seeds, store=store)
    assert everything(resumed, tmp_path) == everything(rr.audit(grid, RPVI, shared_seeds=seeds), tmp_path)
    with rr.RunStore(store) as opened:  # every run whole, with arrays that have their fingerprints
        for run in resumed.runs[:: 2 * seeds // 40]:
            assert opened.run(run.key) == run
            assert rr.Run.of(dict(opened.run(run.key).outputs)).fingerprints == run.fingerprints


def test_interrupted_command_keeps_what_has_finished(grid: rr.TabularMDP, tmp_path: Path) -> None:
    """With workers; without them in test_cli_audit.py."""
    store = tmp_path / "runs.sqlite"
    process = command(5000, store, 2)
    with nothing_left_of(process):
        wait_until(lambda: finished_runs(store) >= 20)
        before = finished_runs(store)
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the workers too
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert "Warning" not in err
    assert err.endswith("replicable-rl: interrupted; nothing was half-written.\n")
    assert before <= finished_runs(store) < 10_000
    resumed = rr.audit(grid, RPVI, shared_seeds=20, store=store)
    assert everything(resumed, tmp_path) == everything(rr.audit(grid, RPVI, shared_seeds=20), tmp_path)


def interrupted(shared_seed: int, sample_seed: int) -> list[int]:
    os.kill(os.getpid(), signal.SIGINT)
    asked = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)"
    return [subprocess.run([sys.executable, "-c", asked], check=False).returncode]


def test_workers_leave_ctrl_c_to_the_parent_and_programs_that_they_start_do_not() -> None:
    """A worker that was idle between two chunks printed a traceback."""
    result = rr.audit_callable(interrupted, shared_seeds=2, n_jobs=2)
    assert [run.policy.tolist() for run in result.runs] == [[0]] * 4


# --- what workers get -------------------------------------------------------------------------------


def coin(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.random() < 0.3 + 0.4 * action), float(state)


def test_arrays_simulators_and_local_algorithms_run_in_processes(tmp_path: Path) -> None:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return coin(state, action, rng)

    rng = np.random.default_rng(SEED)
    dense = rr.TabularMDP.from_dense(rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)), gamma=0.9)
    simulator = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.8, reward_range=(0.0, 1.0), name="coin")
    few = rr.PhasedVI(0.2, 0.05, calls=20, iterations=5)
    for problem, algorithm in ((dense, few), (simulator, few), (dense, watched(tmp_path))):
        serial, there = (rr.audit(problem, algorithm, shared_seeds=6, n_jobs=n) for n in (1, 2))
        assert everything(there, tmp_path) == everything(serial, tmp_path)


# --- chunks -----------------------------------------------------------------------------------------


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each transaction of a store brings."""
    sizes: list[int] = []
    original = rr.RunStore.add

    def add(store: rr.RunStore, runs: Sequence[rr.Run], contents: dict[str, bytes]) -> int:
        sizes.append(len(runs))
        return original(store, runs, contents)

    monkeypatch.setattr(rr.RunStore, "add", add)
    return sizes


@pytest.mark.parametrize("workers", [1, 2])
def test_fast_runs_are_stored_many_at_a_time(
    workers: int, grid: rr.TabularMDP, tmp_path: Path, transactions: list[int]
) -> None:
    fast = rr.PhasedVI(0.2, 0.05, calls=10, iterations=1)
    rr.audit(grid, fast, shared_seeds=750, store=tmp_path / "runs.sqlite", n_jobs=workers)
    assert sum(transactions) == finished_runs(tmp_path / "runs.sqlite") == 1500
    assert len(transactions) < 75
    assert max(transactions) >= 100


def test_store_that_cannot_be_asked_from_a_thread_does_not_stop_the_audit(
    grid: rr.TabularMDP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong in a thread of joblib's nobody hears of, and the audit would wait for ever."""

    def broken(*_: object) -> set[str]:
        raise InvalidFile("the disk is tired")

    monkeypatch.setattr(rr.RunStore, "finished", broken)
    with joblib.parallel_config("threading", n_jobs=2):
        result = rr.audit(grid, RPVI, shared_seeds=20, store=tmp_path / "runs.sqlite")
    assert len(result.runs) == finished_runs(tmp_path / "runs.sqlite") == 40


class _Slow(rr.ReplicablePhasedVI):
    """A subclass may do anything in its solve."""


def test_threads_are_for_our_own_compiled_runs_that_are_long() -> None:
    large, small = rr.make("garnet-v1", n_states=100, n_actions=4, branching=3, seed=1), rr.make("two-goals-v1")
    ours = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=10, iterations=100)
    assert SolveJob(large, ours).threads
    assert not SolveJob(small, ours).threads
    assert not SolveJob(large, _Slow(0.1, 0.001, 0.2, calls=10, iterations=100)).threads
    assert not SolveJob(large, rr.ApproximateMDP(0.1, 0.001, calls=10)).threads
