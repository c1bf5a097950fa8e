"""Entry point and commands."""

import importlib
import io
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from replicable_rl import progress
from replicable_rl.cli.audit import audit_command
from replicable_rl.cli.columns import naming_options, with_column_options
from replicable_rl.cli.diagnose import calibrate_command, compare_command
from replicable_rl.cli.lists import list_command
from replicable_rl.cli.logs import diagnose_command
from replicable_rl.cli.options import (
    AlgorithmId,
    AsJson,
    alternatives,
    build_algorithm,
    refuse_early,
    whole,
    with_algorithm_options,
)
from replicable_rl.cli.output import drop_output, print_error, print_json
from replicable_rl.cli.problems import ProblemOrLog, find_problem
from replicable_rl.cli.publish import publish_command
from replicable_rl.cli.report import report_command
from replicable_rl.cli.reproduce import reproduce_command
from replicable_rl.errors import InvalidInput
from replicable_rl.files import replacing
from replicable_rl.progress import bar as progress_bar
from replicable_rl.registry import save as save_thing
from replicable_rl.solve import plan, solve
from replicable_rl.wording import sentence

_BUG = 70  # as the system's own programs say it; Python's 1 would read as "refuted"

app = typer.Typer(
    name="replicable-rl",
    help="Reinforcement learning that gives the same policy twice, from fresh samples.",
    epilog="Exit codes: 0 done, or what was required is met; 1 refuted; 2 bad input; 3 cannot tell.",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # it stays open as long as the program
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no error
    try:
        code = app(arguments, prog_name="replicable-rl", standalone_mode=False)
        sys.stdout.flush()
    except InvalidInput as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("Not enough memory for a problem of this size.")
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as end:  # typer ends so what it was asked by a shell; both it and rich, a pipe without a reader
        *_, (frame, _) = traceback.walk_tb(end.__traceback__)
        if frame.f_globals["__name__"].partition(".")[0] not in ("typer", "click", "rich"):
            return _fail(f"Somebody's own code ended the program (SystemExit: {end.code}).")
        drop_output()
        return end.code if "_REPLICABLE_RL_COMPLETE" in os.environ and isinstance(end.code, int) else 0
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            return _fail(f"{error.filename}: {error.strerror}.")
        drop_output()
        return _fail(f"The output cannot be written ({error.strerror}).")
    except BaseException as error:  # usage errors have this method in every version of typer; the rest are bugs
        if hasattr(error, "format_message"):
            return _usage(error)
        traceback.print_exc()
        return _BUG
    if code == 130:
        print_error("replicable-rl: interrupted; nothing was half-written.")
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> int:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if context is None:
        return _fail(message)
    end = "" if message.endswith((".", "?", "!")) else "."
    return _fail(f"{message}{end} Try `{context.command_path} --help`.")


def _fail(message: str) -> int:
    print_error(f"replicable-rl: {' '.join(message.splitlines())}")
    return 2


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="Import your module first: it registers ids of your own.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no progress, no notes.")] = False,
) -> None:
    if quiet:
        context.with_resource(progress.quiet())
        context.with_resource(warnings.catch_warnings(action="ignore"))
    for module in plugin or []:
        _import(module)
    if version:
        from replicable_rl import __version__

        print(f"replicable-rl {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InvalidInput("Missing command. Try `replicable-rl --help`.")


def _import(module: str) -> None:
    """Import somebody's module, which may be in this folder."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever somebody's module raises, its own sentence says why
        raise InvalidInput(
            f"--plugin {module}: cannot be imported ({type(error).__name__}: {sentence(error)})."
        ) from error


@with_column_options
@with_algorithm_options
def solve_command(
    problem: ProblemOrLog,
    algorithm: AlgorithmId,
    shared_seed: Annotated[
        str, typer.Option(metavar="SEED", help="The published randomness: runs that should agree share it.")
    ],
    sample_seed: Annotated[
        str | None, typer.Option(metavar="SEED", help="The fresh samples.  [default: new entropy]")
    ] = None,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the run, such as run.npz.")] = None,
    *,
    given: dict[str, Any],
    columns: dict[str, Any],
) -> int:
    """Solve PROBLEM with ALGORITHM once, and show the policy and its fingerprints.

    PROBLEM may be a log: it is the sample, and --gamma, --state and so on say what its columns are.
    """
    from replicable_rl.cli.show import run_to_json, show_run

    found = find_problem("solve", problem, columns, {"sample_seed": sample_seed})
    chosen = build_algorithm(algorithm, given)
    shared = whole("--shared-seed", shared_seed)
    sample = None if sample_seed is None else whole("--sample-seed", sample_seed)
    if save is not None:
        refuse_early(replacing(save))
    started = time.perf_counter()
    with progress_bar(), naming_options():
        solved = found()
        run = solve(solved, chosen, shared_seed=shared, sample_seed=sample)
    seconds = time.perf_counter() - started
    if save is not None:
        save_thing(run, save)
    if as_json:
        print_json(run_to_json(solved, run))
    else:
        show_run(solved, run, seconds, problem)
    return 0


@with_column_options
@with_algorithm_options
def plan_command(
    problem: ProblemOrLog,
    algorithm: AlgorithmId,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
    columns: dict[str, Any],
) -> int:
    """Say what a run of ALGORITHM on PROBLEM takes, before drawing a sample.

    PROBLEM may be a log; --gamma, --state and so on say what its columns are.
    """
    from replicable_rl.cli.plans import plan_to_json, show_plans

    found = find_problem("plan", problem, columns, {})
    chosen = alternatives(algorithm, given)
    with progress_bar(), naming_options():
        planned = found()
        plans = [plan(planned, one) for one in chosen]
    if as_json:
        print_json([plan_to_json(planned, one) for one in plans])
    else:
        show_plans(planned, plans, problem)
    return 0


for _command in (
    solve_command,
    plan_command,
    publish_command,
    audit_command,
    calibrate_command,
    compare_command,
    diagnose_command,
    reproduce_command,
    report_command,
    list_command,
):
    app.command(_command.__name__.removesuffix("_command"))(_command)
