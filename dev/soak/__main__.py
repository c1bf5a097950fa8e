"""``make soak``: kill commands at random moments, resume them, and compare.

    .venv/bin/python -m dev.soak --kills 100 --seed 1

Every scenario is run once without interruption. Then it is started again in a folder of its own, killed after a random
part of that time by SIGKILL, SIGTERM or SIGINT, and called again until it ends. Three things must hold: every run that
was finished when the signal came is still there at the end; what is printed and written is the same, byte for byte;
and no process is left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-c", "import sys; from replicable_rl.cli import main; sys.exit(main())"]
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
STORE = "runs.sqlite"
_AUDIT = "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,calls=100000,iterations=60"


@dataclass(frozen=True)
class Scenario:
    """A command, and a file that it needs; what it prints and writes is compared."""

    name: str
    words: tuple[str, ...]
    before: tuple[str, ...] = ()  # a command that makes what it needs

    def run(self, folder: Path) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end."""
        return subprocess.run([*COMMAND, *self.words], cwd=folder, env=_environment(), capture_output=True, check=False)

    def prepare(self, folder: Path) -> None:
        """Write what it needs into its folder."""
        if self.before:
            subprocess.run([*COMMAND, *self.before], cwd=folder, env=_environment(), capture_output=True, check=True)


_IN_STORE = ("audit", "two-goals-v1", _AUDIT, "--store", STORE, "--json")
SCENARIOS = (
    Scenario("audit", (*_IN_STORE, "--shared-seeds", "500")),
    Scenario("audit, two workers", (*_IN_STORE, "--shared-seeds", "1500", "--jobs", "2")),
    Scenario("reproduce", ("reproduce", "figure2", "levels", "--quick", "--output", ".")),
    Scenario(
        "report",
        ("report", STORE, "--output", "page.html"),
        before=("audit", "two-goals-v1", _AUDIT, "--store", STORE, "--shared-seeds", "200"),
    ),
)


def _environment() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    return {**plain, "COLUMNS": "80", "PYTHONUNBUFFERED": "1"}


def finished(folder: Path) -> set[bytes]:
    """Return the keys of the runs that a store holds."""
    if not (folder / STORE).exists():
        return set()
    with contextlib.closing(sqlite3.connect(folder / STORE, timeout=30)) as connection:
        try:
            return {key for (key,) in connection.execute("SELECT key FROM runs")}
        except sqlite3.OperationalError:  # killed before there was a table
            return set()


def written(folder: Path) -> dict[str, bytes]:
    """Return everything that a command wrote, but for the store and what it needed."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not path.name.startswith((STORE, ".")) and path.suffix != ".toml"
    }


def processes(group: int) -> int:
    """Return how many processes of a group are alive."""
    alive = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = status.read_text().rpartition(")")[2].split()
            alive += int(fields[2]) == group and fields[0] != "Z"
    return alive


def killed(scenario: Scenario, folder: Path, seconds: float, choice: random.Random) -> tuple[str, set[bytes], int]:
    """Start a command, kill it after a random part of its time, and say how; what was finished; who is still alive."""
    started = subprocess.Popen(
        [*COMMAND, *scenario.words],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    by = choice.choice(SIGNALS)
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.wait(choice.uniform(0.1, 1.0) * seconds)
    over = started.poll() is not None
    if not over:
        started.send_signal(by)
    started.wait(60)
    deadline = time.monotonic() + 15.0
    while (left := processes(started.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    return "ended before" if over else by.name, finished(folder), left


def soak(kills: int, seed: int) -> Iterator[tuple[str, Counter[str]]]:
    """Kill every scenario its share of times; yield what was counted of each."""
    choice = random.Random(seed)
    for number, scenario in enumerate(SCENARIOS):
        counted: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as name:
            whole = Path(name)
            scenario.prepare(whole)
            began = time.monotonic()
            expected = scenario.run(whole)
            seconds, files = time.monotonic() - began, written(whole)
            if expected.returncode not in (0, 1):
                raise SystemExit(f"{scenario.name}: {expected.stderr.decode()}")
        for _ in range(kills // len(SCENARIOS) + (number < kills % len(SCENARIOS))):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                scenario.prepare(folder)
                how, before, left = killed(scenario, folder, seconds, choice)
                resumed = scenario.run(folder)
                counted[how] += 1
                counted["runs finished before"] += len(before)
                counted["runs lost"] += len(before - finished(folder))
                counted["processes left"] += left
                same = resumed.stdout == expected.stdout and resumed.returncode == expected.returncode
                counted["other output"] += not (same and written(folder) == files)
        yield scenario.name, counted


COLUMNS = ("SIGKILL", "SIGTERM", "SIGINT", "ended before", "runs finished before")
FAULTS = ("runs lost", "other output", "processes left")


def main() -> None:
    """Print a table; exit with 1 if anything was lost, different or left."""
    parser = argparse.ArgumentParser(prog="python -m dev.soak", description="Kill commands, resume them, compare.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"| | {' | '.join((*COLUMNS, *FAULTS))} |\n|---|{'---:|' * len((*COLUMNS, *FAULTS))}", flush=True)
    total: Counter[str] = Counter()
    for name, counted in soak(options.kills, options.seed):
        total += counted
        print(f"| {name} | {' | '.join(str(counted[one]) for one in (*COLUMNS, *FAULTS))} |", flush=True)
    print(f"| all | {' | '.join(str(total[one]) for one in (*COLUMNS, *FAULTS))} |")
    raise SystemExit(1 if any(total[one] for one in FAULTS) else 0)


if __name__ == "__main__":
    main()
