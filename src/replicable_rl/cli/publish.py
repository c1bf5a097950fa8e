"""The command ``replicable-rl publish``."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from replicable_rl.cli.columns import naming_options, with_column_options
from replicable_rl.cli.options import (
    AlgorithmId,
    AsJson,
    build_algorithm,
    refuse_early,
    whole,
    with_algorithm_options,
)
from replicable_rl.cli.output import print_json, print_note
from replicable_rl.cli.problems import ProblemOrLog, find_problem
from replicable_rl.errors import InvalidInput
from replicable_rl.files import replacing
from replicable_rl.logs import Dataset
from replicable_rl.progress import bar as progress_bar
from replicable_rl.registry import save
from replicable_rl.solve import publish


@with_column_options
@with_algorithm_options
def publish_command(
    problem: ProblemOrLog,
    algorithm: AlgorithmId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the cuts go, such as cuts.npz.")
    ] = None,
    sample_seed: Annotated[
        str | None, typer.Option(metavar="SEED", help="The fresh samples.  [default: new entropy]")
    ] = None,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
    columns: dict[str, Any],
) -> int:
    """Choose one tolerance for each state on fresh samples, or on a log, for others to use on theirs.

    They give the file as the rule: `replicable-rl solve PROBLEM ALGORITHM --rule cuts.npz`.
    """
    from replicable_rl.cli.show import show_cuts

    found = find_problem("publish", problem, columns, {"sample_seed": sample_seed})
    chosen = build_algorithm(algorithm, given)
    seed = None if sample_seed is None else whole("--sample-seed", sample_seed)
    if output is not None and (output.is_file() or not output.exists()):  # a pipe is opened once only
        if not str(output).endswith(".npz"):
            raise InvalidInput(f"publish: --output must end in .npz, by which --rule knows cuts, got {output}.")
        refuse_early(replacing(output))
    with progress_bar(), naming_options():
        solved = found()
        cuts = publish(solved, chosen, sample_seed=seed)
    if output is not None:
        save(cuts, output)
    if as_json:
        print_json(cuts.to_json())
        return 0
    show_cuts(solved, cuts, chosen.plan(solved).numbers, problem)
    if output is None:
        print_note("Nothing was written; --output cuts.npz keeps them.")
    else:
        own = "logs" if isinstance(solved, Dataset) else "samples"
        print_note(f"{output}: others use it by --rule {shlex.quote(str(output))} on their own {own}.")
    return 0
