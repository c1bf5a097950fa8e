"""What an experiment is: a design, an analysis of the runs, a figure of the data, and verdicts on claims.

A verdict is *held* or *not held* where intervals say so; else the data *cannot tell*, and the verdict names the points
that it rests on. These points get more runs, up to :data:`LOOKS` looks. At look k a point has a number of pairs that
was fixed beforehand (``pairs * GROWTH**k``), and each look has an equal part of the error. So by the union bound an
interval holds at all looks at once with probability :data:`CONFIDENCE`, whatever made us look again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl import plotting
from replicable_rl.audit import AuditResult, AuditSpec, audit_spec
from replicable_rl.canonical import json_text
from replicable_rl.errors import check_integer
from replicable_rl.files import write_csv, write_text
from replicable_rl.plotting import Figure
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import build
from replicable_rl.report import Block, Table
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import with_interval

SHARED_SEED = 2023  # the published seed, where one is enough
CONFIDENCE = 0.95  # of an interval, at all looks together
LOOKS, GROWTH = 4, 4  # the most looks, and how many times as many runs each next look has
AT_A_LOOK = 1.0 - (1.0 - CONFIDENCE) / LOOKS
HELD, NOT_HELD, CANNOT_TELL = "held", "not held", "cannot tell"
SHORT_NAMES = {"rpvi-v1": "rPVI", "replicable-approximate-mdp-v1": "ApproximateMDP"}

Row = dict[str, Any]  # of a table: columns by name; an estimate has two more columns, ``..._low`` and ``..._high``


@dataclass(frozen=True)
class Scale:
    """How much to run at the first look: the paper's size, or a small version that shows the same in seconds.

    ``runs`` are those under one shared seed, where classes of identical outputs are counted. ``quick`` says whether
    designs leave out points, and whether the first look is the last.
    """

    runs: int = 150
    quick: bool = False

    @classmethod
    def of(cls, runs: int | None = None, quick: bool = False) -> Scale:
        """Return the scale that was asked for, or the usual one."""
        usual = 30 if quick else 150
        return cls(usual if runs is None else check_integer("reproduce", "--runs", runs, low=2, high=10**6), quick)

    @property
    def pairs(self) -> int:
        """Pairs of runs, each with its own shared seed, where agreement is estimated: 100 at the usual size."""
        return max(2, 2 * self.runs // 3)

    @property
    def looks(self) -> int:
        """How often a point may be looked at."""
        return 1 if self.quick else LOOKS

    def some(self, points: Sequence[int], every: int = 2) -> tuple[int, ...]:
        """Return all points of an axis, or every second one of a quick version; the last is always there."""
        return tuple(points) if not self.quick else tuple(reversed(tuple(reversed(points))[::every]))


def transition_probabilities(mdp: TabularMDP) -> NDArray[np.float64]:
    """Return P[s, a, s'] of a problem."""
    P = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    np.add.at(P, (mdp.rows.row, mdp.rows.next_state), mdp.rows.probability)
    return P.reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


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
    """What is claimed, where in the paper, what was measured, the verdict, and the rows whose intervals decide it."""

    claim: str
    where: str
    measured: str
    verdict: str
    rests_on: Sequence[Row] = ()

    @classmethod
    def judged(
        cls, claim: str, where: str, measured: str, *, yes: bool, no: bool, rests_on: Sequence[Row] = ()
    ) -> Verdict:
        """Return the verdict of data that shows a claim, or refutes it, or neither."""
        return cls(claim, where, measured, HELD if yes else NOT_HELD if no else CANNOT_TELL, rests_on)


@dataclass(frozen=True)
class Data:
    """What an experiment measured: tables of plain numbers, and what else belongs to them. Figures compute nothing."""

    tables: Mapping[str, Sequence[Row]]
    details: Mapping[str, Any] = field(default_factory=dict)


def where(rows: Sequence[Row], **equal: Any) -> list[Row]:
    """Return the rows in which the named columns hold these values."""
    return [row for row in rows if equal.items() <= row.items()]


def distinct(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the different values of a column in the order in which they come."""
    return list(dict.fromkeys(row[name] for row in rows))


def shown(row: Row, name: str) -> str:
    """Write an estimate of a table with its interval.

    >>> shown({"share": 0.9, "share_low": 0.8, "share_high": 0.95}, "share")
    '0.900 (0.800–0.950)'
    """
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


def table(rows: Sequence[Row], headings: Mapping[str, str], caption: str) -> Table:
    """Return the columns that a reader may want to see, under their headings: a detail beside the figure."""
    cells = [[SHORT_NAMES.get(row[name], row[name]) for name in headings] for row in rows]
    return Table(list(headings.values()), cells, caption, detail=True)


@dataclass(frozen=True)
class Experiment:
    """A figure of the reproduction: texts, and functions from a scale to runs, from runs to data, from data on."""

    name: str  # of the files it makes
    order: int  # where it stands among the others
    title: str
    reading: Sequence[str]  # paragraphs: how to read it
    caption: str
    alternative: str  # instead of the figure, for those who cannot see it
    design: Callable[[Scale], list[Study]]
    analyse: Callable[[Sequence[Study], Sequence[AuditResult]], Data]
    draw: Callable[[Data], Figure]
    verdicts: Callable[[Data], list[Verdict]]
    blocks: Callable[[Data], list[Block]] = field(default=lambda data: [])  # below the figure
    headline: bool = False  # whether a claim of it that does not hold ends the command with 1

    def save(self, data: Data, folder: Path) -> list[Path]:
        """Write the figure in three formats, the data as JSON, and every table as CSV."""
        with plotting.styled():
            files = plotting.save(self.draw(data), folder, self.name)
        files.append(folder / f"{self.name}.json")
        content = {"title": self.title, "details": dict(data.details), "tables": dict(data.tables)}
        write_text(files[-1], json_text(content, indent=1, ascii=False))
        for name, rows in data.tables.items():
            files.append(folder / f"{self.name}-{name}.csv")
            write_csv(files[-1], rows)
        return files
