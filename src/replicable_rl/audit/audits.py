"""``audit``: run an algorithm under many shared seeds and samples, and say how often two runs agree.

The store is asked once what it has, and what it lacks is made. A store holds the specs of its audits, so that they are
read back without the program that made them. Where runs are missing, because an audit was interrupted or rows were
deleted, only the shared seeds before the first that lacks a run are compared: which other runs have finished may depend
on their outputs. How many seeds come before the first gap may depend on them, too, so a verdict goes by the interval
that holds at every look.

No program can tell whether code still does the same. So a store takes runs of somebody's own code only under a version
that its author names, and that version is the promise.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from replicable_rl.audit.evidence import (
    AuditSpec,
    FreshSamples,
    SeveralLogs,
    SolveJob,
    audits_of,
    repeats_of,
)
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.workers import OnError, Pristine, Queue, RunFailed, batches_of, kept_where
from replicable_rl.canonical import to_json
from replicable_rl.errors import InvalidFile, InvalidInput, check_choice, check_integer, speaking_as
from replicable_rl.logs import Dataset, align, compare_logs
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar, report
from replicable_rl.registry import ALGORITHMS, PROBLEMS, build, is_id, make
from replicable_rl.runs import (
    OURS,
    Algorithm,
    ObjectSpec,
    Run,
    RunFamily,
    Setting,
    algorithm_spec,
    check_level,
    inexact_setting,
    provider,
)
from replicable_rl.solve import refuse_other, refuse_unsampled, sampler_of, source_of
from replicable_rl.store import RunStore
from replicable_rl.wording import brief

StoreLike = str | os.PathLike[str] | RunStore | None
_MOST_STATES = 20_000  # of a problem that is built again for its names and returns


# --- the verb -----------------------------------------------------------------------------------------------------


@bar()
def audit(
    problem: Any,
    algorithm: Algorithm,
    *,
    shared_seeds: int | Sequence[int] = 60,
    runs_per_seed: int = 2,
    seed: int = 0,
    confidence: float = 0.95,
    rho: float | None = None,
    store: StoreLike = None,
    n_jobs: int | None = None,
    on_error: OnError = "raise",
) -> AuditResult:
    """Measure how replicable an algorithm is on a problem, or whether independent logs give one policy.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, a source of your own, or several logs
        What to solve. Several logs, a list of `Dataset` or a dictionary with their names, are compared with each other:
        every log decides under every shared seed. First of all they are tested for being of one process.
    algorithm : Algorithm
        Anything with ``solve(source, shared, rng)``.
    shared_seeds : int or list of int
        How many shared seeds J to draw from ``seed``, or the seeds themselves.
    runs_per_seed : int
        Runs R >= 2 on fresh samples under each shared seed. 2 with many shared seeds is a good default;
        more show the classes under one seed, as in the paper's figure. Of logs, R is their number.
    seed : int
        What all seeds follow from; another one makes an independent audit.
    confidence : float
        Of every interval.
    rho : float, optional
        The verdict says whether two runs agree with probability 1 - rho. None: what the algorithm promises; with
        neither, there is no verdict.
    store : path or RunStore, optional
        A file that keeps every finished run: the same call resumes and more seeds extend. A problem or an algorithm
        of your own needs a ``version`` there: nothing else tells its runs from those of changed code.
    n_jobs : int, optional
        Workers; -1 for all cores. None means what ``joblib.parallel_config`` says, or else this thread alone. They are
        processes; threads, Dask or Ray: ``with joblib.parallel_config(backend=...)``.
    on_error : {"raise", "record"}
        Whether a failing run ends the audit (finished runs are kept) or is recorded; a recorded
        failure counts as different from every other run.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> result = rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seeds=40)
    >>> result.agreement("policy").high < 0.8  # Phased Q-learning breaks ties by its samples
    True
    """
    spec = audit_spec(
        problem,
        algorithm,
        in_store=store is not None,
        shared_seeds=shared_seeds,
        runs_per_seed=runs_per_seed,
        seed=seed,
        confidence=confidence,
        **({} if rho is None else {"rho": rho}),
    )
    with opened_store(store) as opened:
        (result,) = run_audits([spec], opened, n_jobs=n_jobs, on_error=on_error)
    return result


def audit_spec(problem: Any, algorithm: Algorithm, *, in_store: bool = False, **settings: Any) -> AuditSpec:
    """Describe an audit of these very objects; ``settings`` are fields of `AuditSpec`.

    >>> import replicable_rl as rr
    >>> audit_spec(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3).size
    6
    """
    refuse_other("audit", algorithm)
    if "level" in settings:
        check_level("audit", settings["level"])
    if in_store:
        _refuse_nameless_algorithm(algorithm)
    if isinstance(problem, (Mapping, list, tuple)):
        if settings.pop("runs_per_seed", 2) not in (2, len(problem)):
            raise InvalidInput(f"audit: each of the {len(problem)} logs is one run. Leave runs_per_seed out.")
        settings["runs_per_seed"] = len(problem)
        problem, settings["evidence"], settings["job"] = _of_logs(problem, algorithm)
    elif not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"audit: problem must be a TabularMDP or a source, got {type(problem).__name__}.{hint}")
    elif isinstance(problem, Dataset):
        raise InvalidInput(
            "audit: needs fresh samples for every run, and these were recorded. Give several logs as a list, or use "
            "diagnose, which says of one log what another would decide."
        )
    else:
        refuse_unsampled(problem, algorithm)
        if in_store and type(problem) is TabularMDP:
            refuse_misnamed("audit", problem)
        elif in_store and problem.identity is not None:
            raise InvalidInput(f"audit: {problem.identity}")
        evidence, job = FreshSamples(sampler=sampler_of(problem)), SolveJob(problem, algorithm)
        settings = {"evidence": evidence, "job": job} | settings
    rho = vars(algorithm).get("rho")
    promised = float(rho) if isinstance(rho, (int, float)) and 0.0 < rho < 1.0 else None
    parts = [value for value in vars(algorithm).values() if isinstance(value, Setting)]
    foreign = any(provider(part) != OURS for part in (algorithm, *parts, problem, *problem.code))
    return AuditSpec(problem.spec, algorithm_spec(algorithm), foreign=foreign, **({"rho": promised} | settings))


def _refuse_nameless_algorithm(algorithm: Algorithm) -> None:
    """Refuse, for a store, an algorithm without an exact identity; say what to give it."""
    spec, name = algorithm_spec(algorithm), type(algorithm).__name__
    if ALGORITHMS.get(spec.id) is not type(algorithm) and not algorithm.version:
        refuse_nameless("audit", name, f"Register it under an id, or give {name} a class attribute version = '1'")
    for part in vars(algorithm).values():
        if isinstance(part, Setting) and provider(part) != OURS and not is_id(part.id):
            refuse_nameless("audit", f"{part.id!r} in {name}", f"Let its id end in the version, {part.id + '-v1'!r}")
    if setting := inexact_setting(algorithm):
        raise InvalidInput(
            f"audit: a store knows {name} by its settings, and JSON cannot say {setting!r}. Use numbers, texts, lists, "
            "arrays, or objects with an id and such settings; or leave the store out."
        )


def refuse_nameless(owner: str, what: str, remedy: str) -> None:
    """Refuse to keep runs of code that nobody gave a version."""
    raise InvalidInput(
        f"{owner}: {what} is code of your own, which a store knows only by the version that you give it. {remedy}, and "
        "change it whenever the code changes; or leave the store out."
    )


def refuse_misnamed(owner: str, table: TabularMDP) -> None:
    """Refuse to keep runs on a table that is called what another table is called."""
    digest = table.spec.params.get("digest") if table.spec.id == "mdp" else None
    with contextlib.suppress(InvalidInput):  # nothing is called so
        digest = digest or build(table.spec).digest
    if digest != table.digest:
        raise InvalidInput(
            f"{owner}: the table calls itself {brief(table.spec.text, 60)}, and what is registered under this name has "
            "other numbers. Make the table again, or build it without a name; or leave the store out."
        )


def _of_logs(logs: Any, algorithm: Algorithm) -> tuple[Dataset, SeveralLogs, SolveJob]:
    """Return one of the logs, which stands for their process, what is known of all, and what makes their runs."""
    with speaking_as("audit", "align", "compare_logs"):
        named = align(logs)
        first = next(iter(named.values()))
        source_of(first, algorithm)  # does the algorithm work on logs?
        evidence = SeveralLogs(logs=compare_logs(named))
    return first, evidence, SolveJob(first, algorithm, {data.sample.digest: data for data in named.values()})


@contextlib.contextmanager
def opened_store(store: StoreLike) -> Iterator[RunStore]:
    """Lend a store: the caller's own, which stays as it is, or the one in a file, which is closed afterwards."""
    opened = store if isinstance(store, RunStore) else RunStore(store)
    try:
        yield opened
    finally:
        if opened is not store and opened.path is not None:
            opened.close()


