"""Kernels run compiled or as they are written, with the same bits; teams of threads end when interrupted."""

from __future__ import annotations

import ast
import contextlib
import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from replicable_rl import compiled

HELPER = """
from replicable_rl.compiled import inlined


@inlined
def helper(x: float) -> float:
    return x + 1.0
"""
KERNEL = """
import sys
from pathlib import Path

from replicable_rl import compiled

compiled.SMALL = -1
compiled.__file__ = __file__  # the kernel modules are those beside this file

from _helper import helper


@compiled.compiled
def kernel(x: float) -> float:
    return 10.0 * helper(x)


print(kernel(1.0), sum(kernel.machine.stats.cache_misses.values()))
"""


def test_a_kernel_is_compiled_again_where_its_helper_in_another_file_has_changed(tmp_path: Path) -> None:
    def run() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "kernel.py"]
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout

    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "_helper.py").write_text(HELPER, encoding="utf-8")
    assert [run(), run()] == ["20.0 1\n", "20.0 0\n"]
    (tmp_path / "_helper.py").write_text(HELPER.replace("1.0", "2.0"), encoding="utf-8")
    assert run() == "30.0 1\n"


FIRST = """
import sys

import replicable_rl as rr
from replicable_rl import compiled

compiled.Kernel.patience = float(sys.argv[1])
algorithms = (
    rr.PhasedVI(0.1, 0.001),
    rr.ReplicablePhasedVI(0.1, 0.001, 0.2),
    rr.ReplicableApproximateMDP(0.1, 0.001, 0.2, calls=10_000),
    rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000),
    rr.ReplicableRMax(0.1, 0.01, 0.2, 20, episodes=1000, rounds=5),
)
for algorithm in algorithms:
    print(rr.solve(rr.make("two-goals-v1"), algorithm, shared_seed=2023, sample_seed=1).fingerprints)
best = rr.optimal_values(rr.make("riverswim-v1"))
print(repr((best.error, best.sweeps, best.converged)))
"""


def test_small_work_is_not_compiled_and_has_the_same_bits(tmp_path: Path) -> None:
    def run(patience: int, **environment: str) -> str:
        command = [sys.executable, "-W", "error", "-c", FIRST, str(patience)]
        done = subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, text=True)
        return done.stdout

    assert run(1000, NUMBA_CACHE_DIR=str(tmp_path)) == run(0)
    assert not any(tmp_path.glob("**/*.nbi"))


def test_kernels_know_nothing_but_kernels() -> None:
    """What a kernel was compiled with must be in the files by which it is found again."""
    package = Path(sys.modules["replicable_rl"].__file__ or "").parent
    known = {
        ".".join(("replicable_rl", *path.relative_to(package).with_suffix("").parts)): path
        for path in sorted(package.glob("**/*.py"))
    }
    for path in known.values():
        imported = _imported(ast.parse(path.read_text(encoding="utf-8")))
        if {"compiled", "compiled_loop", "inlined"} & imported.get("replicable_rl.compiled", set()):
            assert path.match("_[!_]*.py"), path
            others = {name for name in imported if name in known and not known[name].match("_[!_]*.py")}
            assert others <= {"replicable_rl.compiled", "replicable_rl.problem.table"}, path


def _imported(module: ast.Module) -> dict[str, set[str]]:
    """Return the names that a module imports when it is loaded, by where they come from."""
    found: dict[str, set[str]] = {}
    for statement in module.body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            found.setdefault(statement.module, set()).update(alias.name for alias in statement.names)
    return found


def times(factor: float, start: int, stop: int) -> float:
    return factor * (stop - start)


def ends_though_interrupted_at(step: int) -> bool | None:
    """Whether a team ends that Ctrl-C meets at this step of Python in it; None, if it has fewer steps."""
    left = step
    computed: list[list[float]] = []

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        left -= event in ("call", "return")  # where Python looks for signals
        if left == 0:
            raise KeyboardInterrupt
        return trace

    def work() -> None:
        with contextlib.suppress(KeyboardInterrupt), compiled.Team(100, whole_below=1) as each:
            sys.settrace(trace)
            computed.extend(each(times, 2.0) for _ in range(2))  # the first call starts the threads
            sys.settrace(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert computed in ([], [[100.0, 100.0]], [[100.0, 100.0]] * 2)
    return None if left > 0 else not thread.is_alive()


def test_a_team_that_is_interrupted_ends_whenever_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of `concurrent.futures` stayed taken: its thread waited for the lock, and the program for the thread."""
    monkeypatch.setattr(compiled, "THREADS", 2)
    ended = list(itertools.takewhile(lambda end: end is not None, map(ends_though_interrupted_at, itertools.count(1))))
    assert all(ended)
    assert len(ended) > 20
