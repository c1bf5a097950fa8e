"""The command ``replicable-rl report``."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from replicable_rl.cli.options import refuse_early
from replicable_rl.cli.output import print_note
from replicable_rl.files import replacing
from replicable_rl.wording import plural


def report_command(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The file that `audit --store` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page.  [default: STORE with .html]")
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show the runs of this problem only."),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show the runs of this algorithm only."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="X", help="How sure every interval is.  [default: what each audit asked for]"),
    ] = None,
) -> int:
    """Make a page of the audits in STORE: one HTML file that opens without a server."""
    from replicable_rl.pages.audits import store_page
    from replicable_rl.pages.page import write

    target = store.with_suffix(".html") if output is None else output
    if target.is_file() or not target.exists():  # a pipe is opened once only
        refuse_early(replacing(target))
    chosen = {"problem": problem, "algorithm": algorithm, "confidence": confidence}
    options = [word for name, value in chosen.items() if value is not None for word in (f"--{name}", str(value))]
    command = shlex.join(["replicable-rl", "report", str(store), *options])
    made = store_page(store, problem=problem, algorithm=algorithm, confidence=confidence, command=command)
    write(made.page, target)
    print_note(f"{target}: {plural(made.audits, 'audit')}, {plural(made.runs, 'run')}. Open it in a browser.")
    return 0
