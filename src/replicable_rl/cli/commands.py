"""The commands: each takes words and options, calls one function, prints, and returns an exit code."""

from __future__ import annotations

import inspect
import os
import pkgutil
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from replicable_rl.audit import AuditResult, AuditSpec, RunFailed, audit_spec, opened_store, read_audits, run_audits
from replicable_rl.audit.document import store_document, summary_of
from replicable_rl.canonical import Json
from replicable_rl.cli.options import (
    OF_ALGORITHMS,
    OF_LOGS,
    Asked,
    algorithm_named,
    function_named,
    is_function,
    is_log,
    log_named,
    log_settings,
    problem_named,
    problem_or_log,
    refuse,
    refuse_early,
    taking,
)
from replicable_rl.cli.output import EXIT_CODES, print_blocks, print_error, print_json, print_note
from replicable_rl.diagnose import Calibration, Comparison, Diagnosis, calibrate, compare, diagnose
from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval
from replicable_rl.experiments import catalogue
from replicable_rl.files import write_text
from replicable_rl.logs import Dataset, from_logs
from replicable_rl.paper import cited
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar
from replicable_rl.registry import ALGORITHMS, PROBLEMS, save
from replicable_rl.report import Block, Cell, Facts, Heading, Policy, Table, Text, page
from replicable_rl.rules import SHIPPED
from replicable_rl.runs import LEVELS, Claims, Run, algorithm_spec, check_level, implied, in_order
from replicable_rl.solve import plan, publish, solve
from replicable_rl.store import RunStore
from replicable_rl.training import EpisodeReturns
from replicable_rl.training.callables import callable_spec
from replicable_rl.wording import plural

_SEARCH = ("confidence", "start", "most", "shared_seeds", "seed", "store", "n_jobs")
_AUDIT = ("shared_seeds", "runs_per_seed", "seed", "confidence", "require", "level")
_JUDGED = ("require", "level", "confidence")  # what may be asked of runs that there are
_MAKING = ("store", "n_jobs", "on_error")
_FUNCTION = ("evaluate", "probe", "version")
_PROMISES = ("rho", "epsilon", "delta")  # of an algorithm; training code may be asked for them, too
_USUAL = {"epsilon": 0.05, "delta": 0.05, "rho": 0.2}

_PROBLEM = "An id (see `list`), id:key=value,..., a Gymnasium id, a saved .npz file"
ProblemWord = Annotated[str, Argument(metavar="PROBLEM", help=f"{_PROBLEM}.")]
ProblemOrLog = Annotated[str, Argument(metavar="PROBLEM", help=f"{_PROBLEM}, or a log.")]
AlgorithmWord = Annotated[str, Argument(metavar="ALGORITHM", help="An id (see `list`), or id:key=value,...")]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead.")]
Page = Annotated[Path | None, Option("--report", metavar="FILE", help="Also make a page, such as page.html.")]


@taking(seeds=("shared_seed", "sample_seed"), given=OF_ALGORITHMS, log=OF_LOGS)
def solve_command(
    problem: ProblemOrLog,
    algorithm: AlgorithmWord,
    output: Annotated[Path | None, Option("--save", metavar="FILE", help="Save the run, such as run.npz.")] = None,
    as_json: AsJson = False,
    *,
    asked: Asked,
) -> int:
    """Solve PROBLEM with ALGORITHM once, and show the policy and its fingerprints.

    PROBLEM may be a log: it is the sample, and --gamma, --state and so on say what its columns are.
    """
    if "shared_seed" not in asked["seeds"]:
        raise InvalidInput("solve: --shared-seed is missing: the published randomness, which runs that agree share.")
    chosen = algorithm_named(algorithm, asked["given"])
    refuse_early(output)
    with bar():
        solved = problem_or_log("solve", problem, asked["log"])
        run = solve(solved, chosen, **asked["seeds"])
    if output is not None:
        save(run, output)
    if as_json:
        print_json(_run_to_json(solved, run))
    else:
        print_blocks(list(_run_blocks(solved, run, problem)))
    return 0


