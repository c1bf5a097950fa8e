"""The command ``replicable-rl report``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from replicable_rl.cli.options import refuse_early
from replicable_rl.cli.output import print_all
from replicable_rl.files import replacing

__all__ = ["report_command"]


def report_command(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The file that `audit --store` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page [default: STORE with .html].")
    ] = None,
    problem: Annotated[str | None, typer.Option(metavar="ID", help="Show the runs of this problem only.")] = None,
    algorithm: Annotated[str | None, typer.Option(metavar="ID", help="Show the runs of this algorithm only.")] = None,
    confidence: Annotated[float, typer.Option(help="Of every interval.")] = 0.95,
) -> int:
    """Make a page of the audits in STORE: one HTML file that opens without a server."""
    from replicable_rl.report.audits import store_page
    from replicable_rl.report.page import write

    target = store.with_suffix(".html") if output is None else output
    if target.is_file() or not target.exists():  # a pipe is opened once only
        refuse_early(replacing(target))
    chosen = [("--problem", problem), ("--algorithm", algorithm)]
    if confidence != 0.95:
        chosen.append(("--confidence", f"{confidence:g}"))
    options = [word for option, value in chosen if value is not None for word in (option, value)]
    command = shlex.join(["replicable-rl", "report", str(store), *options])
    made = store_page(store, problem=problem, algorithm=algorithm, confidence=confidence, command=command)
    write(made.page, target)
    audits, runs = f"{made.audits} audit{'s' * (made.audits > 1)}", f"{made.runs} run{'s' * (made.runs > 1)}"
    print_all(f"{target}: {audits}, {runs}. Open it in a browser.")
    return 0
