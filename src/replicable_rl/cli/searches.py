"""The commands ``diagnose``, ``compare`` and ``calibrate``: what a log decides, and which rule at which size."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from replicable_rl.cli.options import (
    OF_ALGORITHMS,
    OF_LOGS,
    AlgorithmWord,
    AsJson,
    ProblemWord,
    algorithm_of,
    log_of,
    problem_of,
    promises_rho,
    refuse_early,
    taking,
)
from replicable_rl.cli.output import EXIT_CODES, print_all, print_json, print_note, text_width
from replicable_rl.diagnose import Calibration, Comparison, calibrate, compare, diagnose
from replicable_rl.errors import check_in_open_interval
from replicable_rl.plot import curve, frontier
from replicable_rl.plotting import check_figure_name, save_as
from replicable_rl.progress import bar

SEARCH = ("confidence", "start", "most", "shared_seeds", "seed", "store", "n_jobs")
_USUAL = {"epsilon": 0.05, "delta": 0.05, "rho": 0.2}

FigureFile = Annotated[Path | None, Option(metavar="FILE", help="Draw the result to this file, .png, .svg or .pdf.")]


@taking(settings=("shared_seed", "resamples", "seed"), given=("epsilon", "delta", "rho", "rule", "over"), log=OF_LOGS)
def diagnose_command(
    path: Annotated[
        str, Argument(metavar="LOG", help="A .csv, .jsonl or .parquet file, a folder of them, or a saved .npz file.")
    ],
    target: Annotated[float, Option(metavar="X", help="Agreement to find the data for.")] = 0.95,
    report: Annotated[Path | None, Option(metavar="FILE", help="Also make a page, such as page.html.")] = None,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
    given: dict[str, Any],
    log: dict[str, Any],
) -> int:
    """Say what LOG decides, and how likely another log decides alike.

    Also say in which states it does not, and how much data it would take.
    """
    algorithm = algorithm_of("plug-in-policy-v1", _USUAL | given)
    refuse_early(report)
    check_in_open_interval("diagnose", "--target", target)
    with bar():
        found = diagnose(log_of(path, log), algorithm, **settings)
        found.data_needed(target)  # it takes long, and is known from now on
        found.rules()
    if report is not None:
        found.save_page(report, shlex.join(["replicable-rl", *sys.argv[1:]]))
        print_note(f"{report}: open it in a browser.")
    if as_json:
        print_json(found.to_json())
    else:
        print_all(found.text(text_width()))
    return 0


@taking(
    settings=("epsilon", "share", "rho", "delta", "algorithms", "over", "horizon", "publish", *SEARCH),
)
def compare_command(
    problem: ProblemWord, figure: FigureFile = None, as_json: AsJson = False, *, settings: dict[str, Any]
) -> int:
    """Compare all rules and algorithms on PROBLEM: samples, losses, what is the same; and recommend one.

    Exit codes: 0 if one of them meets what is asked; 1 if none does; 2 if the input is bad; 3 if it cannot be told.
    """
    _refuse_figure(figure)
    with bar():
        found = compare(problem_of("compare", problem), **settings)
    return _show(found, figure, as_json)


@taking(settings=("level", "size", "published", *SEARCH), given=OF_ALGORITHMS)
def calibrate_command(
    problem: ProblemWord,
    algorithm: AlgorithmWord,
    figure: FigureFile = None,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
    given: dict[str, Any],
) -> int:
    """Find the smallest sample size at which two runs of ALGORITHM on PROBLEM agree and lose little.

    Two runs must agree with probability 1 - rho, and the policy must lose at most epsilon on average.

    Exit codes: 0 if a size was found; 1 if the largest is refuted; 2 if the input is bad; 3 if it cannot be told.
    """
    _refuse_figure(figure)
    rho = None if promises_rho(algorithm) else given.pop("rho", None)  # of the question, not of the algorithm
    with bar():
        found = calibrate(problem_of("calibrate", problem), algorithm_of(algorithm, given), rho, **settings)
    return _show(found, figure, as_json)


def _refuse_figure(figure: Path | None) -> None:
    if figure is not None:
        check_figure_name(figure)
        refuse_early(figure)


def _show(found: Calibration | Comparison, figure: Path | None, as_json: bool) -> int:
    if figure is not None:
        axes = curve(found) if isinstance(found, Calibration) else frontier(found)
        save_as(axes.figure, figure)
    if as_json:
        print_json(found.to_json())
    else:
        print_all(found.text(text_width()))
    return EXIT_CODES[found.met]
