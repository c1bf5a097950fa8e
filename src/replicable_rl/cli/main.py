"""Entry point and commands."""

import importlib
import io
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from replicable_rl.cli import complete
from replicable_rl.cli.audit import audit_command
from replicable_rl.cli.columns import naming_options, with_column_options
from replicable_rl.cli.complete import COMPLETING, refuse_unknown_shell
from replicable_rl.cli.diagnose import calibrate_command, compare_command
from replicable_rl.cli.doctor import doctor_command
from replicable_rl.cli.helptext import Command, example
from replicable_rl.cli.lab import lab_command
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
from replicable_rl.cli.progress import progress_bar
from replicable_rl.cli.publish import publish_command
from replicable_rl.cli.quiet import Quiet, as_loud_as_before, be_quiet, with_quiet
from replicable_rl.cli.report import report_command
from replicable_rl.cli.reproduce import reproduce_command
from replicable_rl.errors import InvalidInput
from replicable_rl.files import new_directory
from replicable_rl.records import COUNTS
from replicable_rl.solve import plan, save_run, solve
from replicable_rl.wording import sentence

app = typer.Typer(
    name="replicable-rl",
    help="Reinforcement learning that gives the same policy twice, from fresh samples.",
    epilog="`replicable-rl COMMAND --help` shows the options of a command, and an example. "
    "Exit codes: 0 done, or what was required is met; 1 refuted or not met; 2 bad input, or cannot tell.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # it stays open as long as the program
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no error
    with as_loud_as_before():
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        refuse_unknown_shell(sys.argv[1:] if arguments is None else arguments)
        code = app(arguments, prog_name="replicable-rl", standalone_mode=False)
        sys.stdout.flush()
    except InvalidInput as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("Not enough memory for a problem of this size.")
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as end:  # typer ends so what it was asked by a shell; both it and rich, a pipe without a reader
        drop_output()
        return end.code if COMPLETING in os.environ and isinstance(end.code, int) else 0
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            return _fail(f"{error.filename}: {error.strerror}.")
        drop_output()
        return _fail(f"The output cannot be written ({error.strerror}).")
    except Exception as error:  # usage errors have this method in every version of typer; the rest are bugs
        if not hasattr(error, "format_message"):
            raise
        return _usage(error)
    if code == 130:
        print_error("replicable-rl: interrupted; nothing was half-written.")
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> int:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if message.startswith("Usage:"):  # no arguments at all: the help is the message
        print_error(message)
        return 2
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
    quiet: Quiet = False,
) -> int | None:
    if quiet:
        be_quiet()
    for module in plugin or []:
        _import(module)
    if version:
        from replicable_rl import __version__

        print(f"replicable-rl {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InvalidInput("Missing command. Try `replicable-rl --help`.")
    return None


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
    sampler: Annotated[
        str,
        typer.Option(metavar="ID", help="How samples are drawn (see `list`).", autocompletion=complete.samplers),
    ] = COUNTS,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the run in a new directory.")] = None,
    *,
    given: dict[str, Any],
    columns: dict[str, Any],
) -> int:
    """Solve PROBLEM with ALGORITHM once, and show the policy and its fingerprints.

    PROBLEM may be a log: it is the sample, and --gamma, --state and so on say what its columns are.
    """
    from replicable_rl.cli.show import run_to_json, show_run

    drawing = {"sample_seed": sample_seed, "sampler": sampler if sampler != COUNTS else None}
    found = find_problem("solve", problem, columns, drawing)
    chosen = build_algorithm(algorithm, given)
    shared = whole("--shared-seed", shared_seed)
    sample = None if sample_seed is None else whole("--sample-seed", sample_seed)
    if save is not None:
        refuse_early(new_directory(save))
    started = time.perf_counter()
    with progress_bar(), naming_options():
        solved = found()
        run = solve(solved, chosen, shared_seed=shared, sample_seed=sample, sampler=sampler)
    seconds = time.perf_counter() - started
    if save is not None:
        save_run(run, save, solved)
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
    if not hasattr(chosen[0], "plan"):
        raise InvalidInput(f"plan: {algorithm} has no plan. Run it with solve or audit instead.")
    with progress_bar(), naming_options():
        planned = found()
        plans = [(one, plan(planned, one)) for one in chosen]
    if as_json:
        print_json([plan_to_json(planned, *one) for one in plans])
    else:
        show_plans(planned, plans, problem)
    return 0


_DECIDED = "plug-in-policy-v1 --epsilon 0.05 --delta 0.01 --rho 0.2"
_SOLVED = f"two-goals-v1 {_DECIDED}"
_PROMISED = "two-goals-v1 rpvi-v2 --epsilon 0.1 --delta 0.001 --rho 0.2"


def _add(name: str, command: Callable[..., int], summary: str, *examples: str) -> None:
    """Make a function a command, with its line in the list of commands and examples at the end of its help."""
    app.command(name, cls=Command, short_help=summary, epilog=example(*examples))(with_quiet(command))


_add(
    "solve",
    solve_command,
    "Solve PROBLEM with ALGORITHM once.",
    f"solve {_SOLVED} --samples 1000 --shared-seed 2023",
    f"solve log.csv {_DECIDED} --gamma 0.9 --shared-seed 2023",
)
_add("plan", plan_command, "Say what a run of ALGORITHM on PROBLEM takes.", f"plan {_PROMISED} --target policy")
_add(
    "publish",
    publish_command,
    "Choose tie-breaks for others to use.",
    f"publish {_SOLVED} --samples 1000 --output cuts.json",
    f"publish log.csv {_DECIDED} --gamma 0.9 --output cuts.json",
)
_add(
    "audit",
    audit_command,
    "Measure how often two runs agree.",
    f"audit {_PROMISED} --require 0.8 --store runs.sqlite",
    "audit monday.csv tuesday.csv plug-in-policy-v1 --epsilon 0.05 --delta 0.05 --rho 0.2 --gamma 0.9",
)
_add("calibrate", calibrate_command, "Find how many samples ALGORITHM needs.", f"calibrate {_SOLVED}")
_add("compare", compare_command, "Show all rules and algorithms side by side.", "compare chain-v1 --rho 0.2")
_add(
    "diagnose",
    diagnose_command,
    "Say what another log than LOG would decide.",
    "diagnose log.csv --gamma 0.9 --report page.html",
)
_add("reproduce", reproduce_command, "Make every figure and table of the paper.", "reproduce figure1 --quick")
_add("lab", lab_command, "Open a page to try all this in a browser.", "lab")
_add("report", report_command, "Make a page of the audits in STORE.", "report runs.sqlite --output page.html")
_add("list", list_command, "List what has an id, yours too.", "list", "list --json")
_add("doctor", doctor_command, "Check that everything works on this machine.", "doctor")
