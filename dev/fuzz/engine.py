"""Mutants one after the other: each is read under a limit of time and of memory, and what happened is counted."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.fuzz.mutations import mutate
from dev.fuzz.seeds import KINDS, Kind, copied
from replicable_rl.errors import InvalidInput

REFUSED, EQUAL, LESS, OTHER = "refused", "equal", "left out", "another input"
TRACEBACK, HANG, MEMORY, CHANGED = "traceback", "hang", "memory", "changed record"
OUTCOMES = (REFUSED, EQUAL, LESS, OTHER, TRACEBACK, HANG, MEMORY, CHANGED)
BAD = (TRACEBACK, HANG, MEMORY, CHANGED)
_SECONDS = 10
_MEMORY = 1 << 30  # bytes beyond what the process has at the start


class _TooSlowError(BaseException):
    """The alarm rang; no `except Exception` of a reader may take it for its own."""


@dataclass
class Tally:
    """How often each outcome was seen, by kind of file, and the first of the bad ones."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in KINDS})
    bad: list[str] = field(default_factory=list)


def fuzz(mutations: int, seed: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Tally:
    """Read so many mutants, the kinds in turn; the same seed makes the same mutants of the same files."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        # Sound files are read first: what libraries and their threads reserve for good is no mutant's.
        sound = {name: _sound(KINDS[name], Path(folder)) for name in kinds}
        with _limited():
            for i in range(mutations):
                name = kinds[i % len(kinds)]
                rng = random.Random(f"{seed}/{name}/{i}")
                outcome, how, said = _one(KINDS[name], *sound[name], rng)
                tally.counts[name][outcome] += 1
                if outcome in BAD:
                    tally.bad.append(f"{name} {i} ({how}): {outcome}\n{said}")
    return tally


def _sound(kind: Kind, folder: Path) -> tuple[Path, Path, Any]:
    """Write a sound file; return it, where its mutants go, and what it holds."""
    suffix = {"store": ".sqlite", "plan": ".json", "log": "", "results": ""}.get(kind.name, ".npz")
    source, mutant = folder / f"sound-{kind.name}{suffix}", folder / f"mutant-{kind.name}{suffix}"
    kind.write(source)
    copied(source, mutant)
    return source, mutant, kind.read(mutant)


def _one(kind: Kind, source: Path, mutant: Path, expected: Any, rng: random.Random) -> tuple[str, str, str]:
    copied(source, mutant)
    how = mutate(mutant, rng)
    signal.alarm(_SECONDS)
    try:
        read = kind.read(mutant)
    except InvalidInput as error:
        too_large = "Unable to allocate" in str(error) or "MemoryError" in str(error)
        return (MEMORY if too_large else REFUSED), how, str(error)
    except MemoryError:
        return MEMORY, how, traceback.format_exc(limit=-4)
    except _TooSlowError:
        return HANG, how, traceback.format_exc(limit=-4)
    except Exception:
        return TRACEBACK, how, traceback.format_exc(limit=-6)
    finally:
        signal.alarm(0)
    if read == expected:
        return EQUAL, how, ""
    if not kind.record:
        return OTHER, how, ""
    if isinstance(read, set) and read < expected:
        return LESS, how, ""
    return CHANGED, how, f"{read!s:.2000}\ninstead of\n{expected!s:.2000}"


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Let the alarm ring in Python, and bound the memory of this process."""

    def ring(number: int, frame: object) -> None:
        raise _TooSlowError

    before, limits = signal.signal(signal.SIGALRM, ring), resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)
