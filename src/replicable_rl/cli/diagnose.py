"""The commands ``replicable-rl calibrate`` and ``replicable-rl compare``."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from replicable_rl.cli.options import (
    AlgorithmId,
    AsJson,
    Problem,
    Store,
    build_algorithm,
    has_no_rho,
    refuse_early,
    whole,
    with_algorithm_options,
)
from replicable_rl.cli.output import EXIT_CODES, print_all, print_json, saying_what_is_kept, text_width
from replicable_rl.cli.problems import refuse_log, resolve_problem
from replicable_rl.diagnose import Calibration, Comparison, calibrate, compare
from replicable_rl.errors import InvalidInput
from replicable_rl.files import replacing
from replicable_rl.plotting import check_figure_name
from replicable_rl.progress import bar as progress_bar

Confidence = Annotated[float, Option(metavar="X", help="How sure all intervals are together.")]
Start = Annotated[str | None, Option(metavar="N", help="The smallest size to try.")]
Most = Annotated[str | None, Option(metavar="N", help="The largest size to try.")]
SharedSeeds = Annotated[str, Option(metavar="N", help="The most pairs of runs at one size.")]
Seed = Annotated[str, Option(metavar="SEED", help="What all seeds follow from.")]
Jobs = Annotated[int | None, Option(metavar="N", help="Workers; -1 for all cores.")]
FigureFile = Annotated[Path | None, Option(metavar="FILE", help="Draw the result to this file, .png, .svg or .pdf.")]


@with_algorithm_options
def calibrate_command(
    problem: Problem,
    algorithm: AlgorithmId,
    confidence: Confidence = 0.95,
    level: Annotated[
        str | None,
        Option(
            metavar="LEVEL",
            help="What must agree (see `list`).  [default: policy, if there is one]",
        ),
    ] = None,
    size: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The parameter to search.  [default: samples, calls, episodes or budget]",
        ),
    ] = None,
    start: Start = None,
    most: Most = None,
    shared_seeds: SharedSeeds = "600",
    published: Annotated[
        bool, Option("--published", help="Every first run publishes cuts, which the second follows.")
    ] = False,
    seed: Seed = "0",
    store: Store = None,
    jobs: Jobs = None,
    figure: FigureFile = None,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
) -> int:
    """Find the smallest sample size at which two runs of ALGORITHM on PROBLEM agree and lose little.

    Two runs must agree with probability 1 - rho, and the policy must lose at most epsilon on average.

    Exit codes: 0 if a size was found; 1 if the largest is refuted; 2 if the input is bad; 3 if it cannot be told.
    """
    refuse_log("calibrate", problem, "how many rows like these it takes")
    rho = given["rho"] if has_no_rho(algorithm) else None  # of the question, where the algorithm promises none
    mdp, chosen = resolve_problem(problem), build_algorithm(algorithm, given if rho is None else given | {"rho": None})
    _refuse_figure(figure)
    with progress_bar(), saying_what_is_kept(store):
        found = calibrate(
            mdp,
            chosen,
            rho,
            confidence=confidence,
            level=level,
            size=size,
            start=None if start is None else whole("--start", start),
            most=None if most is None else whole("--most", most),
            shared_seeds=whole("--shared-seeds", shared_seeds),
            published=published,
            seed=whole("--seed", seed),
            store=store,
            n_jobs=jobs,
        )
    return _show(found, figure, as_json)


def compare_command(
    problem: Problem,
    rho: Annotated[float, Option(metavar="X", help="Probability that two runs may differ.")] = 0.2,
    epsilon: Annotated[
        float | None, Option(metavar="X", help="Loss, in values normalised to [0, 1].  [default: 0.05]")
    ] = None,
    share: Annotated[
        float | None, Option(metavar="X", help="Loss, as a share of the gain over the uniform policy, instead.")
    ] = None,
    delta: Annotated[float, Option(metavar="X", help="Failure probability of the accuracy.")] = 0.01,
    confidence: Confidence = 0.95,
    only: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="A rule, rpvi, model or rmax; may be repeated.  [default: all]",
        ),
    ] = None,
    over: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Which loss: initial or worst.",
        ),
    ] = "initial",
    horizon: Annotated[
        str | None, Option(metavar="N", help="Steps of an episode, for R-max and problems that are only played.")
    ] = None,
    publish: Annotated[bool, Option("--publish", help="The first lab may publish cuts for the others.")] = False,
    start: Start = None,
    most: Most = None,
    shared_seeds: SharedSeeds = "600",
    seed: Seed = "0",
    store: Store = None,
    jobs: Jobs = None,
    figure: FigureFile = None,
    as_json: AsJson = False,
) -> int:
    """Compare all rules and algorithms on PROBLEM: samples, losses, what is the same; and recommend one.

    Exit codes: 0 if one of them meets what is asked; 1 if none does; 2 if the input is bad; 3 if it cannot be told.
    """
    refuse_log("compare", problem, "what every rule would do with it")
    mdp = resolve_problem(problem)
    _refuse_figure(figure)
    with progress_bar(), saying_what_is_kept(store):
        found = compare(
            mdp,
            rho,
            epsilon,
            share=share,
            delta=delta,
            confidence=confidence,
            algorithms=only or None,
            over=over,
            horizon=None if horizon is None else whole("--horizon", horizon),
            publish=publish,
            start=None if start is None else whole("--start", start),
            most=None if most is None else whole("--most", most),
            shared_seeds=whole("--shared-seeds", shared_seeds),
            seed=whole("--seed", seed),
            store=store,
            n_jobs=jobs,
        )
    return _show(found, figure, as_json)


def _refuse_figure(figure: Path | None) -> None:
    """Refuse before a long run a figure that could not be written after it."""
    if figure is None:
        return
    check_figure_name(figure)
    if figure.is_dir():
        raise InvalidInput(f"--figure: {figure} is a directory. Name a file in it.")
    refuse_early(replacing(figure))


def _show(found: Calibration | Comparison, figure: Path | None, as_json: bool) -> int:
    if figure is not None:
        found.plot(figure)
    if as_json:
        print_json(found.to_json())
    else:
        print_all(found.table(width=text_width()))
    return EXIT_CODES[found.met]
