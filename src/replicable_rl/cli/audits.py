"""The commands ``audit`` and ``report``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from replicable_rl.audit import AuditResult, RunFailed, audit_spec, opened_store, read_audits, run_audits
from replicable_rl.audit.document import store_document, summary_of
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.cli.options import (
    OF_ALGORITHMS,
    OF_LOGS,
    AsJson,
    algorithm_of,
    function_of,
    is_function,
    is_log,
    problem_of,
    promises_rho,
    read_log_options,
    refuse,
    refuse_early,
    taking,
)
from replicable_rl.cli.output import (
    EXIT_CODES,
    print_all,
    print_blocks,
    print_error,
    print_json,
    print_note,
    text_width,
)
from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval
from replicable_rl.files import write_text
from replicable_rl.logs import from_logs
from replicable_rl.progress import bar
from replicable_rl.report import page
from replicable_rl.runs import check_level
from replicable_rl.store import RunStore
from replicable_rl.training import EpisodeReturns
from replicable_rl.training.callables import callable_spec
from replicable_rl.wording import plural

_SIZE = ("shared_seeds", "runs_per_seed", "seed", "confidence", "require", "level")
_MAKING = ("n_jobs", "on_error")
_OF_FUNCTIONS = ("evaluate", "uniform", "probe", "tolerance", "version")
_OF_BOTH = ("rho", "epsilon", "delta")  # what an algorithm promises, and training code may be asked for
_JUDGED = ("require", "level", "confidence")  # what may be asked of runs that there are

_NAMES = Argument(
    metavar="PROBLEM|LOGS ALGORITHM|FUNCTION",
    help="What to solve: an id (see `list`), a saved .npz file, or two logs or more. Then an algorithm: an id; or "
    "training code, with or without a problem: module:function or file.py:function, of (shared_seed, sample_seed).",
)


@taking(settings=(*_SIZE, "store", *_MAKING), function=_OF_FUNCTIONS, given=OF_ALGORITHMS, log=OF_LOGS)
def audit_command(
    names: Annotated[list[str] | None, _NAMES] = None,
    details: Annotated[bool, Option("--details", help="Print also all levels, claims and settings.")] = False,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
    function: dict[str, Any],
    given: dict[str, Any],
    log: dict[str, Any],
) -> int:
    """Measure how often two runs of ALGORITHM on PROBLEM agree, or of your own training FUNCTION, or several logs.

    Logs are first tested for being of one process; --gamma, --state and so on say what their columns are.

    With --store alone, judge the audits that the store holds: by what each of them requires, or by --require. Verdicts
    hold however often one looks, so an audit may be extended until there is one.

    Exit codes: 0 if what is required is shown, or nothing is required; 1 if it is refuted, or a claim of the runs is; 2
    if the input is bad; 3 if the runs cannot tell.
    """
    store, level = settings.pop("store", None), settings.get("level")
    making = {name: settings.pop(name) for name in _MAKING if name in settings}
    if "require" in settings:
        check_in_open_interval("audit", "--require", settings["require"])
    if names:
        made = _described(names, settings, function, given, log, in_store=store is not None)
        with _naming_the_run(), bar(), opened_store(store) as opened:
            results = list(run_audits([made], opened, **making))
        if level is not None and results[0].levels:
            results[0].agreement(level)  # in every form, it says which levels there are
    else:
        refuse(
            "audit", making | function | given | log, "cannot change runs that exist. Name a problem and an algorithm."
        )
        results = _stored(store, settings)
    if as_json:
        told = [result.to_json() for result in results]
        print_json(told[0] if names else told)
    elif names:
        print_all(results[0].text(text_width(), details))
    else:
        for result in results:
            print_blocks(result.document() if details else summary_of(result), details)
            print_all("")
    failures = [run.traceback for result in results for run in result.failures if run.traceback]
    if failures:
        print_error(f"The first failure of a run:\n{failures[0].rstrip()}")
    verdicts = {not result.refuted and (result.spec.require is None or result.verdict(level)) for result in results}
    return next(EXIT_CODES[verdict] for verdict in (False, None, True) if verdict in verdicts)


def _described(
    names: list[str],
    settings: dict[str, Any],
    function: dict[str, Any],
    given: dict[str, Any],
    log: dict[str, Any],
    *,
    in_store: bool,
) -> AuditSpec:
    """Return the audit that a command line describes."""
    *solved, name = names
    if is_function(name):
        others = {key: value for key, value in (given | log).items() if key not in _OF_BOTH}
        refuse("audit", others, f"is for algorithms of this library and for logs, not for {name}.")
        return _of_function(solved, name, function | given, settings, in_store)
    refuse("audit", function, "is for training code of your own, module:function.")
    if not solved or is_log(name):
        raise InvalidInput("audit: give PROBLEM and ALGORITHM, two logs or more and ALGORITHM, or module:function.")
    if "rho" in given and not promises_rho(name):
        raise InvalidInput(f"audit: {name} promises no rho. Give --require to say which agreement two runs must have.")
    algorithm = algorithm_of(name, given)
    if len(solved) > 1:
        refuse("audit", {key: 1 for key in settings if key == "runs_per_seed"}, "is 1 for logs. Leave it out.")
        with bar():
            logs = from_logs(solved, **read_log_options(log))
            return audit_spec(logs, algorithm, in_store=in_store, **settings)
    refuse("audit", log, "is for logs. Give two logs or more, or one to `replicable-rl diagnose`.")
    return audit_spec(problem_of("audit", solved[0]), algorithm, in_store=in_store, **settings)


def _of_function(
    solved: list[str], name: str, asked: dict[str, Any], settings: dict[str, Any], in_store: bool
) -> AuditSpec:
    """Return the audit of training code, on the problem that it solves, if that is said."""
    if len(solved) > 1:
        raise InvalidInput(f"audit: {name} takes seeds, not logs. Give it alone, or after one PROBLEM.")
    if "evaluate" in asked:
        word = asked["evaluate"]
        asked["evaluate"] = function_of("--evaluate", word) if is_function(word) else EpisodeReturns(word)
    if "probe" in asked:
        asked["probe"] = function_of("--probe", asked["probe"])
    module, _, called = name.rpartition(":")
    return callable_spec(
        function_of("audit", name),
        in_store=in_store,
        problem=problem_of("audit", solved[0]) if solved else None,
        name=f"{Path(module).stem}:{called}",
        **asked,
        **settings,
    )


@contextmanager
def _naming_the_run() -> Iterator[None]:
    """Show the traceback of a run that failed, before the sentence about it."""
    try:
        yield
    except RunFailed as error:
        if error.traceback is not None:
            print_error(error.traceback.rstrip())
        raise


def _stored(store: Path | None, settings: dict[str, Any]) -> list[AuditResult]:
    """Judge the audits that a store holds, by what they require or by what is required now."""
    if store is None:
        raise InvalidInput("audit: give PROBLEM and ALGORITHM, two logs or more, module:function, or --store alone.")
    refuse("audit", {key: 1 for key in settings if key not in _JUDGED}, "cannot change runs that exist.")
    results = _read(store)
    if "level" in settings and not any(settings["level"] in result.levels for result in results):
        check_level("audit", settings["level"])  # a level of somebody's own needs no plugin if the runs have it
    return [replace(result, spec=replace(result.spec, **settings)) for result in results]


def _read(store: Path) -> list[AuditResult]:
    """Read the audits of a store; to open one where there is none would make it."""
    if not store.is_file() or not store.stat().st_size:
        raise InvalidFile(f"{store}: no such store. Name a problem and an algorithm to make one with --store.")
    with RunStore(store) as opened:
        results = read_audits(opened)
    if not results:
        raise InvalidFile(f"{store}: holds no audits. Name a problem and an algorithm to make one.")
    return list(results)


def report_command(
    store: Annotated[Path, Argument(metavar="STORE", help="The file that `audit --store` wrote.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="The page.  [default: STORE with .html]")
    ] = None,
) -> int:
    """Make a page of the audits in STORE: one HTML file that opens without a server."""
    target = store.with_suffix(".html") if output is None else output
    refuse_early(target)
    results = _read(store)
    command = shlex.join(["replicable-rl", "report", str(store)])
    write_text(target, page(f"Audits in {store.name}", store_document(results), command))
    runs = sum(len(result.runs) for result in results)
    print_note(f"{target}: {plural(len(results), 'audit')}, {plural(runs, 'run')}. Open it in a browser.")
    return 0
