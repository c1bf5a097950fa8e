"""``audit``: run an algorithm under many shared seeds and samples, and say how often two runs agree.

The store is asked once what it has, and what it lacks is made. A store holds the specs of its audits, so that they are
read back without the program that made them. Where runs are missing, because an audit was interrupted or rows were
deleted, only the shared seeds before the first that lacks a run are compared: which other runs have finished may depend
on what they found. How many seeds come before the first gap may depend on that, too, so a verdict goes by the interval
that holds at every look.

No program can tell whether code still does the same. So a store takes runs of somebody's own code only under a version
that its author names, and that version is the promise. A source that has changed under the same version is warned of,
and one that has not proves nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import itertools
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from numpy.typing import NDArray

from replicable_rl.audit.evidence import (
    AuditSpec,
    FreshSamples,
    Job,
    LogsJob,
    SeveralLogs,
    SolveJob,
    audits_of,
    repeats_of,
)
from replicable_rl.audit.repeats import Pristine
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.workers import OnError, Queue, RunFailed, batches_of, kept_where
from replicable_rl.canonical import to_json
from replicable_rl.errors import InvalidFile, InvalidInput, check_choice, check_integer, speaking_as
from replicable_rl.logs import Dataset, align, compare_logs
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar, report
from replicable_rl.registry import ALGORITHMS, PROBLEMS, build, make
from replicable_rl.runs import (
    OURS,
    Algorithm,
    ObjectSpec,
    Run,
    RunFamily,
    RunSpec,
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
_GYMNASIUM = "gymnasium/"
_AT_ONCE = 1000  # shared seeds whose runs are looked up: a file may ask for very many, and hold few


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
        if in_store:
            _refuse_nameless(problem)
        evidence, job = FreshSamples(sampler=sampler_of(problem)), SolveJob(problem, algorithm)
        settings = {"evidence": evidence, "job": job} | settings
    rho = vars(algorithm).get("rho")
    promised = float(rho) if isinstance(rho, (int, float)) and 0.0 < rho < 1.0 else None
    code = own_source(problem, algorithm)
    return AuditSpec(problem.spec, algorithm_spec(algorithm), code=code, **({"rho": promised} | settings))


def _of_logs(logs: Any, algorithm: Algorithm) -> tuple[Dataset, SeveralLogs, LogsJob]:
    """Return one of the logs, which stands for their process, what is known of all, and what makes their runs."""
    with speaking_as("audit", "align", "compare_logs"):
        named = align(logs)
        first = next(iter(named.values()))
        source_of(first, algorithm)  # does the algorithm work on logs?
        evidence = SeveralLogs(logs=compare_logs(named))
    return first, evidence, LogsJob({data.sample.digest: data for data in named.values()}, algorithm)


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
    """Make the runs that a store lacks, and yield the results of the audits in their order, each when it is whole.

    Parameters
    ----------
    specs : list of AuditSpec
        What to run; each is stored with its runs.
    store : RunStore
        Keeps every finished run: the same specs resume, and more seeds extend.
    n_jobs : int, optional
        Workers, as for :func:`replicable_rl.audit`.
    on_error : {"raise", "record"}
        Whether a failing run ends the work or is recorded.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> from replicable_rl.audit.evidence import AuditSpec
    >>> from replicable_rl.runs import ObjectSpec
    >>> spec = AuditSpec(ObjectSpec("chain-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1, "delta": 0.01}), 3)
    >>> (result,) = run_audits([spec], rr.RunStore())
    >>> len(result.runs)
    6
    """
    with contextlib.closing(_results(specs, store, n_jobs, on_error)) as results:
        while True:
            with bar():  # and not while somebody works on a result
                result = next(results, None)
            if result is None:
                return
            yield result


def _results(
    specs: Sequence[AuditSpec], store: RunStore, n_jobs: int | None, on_error: OnError
) -> Generator[AuditResult, None, None]:
    check_choice("audit", "on_error", on_error, ("raise", "record"))
    if n_jobs is not None and check_integer("audit", "n_jobs", n_jobs, low=-(2**15), high=2**15) == 0:
        raise InvalidInput("audit: n_jobs must be the number of workers, or -1 for one on every core; got 0.")
    audits = _opened(specs, store, on_error)
    with Pristine({i: audit.job for i, audit in enumerate(audits) if audit.again}) as pristine:
        results = enumerate(audits)
        waiting = next(results, None)
        for _ in _made(audits, store, n_jobs, on_error):
            while waiting is not None and waiting[1].is_whole:
                yield waiting[1].result(store, waiting[0], pristine)
                waiting = next(results, None)


def _made(audits: Sequence[_Audit], store: RunStore, n_jobs: int | None, on_error: OnError) -> Iterator[None]:
    """Make what is missing; stop now and then for those who look which audits are whole."""
    yield
    lacking = [audit for audit in audits if audit.missing]
    queue = Queue([(audit.job, audit.missing) for audit in lacking], store)
    total = sum(audit.spec.size for audit in audits)
    finished = total - len(queue)
    if not len(queue):
        return
    report("runs", finished, total)
    with contextlib.closing(batches_of(queue, store, n_jobs, on_error)) as batches:
        for number, runs, contents in batches:
            new = store.add([run for run in runs if run.error is None or on_error == "record"], contents)
            rivals = new < sum(run.error is None for run in runs)
            lacking[queue.take_back(number, len(runs), rivals=rivals)].take(runs, store)
            finished += len(runs)
            report("runs", min(finished, total), total)
            yield
    for audit in lacking:  # what another process made meanwhile
        if not audit.is_whole:
            audit.finished.update(store.runs(audit.spec.family))
    yield


@dataclass(eq=False)
class _Audit:
    """An audit under way: its runs in order, which of them have finished, and which are missing."""

    spec: AuditSpec
    job: Job
    finished: dict[str, Run]  # of the whole family, shared with other audits of it
    keys: list[str]
    on_error: OnError
    missing: list[RunSpec] = field(default_factory=list)
    prefix: int = 0  # so many runs, from the first on, have finished
    again: bool = False  # whether a few are to be made again

    def take(self, runs: Sequence[Run], store: RunStore) -> None:
        """Take in finished runs; the first that failed ends the work, unless failures are recorded."""
        for run in runs:
            self.finished[run.key] = run.kept(store.output)
            if run.error is not None and self.on_error == "raise":
                sample = ", ".join(f"{name}={value}" for name, value in self.spec.evidence.sample_of(run).items())
                which = f"run {1 + self.keys.index(run.key)} of {len(self.keys)}"
                raise RunFailed(
                    f"audit: {which} (shared_seed={run.shared_seed}, {sample}) failed: {run.error.rstrip('.')}. "
                    f"Use on_error='record' to count failures and go on; {kept_where(store)}.",
                    run.traceback,
                )

    @property
    def is_whole(self) -> bool:
        """Whether every run has finished."""
        keys, last = self.keys, len(self.keys)
        self.prefix = next((i for i in range(self.prefix, last) if keys[i] not in self.finished), last)
        return self.prefix == last

    def result(self, store: RunStore, number: int, pristine: Pristine) -> AuditResult:
        """Return what the runs show, a few of which are made again where code may remember."""
        runs = tuple(self.finished[key] for key in self.keys)
        again = pristine.repeats(number, runs, self.spec.runs_per_seed) if self.again else []
        with contextlib.suppress(InvalidFile):  # what cannot be written can be read
            store.add_repeats(map(list, again))
        repeats = tuple(dict.fromkeys((*again, *repeats_of(store)))) if self.spec.may_remember else ()
        return AuditResult(self.spec, runs, store, len(runs), self.job.mdp, self.job.observations, repeats)


def _opened(specs: Sequence[AuditSpec], store: RunStore, on_error: OnError) -> list[_Audit]:
    """Look up, once, what the store has of every audit, and keep the specs in it."""
    kept, repeated = audits_of(store), {repeat.run for repeat in repeats_of(store)}
    families = {family: store.runs(family) for family in dict.fromkeys(spec.family for spec in specs)}
    asked: set[str] = set()
    audits = []
    for spec in map(_with_job, specs):
        _warn_of_other_source(spec, kept, store.path or "this store")
        if any(map(spec.picks_from, kept)):
            raise InvalidInput(
                f"audit: shared_seeds takes some of the seeds that {store.path or 'this store'} was asked for before, "
                "and leaves out others. Seeds chosen among those whose runs are known show nothing: begin with all of "
                "them, or list new ones, or use another store."
            )
        keys, finished = spec.keys_of(spec.seeds), families[spec.family]
        if on_error == "raise":
            for key in [key for key, run in finished.items() if run.error is not None and key in keys]:
                del finished[key]
        assert spec.job is not None
        audit = _Audit(spec, spec.job, finished, list(keys), on_error)
        lacking = [key for key in keys if key not in finished]
        audit.missing = [spec.family.spec(*keys[key]) for key in lacking if key not in asked]
        audit.again = spec.may_remember and (bool(lacking) or repeated.isdisjoint(keys))
        asked.update(lacking)
        audits.append(audit)
    for audit in audits:
        with contextlib.suppress(*([] if audit.missing else [InvalidFile])):  # what cannot be written can be read
            store.add_audit(to_json(audit.spec))
    return audits


def _with_job(spec: AuditSpec) -> AuditSpec:
    """Return an audit with what makes its runs, as it came, or as its ids have it now."""
    if spec.job is not None:
        return spec
    problem, algorithm = spec.evidence.parts(spec)
    return replace(spec, job=SolveJob(problem, algorithm), code=own_source(problem, algorithm))


# --- audits in a store ----------------------------------------------------------------------------------------------


def read_audits(
    store: RunStore, *, confidence: float | None = None, wanted: Callable[[AuditSpec], bool] = lambda spec: True
) -> list[AuditResult]:
    """Return the audits that a store holds, as far as their runs have finished.

    Parameters
    ----------
    store : RunStore
        What audits were kept in.
    confidence : float, optional
        Of every interval; None means what each audit asked for.
    wanted : callable, optional
        Which specs to read.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> store = rr.RunStore()
    >>> result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> (again,) = read_audits(store)
    >>> again.runs == result.runs, again.mdp == result.mdp, again.runs_asked
    (True, True, 6)
    """
    chosen = [spec for spec in current(audits_of(store)) if wanted(spec)]
    families = {family: store.runs(family) for family in {spec.family for spec in chosen}}
    asked = chosen if confidence is None else [replace(spec, confidence=confidence) for spec in chosen]
    return [_read(store, spec, families[spec.family]) for spec in asked]


def current(specs: Sequence[AuditSpec]) -> list[AuditSpec]:
    """Leave out audits that a later or larger one answers: it contains their runs, and asks what they ask."""
    families: dict[RunFamily, list[tuple[int, AuditSpec]]] = defaultdict(list)
    for i, spec in enumerate(specs):
        families[spec.family].append((i, spec))
    return [
        spec
        for i, spec in enumerate(specs)
        if not any(
            other.answers(spec) and (j > i or not spec.answers(other)) for j, other in families[spec.family] if j != i
        )
    ]


def _read(store: RunStore, spec: AuditSpec, finished: Mapping[str, Run]) -> AuditResult:
    """Return what the runs before the first that is missing show."""
    asked, each, runs, whole = spec.size, spec.runs_per_seed, list[Run](), True
    order = spec.each_seed()
    while whole and (seeds := list(itertools.islice(order, _AT_ONCE))):
        there = list(itertools.takewhile(finished.__contains__, spec.keys_of(seeds)))
        runs += [finished[key] for key in there[: len(there) - len(there) % each]]
        whole = len(there) == len(seeds) * each
    if 0 < len(runs) < asked:
        spec = spec.first(len(runs) // each)
    repeats = tuple(repeats_of(store)) if spec.may_remember else ()
    return AuditResult(spec, tuple(runs), store, asked, _problem(spec.problem, runs), repeats=repeats)


def _problem(spec: ObjectSpec, runs: Sequence[Run]) -> TabularMDP | None:
    """Build the problem again where an id says how and a policy of its runs fits."""
    policy = next((run.policy for run in runs if "policy" in run.fingerprints), None)
    return None if policy is None else problem_of(spec, policy)


def problem_of(spec: ObjectSpec, policy: NDArray[Any]) -> TabularMDP | None:
    """Build the problem that a policy is for, where an id says how, it is not too large, and the policy fits."""
    if policy.ndim != 1 or policy.dtype.kind != "i" or policy.size > _MOST_STATES:
        return None
    if spec.id not in PROBLEMS and not _is_toy(spec.id):
        return None  # a file may name anything: other ids could name a module to import
    with contextlib.suppress(InvalidInput, TypeError, ValueError, MemoryError):
        mdp = make(spec.id, **spec.params)
        if mdp.n_states == policy.size and policy.max() < mdp.n_actions:
            mdp.support.refuse_others("audit", policy)
            return mdp
    return None


def _is_toy(id: str) -> bool:
    """Whether an id names one of Gymnasium's own problems with a table."""
    if not id.startswith(_GYMNASIUM):
        return False
    import gymnasium

    spec = gymnasium.registry.get(id.removeprefix(_GYMNASIUM))
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs.toy_text")


# --- somebody's own code --------------------------------------------------------------------------------------------


class ChangedSource(UserWarning):
    """The source of somebody's own code has changed, and its version has not."""


def refuse_nameless(owner: str, what: str, remedy: str) -> None:
    """Refuse to keep runs of code that nobody gave a version."""
    raise InvalidInput(
        f"{owner}: {what} is code of your own, which a store knows only by the version that you give it. {remedy}, and "
        "change it whenever the code changes; or leave the store out."
    )


def refuse_misnamed(owner: str, table: TabularMDP) -> None:
    """Refuse to keep runs on a table whose source names a problem that has other numbers."""
    spec = table.spec
    try:
        digest = spec.params.get("digest") if spec.id == "mdp" else build(spec).digest
    except InvalidInput:  # there is no such problem
        digest = None
    if digest != table.digest:
        raise InvalidInput(
            f"{owner}: the table calls itself {brief(spec.text, 60)}, which is another problem. Leave its source out "
            "(a store then knows it by its numbers), or register it under an id of its own; or leave the store out."
        )


def own_source(problem: Source, algorithm: Algorithm) -> str | None:
    """Return the digest of the source of the parts of an audit that are not this package's; None if all are."""
    parts = [value for value in vars(algorithm).values() if isinstance(value, Setting)]
    return source_digest(algorithm, *parts, problem, *problem.code)


def source_digest(*parts: object) -> str | None:
    """Return the digest of the source of functions, and of the classes of objects; None where nothing is to be seen.

    >>> source_digest(functools.partial(brief, longest=3)) is source_digest(max) is None  # ours, and Python's
    True
    """
    texts = []
    for thing in parts:
        part: Any = thing
        while isinstance(part, functools.partial):
            part = part.func
        part = part if isinstance(part, (type, FunctionType, MethodType, BuiltinFunctionType)) else type(part)
        if provider(part) != OURS:
            try:
                texts.append(inspect.getsource(part))
            except (OSError, TypeError):  # compiled, or typed in where nothing is kept
                continue
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16] if texts else None


def _warn_of_other_source(spec: AuditSpec, kept: Iterable[AuditSpec], where: str) -> None:
    """Warn of runs in a store whose code had another source under the same version."""
    sources = {other.code for other in kept if other.family == spec.family and other.code is not None}
    if spec.code is not None and sources - {spec.code}:
        warnings.warn(
            f"The source of {brief(spec.algorithm.id, 60)}, or of what it is run on, is another than when its runs in "
            f"{where} were made. If it computes something else now, give it another version.",
            ChangedSource,
            stacklevel=2,
        )


def _refuse_nameless_algorithm(algorithm: Algorithm) -> None:
    """Refuse, for a store, an algorithm without an exact identity; say what to give it."""
    spec, name = algorithm_spec(algorithm), type(algorithm).__name__
    if ALGORITHMS.get(spec.id) is not type(algorithm) and not algorithm.version:
        refuse_nameless("audit", name, f"Register it under an id, or give {name} a class attribute version = '1'")
    if setting := inexact_setting(algorithm):
        raise InvalidInput(
            f"audit: a store knows {name} by its settings, and JSON cannot say {setting!r}. Use numbers, texts, lists, "
            "arrays, or objects with an id and such settings; or leave the store out."
        )


def _refuse_nameless(problem: Source) -> None:
    """Refuse, for a store, a problem without an exact identity; say what to give it."""
    if isinstance(problem, TabularMDP):
        refuse_misnamed("audit", problem)
    elif lacks := problem.identity:
        raise InvalidInput(f"audit: {lacks}")
