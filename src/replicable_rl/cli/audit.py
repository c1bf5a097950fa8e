"""The command ``replicable-rl audit``."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from replicable_rl.audit import AuditResult, RunFailed, audit_spec, opened_store, read_audits, run_audits
from replicable_rl.audit.document import summary_of
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.cli.columns import naming_options, read_logs, refuse_columns, with_column_options
from replicable_rl.cli.functions import OF_FUNCTIONS, function_spec, is_function
from replicable_rl.cli.objects import parse_object
from replicable_rl.cli.options import (
    AsJson,
    Store,
    build_algorithm,
    given_options,
    has_no_rho,
    refuse_early,
    whole,
    with_algorithm_options,
)
from replicable_rl.cli.output import (
    EXIT_CODES,
    print_all,
    print_error,
    print_json,
    print_note,
    saying_what_is_kept,
    text_width,
)
from replicable_rl.cli.problems import is_log, resolve_problem
from replicable_rl.errors import InvalidFile, InvalidInput, check_choice, check_in_open_interval
from replicable_rl.files import replacing, write_csv
from replicable_rl.progress import bar as progress_bar
from replicable_rl.report import text
from replicable_rl.runs import check_level
from replicable_rl.store import RunStore
from replicable_rl.wording import number, plural

_BACKENDS = {"processes": "loky", "threads": "threading"}  # of joblib


_NAMES = Argument(
    metavar="PROBLEM|LOGS ALGORITHM|FUNCTION",
    help="What to solve: an id (see `list`), id:key=value,..., a Gymnasium id, or a saved .npz file; or two logs or "
    "more (.csv, .parquet or .jsonl files, or folders of them). Then an algorithm: an id, or id:key=value,...; or "
    "training code of your own, with or without a problem: module:function or file.py:function, which takes "
    "(shared_seed, sample_seed).",
)


@with_column_options
@with_algorithm_options
def audit_command(
    names: Annotated[list[str] | None, _NAMES] = None,
    shared_seeds: Annotated[str | None, Option(metavar="N", help="How many shared seeds J.  [default: 60]")] = None,
    shared_seed: Annotated[
        list[str] | None, Option(metavar="SEED", help="A shared seed itself; may be repeated.")
    ] = None,
    runs: Annotated[
        str | None, Option(metavar="N", help="Runs R on fresh samples under each seed.  [default: 2]")
    ] = None,
    seed: Annotated[str | None, Option(metavar="SEED", help="What all seeds follow from.  [default: 0]")] = None,
    confidence: Annotated[
        float | None, Option(metavar="X", help="How sure every interval is.  [default: 0.95]")
    ] = None,
    store: Store = None,
    jobs: Annotated[int | None, Option(metavar="N", help="Workers; -1 for all cores.")] = None,
    backend: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="processes or threads.  [default: processes]",
        ),
    ] = None,
    require: Annotated[
        float | None, Option(metavar="X", help="The agreement that two runs must have; see the exit codes.")
    ] = None,
    level: Annotated[
        str | None,
        Option(
            metavar="LEVEL",
            help="What must agree (see `list`).  [default: policy, if there is one]",
        ),
    ] = None,
    evaluate: Annotated[
        str | None,
        Option(
            metavar="WHAT", help="What measures the return of a FUNCTION's run: module:function, or a Gymnasium id."
        ),
    ] = None,
    uniform: Annotated[float | None, Option(metavar="X", help="The return of the uniform policy.")] = None,
    probe: Annotated[
        str | None, Option(metavar="WHAT", help="Observations to compare on: a .npy or .npz file, or module:name.")
    ] = None,
    data: Annotated[
        str | None, Option(metavar="FUNCTION", help="module:function that returns the data of a sample seed.")
    ] = None,
    version: Annotated[
        str | None, Option(metavar="NAME", help="The version of your FUNCTION; a --store asks for it.")
    ] = None,
    on_error: Annotated[
        str | None,
        Option(
            metavar="WHAT",
            help="raise, or record failures and go on.  [default: raise]",
        ),
    ] = None,
    csv_file: Annotated[Path | None, Option("--csv", metavar="FILE", help="Write a row for every run.")] = None,
    details: Annotated[bool, Option("--details", help="Print also all levels, claims and settings.")] = False,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
    columns: dict[str, Any],
) -> int:
    """Measure how often two runs of ALGORITHM on PROBLEM agree, or of your own training FUNCTION, or several logs.

    A FUNCTION is train(shared_seed, sample_seed) in a module or a script; --evaluate measures what it learns.

    Logs are first tested for being of one process; say with --gamma, --state and so on what their columns are.

    With --store alone, judge the audits that the store holds: by what each of them requires, or by --require. Verdicts
    hold however often one looks, so an audit may be extended until there is one.

    Exit codes: 0 if what is required is shown, or nothing is required; 1 if it is refuted, or a claim of the runs is; 2
    if the input is bad; 3 if the runs cannot tell.
    """
    asked = dict(locals())
    if csv_file is not None and (csv_file.is_file() or not csv_file.exists()):  # a pipe is opened once only
        refuse_early(replacing(csv_file))
    stored = store is not None and not names
    settings = _settings(asked, stored)
    results = _stored(asked, settings) if stored else [_made(_spec(asked, settings), asked)]
    if not stored and level is not None and results[0].levels:
        results[0].agreement(level)  # in every form, it says which levels there are
    if csv_file is not None:
        both = ({"problem": result.problem.text, "algorithm": result.algorithm.text} for result in results)
        write_csv(csv_file, [what | row for what, one in zip(both, results, strict=True) for row in one.rows()])
    if as_json:
        told = [result.to_json() for result in results]
        print_json(told if stored else told[0])
    elif not stored:
        _show(results[0], details)
    _show_traceback(results)
    verdicts = {not result.refuted and (result.spec.require is None or result.verdict(level)) for result in results}
    return next(EXIT_CODES[verdict] for verdict in (False, None, True) if verdict in verdicts)


def _show(result: AuditResult, details: bool) -> None:
    """Print an audit."""
    print_all(result.text(text_width(), details))
    if sys.stdout.isatty():
        print_note(f"Time of all runs: {number(result.seconds, 3)} s.")


def _show_traceback(results: Sequence[AuditResult]) -> None:
    """Show where the first recorded failure was raised, on standard error."""
    told = (run.traceback for result in results for run in result.failures if run.traceback)
    if first := next(told, None):
        print_error(f"The first failure of a run:\n{first.rstrip()}")


def _spec(asked: dict[str, Any], settings: dict[str, Any]) -> AuditSpec:
    """Return the audit that the command line describes."""
    in_store = asked["store"] is not None
    *solved, name = asked["names"] or [""]
    if is_function(name):
        refuse_columns("audit", asked["columns"])
        return function_spec(asked, settings)
    if own := given_options({key: asked[key] for key in OF_FUNCTIONS}):
        raise InvalidInput(f"audit: {', '.join(own.values())} is for training code of your own, module:function.")
    if not solved:
        raise InvalidInput(
            "audit: give PROBLEM and ALGORITHM, or --store FILE alone; or logs and ALGORITHM; or module:function."
        )
    if is_log(solved[0]) and is_log(name):
        raise InvalidInput(f"audit: {name} is a log too. Name an algorithm after the logs, such as plug-in-policy-v1.")
    if len(solved) == 1 and is_log(solved[0]):
        raise InvalidInput(
            f"audit: {solved[0]} is one log, and others are needed to compare it with. Give two logs or more, or one "
            "to `replicable-rl diagnose`."
        )
    if len(solved) == 1:
        refuse_columns("audit", asked["columns"])
    _refuse_rho(name, asked["given"])
    algorithm = build_algorithm(name, asked["given"])
    if len(solved) > 1:
        if asked["runs"] is not None:
            raise InvalidInput("audit: every log is one run under each shared seed. Leave --runs out.")
        with progress_bar(), naming_options():
            logs = read_logs("audit", solved, asked["columns"])
            return audit_spec(logs, algorithm, in_store=in_store, **settings)
    return audit_spec(resolve_problem(solved[0]), algorithm, in_store=in_store, **settings)


def _refuse_rho(name: str, given: dict[str, Any]) -> None:
    """Refuse --rho for an algorithm that promises no agreement, and say how to ask for one."""
    id, rho = parse_object(name).id, given["rho"]
    if rho is not None and has_no_rho(name):
        asks = f" {1.0 - rho:g}" if 0.0 < rho < 1.0 else ""
        raise InvalidInput(
            f"audit: {id} has no rho, for it promises no agreement. Give --require{asks} to say which agreement two "
            "runs must have."
        )


def _made(spec: AuditSpec, asked: dict[str, Any]) -> AuditResult:
    """Make the audit."""
    import joblib

    backend, jobs, store = (asked[name] for name in ("backend", "jobs", "store"))
    workers: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if backend is not None:
        chosen = _BACKENDS[check_choice("audit", "--backend", backend, _BACKENDS)]
        workers = joblib.parallel_config(backend=chosen, n_jobs=-1)
    with _showing_where(), saying_what_is_kept(store), workers, progress_bar(), opened_store(store) as opened:
        (result,) = run_audits([spec], opened, n_jobs=jobs, on_error=asked["on_error"] or "raise")
    return result


@contextlib.contextmanager
def _showing_where() -> Iterator[None]:
    """Show the traceback of a run that failed, before the sentence about it."""
    try:
        yield
    except RunFailed as error:
        if error.traceback is not None:
            print_error(error.traceback.rstrip())
        raise RunFailed(str(error).replace("on_error='record'", "--on-error record")) from None


def _stored(asked: dict[str, Any], settings: dict[str, Any]) -> list[AuditResult]:
    """Judge the audits that a store holds, by what they asked or by what is asked now."""
    store: Path = asked["store"]
    fixed = given_options({name: asked[name] for name in _OF_RUNS} | asked["given"] | asked["columns"]).values()
    if fixed:
        raise InvalidInput(
            f"audit: {', '.join(fixed)} cannot change runs that exist; name a problem and an algorithm, or your own "
            "function, to make others."
        )
    if not store.exists():
        raise InvalidFile(f"{store}: no such file; name a problem and an algorithm to make it.")
    changes = {name: settings[name] for name in ("require", "level", "confidence") if name in settings}
    with RunStore(store) as opened:
        results = [replace(found, spec=replace(found.spec, **changes)) for found in read_audits(opened)]
        runs = sum(finished for _, finished in opened.families())
    if not results:
        holds = f"holds {plural(runs, 'run')}, but no audits" if runs else "holds no runs and no audits"
        raise InvalidFile(f"{store}: {holds}; name a problem and an algorithm to make one.")
    if asked["level"] is not None and not any(asked["level"] in result.levels for result in results):
        check_level("audit", asked["level"])  # a level of somebody's own needs no plugin if the runs have it
    if not asked["as_json"]:
        documents = (result.document() if asked["details"] else summary_of(result) for result in results)
        print_all("\n\n".join(text(document, text_width(), asked["details"]) for document in documents))
    return results


# What decides which runs there are, and how they are made.
_OF_RUNS = (
    *("shared_seeds", "shared_seed", "runs", "seed", "jobs", "backend", "on_error"),
    *OF_FUNCTIONS,
)


def _settings(asked: dict[str, Any], stored: bool) -> dict[str, Any]:
    """What the command line says about the size of the audits and what is asked of them."""
    settings: dict[str, Any] = {}
    if asked["require"] is not None:
        settings["require"] = check_in_open_interval("audit", "--require", asked["require"])
    if asked["level"] is not None:
        settings["level"] = asked["level"] if stored else check_level("audit", asked["level"])
    if asked["shared_seed"]:
        if asked["shared_seeds"] is not None:
            raise InvalidInput("audit: --shared-seeds says how many, and --shared-seed which ones. Give only one.")
        settings["shared_seeds"] = [whole("--shared-seed", text) for text in asked["shared_seed"]]
    for name, option in (("shared_seeds", "--shared-seeds"), ("runs", "--runs"), ("seed", "--seed")):
        if asked[name] is not None:
            settings["runs_per_seed" if name == "runs" else name] = whole(option, asked[name])
    return settings if asked["confidence"] is None else settings | {"confidence": asked["confidence"]}
