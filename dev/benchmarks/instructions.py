"""Instructions per row, counted by valgrind: a number that does not change with the mood of the machine.

    .venv/bin/python -m dev.benchmarks.instructions          # minutes; needs valgrind

A run under callgrind counts everything, the import included; the difference between a run with many draws
and one with few is what the draws take. Valgrind's processor has fewer vector instructions than a real one, so
the kernels are compiled anew for it, in a run that is not counted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

ROWS, FEW, MANY = 4000, 1, 101
_DRAW = """
import numpy as np
from dev.benchmarks.problems import Multinomial, table_of_400
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import Counts
sampler = {sampler}(table_of_400({rows} // 4))
rng = sample_stream(1)
for _ in range({draws}):
    sampler.draw({calls}, rng)
"""


def per_row(sampler: str, calls: int) -> float:
    """Return the instructions that a row of 3 outcomes takes."""
    _valgrind("none", _DRAW.format(sampler=sampler, rows=ROWS, draws=FEW, calls=calls))
    few, many = (_count(_DRAW.format(sampler=sampler, rows=ROWS, draws=draws, calls=calls)) for draws in (FEW, MANY))
    return (many - few) / (ROWS * (MANY - FEW))


def _count(code: str) -> int:
    said = _valgrind("callgrind", code, "--callgrind-out-file=/dev/null")
    found = re.search(r"Collected : (\d+)", said)
    if found is None:
        raise RuntimeError(f"valgrind counted nothing: {said[-500:]}")
    return int(found[1])


def _valgrind(tool: str, code: str, *options: str) -> str:
    done = subprocess.run(
        ["valgrind", f"--tool={tool}", *options, sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        check=True,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    return done.stderr


def main() -> None:
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed; the times of `python -m dev.benchmarks sampler` need nothing.")
    print("instructions per row of 3 outcomes")
    for calls in (13_000, 10**9, 10**18):
        print(f"  m = {calls:<20} ours {per_row('Counts', calls):7.0f}", flush=True)
    print(f"  m = {13_000:<20} numpy multinomial {per_row('Multinomial', 13_000):7.0f}")


if __name__ == "__main__":
    main()