# --- the work -------------------------------------------------------------------------------------------------------


def run_audits(
    specs: Sequence[AuditSpec], store: RunStore, *, n_jobs: int | None = None, on_error: OnError = "raise"
) -> Iterator[AuditResult]:
    """Make the runs that a store lacks, and yield the results of the audits, one after the other.

    Parameters
    ----------
    specs : list of AuditSpec
        What to run, from :func:`audit_spec`; each is stored with its runs.
    store : RunStore
        Keeps every finished run: the same specs resume, and more seeds extend.
    n_jobs : int, optional
        Workers, as for :func:`replicable_rl.audit`.
    on_error : {"raise", "record"}
        Whether a failing run ends the work or is recorded.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> spec = audit_spec(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3)
    >>> (result,) = run_audits([spec], rr.RunStore())
    >>> len(result.runs)
    6
    """
    check_choice("audit", "on_error", on_error, ("raise", "record"))
    if n_jobs is not None and check_integer("audit", "n_jobs", n_jobs, low=-(2**15), high=2**15) == 0:
        raise InvalidInput("audit: n_jobs must be the number of workers, or -1 for one on every core; got 0.")
    for spec in specs:
        _check(spec, store)
    families = {family: store.runs(family) for family in dict.fromkeys(spec.family for spec in specs)}
    with Pristine({i: spec.job for i, spec in enumerate(specs) if spec.foreign and spec.job}) as pristine:
        for i, spec in enumerate(specs):
            finished = families[spec.family]
            if on_error == "raise":
                for key in [key for key, run in finished.items() if run.error is not None]:
                    del finished[key]
            before = set(finished)
            with bar():  # and not while somebody works on a result
                result = _completed(spec, store, finished, n_jobs, on_error)
                if spec.foreign:
                    result = _repeated(result, before, i, pristine)
            yield result