@taking(given=OF_ALGORITHMS, log=OF_LOGS)
def plan_command(problem: ProblemOrLog, algorithm: AlgorithmWord, as_json: AsJson = False, *, asked: Asked) -> int:
    """Say what a run of ALGORITHM on PROBLEM takes, before drawing a sample.

    PROBLEM may be a log; --gamma, --state and so on say what its columns are.
    """
    chosen = algorithm_named(algorithm, asked["given"])
    with bar():
        solved = problem_or_log("plan", problem, asked["log"])
        planned = plan(solved, chosen)
    if as_json:
        print_json({"problem": solved.spec.to_json(), **planned.to_json()})
        return 0
    facts: list[tuple[str, Cell]] = [("algorithm", algorithm_spec(chosen).text), ("samples in all", planned.samples)]
    numbers = asdict(planned.numbers).items()
    facts += [(name.replace("_", " "), x) for name, x in numbers if type(x) in (int, float, str)]
    print_blocks([Heading(_title(solved, problem), 1), Facts([*facts, *_claims(planned.claims())])])
    return 0


@taking(seeds=("sample_seed",), given=OF_ALGORITHMS, log=OF_LOGS)
def publish_command(
    problem: ProblemOrLog,
    algorithm: AlgorithmWord,
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="Where the cuts go, such as cuts.npz.")],
    *,
    asked: Asked,
) -> int:
    """Choose one tolerance for each state on fresh samples, or on a log, for others to use on theirs.

    They give the file as the rule: `replicable-rl solve PROBLEM ALGORITHM --rule cuts.npz`.
    """
    chosen = algorithm_named(algorithm, asked["given"])
    if output.suffix != ".npz":
        raise InvalidInput(f"publish: --output must end in .npz, by which --rule knows cuts, got {output}.")
    refuse_early(output)
    with bar():
        solved = problem_or_log("publish", problem, asked["log"])
        cuts = publish(solved, chosen, **asked["seeds"])
    save(cuts, output)
    print_blocks([Heading(_title(solved, problem), 1), Text(repr(cuts))])
    print_note(f"{output}: others use it by --rule {shlex.quote(str(output))}.")
    return 0


# --- audits -------------------------------------------------------------------------------------------------------

_NAMES = Argument(
    metavar="PROBLEM|LOGS ALGORITHM|FUNCTION",
    help="What to solve: an id (see `list`), a saved .npz file, or two logs or more. Then an algorithm: an id; or "
    "training code, with or without a problem: module:function or file.py:function, of (shared_seed, sample_seed).",
)


@taking(settings=_AUDIT, making=_MAKING, function=_FUNCTION, given=OF_ALGORITHMS, log=OF_LOGS)
def audit_command(
    names: Annotated[list[str] | None, _NAMES] = None,
    details: Annotated[bool, Option("--details", help="Print also all levels, claims and settings.")] = False,
    as_json: AsJson = False,
    *,
    asked: Asked,
) -> int:
    """Measure how often two runs of ALGORITHM on PROBLEM agree, or of your own training FUNCTION, or several logs.

    Logs are first tested for being of one process; --gamma, --state and so on say what their columns are.

    With --store alone, judge the audits that the store holds: by what each of them requires, or by --require. Verdicts
    hold however often one looks, so an audit may be extended until there is one.

    Exit codes: 0 if what is required is shown, or nothing is required; 1 if it is refuted, or a claim of the runs is; 2
    if the input is bad; 3 if the runs cannot tell.
    """
    settings, making, level = asked["settings"], asked["making"], asked["settings"].get("level")
    store: Path | None = making.pop("store", None)
    if names:
        spec = _audit_named(names, asked, in_store=store is not None)
        try:
            with bar(), opened_store(store) as opened:
                results = list(run_audits([spec], opened, **making))
        except RunFailed as error:
            if error.traceback is not None:
                print_error(error.traceback.rstrip())
            raise
        if level is not None and results[0].levels:
            results[0].agreement(level)  # in every form, it says which levels there are
    else:
        others = {name: each for name, each in settings.items() if name not in _JUDGED}
        refuse("audit", others | making | asked["function"] | asked["given"] | asked["log"], "cannot change old runs.")
        results = [replace(result, spec=replace(result.spec, **settings)) for result in _read(store)]
        if level is not None and not any(level in result.levels for result in results):
            check_level("audit", level)  # a level of somebody's own needs no plugin if the runs have it
    if as_json:
        told = [result.to_json() for result in results]
        print_json(told[0] if names else told)
    else:
        for result in results:
            print_blocks(result.document() if names or details else [*summary_of(result), Text("")], details)
    verdicts = {not result.refuted and (result.spec.require is None or result.verdict(level)) for result in results}
    return next(EXIT_CODES[verdict] for verdict in (False, None, True) if verdict in verdicts)


