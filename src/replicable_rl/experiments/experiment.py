"""What an experiment is: a design, an analysis of the runs, a figure of the data, and verdicts on claims.

A verdict is *held* or *not held* where intervals say so; else the data *cannot tell*, and the verdict names the points
that it rests on. These points get more runs, up to :data:`LOOKS` looks. At look k a point has a number of pairs that
was fixed beforehand (``pairs * GROWTH**k``), and each look has an equal part of the error. So by the union bound an
interval holds at all looks at once with probability :data:`CONFIDENCE`, whatever made us look again.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from replicable_rl import plot
from replicable_rl.audit import AuditResult, AuditSpec, audit_spec
from replicable_rl.canonical import json_text
from replicable_rl.files import write_text
from replicable_rl.registry import build
from replicable_rl.report import Block
from replicable_rl.runs import ObjectSpec

SHARED_SEED = 2023  # the published seed, where one is enough
CONFIDENCE = 0.95  # of an interval, at all looks together
LOOKS, GROWTH = 3, 4  # the most looks, and how many times as many runs each next look has
AT_A_LOOK = 1.0 - (1.0 - CONFIDENCE) / LOOKS
HELD, NOT_HELD, CANNOT_TELL = "held", "not held", "cannot tell"

Row = dict[str, Any]  # of a table: columns by name; an estimate has two more columns, ``..._low`` and ``..._high``


@dataclass(frozen=True)
class Scale:
    """How much to run at the first look: as much as the paper, or a small version that shows the same in seconds."""

    quick: bool = False  # designs leave out points, and the first look is the last

    @property
    def runs(self) -> int:
        """Runs under one shared seed, where classes of identical outputs are counted."""
        return 30 if self.quick else 150

    @property
    def pairs(self) -> int:
        """Pairs of runs, each with its own shared seed, where agreement is estimated."""
        return 2 * self.runs // 3

    @property
    def looks(self) -> int:
        """How often a point may be looked at."""
        return 1 if self.quick else LOOKS

    def some(self, points: Sequence[int], every: int = 2) -> Sequence[int]:
        """Return all points of an axis, or every second one of a quick version; the last is always there."""
        return points if not self.quick else points[::-1][::every][::-1]


class Study(NamedTuple):
    """One audit of a design, and which point of the figure it is about."""

    point: Mapping[str, Any]
    audit: AuditSpec

    @classmethod
    def of(
        cls,
        point: Mapping[str, Any],
        problem: str | ObjectSpec,
        algorithm: ObjectSpec,
        shared_seeds: int | tuple[int, ...],
        runs_per_seed: int = 2,
    ) -> Study:
        """Return a study of an algorithm on a problem."""
        objects = build(ObjectSpec(problem) if isinstance(problem, str) else problem), build(algorithm)
        return cls(point, audit_spec(*objects, shared_seeds=shared_seeds, runs_per_seed=runs_per_seed))

    def supports(self, verdict: Verdict) -> bool:
        """Whether the data that a verdict rests on comes from this study."""
        return any(self.point.items() <= row.items() for row in verdict.rests_on)

    def longer(self) -> Study:
        """Return the study with more pairs of runs, or with more runs under the one shared seed."""
        audit = self.audit
        if isinstance(audit.shared_seeds, int):
            return self._replace(audit=replace(audit, shared_seeds=GROWTH * audit.shared_seeds))
        return self._replace(audit=replace(audit, runs_per_seed=GROWTH * audit.runs_per_seed))


class Verdict(NamedTuple):
    """A claim, the label of the paper, what was measured, whether intervals show or refute it, and their rows."""

    claim: str
    label: str
    measured: str
    yes: bool
    no: bool = False
    rests_on: Sequence[Row] = ()

    @property
    def verdict(self) -> str:
        """What the data says of the claim."""
        return HELD if self.yes else NOT_HELD if self.no else CANNOT_TELL


@dataclass(frozen=True)
class Data:
    """What an experiment measured: tables of plain numbers, and what else belongs to them. Figures compute nothing."""

    tables: Mapping[str, Sequence[Row]]
    details: Mapping[str, Any] = field(default_factory=dict)


class Experiment(ABC):
    """A figure of the reproduction. Its docstring is what a reader sees: a title, and how to read the figure."""

    order: ClassVar[int]  # where it stands among the others
    caption: ClassVar[str]
    headline: ClassVar[bool] = False  # whether a claim of it that does not hold ends the command with 1

    @abstractmethod
    def design(self, scale: Scale) -> list[Study]:
        """Return what to run at the first look."""

    @abstractmethod
    def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
        """Return the data of the figure."""

    @abstractmethod
    def verdicts(self, data: Data) -> list[Verdict]:
        """Judge the claims of the paper that the data is about."""

    @abstractmethod
    def draw(self, data: Data) -> plot.Figure:
        """Draw the data."""

    def blocks(self, data: Data) -> list[Block]:
        """Return what is shown below the figure."""
        return []

    @property
    def name(self) -> str:
        """The name of its module, and of the files it makes."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def paragraphs(self) -> list[str]:
        """The title, and how to read the figure."""
        title, *reading = (inspect.getdoc(type(self)) or "").split("\n\n")
        return [title.rstrip("."), *(" ".join(paragraph.split()) for paragraph in reading)]

    def save(self, data: Data, folder: Path) -> None:
        """Write the figure in three formats, and then the data as JSON."""
        with plot.styled():
            plot.save_all(self.draw(data), folder, self.name)
        content = {"title": self.paragraphs[0], "details": dict(data.details), "tables": dict(data.tables)}
        write_text(folder / f"{self.name}.json", json_text(content, indent=1, ascii=False))
