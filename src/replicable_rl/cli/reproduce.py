"""The command ``replicable-rl reproduce``."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicable_rl.cli.output import print_all
from replicable_rl.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from replicable_rl.experiments.dataset import Dataset

__all__ = ["reproduce_command"]

_WIDTH = 80


def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="figure1, figure2, exploration, theorem, cost, levels, claims [default: all].",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where figures, data and runs go.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    runs: Annotated[
        int | None, typer.Option(help="Runs of a point under one shared seed [default: 150; quick: 30].")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Worker processes; -1 for all cores.")] = -1,
) -> int:
    """Make every figure and table; finished runs are kept, and the same call draws from them."""
    from replicable_rl.cli.progress import progress_bar
    from replicable_rl.experiments.catalogue import chosen, reproduce
    from replicable_rl.experiments.lab import Scale
    from replicable_rl.report.figures import save_figure
    from replicable_rl.report.reproduction import write_page

    wanted, scale = chosen(names or []), Scale.of(runs, quick)
    if jobs == 0:
        raise InvalidInput("reproduce: --jobs must be how many workers to use, or -1 for one on every core; got 0.")
    _make_folder(output)
    holds = True
    made = reproduce(wanted, output / "runs.sqlite", scale, n_jobs=jobs)
    while True:
        with progress_bar():  # not around the printing: the bar would take what is printed to its own stream
            dataset = next(made, None)
            if dataset is None:
                break
            save_figure(dataset, output)
            dataset.save(output)  # last: where the data is, all of it is there
        if dataset.name == "figure1":
            holds = _show_headline(dataset)
        print_all("\n".join(_summary(dataset)))
    page = write_page(output, _command(names or [], runs, quick))
    print_all(f"Figures, data and runs are in {output}{os.sep}; open {page} in a browser.")
    return 0 if holds else 1


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidFile(f"{output}: cannot be made ({error.strerror}).") from None


def _command(names: list[str], runs: int | None, quick: bool) -> str:
    options = [*(["--quick"] if quick else []), *([] if runs is None else [f"--runs {runs}"])]
    return " ".join(["replicable-rl reproduce", *names, *options])


def _show_headline(dataset: Dataset) -> bool:
    """Print both runs of both algorithms side by side; return whether rPVI's are the same and the others' not."""
    from replicable_rl.experiments.figure1 import GRIDS, PLAIN, RPVI

    headline: Any = dataset.details["headline"]
    for name in (RPVI, PLAIN):
        _show_comparison(dataset, GRIDS[0], name)
    return bool(headline["holds"])


def _show_comparison(dataset: Dataset, grid: str, algorithm: str) -> None:
    """Print two runs beside each other; states where they differ are marked."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from replicable_rl.cli.show import console, draw_policy, number
    from replicable_rl.registry import make

    out, mdp = console(), make(grid)
    actions = mdp.labels.actions or ()
    runs = dataset.tables["runs"].where(problem=grid, algorithm=algorithm)
    states = [dataset.tables["states"].where(problem=grid, algorithm=algorithm, sample=i) for i in (1, 2)]
    one, two = (np.array([actions.index(row["action"]) for row in rows]) for rows in states)
    out.print(Text(algorithm, style="bold"))
    drawn = Table.grid(padding=(0, 6))
    drawn.add_row("  first sample", "  second sample")
    drawn.add_row(draw_policy(mdp, one, one != two), draw_policy(mdp, two, one != two))
    out.print(drawn)
    for level, column in (("Q", "value"), ("policy", "policy")):
        prints = [run[column] for run in runs]
        verdict = "the same" if prints[0] == prints[1] else "different"
        out.print(f"  {level:6}  {'  '.join(text[:16] for text in prints)}  {verdict}")
    ends = " and ".join(f"{run['left']:.3g}" for run in runs)
    out.print(f"  probability of ending in the left goal: {ends}")
    out.print(f"  samples a run: {number(int(runs[0]['samples']))}; {runs[0]['guarantee']}\n")


def _summary(dataset: Dataset) -> list[str]:
    """Say what an experiment found, in a few lines."""
    from replicable_rl.report.reproduction_summary import SUMMARIES

    text = f"{dataset.name}: {SUMMARIES[dataset.name](dataset)}."
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