def _check(spec: AuditSpec, store: RunStore) -> None:
    """Refuse an audit whose runs cannot be made, or whose seeds were chosen after their runs were known."""
    if spec.job is None:
        raise InvalidInput("audit: the spec of this audit does not hold what makes its runs. Call audit with that.")
    if any(map(spec.picks_from, audits_of(store))):
        raise InvalidInput(
            f"audit: shared_seeds takes some of the seeds that {store.path or 'this store'} was asked for before, "
            "and leaves out others. Seeds chosen among those whose runs are known show nothing: begin with all of "
            "them, or list new ones, or use another store."
        )


def _completed(
    spec: AuditSpec, store: RunStore, finished: dict[str, Run], n_jobs: int | None, on_error: OnError
) -> AuditResult:
    """Make the runs of an audit that are not among the finished ones, and return what all of them show."""
    assert spec.job is not None, "it was checked"
    keys = spec.keys_of(spec.seeds)
    queue = Queue(spec.job, [spec.family.spec(*pair) for key, pair in keys.items() if key not in finished])
    with contextlib.suppress(*([] if len(queue) else [InvalidFile])):  # what cannot be written can be read
        store.add_audit(to_json(spec))
    number = len(keys) - len(queue)
    with contextlib.closing(batches_of(queue, store, n_jobs, on_error)) as batches:
        report("runs", number, len(keys))
        for made, contents, left in batches:
            store.add([run for run in made if run.error is None or on_error == "record"], contents)
            queue.take_back(left)
            for run in made:
                if run.error is not None and on_error == "raise":
                    which = f"run {1 + list(keys).index(run.key)} of {len(keys)}"
                    raise RunFailed(
                        f"audit: {which} (shared_seed={run.shared_seed}, {spec.evidence.sample_of(run)}) failed: "
                        f"{run.error.rstrip('.')}. Use on_error='record' to count failures and go on; "
                        f"{kept_where(store)}.",
                        run.traceback,
                    )
                finished[run.key] = run.kept(store.output)
            number += len(made)
            report("runs", number, len(keys))
    runs = tuple(finished[key] for key in keys)
    return AuditResult(spec, runs, store, len(runs), spec.job.mdp)