def _audit_named(names: list[str], asked: Asked, *, in_store: bool) -> AuditSpec:
    """Return the audit that a command line describes."""
    given, log, function, settings = (asked[group] for group in ("given", "log", "function", "settings"))
    *solved, name = names
    if is_function(name):
        others = {key: value for key, value in (given | log).items() if key not in _PROMISES}
        refuse("audit", others, f"is for algorithms of this library and for logs, not for {name}.")
        return _training_named(solved, name, function | given, in_store=in_store, **settings)
    refuse("audit", function, "is for training code of your own, module:function.")
    if not solved or is_log(name):
        raise InvalidInput("audit: give PROBLEM and ALGORITHM, two logs or more and ALGORITHM, or module:function.")
    algorithm = algorithm_named(name, given)
    if len(solved) > 1:
        with bar():
            return audit_spec(from_logs(solved, **log_settings(log)), algorithm, in_store=in_store, **settings)
    refuse("audit", log, "is for logs. Give two logs or more, or one to `replicable-rl diagnose`.")
    return audit_spec(problem_named("audit", solved[0]), algorithm, in_store=in_store, **settings)


def _training_named(solved: list[str], name: str, function: dict[str, Any], **settings: Any) -> AuditSpec:
    """Return the audit of training code, on the problem that it solves, if that is said."""
    if len(solved) > 1:
        raise InvalidInput(f"audit: {name} takes seeds, not logs. Give it alone, or after one PROBLEM.")
    if word := function.get("evaluate"):
        function["evaluate"] = function_named("--evaluate", word) if is_function(word) else EpisodeReturns(word)
    if word := function.get("probe"):
        function["probe"] = function_named("--probe", word)
    train, problem = function_named("audit", name), problem_named("audit", solved[0]) if solved else None
    module, _, called = name.rpartition(":")
    return callable_spec(train, problem=problem, name=f"{Path(module).stem}:{called}", **function, **settings)


def _read(store: Path | None) -> list[AuditResult]:
    """Read the audits of a store; to open one where there is none would make it."""
    if store is None:
        raise InvalidInput("audit: give PROBLEM and ALGORITHM, two logs or more, module:function, or --store alone.")
    if not store.is_file() or not store.stat().st_size:
        raise InvalidFile(f"{store}: no such store. Name a problem and an algorithm to make one with --store.")
    with RunStore(store) as opened:
        results = list(read_audits(opened))
    if not results:
        raise InvalidFile(f"{store}: holds no audits. Name a problem and an algorithm to make one.")
    return results


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
    write_text(target, page(f"Audits in {store.name}", store_document(results), _command()))
    runs = sum(len(result.runs) for result in results)
    print_note(f"{target}: {plural(len(results), 'audit')}, {plural(runs, 'run')}. Open it in a browser.")
    return 0


# --- searches -----------------------------------------------------------------------------------------------------


@taking(settings=("shared_seed", "resamples", "seed"), given=("epsilon", "delta", "rho", "rule", "over"), log=OF_LOGS)
def diagnose_command(
    path: Annotated[
        str, Argument(metavar="LOG", help="A .csv, .jsonl or .parquet file, a folder of them, or a saved .npz file.")
    ],
    target: Annotated[float, Option(metavar="X", help="Agreement to find the data for.")] = 0.95,
    report: Page = None,
    as_json: AsJson = False,
    *,
    asked: Asked,
) -> int:
    """Say what LOG decides, and how likely another log decides alike.

    Also say in which states it may decide otherwise, and how many rows it takes.
    """
    algorithm = algorithm_named("plug-in-policy-v1", _USUAL | asked["given"])
    refuse_early(report)
    check_in_open_interval("diagnose", "--target", target)
    with bar():
        found = diagnose(log_named(path, asked["log"]), algorithm, **asked["settings"])
        found.data_needed(target)  # it takes long, and is known from now on
    _show(found, report, as_json)
    return 0


