"""Kernels are compiled once, whoever asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import sys

from replicable_rl.compiled import compiled


@compiled
def kernel(x: float) -> float:
    total = 0.0
    for i in range(100):
        for j in range(100):
            total += x * i % (j + 1.0)
    return total


print("ready", flush=True)
sys.stdin.readline()
kernel(1.0)
print(sum(kernel.stats.cache_misses.values()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks of files are those of Unix")
def test_one_of_several_processes_compiles(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE, encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    started = [
        subprocess.Popen(
            [sys.executable, "module.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        for _ in range(2)
    ]
    for process in started:  # all have imported, so that they begin together
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    compiled = [int(process.communicate(timeout=120)[0]) for process in started]
    assert sorted(compiled) == [0, 1]
