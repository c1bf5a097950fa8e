"""The page ``results/index.html``: every figure and table, how to read it, and the command that makes it.

It is composed from the datasets and figures in a folder and computes nothing. What is not there has no section.
"""

from collections.abc import Iterator
from pathlib import Path

from replicable_rl.errors import InvalidInput
from replicable_rl.experiments.catalogue import experiments
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import (
    CANNOT_TELL,
    HELD,
    NOT_HELD,
    SHORT_NAMES,
    Comparison,
    Experiment,
    FigureTable,
)
from replicable_rl.pages.blocks import Callout, Cell, Code, DataTable, Figure, Mark, Text, Tone
from replicable_rl.pages.page import Block, Page, Section, write
from replicable_rl.pages.policy import PolicyPicture, picture_of, policy_run
from replicable_rl.plotting import FORMATS

_LEAD = (
    "Every figure and table of *Replicable Reinforcement Learning* (Eaton, Hussing, Kearns and Sorrell, 2023) that can "
    "be measured, and some that the paper lacks. Each comes with its data and with the command that makes it. All "
    "intervals have confidence 95 % and are exact, at sample sizes fixed beforehand."
)
_TONES: dict[str | bool | None, Tone] = {HELD: "good", NOT_HELD: "bad", CANNOT_TELL: "unsure"}
_TONES |= {True: "good", False: "bad", None: "plain"}


def _names_in(folder: Path) -> list[str]:
    """Return the names of the datasets of a folder, in the order of the page, but for those without their figure."""
    needed = {one.name: [f"{one.name}.json", *([f"{one.name}.svg"] * bool(one.draw))] for one in experiments().values()}
    return [name for name, files in needed.items() if all((folder / file).is_file() for file in files)]


def write_page(folder: Path, command: str) -> Path:
    """Write ``index.html`` for whatever a folder holds; return its path.

    Data of another version, which lack what the page shows today, have a sentence in the place of their section.
    """
    sections = [_section(name, folder) for name in _names_in(folder)]
    page = Page("Replicable reinforcement learning, reproduced", _LEAD, sections, command)
    write(page, folder / "index.html")
    return folder / "index.html"


def _section(name: str, folder: Path) -> Section:
    try:
        dataset = Dataset.load(folder / f"{name}.json")
        return Section(name, dataset.title, list(_blocks(experiments()[name], dataset, folder)))
    except InvalidInput:
        said = f"`{name}.json` is of another version, or was changed. Make it again: `replicable-rl reproduce {name}`."
        return Section(name, name, [Callout(said, "unsure")])


def _blocks(experiment: Experiment, dataset: Dataset, folder: Path) -> Iterator[Block]:
    """Yield how to read it, what was found, the figure, runs side by side, and the tables."""
    yield Text(experiment.reading)
    if experiment.finding is not None:
        found = experiment.finding(dataset)
        yield Callout(found.sentence, _TONES[found.good])
    if experiment.draw is not None:
        svg = (folder / f"{dataset.name}.svg").read_bytes()
        yield Figure(svg, experiment.alternative, experiment.caption, _command(dataset), _downloads(dataset))
    for comparison in experiment.comparisons(dataset):
        yield _picture(comparison, _command(dataset))
    for numbers in experiment.tables:
        yield _table(dataset, numbers)


def _command(dataset: Dataset) -> str:
    return str(dataset.details.get("command", "replicable-rl reproduce"))


def _downloads(dataset: Dataset) -> list[tuple[str, str]]:
    pictures = [(kind.upper(), f"{dataset.name}.{kind}") for kind in FORMATS]
    tables = [(f"CSV, {table}", f"{dataset.name}-{table}.csv") for table in dataset.tables]
    return [*pictures, ("JSON", f"{dataset.name}.json"), *tables]


def _picture(two: Comparison, command: str) -> PolicyPicture:
    first, second = (policy_run(f"sample {i + 1}", two.policies[i], two.q[i]) for i in (0, 1))
    caption = f"{two.title} on {two.problem.spec.text}: choose a cell to compare its action values in both runs."
    return picture_of(two.problem.labels, (first, second), caption=caption, command=command)


def _table(dataset: Dataset, numbers: FigureTable) -> DataTable:
    rows = [[_cell(column, row[column]) for column in numbers.columns] for row in dataset.tables[numbers.table]]
    downloads = [("CSV", f"{dataset.name}-{numbers.table}.csv")]
    return DataTable(list(numbers.columns.values()), rows, numbers.caption, _command(dataset), downloads)


def _cell(column: str, value: str | float | None) -> Cell:
    if not isinstance(value, str):
        return value
    if column == "verdict":
        return Mark(value, _TONES[value])
    if column in ("where", "problem"):
        return Code(value)
    return float(value) if value.isdigit() else SHORT_NAMES.get(value, value)  # digits: beyond what JSON holds
