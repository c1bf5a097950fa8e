"""Run the experiments of the catalogue, look again where a verdict is open, and write a page."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from replicable_rl import report
from replicable_rl.audit import AuditResult, AuditSpec, run_audits
from replicable_rl.errors import InvalidInput
from replicable_rl.experiments import catalogue
from replicable_rl.experiments.experiment import (
    CANNOT_TELL,
    CONFIDENCE,
    GROWTH,
    HELD,
    LOOKS,
    NOT_HELD,
    Data,
    Experiment,
    Scale,
    Study,
    Verdict,
)
from replicable_rl.files import write_text
from replicable_rl.paper import cited
from replicable_rl.plot import FORMATS
from replicable_rl.report import Block, Cell, Command, Heading, Mark, Table, Text, Tone
from replicable_rl.store import RunStore
from replicable_rl.wording import percent

_TONES: dict[str, Tone] = {HELD: "good", NOT_HELD: "bad", CANNOT_TELL: "unsure"}
_LEAD = (
    "Every figure of Replicable Reinforcement Learning (Eaton, Hussing, Kearns and Sorrell, 2023) that can be "
    "measured, and some that the paper lacks. Each comes with its data and with the command that makes it."
)


class Made(NamedTuple):
    """An experiment with its data and its verdicts."""

    experiment: Experiment
    data: Data
    verdicts: Sequence[Verdict]

    def count(self, verdict: str) -> int:
        """Return how many claims have a verdict."""
        return sum(judged.verdict == verdict for judged in self.verdicts)


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in their own order: the modules of the catalogue are looked through.

    >>> list(experiments())
    ['figure1', 'figure2', 'exploration', 'theorem', 'cost', 'levels']
    """
    names = [module.name for module in pkgutil.iter_modules(catalogue.__path__)]
    modules = [importlib.import_module(f"{catalogue.__name__}.{name}") for name in names]
    in_order = sorted((module.EXPERIMENT for module in modules), key=lambda experiment: int(experiment.order))
    return {experiment.name: experiment for experiment in in_order}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that are asked for, in their own order; all of them where none is named."""
    shipped = experiments()
    for name in names:
        if name not in shipped:
            raise InvalidInput(f"reproduce: no experiment is called {name!r}. Known: {', '.join(shipped)}.")
    return [experiment for name, experiment in shipped.items() if name in names or not names]


def reproduce(
    names: Sequence[str], store: str | os.PathLike[str], scale: Scale, *, n_jobs: int | None = -1
) -> Iterator[Made]:
    """Make experiments, and yield each as soon as its claims are decided or its looks are spent.

    Runs that the store has are read, the others are made and kept in it. The data depends on names, scale and the store
    alone, and on the store only in the times of runs.
    """
    waiting = [(experiment, experiment.design(scale)) for experiment in chosen(names)]
    results: dict[AuditSpec, AuditResult] = {}
    with RunStore(store) as opened:
        for look in range(scale.looks):
            new = dict.fromkeys(study.audit for _, studies in waiting for study in studies)
            coming = run_audits([audit for audit in new if audit not in results], opened, n_jobs=n_jobs)
            later = []
            for experiment, studies in waiting:
                while any(study.audit not in results for study in studies):
                    result = next(coming)
                    results[result.spec] = result
                data = experiment.analyse(studies, [results[study.audit] for study in studies])
                made = Made(experiment, data, experiment.verdicts(data))
                longer = _longer(studies, made.verdicts)
                if longer == studies or look == scale.looks - 1:
                    yield made
                else:
                    later.append((experiment, longer))
            waiting = later


def _longer(studies: Sequence[Study], verdicts: Sequence[Verdict]) -> list[Study]:
    """Return the studies, with more runs of those that an open verdict rests on."""
    unsettled = [judged for judged in verdicts if judged.verdict == CANNOT_TELL]
    return [study.longer() if any(map(study.supports, unsettled)) else study for study in studies]


def summary(everything: Sequence[Made], *, measured: bool = True) -> list[Block]:
    """Return the table that comes first: what held, what did not, and what nobody can tell."""
    verdicts = [judged for made in everything for judged in made.verdicts]
    counts = [f"{sum(judged.verdict == verdict for judged in verdicts)} {verdict}" for verdict in _TONES]
    rows: list[list[Cell]] = [
        [Mark(order, _TONES[order]), judged.claim, *([judged.measured, cited(judged.label)] if measured else [])]
        for order in (NOT_HELD, CANNOT_TELL, HELD)
        for judged in verdicts
        if judged.verdict == order
    ]
    headings = ["verdict", "claim", *(["measured", "in the paper"] if measured else [])]
    return [Text(f"Of {len(verdicts)} claims: {', '.join(counts)}."), Table(headings, rows)]


def write_page(everything: Sequence[Made], scale: Scale, folder: Path, command: str) -> Path:
    """Write all that was made as one page; return its path: index.html, or the names of some experiments."""
    names = [made.experiment.name for made in everything]
    blocks = [Text(_LEAD), *summary(everything), Text(_looks(scale))]
    for made in everything:
        blocks += _section(made, folder)
    path = folder / f"{'index' if names == list(experiments()) else '-'.join(names)}.html"
    write_text(path, report.page("Replicable reinforcement learning, reproduced", blocks, command))
    return path


def _looks(scale: Scale) -> str:
    """Say which intervals a verdict goes by, and how often points were looked at."""
    again = "" if scale.looks == 1 else f" Points of an open claim were looked at again, with {GROWTH} times as many."
    return (
        f"A claim held or did not hold where intervals say so; else the data cannot tell. Every point was looked at "
        f"with at most {scale.pairs} pairs of runs, or {scale.runs} runs under one shared seed.{again} An interval "
        f"holds with confidence {percent(CONFIDENCE)} at all {LOOKS} looks together. A claim about several points "
        "takes the interval of each point by itself, unless it says that they hold at once."
    )


def _section(made: Made, folder: Path) -> Iterator[Block]:
    """Yield how to read an experiment, its figure, what else it shows, and its files."""
    experiment, name = made.experiment, made.experiment.name
    title, *reading = experiment.paragraphs
    yield Heading(title)
    yield from map(Text, reading)
    yield report.Figure((folder / f"{name}.svg").read_bytes(), title, experiment.caption)
    yield from experiment.blocks(made.data)
    yield Command(f"replicable-rl reproduce {name}", [f"{name}.{kind}" for kind in (*FORMATS, "json")])
