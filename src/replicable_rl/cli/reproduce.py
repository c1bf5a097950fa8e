"""The command ``replicable-rl reproduce``."""

from __future__ import annotations

import os
import pkgutil
from pathlib import Path
from typing import Annotated

import typer

from replicable_rl.cli.output import print_all, print_note, text_width
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.experiments import catalogue
from replicable_rl.progress import bar as progress_bar

NAMES = [module.name for module in pkgutil.iter_modules(catalogue.__path__)]  # without loading them


def reproduce_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help=f"{', '.join(NAMES)}.  [default: all]")
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where figures, data and runs go.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    runs: Annotated[
        int | None, typer.Option(metavar="N", help="Runs of a point under one shared seed.  [default: 150; quick: 30]")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Worker processes; -1 for all cores.")] = -1,
) -> int:
    """Make every figure and table; finished runs are kept, and the same call draws from them."""
    from replicable_rl.experiments.experiment import NOT_HELD, Scale
    from replicable_rl.experiments.reproduction import chosen, reproduce, summary, write_page
    from replicable_rl.report import Heading, text

    scale = Scale.of(runs, quick)
    chosen(names or [])  # before anything is made
    if jobs == 0:
        raise InvalidInput("reproduce: --jobs must be how many workers to use, or -1 for one on every core; got 0.")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidFile(f"{output}: cannot be made ({error.strerror}).") from None
    everything = []
    coming = reproduce(names or [], output / "runs.sqlite", scale, n_jobs=jobs)
    while True:
        with progress_bar():  # not around the printing: the bar would take what is printed to its own stream
            made = next(coming, None)
            if made is None:
                break
            made.experiment.save(made.data, output)
        everything.append(made)
        print_all(
            text([Heading(made.experiment.paragraphs[0], 2), *made.experiment.blocks(made.data)], text_width()) + "\n"
        )
    everything.sort(key=lambda made: made.experiment.order)
    print_all(text(summary(everything, measured=False), text_width()))
    options = [*(["--quick"] if quick else []), *([] if runs is None else [f"--runs {runs}"])]
    page = write_page(everything, scale, output, " ".join(["replicable-rl reproduce", *(names or []), *options]))
    print_note(f"Figures, data and runs are in {output}{os.sep}; open {page} in a browser.")
    return int(any(made.experiment.headline and made.count(NOT_HELD) for made in everything))
