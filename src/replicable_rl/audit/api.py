"""``audit``: run an algorithm under many shared seeds and samples, and say how often two runs agree."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replicable_rl.audit.identity import code_digest
from replicable_rl.audit.jobs import Job, OnError, SolveJob, Task
from replicable_rl.audit.plan import AuditPlan, plan_audit
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.run import check_settings, finish
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import ObjectSpec, RunFamily, RunRecord
from replicable_rl.registry import ALGORITHMS
from replicable_rl.sampling import Simulator
from replicable_rl.sampling.problem import Problem
from replicable_rl.solve import Algorithm, algorithm_spec
from replicable_rl.store import RunStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["audit", "run_audit", "tasks_of"]

_SHARED = "what the algorithm draws from the shared seed"
_FRESH = "every sample"


def audit(
    problem: Any,
    algorithm: Algorithm,
    *,
    shared_seeds: int | Sequence[int] = 60,
    runs_per_seed: int = 2,
    seed: int = 0,
    confidence: float = 0.95,
    store: str | os.PathLike[str] | RunStore | None = None,
    n_jobs: int | None = None,
    on_error: OnError = "raise",
) -> AuditResult:
    """Measure how replicable an algorithm is on a problem.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or any GenerativeModel or EpisodicModel
        What to solve.
    algorithm : Algorithm
        Anything with ``solve(problem, shared, rng)``.
    shared_seeds : int or list of int
        How many shared seeds J to draw from ``seed``, or the seeds themselves.
    runs_per_seed : int
        Runs R >= 2 on fresh samples under each shared seed. 2 with many shared seeds is a good default;
        more show the classes under one seed, as in the paper's figure.
    seed : int
        What all seeds follow from; another one makes an independent audit.
    confidence : float
        Of every interval.
    store : path or RunStore, optional
        A file that keeps every finished run: the same call resumes and more seeds extend.
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
    if not isinstance(algorithm, Algorithm) or isinstance(algorithm, type):
        raise InvalidInput(
            f"audit: algorithm must be an object with solve(problem, shared, rng), got {algorithm!r}. "
            "Training code of another kind goes through audit_callable."
        )
    if not isinstance(problem, (TabularMDP, Problem)):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"audit: problem must be a TabularMDP or a sampler, got {type(problem).__name__}.{hint}")
    in_store = store is not None
    return run_audit(
        SolveJob.of(problem, algorithm),
        RunFamily(_problem_identity(problem, in_store), _algorithm_identity(algorithm, in_store)),
        plan_audit("audit", shared_seeds, runs_per_seed, seed, confidence),
        store=store,
        n_jobs=n_jobs,
        on_error=on_error,
        mdp=problem if isinstance(problem, TabularMDP) else None,
        rho=_promised(algorithm),
        randomness=(_SHARED, _FRESH),
    )


def _algorithm_identity(algorithm: Algorithm, in_store: bool) -> ObjectSpec:
    """Return the spec of an algorithm; one that is not registered is also known by its code."""
    spec = algorithm_spec(algorithm)
    if ALGORITHMS.get(spec.id) is type(algorithm):
        return spec
    return _with_code(spec.id, spec.params if dataclasses.is_dataclass(algorithm) else {}, algorithm, in_store)


def _problem_identity(problem: Any, in_store: bool) -> ObjectSpec:
    """Return the spec of a problem; a simulator is also known by the code of its step."""
    spec: ObjectSpec = problem.spec
    return _with_code(spec.id, spec.params, problem.step, in_store) if isinstance(problem, Simulator) else spec


def _with_code(id: str, params: Mapping[str, Json], subject: Any, in_store: bool) -> ObjectSpec:
    digest, unsayable = code_digest(subject)
    if unsayable and in_store:
        raise InvalidInput(
            f"audit: {id} uses {', '.join(unsayable)}, whose content has no exact form, so nothing would tell its runs "
            "in a store from those of other code. Give it plain parameters, as a dataclass, or leave the store out."
        )
    return ObjectSpec(id, {**params, "code": digest})


def _promised(algorithm: Algorithm) -> float | None:
    """Return the rho that an algorithm promises, if it has one that can be judged."""
    rho = getattr(algorithm, "rho", None)
    return float(rho) if isinstance(rho, (int, float)) and 0.0 < rho < 1.0 else None


def run_audit(
    job: Job,
    family: RunFamily,
    plan: AuditPlan,
    *,
    store: str | os.PathLike[str] | RunStore | None,
    n_jobs: int | None,
    on_error: OnError,
    mdp: TabularMDP | None,
    rho: float | None,
    randomness: tuple[str, str],
    probe: NDArray[Any] | None = None,
) -> AuditResult:
    """Make the runs that the store lacks, read all of them back, and say what they show."""
    check_settings(n_jobs, on_error)
    tasks = tasks_of(family, plan)
    opened = store if isinstance(store, RunStore) else RunStore(store)
    try:
        found = _records(opened, family)
        if any(task.key not in found or found[task.key].error is not None for task in tasks):
            finish(job, family, tasks, opened, n_jobs=n_jobs, on_error=on_error)
            found = _records(opened, family)
    finally:
        if opened is not store and opened.path is not None:
            opened.close()
    records = tuple(found[task.key] for task in tasks)
    return AuditResult(family, plan, records, opened, mdp, rho, *randomness, probe)


def _records(store: RunStore, family: RunFamily) -> dict[str, RunRecord]:
    """Return what is known of every run by its key; a success counts, whatever was before it."""
    with _without_collection():
        found = {record.key: record for record in store.failures(family)}
        return found | {record.key: record for record in store.runs(family)}


def tasks_of(family: RunFamily, plan: AuditPlan) -> list[Task]:
    """Return the runs of an audit in order, with their keys."""
    with _without_collection():
        return [Task(family.key(shared, sample), shared, sample) for shared, sample in plan.seeds]


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Make many small objects without cycles; the collector of cycles would go through all of them in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