@taking(settings=("epsilon", "rho", "delta", "algorithms", "horizon", *_SEARCH))
def compare_command(problem: ProblemWord, report: Page = None, as_json: AsJson = False, *, asked: Asked) -> int:
    """Compare all rules and algorithms on PROBLEM: samples, losses, what is the same; and recommend one.

    Exit codes: 0 if one of them meets what is asked; 1 if none does; 2 if the input is bad; 3 if it cannot be told.
    """
    refuse_early(report)
    with bar():
        found = compare(problem_named("compare", problem), **asked["settings"])
    _show(found, report, as_json)
    return EXIT_CODES[found.met]


@taking(settings=_SEARCH, given=OF_ALGORITHMS)
def calibrate_command(
    problem: ProblemWord, algorithm: AlgorithmWord, report: Page = None, as_json: AsJson = False, *, asked: Asked
) -> int:
    """Find the smallest sample size at which two runs of ALGORITHM on PROBLEM agree and lose little.

    Two runs must agree with probability 1 - rho, and the policy must lose at most epsilon on average.

    Exit codes: 0 if a size was found; 1 if the largest is refuted; 2 if the input is bad; 3 if it cannot be told.
    """
    refuse_early(report)
    with bar():
        chosen = algorithm_named(algorithm, asked["given"])
        found = calibrate(problem_named("calibrate", problem), chosen, **asked["settings"])
    _show(found, report, as_json)
    return EXIT_CODES[found.met]


