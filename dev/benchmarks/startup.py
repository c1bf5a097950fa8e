"""How long one waits before anything happens: the import, and ``--help``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev.benchmarks.peers import absence, installed
from dev.benchmarks.timing import OURS, Job, Measurement, in_turns

IMPORT, HELP = "import", "--help"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 7


FULL, QUICK = Sizes(), Sizes(rounds=1)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the times of fresh processes, beside those that import what everyone imports."""
    jobs = [Job(OURS, _python("import replicable_rl")), Job("Python alone", _python("pass"))]
    for package in ("numpy", "gymnasium", "quantecon"):
        if installed(package):
            jobs.append(Job(package, _python(f"import {package}")))
        else:
            jobs.append(Job(package, None, note=absence(package)))
    yield from in_turns("startup", IMPORT, jobs, rounds=sizes.rounds, warm=False)
    command = str(Path(sys.executable).parent / "replicable-rl")
    yield from in_turns("startup", HELP, [Job(OURS, _process(command, "--help"))], rounds=sizes.rounds, warm=False)


def _python(code: str) -> Callable[[], object]:
    return _process(sys.executable, "-c", code)


def _process(*command: str) -> Callable[[], object]:
    return partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
