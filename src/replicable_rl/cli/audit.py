"""The command ``replicable-rl audit``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicable_rl.cli.options import (
    AsJson,
    Store,
    build_algorithm,
    given_options,
    refuse_early,
    whole,
    with_algorithm_options,
)
from replicable_rl.cli.output import print_all
from replicable_rl.errors import InvalidInput, check_in_open_interval, did_you_mean
from replicable_rl.files import replacing, write_csv
from replicable_rl.records import LEVELS

if TYPE_CHECKING:
    from replicable_rl.audit import AuditResult
    from replicable_rl.audit.sweep import Sweep

__all__ = ["audit_command"]


@with_algorithm_options
def audit_command(
    problem: Annotated[
        str | None, typer.Argument(help="An id, id:key=value,..., a Gymnasium id or a .npz file.")
    ] = None,
    algorithm: Annotated[str | None, typer.Argument(help="An id (see `list`), or id:key=value,...")] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML plan of many audits instead.")] = None,
    shared_seeds: Annotated[str | None, typer.Option(help="How many shared seeds J [default: 60].")] = None,
    shared_seed: Annotated[list[str] | None, typer.Option(help="A shared seed itself; may be repeated.")] = None,
    runs: Annotated[str | None, typer.Option(help="Runs R on fresh samples under each seed [default: 2].")] = None,
    seed: Annotated[str | None, typer.Option(help="What all seeds follow from [default: 0].")] = None,
    confidence: Annotated[float | None, typer.Option(help="Of every interval [default: 0.95].")] = None,
    store: Store = None,
    jobs: Annotated[int | None, typer.Option(help="Workers; -1 for all cores.")] = None,
    backend: Annotated[str | None, typer.Option(help="processes, threads, dask or ray [default: processes].")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask or Ray cluster.")] = None,
    require: Annotated[float | None, typer.Option(help="Exit with 1 unless this agreement is shown.")] = None,
    level: Annotated[str, typer.Option(help="What must agree: model, value or policy.")] = "policy",
    on_error: Annotated[str, typer.Option(help="raise, or record failures and go on.")] = "raise",
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a row for every run.")] = None,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
) -> int:
    """Measure how often two runs of ALGORITHM on PROBLEM agree; with --store alone, list what it holds."""
    from replicable_rl.audit.backends import use_backend
    from replicable_rl.cli.progress import progress_bar

    asked = dict(locals())
    if require is not None:
        check_in_open_interval("audit", "--require", require)
    if level not in LEVELS:
        raise InvalidInput(
            f"audit: --level must be one of {', '.join(LEVELS)}, got {level!r}.{did_you_mean(level, LEVELS)}"
        )
    if csv_file is not None and (csv_file.is_file() or not csv_file.exists()):  # a pipe is opened once only
        refuse_early(replacing(csv_file))
    if store is not None and store.exists() and plan is None and problem is None and algorithm is None:
        return _list_store(store)
    sweep = _sweep(plan, problem, algorithm, given)
    settings = _settings(asked)
    workers = use_backend(backend, scheduler, jobs) if backend else _no_backend(scheduler)
    n_jobs = None if backend in ("dask", "ray") else jobs
    results: list[AuditResult] = []
    with _saying_what_is_kept(store), workers, progress_bar():
        for result in sweep.run(store=store, n_jobs=n_jobs, **settings):
            results.append(result)
            if plan is not None and not as_json:
                _print_line(len(results), len(sweep), result, level, require)
    if csv_file is not None:
        _write_csv(csv_file, results)
    met = all(result.levels and result.meets(require, level) for result in results) if require is not None else True
    if as_json:
        data = [result.to_json() for result in results]
        print_all(json.dumps(data if plan is not None else data[0], allow_nan=False))
    elif plan is None:
        print_all(results[0].table(level, require=require))
        if sys.stdout.isatty():
            print_all(f"Time of all runs: {results[0].seconds:.3g} s.")
    return 0 if met else 1


def _sweep(plan: Path | None, problem: str | None, algorithm: str | None, given: dict[str, Any]) -> Sweep:
    from replicable_rl.audit.sweep import Sweep, load_plan
    from replicable_rl.registry import resolve_problem

    if plan is not None:
        named = {"problem": problem, "algorithm": algorithm}
        also = [name for name, text in named.items() if text is not None] + given_options(given)
        if also:
            raise InvalidInput(f"audit: {', '.join(also)} cannot be given beside --plan; write it into {plan}.")
        return load_plan(plan)
    if problem is None or algorithm is None:
        raise InvalidInput("audit: give PROBLEM and ALGORITHM, or --plan FILE. Try `replicable-rl audit --help`.")
    return Sweep((resolve_problem(problem),), (build_algorithm(algorithm, given),))


def _list_store(store: Path) -> int:
    """Print which audits a store holds, and how many pairs of runs agree."""
    from replicable_rl.audit.tables import listing
    from replicable_rl.store import RunStore

    with RunStore(store) as opened:
        families = opened.summary()
    print_all("\n".join(listing(families)) if families else f"{store} holds no finished runs.")
    return 0


def _settings(asked: dict[str, Any]) -> dict[str, Any]:
    """The size of the audits, where the command line says something about it."""
    settings: dict[str, Any] = {"on_error": asked["on_error"]}
    if asked["shared_seed"]:
        if asked["shared_seeds"] is not None:
            raise InvalidInput("audit: give --shared-seeds, how many, or --shared-seed, which, but not both.")
        settings["shared_seeds"] = [whole("--shared-seed", text) for text in asked["shared_seed"]]
    for name, option in (("shared_seeds", "--shared-seeds"), ("runs", "--runs"), ("seed", "--seed")):
        if asked[name] is not None:
            settings["runs_per_seed" if name == "runs" else name] = whole(option, asked[name])
    if asked["confidence"] is not None:
        settings["confidence"] = asked["confidence"]
    return settings


def _no_backend(scheduler: str | None) -> contextlib.AbstractContextManager[None]:
    if scheduler is not None:
        raise InvalidInput("audit: --scheduler is the address of a cluster; say which kind with --backend dask or ray.")
    return contextlib.nullcontext()


@contextlib.contextmanager
def _saying_what_is_kept(store: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if store is not None and store.exists():
            print(f"Finished runs are kept in {store}; the same command resumes.", file=sys.stderr)
        raise


def _print_line(number: int, total: int, result: AuditResult, level: str, require: float | None) -> None:
    from replicable_rl.audit.tables import summary_lines

    print_all("\n".join(summary_lines(f"{number}/{total}", result, level, require)))


def _write_csv(path: Path, results: Sequence[AuditResult]) -> None:
    rows = [
        {"problem": result.problem.text, "algorithm": result.algorithm.text, **row}
        for result in results
        for row in result.rows()
    ]
    write_csv(path, rows)