def _show(found: Calibration | Comparison | Diagnosis, report: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(found.to_json())
    else:
        print_blocks(found.document())
    if report is not None:
        found.save_page(report, _command())
        print_note(f"{report}: open it in a browser.")


def _command() -> str:
    return shlex.join(["replicable-rl", *sys.argv[1:]])


# --- the paper, and lists -------------------------------------------------------------------------------------------

EXPERIMENTS = [module.name for module in pkgutil.iter_modules(catalogue.__path__)]  # without loading them


def reproduce_command(
    names: Annotated[
        list[str] | None, Argument(metavar="NAME", help=f"{', '.join(EXPERIMENTS)}.  [default: all]")
    ] = None,
    output: Annotated[Path, Option(metavar="DIR", help="Where figures, data and runs go.")] = Path("results"),
    quick: Annotated[bool, Option("--quick", help="A small version, in seconds.")] = False,
    jobs: Annotated[int, Option(metavar="N", help="Worker processes; -1 for all cores.")] = -1,
) -> int:
    """Make every figure and table; finished runs are kept, and the same call draws from them."""
    from replicable_rl.experiments.experiment import NOT_HELD, Scale
    from replicable_rl.experiments.reproduction import chosen, reproduce, summary, write_page

    scale = Scale(quick)
    chosen(names or [])  # before anything is made
    output.mkdir(parents=True, exist_ok=True)
    everything = []
    coming = reproduce(names or [], output / "runs.sqlite", scale, n_jobs=jobs)
    while True:
        with bar():  # not around the printing: the bar would take what is printed to its own stream
            made = next(coming, None)
            if made is None:
                break
            made.experiment.save(made.data, output)
        everything.append(made)
        print_blocks([Heading(made.experiment.paragraphs[0], 2), *made.experiment.blocks(made.data), Text("")])
    everything.sort(key=lambda made: made.experiment.order)
    print_blocks(summary(everything, measured=False))
    words = ["replicable-rl reproduce", *(names or []), *(["--quick"] if quick else [])]
    path = write_page(everything, scale, output, " ".join(words))
    print_note(f"Figures, data and runs are in {output}{os.sep}; open {path} in a browser.")
    return int(any(made.experiment.headline and made.count(NOT_HELD) for made in everything))


def list_command() -> int:
    """List problems, algorithms, rules and levels, yours too."""
    blocks: list[Block] = []
    kinds: dict[str, Mapping[str, Any]] = {"problems": PROBLEMS, "algorithms": ALGORITHMS, "rules": SHIPPED}
    for name, kind in kinds.items():
        blocks += [Heading(name.capitalize()), Facts([(id, _described(thing)) for id, thing in kind.items()])]
    known = "Also a problem: a Gymnasium id, as FrozenLake-v1:gamma=0.95, and what rr.save wrote."
    implies = [[name, ", ".join(in_order(implied(name)))] for name in in_order(LEVELS)]
    print_blocks([*blocks, Table(["level", "two runs that agree on it also agree on"], implies), Text(known)])
    return 0


def _described(constructor: Any) -> str:
    """Return a summary, and the parameters, each with its default where that is a number or a text."""
    summary = inspect.cleandoc(constructor.__doc__ or "-").splitlines()[0]  # not that of its base
    defaults = {name: parameter.default for name, parameter in inspect.signature(constructor).parameters.items()}
    words = [f"{name}={x}" if type(x) in (int, float, str) else name for name, x in defaults.items()]
    return f"{summary} ({', '.join(words)})" if words else summary


# --- runs as documents --------------------------------------------------------------------------------------------


def _title(problem: TabularMDP | Dataset, name: str) -> str:
    return problem.spec.text if isinstance(problem, TabularMDP) else f"{name}, {plural(problem.rows, 'row')}"


def _names(problem: TabularMDP | Dataset) -> tuple[list[str], list[str]]:
    """Return the names of states and actions; what comes after the end of a log's episodes decides nothing."""
    last = problem.n_states - (isinstance(problem, Dataset) and problem.process.ends)
    states, actions = problem.labels.states or range(last), problem.labels.actions or range(problem.n_actions)
    return [str(state) for state in states][:last], [str(action) for action in actions]


def _run_blocks(problem: TabularMDP | Dataset, run: Run, name: str) -> Iterator[Block]:
    """Yield what was solved, the policy, how the run ended, what is claimed, and the fingerprints."""
    yield Heading(_title(problem, name), 1)
    if run.spec is not None:
        recorded = f"the {plural(problem.rows, 'row')} of the log" if isinstance(problem, Dataset) else None
        yield Text(run.spec.algorithm.text)
        yield Text(f"shared seed {run.shared_seed}, sample {recorded or f'seed {run.sample_seed}'}")
    if "policy" in run.outputs:
        states, actions = _names(problem)
        yield Policy(states, [("action", [actions[a] for a in run.policy[: len(states)]])], problem.labels.layout)
    prints = ((level, run.fingerprints[level]) for level in reversed(in_order(run.fingerprints)))
    yield Facts([("status", str(run.status)), *_claims(run.claims), ("samples", run.samples), *prints])


def _claims(claims: Claims) -> Iterator[tuple[str, Cell]]:
    """Yield what is claimed about accuracy and about replicability, or why nothing is, and about the shared seed."""
    for about, claim in (("accuracy", claims.accuracy), ("replicability", claims.replicability)):
        missing = claims.missing.get(about)
        yield about, str(claim or (f"nothing is proved: {cited(missing)}." if missing else "nothing is claimed."))
    if claims.of_this_seed is not None:
        yield "shared seed", str(claims.of_this_seed)


def _run_to_json(problem: TabularMDP | Dataset, run: Run) -> dict[str, Json]:
    """Return a run with its arrays; that of a log with its policy by the names of states and actions."""
    arrays = {level: run.outputs[level].tolist() for level in run.outputs if level not in ("model", "bytes")}
    told: dict[str, Json] = {**run.to_json(), "outputs": arrays}
    if isinstance(problem, Dataset) and "policy" in run.outputs:
        states, actions = problem.process.state_names, problem.process.action_names
        told["policy"] = {state: actions[a] for state, a in zip(states, run.policy.tolist(), strict=True)}
    return told
