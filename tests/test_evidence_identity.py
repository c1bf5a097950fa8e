"""Whose runs are shown: of this code, of this problem, on samples that were drawn, by workers that have a parent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# --- workers end with their parent ----------------------------------------------------------------------------

ORPHANS = """
import os, pathlib, sys, time
import replicable_rl as rr

def train(shared_seed, sample_seed):
    (pathlib.Path(sys.argv[1]) / str(os.getpid())).touch()
    time.sleep(60)
    return [0]

rr.audit_callable(train, shared_seeds=20, n_jobs=2)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = [sys.executable, "-W", "ignore", "-c", ORPHANS.replace("sys.argv[1]", repr(str(tmp_path)))]
    parent = subprocess.Popen(script, stderr=subprocess.DEVNULL)
    workers: list[int] = []
    try:
        until = time.monotonic() + 60
        while len(workers) < 2:
            assert parent.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
            workers = [int(file.name) for file in tmp_path.iterdir()]
        assert parent.pid not in workers
        parent.kill()
        until = time.monotonic() + 10
        while any(map(is_alive, workers)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not [pid for pid in workers if is_alive(pid)]
    finally:
        parent.kill()
        parent.wait()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
