"""The command ``replicable-rl reproduce``."""

from __future__ import annotations

import os
import pkgutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replicable_rl import experiments
from replicable_rl.cli.output import print_all, print_note, text_width
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.progress import bar as progress_bar

if TYPE_CHECKING:
    from replicable_rl.experiments.experiment import Comparison

NAMES = tuple(one.name for one in pkgutil.iter_modules(experiments.__path__) if one.ispkg)  # without loading them


def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help=f"{', '.join(NAMES)}.  [default: all]"),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where figures, data and runs go.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    runs: Annotated[
        int | None, typer.Option(metavar="N", help="Runs of a point under one shared seed.  [default: 150; quick: 30]")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Worker processes; -1 for all cores.")] = -1,
) -> int:
    """Make every figure and table; finished runs are kept, and the same call draws from them."""
    from replicable_rl.experiments.catalogue import chosen, reproduce
    from replicable_rl.experiments.experiment import Scale
    from replicable_rl.pages.reproduction import write_page

    scale, holds = Scale.of(runs, quick), True
    chosen(names or [])  # before anything is made
    if jobs == 0:
        raise InvalidInput("reproduce: --jobs must be how many workers to use, or -1 for one on every core; got 0.")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidFile(f"{output}: cannot be made ({error.strerror}).") from None
    made = reproduce(names or [], output / "runs.sqlite", scale, n_jobs=jobs)
    while True:
        with progress_bar():  # not around the printing: the bar would take what is printed to its own stream
            experiment, dataset = next(made, (None, None))
            if experiment is None or dataset is None:
                break
            experiment.save(dataset, output)
        for comparison in experiment.comparisons(dataset):
            _show(comparison)
        holds = holds and (experiment.finding is None or experiment.finding(dataset).good is not False)
        print_all("\n".join(_wrapped(f"{experiment.name}: {experiment.summary(dataset)}.")))
    options = [*(["--quick"] if quick else []), *([] if runs is None else [f"--runs {runs}"])]
    page = write_page(output, " ".join(["replicable-rl reproduce", *(names or []), *options]))
    print_note(f"Figures, data and runs are in {output}{os.sep}; open {page} in a browser.")
    return 0 if holds else 1


def _show(two: Comparison) -> None:
    """Print two runs beside each other; states where they differ are marked."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from replicable_rl.cli.show import console, draw_policy

    out = console()
    first, second = map(np.array, two.policies)
    out.print(Text(two.title, style="bold"))
    drawn = Table.grid(padding=(0, 6))
    drawn.add_row("  first sample", "  second sample")
    drawn.add_row(*(draw_policy(two.problem, policy, first != second) for policy in (first, second)))
    out.print(drawn)
    print_all("\n".join([*(line for fact in two.facts for line in _wrapped(fact, "  ")), ""]))


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, text_width(), initial_indent=indent, subsequent_indent="  ", break_on_hyphens=False)
