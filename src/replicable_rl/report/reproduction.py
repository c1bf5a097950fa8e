"""The page ``results/index.html``: every figure and table, how to read it, and the command that makes it.

It is composed from the datasets and figures in a folder and computes nothing. What is not there has no section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.figure1 import PLAIN, RPVI
from replicable_rl.mdp import Labels
from replicable_rl.report.figures import FIGURES
from replicable_rl.report.page import (
    Block,
    Callout,
    Cell,
    Code,
    DataTable,
    Figure,
    Image,
    Mark,
    Page,
    Section,
    Text,
    Tone,
    picture_of,
    policy_run,
    write,
)
from replicable_rl.report.reproduction_texts import ALTERNATIVES, CAPTIONS, LEAD, NUMBERS, ORDER, READING

__all__ = ["compose", "datasets_in", "write_page"]

_SHORT = {"rpvi-v1": "rPVI", "replicable-approximate-mdp-v1": "ApproximateMDP"}
_TONES: dict[str, Tone] = {"held": "good", "not held": "bad", "cannot tell": "unsure"}


def datasets_in(folder: Path) -> dict[str, Dataset]:
    """Return the datasets of a folder by name, in the order of the page; those without their figure are left out."""
    needed = {name: [f"{name}.json", *([f"{name}.svg"] if name in FIGURES else [])] for name in ORDER}
    whole = [name for name, files in needed.items() if all((folder / file).is_file() for file in files)]
    return {name: Dataset.load(folder / f"{name}.json") for name in whole}


def write_page(folder: Path, command: str) -> Path:
    """Write ``index.html`` for whatever a folder holds; return its path."""
    target = folder / "index.html"
    write(compose(datasets_in(folder), folder, command), target)
    return target


def compose(datasets: Mapping[str, Dataset], folder: Path, command: str) -> Page:
    """Lay out the page."""
    sections = [
        Section(name, dataset.title, [*_opening(dataset), *_BLOCKS[name](dataset, folder)])
        for name, dataset in datasets.items()
    ]
    return Page("Replicable reinforcement learning, reproduced", LEAD, sections, command)


def _opening(dataset: Dataset) -> list[Block]:
    return [Text(READING[dataset.name])]


def _figure(dataset: Dataset, folder: Path) -> Figure:
    return Figure(
        Image.svg((folder / f"{dataset.name}.svg").read_bytes()),
        ALTERNATIVES[dataset.name],
        CAPTIONS[dataset.name],
        command=_command(dataset),
        downloads=_downloads(dataset),
    )


def _downloads(dataset: Dataset) -> list[tuple[str, str]]:
    pictures = [(kind.upper(), f"{dataset.name}.{kind}") for kind in ("png", "svg", "pdf") if dataset.name in FIGURES]
    tables = [(f"CSV, {table}", f"{dataset.name}-{table}.csv") for table in dataset.tables]
    return [*pictures, ("JSON", f"{dataset.name}.json"), *tables]


def _command(dataset: Dataset) -> str:
    return str(dataset.details.get("command", "replicable-rl reproduce"))


# --- the sections ------------------------------------------------------------------------------


def _figure1(dataset: Dataset, folder: Path) -> list[Block]:
    headline: Any = dataset.details["headline"]
    said = "rPVI gave the same answer twice; Phased Q-learning did not."
    callout = Callout(
        said if headline["holds"] else "The headline did not hold in this data.", _tone(headline["holds"])
    )
    return [callout, _figure(dataset, folder), *(_picture(dataset, name) for name in (PLAIN, RPVI))]


def _tone(good: bool) -> Tone:
    return "good" if good else "bad"


def _picture(dataset: Dataset, algorithm: str) -> Block:
    """The interactive picture of both runs of an algorithm on the first grid."""
    maps: Any = dataset.details["maps"]
    grid, drawn = next(iter(maps.items()))
    actions: list[str] = drawn["actions"]
    runs = []
    for sample in (1, 2):
        rows = dataset.tables["states"].where(problem=grid, algorithm=algorithm, sample=sample)
        policy = [actions.index(row["action"]) for row in rows]
        q = [[row[f"q_{action}"] for action in actions] for row in rows]
        runs.append(policy_run(f"sample {sample}", policy, q))
    cells = tuple(row["cell"] for row in rows)
    labels = Labels(states=cells, actions=tuple(actions), layout=tuple(drawn["layout"]))
    caption = f"{algorithm} on {grid}: choose a cell to compare its action values in both runs."
    return picture_of(labels, (runs[0], runs[1]), caption=caption, command=_command(dataset))


def _drawn(dataset: Dataset, folder: Path) -> list[Block]:
    """The figure, and below it the table of the same numbers, if the page shows one."""
    tables = [_table(dataset, *shown) for name, shown in NUMBERS.items() if name == dataset.name]
    return [_figure(dataset, folder), *tables]


def _claims(dataset: Dataset, folder: Path) -> list[Block]:
    verdicts: Any = dataset.details["verdicts"]
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    claims = {"claim": "claim", "where": "where", "measured": "measured", "verdict": "verdict"}
    errata = {"number": "#", "text_says": "the text says", "right_is": "right is", "evidence": "evidence"}
    return [
        Callout(f"Of {len(dataset.tables['claims'])} claims: {said}."),
        _table(
            dataset,
            "claims",
            claims,
            "Claims in our words; labels are the paper's. Verdicts are computed from the data.",
        ),
        _table(
            dataset,
            "errata",
            errata,
            "Errata of the paper's text, each with a number computed when this page was made.",
        ),
    ]


def _table(dataset: Dataset, name: str, columns: Mapping[str, str], caption: str) -> DataTable:
    table: Table = dataset.tables[name]
    rows = [[_cell(column, row[column]) for column in columns] for row in table]
    return DataTable(
        list(columns.values()),
        rows,
        caption,
        command=_command(dataset),
        downloads=[("CSV", f"{dataset.name}-{name}.csv")],
    )


def _cell(column: str, value: str | float | None) -> Cell:
    if not isinstance(value, str):
        return value
    if column == "verdict":
        return Mark(value, _TONES[value])
    if column in ("where", "problem"):
        return Code(value)
    return float(value) if value.isdigit() else _SHORT.get(value, value)  # digits: beyond what JSON holds


_BLOCKS: dict[str, Callable[[Dataset, Path], list[Block]]] = {
    **dict.fromkeys(ORDER, _drawn),
    "figure1": _figure1,
    "claims": _claims,
}
