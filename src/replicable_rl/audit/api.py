"""``audit``: run an algorithm under many shared seeds and samples, and say how often two runs agree."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.audit.identity import own_source, refuse_misnamed, refuse_nameless
from replicable_rl.audit.jobs import OnError, SolveJob
from replicable_rl.audit.logs import opened_logs
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.run import run_audits
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Dataset
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar_where_it_is_seen
from replicable_rl.registry import ALGORITHMS
from replicable_rl.runs import OWN, Algorithm, check_level
from replicable_rl.runs.specs import algorithm_spec, inexact_setting
from replicable_rl.solve import refuse_other, refuse_unsampled, sampler_of
from replicable_rl.store import RunStore

StoreLike = str | os.PathLike[str] | RunStore | None


@bar_where_it_is_seen()
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
        Workers; -1 for all cores. They are processes, or threads where nearly all of a run is compiled (phased value
        iteration over a table that is not small). None means what ``joblib.parallel_config`` says, or else this
        thread alone. Another backend, Dask or Ray: ``with joblib.parallel_config(backend=...)``.
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
    if isinstance(problem, (Mapping, list, tuple)):
        return _logs_spec(problem, algorithm, in_store=in_store, **settings)
    if not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"audit: problem must be a TabularMDP or a source, got {type(problem).__name__}.{hint}")
    if isinstance(problem, Dataset):
        raise InvalidInput(
            "audit: needs fresh samples for every run, and these were recorded. Give several logs as a list, or use "
            "diagnose, which says of one log what another would decide."
        )
    if "level" in settings:
        check_level("audit", settings["level"])
    refuse_unsampled(problem, algorithm)
    if in_store:
        _refuse_nameless_algorithm(algorithm)
        _refuse_nameless(problem)
    return AuditSpec(
        problem.spec,
        algorithm_spec(algorithm),
        sampler=sampler_of(problem),
        code=own_source(problem, algorithm),
        job=SolveJob(problem, algorithm),
        **{"rho": _promised(algorithm), **settings},
    )


@contextlib.contextmanager
def opened_store(store: StoreLike) -> Iterator[RunStore]:
    """Lend a store: the caller's own, which stays as it is, or the one in a file, which is closed afterwards."""
    opened = store if isinstance(store, RunStore) else RunStore(store)
    try:
        yield opened
    finally:
        if opened is not store and opened.path is not None:
            opened.close()


def _logs_spec(logs: Any, algorithm: Algorithm, *, in_store: bool, **settings: Any) -> AuditSpec:
    """Describe an audit of logs: every one of them is a run under every shared seed."""
    if settings.pop("runs_per_seed", 2) not in (2, len(logs)):
        raise InvalidInput(
            f"audit: each of the {len(logs)} logs is one run under every shared seed. Leave runs_per_seed (--runs) out."
        )
    if "level" in settings:
        check_level("audit", settings["level"])
    if in_store:
        _refuse_nameless_algorithm(algorithm)
    data, record, job = opened_logs(logs, algorithm)
    return AuditSpec(
        data.spec,
        algorithm_spec(algorithm),
        sampler=OWN,
        code=own_source(data, algorithm),
        logs=record,
        fresh="every log",
        job=job,
        **{"rho": _promised(algorithm), **settings},
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


def _promised(algorithm: Algorithm) -> float | None:
    """Return the rho that an algorithm promises, if it has one that can be judged."""
    rho = getattr(algorithm, "rho", None)
    return float(rho) if isinstance(rho, (int, float)) and 0.0 < rho < 1.0 else None