def _repeated(result: AuditResult, before: set[str], number: int, pristine: Pristine) -> AuditResult:
    """Make a few runs of somebody's own code again, unless all were there and some were made again before."""
    store, keys = result.store, {run.key for run in result.runs}
    again = repeats_of(store)
    if not keys <= before or keys.isdisjoint(repeat.run for repeat in again):
        again = pristine.repeats(number, result.runs, result.spec.runs_per_seed)
        with contextlib.suppress(InvalidFile):  # what cannot be written can be read
            store.add_repeats(map(list, again))
    return replace(result, repeats=tuple(dict.fromkeys((*again, *repeats_of(store)))))


# --- audits in a store ----------------------------------------------------------------------------------------------


def read_audits(store: RunStore) -> list[AuditResult]:
    """Return the audits that a store holds, as far as their runs have finished; of one that was extended, the largest.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> store = rr.RunStore()
    >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> (again,) = read_audits(store)
    >>> again.runs == result.runs, again.mdp == result.mdp, again.runs_asked
    (True, True, 6)
    """
    largest: dict[tuple[RunFamily, int, object], AuditSpec] = {}
    for spec in audits_of(store):
        before = largest.get(spec.samples_of)
        if before is None or spec.size >= before.size:
            largest[spec.samples_of] = spec
    families = {family: store.runs(family) for family in {spec.family for spec in largest.values()}}
    return [_read(store, spec, families[spec.family]) for spec in largest.values()]


def _read(store: RunStore, spec: AuditSpec, finished: Mapping[str, Run]) -> AuditResult:
    """Return what the runs before the first that is missing show."""
    asked, each = spec.size, spec.runs_per_seed
    there = list(itertools.takewhile(finished.__contains__, spec.keys_of(spec.seeds)))
    runs = [finished[key] for key in there[: len(there) - len(there) % each]]
    if 0 < len(runs) < asked:
        spec = replace(spec, shared_seeds=spec.seeds[: len(runs) // each])
    repeats = tuple(repeats_of(store)) if spec.foreign else ()
    policy = next((run.policy for run in runs if "policy" in run.fingerprints), None)
    mdp = None if policy is None else problem_of(spec.problem, policy)
    return AuditResult(spec, tuple(runs), store, asked, mdp, repeats=repeats)


def problem_of(spec: ObjectSpec, policy: NDArray[Any]) -> TabularMDP | None:
    """Build the problem that a policy is for, where its id is registered, it is not too large, and the policy fits."""
    if spec.id not in PROBLEMS or policy.ndim != 1 or policy.dtype.kind != "i" or policy.size > _MOST_STATES:
        return None
    with contextlib.suppress(InvalidInput, TypeError, ValueError):
        mdp = make(spec.id, **spec.params)
        if mdp.n_states == policy.size and policy.max() < mdp.n_actions:
            mdp.support.refuse_others("audit", policy)
            return mdp
    return None
