"""Peak memory and times of each stage of something, in a process of its own.

A stage function is a generator that yields the name of a stage when it is done. After each the peak is
read, and set back where the system can (Linux), so that a stage is not charged for an earlier one.
"""

from __future__ import annotations

import gc
import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Stage", "in_fresh_process"]

_ROOT = Path(__file__).resolve().parents[2]


class Stage(NamedTuple):
    """The name of a stage, its seconds, and the largest resident memory of the process during it, in MB.

    ``cpu`` is the time of all processors together, which a busy machine changes less.
    """

    name: str
    seconds: float
    peak: float
    cpu: float


def in_fresh_process(module: str, function: str, *arguments: float | str) -> list[Stage]:
    """Run ``module.function(*arguments)`` in a fresh process and return its stages."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from dev.benchmarks.memory import child; child()",
            module,
            function,
            json.dumps(arguments),
        ],
        cwd=_ROOT,
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    return [Stage(*stage) for stage in json.loads(done.stdout.splitlines()[-1])]


def child() -> None:
    """Do what `in_fresh_process` asks, and print the stages."""
    module, function, arguments = sys.argv[1:]
    stages: Iterator[str] = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    found: list[Any] = []
    started, worked = time.perf_counter(), time.process_time()
    for name in stages:
        found.append((name, time.perf_counter() - started, peak(), time.process_time() - worked))
        gc.collect()
        _forget_peak()
        started, worked = time.perf_counter(), time.process_time()
    print(json.dumps(found))


def peak() -> float:
    """Return the largest resident memory so far, in MB.

    Linux hands ``ru_maxrss`` of the parent down to a child, so the process's own mark is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # then the peak of a stage is that of all until then
        return
