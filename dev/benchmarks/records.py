"""Measurements as JSON, and finding them again; the machine they were made on, without its name."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.benchmarks.peers import versions
from dev.benchmarks.timing import OURS, Measurement

__all__ = ["Book", "machine"]


@dataclass(frozen=True)
class Book:
    """All measurements of a page, and the machine."""

    machine: Mapping[str, str]
    measurements: tuple[Measurement, ...] = ()

    @classmethod
    def load(cls, path: Path) -> Book:
        """Read what `save` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["machine"], tuple(Measurement(**each) for each in content["measurements"]))

    def save(self, path: Path) -> None:
        """Write JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"machine": dict(self.machine), "measurements": [asdict(each) for each in self.measurements]}
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def with_section(self, section: str, measurements: Iterable[Measurement]) -> Book:
        """Return the same with one section measured anew."""
        others = [each for each in self.measurements if each.section != section]
        return Book(self.machine, (*others, *measurements))

    @property
    def sections(self) -> set[str]:
        """The sections that have been measured."""
        return {each.section for each in self.measurements}

    def find(self, section: str, job: str, by: str = OURS, **at: float | str) -> list[Measurement]:
        """Return the measurements of a job by a contender where it was measured at such parameters."""
        return [
            each
            for each in self.measurements
            if (each.section, each.job, each.by) == (section, job, by) and at.items() <= each.at.items() and each.values
        ]

    def curves(self) -> list[list[Measurement]]:
        """Return the growth curves with two points or more: one contender, one job, along one size."""
        curves: dict[tuple[str, str, str, str], list[Measurement]] = {}
        for each in self.measurements:
            if each.against and each.values:
                curves.setdefault((each.section, each.job, each.by, each.against), []).append(each)
        return [curve for curve in curves.values() if len(curve) > 1]


def machine() -> dict[str, str]:
    """Describe the machine and the software."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ours = {name: importlib.metadata.version(name) for name in ("replicable-rl", "numpy", "numba", "scipy")}
    software = {"Python": platform.python_version(), **ours, **versions()}
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
        "software": ", ".join(f"{name} {version}" for name, version in software.items()),
    }


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or "unknown"
