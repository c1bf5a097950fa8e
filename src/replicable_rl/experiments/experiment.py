"""What an experiment is: a design, an analysis, a figure, the texts that go with them, and the claims it judges.

A claim of the paper is *held* or *not held* where an interval says so; else the data *cannot tell*.

A new experiment is a new folder beside this module, whose ``__init__.py`` defines ``EXPERIMENT = Experiment(...)``.
Nothing else must change: commands, figures and pages look for the folders that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from replicable_rl import plotting
from replicable_rl.audit import AuditResult, audit_spec
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.errors import check_integer
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.plotting import Figure
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import build
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import with_interval

SHARED_SEED = 2023  # the published seed, where one is enough
CONFIDENCE = 0.95  # of every interval
HELD, NOT_HELD, CANNOT_TELL = "held", "not held", "cannot tell"
SHORT_NAMES = {  # of algorithms, for readers
    "rpvi-v1": "rPVI",
    "replicable-approximate-mdp-v1": "ApproximateMDP",
}


@dataclass(frozen=True)
class Scale:
    """How much to run: the paper's size, or a small version that shows the same in seconds.

    ``runs`` are those under one shared seed, where classes of identical outputs are counted. ``quick`` says whether
    designs leave out points.
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

    def some(self, points: Sequence[int], every: int = 2) -> tuple[int, ...]:
        """Return all points of an axis, or every second one of a quick version; the last is always there."""
        return tuple(points) if not self.quick else tuple(reversed(tuple(reversed(points))[::every]))


class Study(NamedTuple):
    """One audit of a design, and which point of the figure it is about."""

    point: Mapping[str, Any]
    audit: AuditSpec


def study(
    point: Mapping[str, Any],
    problem: str | ObjectSpec,
    algorithm: ObjectSpec,
    shared_seeds: int | tuple[int, ...],
    runs_per_seed: int = 2,
) -> Study:
    """Return a study of an algorithm on a problem, with the confidence of all of them."""
    objects = build(ObjectSpec(problem) if isinstance(problem, str) else problem), build(algorithm)
    return Study(
        point, audit_spec(*objects, shared_seeds=shared_seeds, runs_per_seed=runs_per_seed, confidence=CONFIDENCE)
    )


class Verdict(NamedTuple):
    """What is claimed, where in the paper, what was measured, and the verdict."""

    claim: str
    where: str
    measured: str
    verdict: str


def judged(yes: bool, no: bool) -> str:
    """Return the verdict of data that shows a claim, or refutes it, or neither."""
    return HELD if yes else NOT_HELD if no else CANNOT_TELL


def shown(row: Mapping[str, Any], name: str) -> str:
    """Write an estimate of a table with its interval.

    >>> shown({"share": 0.9, "share_low": 0.8, "share_high": 0.95}, "share")
    '0.900 (0.800–0.950)'
    """
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


class FigureTable(NamedTuple):
    """A table of the data that the page shows: its name, its columns with their headings, and a caption."""

    table: str
    columns: Mapping[str, str]
    caption: str


class Comparison(NamedTuple):
    """Two runs to be shown beside each other: actions and values by state, and facts in a few lines."""

    title: str
    problem: TabularMDP
    policies: Sequence[Sequence[int]]
    q: Sequence[Sequence[Sequence[float]]]
    facts: Sequence[str]


class Finding(NamedTuple):
    """The sentence that a reader in a hurry should see; ``good`` is None where it is neither good nor bad."""

    sentence: str
    good: bool | None = None


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the reproduction: texts, and functions of its data unless they say otherwise."""

    name: str  # of its folder, and of the files it makes
    order: int  # where it stands among the others; the first is made, and printed, first
    title: str  # of its section
    reading: Sequence[str]  # paragraphs: how to read it
    summary: Callable[[Dataset], str]  # what was found, in a sentence or two for the terminal
    caption: str = ""  # below the figure
    alternative: str = ""  # instead of the figure, for those who cannot see it
    tables: Sequence[FigureTable] = ()  # what the page shows below the figure
    finding: Callable[[Dataset], Finding] | None = None  # before everything else; a bad one ends the command with 1
    comparisons: Callable[[Dataset], Sequence[Comparison]] = field(default=lambda dataset: ())  # runs side by side
    design: Callable[[Scale], list[Study]] = field(default=lambda scale: [])  # what to run
    # What to run next, given what was run: asked again and again until it is nothing.
    more: Callable[[Scale, Sequence[Study], Sequence[AuditResult]], list[Study]] = field(default=lambda *_: [])
    analyse: Callable[[Sequence[Study], Sequence[AuditResult]], Dataset] = field(default=lambda *_: Dataset({}))
    draw: Callable[[Dataset], Figure] | None = None  # None for a table
    verdicts: Callable[[Dataset], list[Verdict]] = field(default=lambda dataset: [])  # about claims of the paper
    # Of an experiment that runs nothing and is made of the others: they and their data -> its data.
    collect: Callable[[Sequence[tuple[Experiment, Dataset]]], Dataset] | None = None

    def figure(self, dataset: Dataset) -> Figure | None:
        """Draw the data in the style of all figures; None where it is a table."""
        if self.draw is None:
            return None
        with plotting.styled():
            return self.draw(dataset)

    def save(self, dataset: Dataset, folder: Path) -> list[Path]:
        """Write the figure, and last the data: where the data is, everything is there."""
        figure = self.figure(dataset)
        drawn = [] if figure is None else plotting.save(figure, folder, self.name)
        return [*drawn, *dataset.save(folder)]
