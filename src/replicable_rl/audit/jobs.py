"""What a worker runs: a job, and the seeds to run it with.

A job of a registered problem and algorithm travels as two specs; the worker builds the objects
again and checks that the problem has the same content. What no spec can rebuild (a user's own
arrays, simulator, algorithm or training function) travels as it is.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from replicable_rl.canonical import canonical_json
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP
from replicable_rl.progress import listening
from replicable_rl.records import ObjectSpec, RunRecord, Solution
from replicable_rl.registry import make, make_algorithm
from replicable_rl.solve import algorithm_spec, solve
from replicable_rl.store.arrays import Encoded, encode_array, encode_history, encode_model, history_digest

__all__ = ["Job", "OnError", "Output", "SolveJob", "Task", "check_travels", "output_of", "run_chunk", "run_one_by_one"]

OnError = Literal["raise", "record"]
_MANY_ROWS = 20_000  # drawn in compiled loops: most of such a run leaves the interpreter to other threads


class Task(NamedTuple):
    """One run to make: its key and its seeds."""

    key: str
    shared_seed: int
    sample_seed: int


@dataclass(frozen=True)
class Output:
    """What a run yields: the fields of its record, and how to write its arrays, by fingerprint.

    Equal outputs are written once, so an array is encoded only when its fingerprint is new.
    """

    fields: dict[str, Any]
    arrays: dict[str, Callable[[], Encoded]]


class Job(Protocol):
    """Something that can be run with two seeds, here or in a worker."""

    def run(self, shared_seed: int, sample_seed: int) -> Output:
        """Run once."""
        ...


@dataclass(frozen=True)
class SolveJob:
    """Solve a problem with an algorithm; each is a spec, or an object that no spec rebuilds."""

    problem: ObjectSpec | Any
    algorithm: ObjectSpec | Any
    digest: str | None = None
    threads: bool = False  # whether runs leave the interpreter to others, so that threads do as well as processes

    @classmethod
    def of(cls, problem: Any, algorithm: Any) -> SolveJob:
        """Describe the job by specs where these rebuild the very same objects."""
        parts: list[Any] = [problem, algorithm]
        digest = None
        if isinstance(problem, TabularMDP) and _rebuilds(make, problem.spec, problem):
            parts[0], digest = problem.spec, problem.digest
        if _rebuilds(make_algorithm, algorithm_spec(algorithm), algorithm):
            parts[1] = algorithm_spec(algorithm)
        ours = isinstance(problem, TabularMDP) and isinstance(parts[1], ObjectSpec)  # and nobody's subclass
        threads = ours and hasattr(algorithm, "compiled_rows") and algorithm.compiled_rows(problem) >= _MANY_ROWS
        return cls(parts[0], parts[1], digest, threads)

    def run(self, shared_seed: int, sample_seed: int) -> Output:
        """Solve once."""
        problem, algorithm = self.problem, self.algorithm
        if isinstance(problem, ObjectSpec):
            problem = _problem(_text(problem), self.digest)
        if isinstance(algorithm, ObjectSpec):
            algorithm = _algorithm(_text(algorithm))
        solution = solve(problem, algorithm, shared_seed=shared_seed, sample_seed=sample_seed)
        if solution.q.shape != (problem.n_states, problem.n_actions):
            raise InvalidInput(
                f"{type(algorithm).__name__}: the problem has {problem.n_states} states and {problem.n_actions} "
                f"actions, the solution's q has shape {solution.q.shape}."
            )
        return output_of(solution)


def output_of(solution: Solution) -> Output:
    """Return a solution as a record's fields and arrays."""
    prints = solution.fingerprints
    arrays: dict[str, Callable[[], Encoded]] = {
        prints.policy: partial(encode_array, solution.policy),
        prints.value: partial(encode_array, solution.q),
    }
    fields: dict[str, Any] = {
        "policy": prints.policy,
        "value": prints.value,
        "model": prints.model,
        "samples": solution.samples,
        "status": solution.status,
        "guarantee": solution.guarantee,
    }
    if solution.model is not None and prints.model is not None:
        arrays[prints.model] = partial(encode_model, solution.model)
    if solution.history:
        fields["history"] = history_digest(solution.history)
        arrays[fields["history"]] = partial(encode_history, solution.history)
    return Output(fields, arrays)


def check_travels(job: Job) -> None:
    """Refuse a job that cannot be sent to another process, before a backend says so in its own way."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        dumps(job)
    except Exception as error:  # whatever an object raises when it is pickled
        raise InvalidInput(
            f"audit: this cannot be sent to a worker process ({type(error).__name__}: {error}). "
            "Use threads, or no workers, or keep it out of the problem and the algorithm."
        ) from None


def run_chunk(job: Job, tasks: Sequence[Task], on_error: OnError) -> tuple[list[RunRecord], dict[str, Encoded]]:
    """Run the tasks of a chunk; return the records and each distinct array once."""
    arrays: dict[str, Encoded] = {}
    return list(run_one_by_one(job, tasks, on_error, arrays)), arrays


def run_one_by_one(
    job: Job, tasks: Sequence[Task], on_error: OnError, arrays: dict[str, Encoded]
) -> Iterator[RunRecord]:
    """Run the tasks in order and add new arrays to ``arrays``; a failed one is the last, unless it is recorded."""
    for task in tasks:
        started = time.perf_counter()
        try:
            with listening(_nobody):  # the audit's own progress is runs, not iterations
                output = job.run(task.shared_seed, task.sample_seed)
        except (Exception, SystemExit) as error:
            seconds = time.perf_counter() - started
            yield RunRecord(*task, seconds=seconds, error=_describe(error))
            if on_error == "raise":
                return
        else:
            seconds = time.perf_counter() - started
            for digest, encode in output.arrays.items():
                if digest not in arrays:
                    arrays[digest] = encode()
            yield RunRecord(*task, seconds=seconds, **output.fields)


def _nobody(what: str, done: int, total: int) -> None:
    """Listen to nothing."""


def _describe(error: BaseException) -> str:
    """Say what went wrong in one line; where, if it was not our own refusal."""
    try:
        message = " ".join(str(error).split())[:500]
    except Exception:  # an exception that cannot even be written
        message = ""
    if isinstance(error, InvalidInput):
        return message
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"


def _rebuilds(constructor: Callable[..., Any], spec: ObjectSpec, original: Any) -> bool:
    try:
        return bool(constructor(spec.id, **spec.params) == original)
    except InvalidInput:
        return False


def _text(spec: ObjectSpec) -> str:
    return canonical_json(spec.to_json()).decode()


@lru_cache(maxsize=8)
def _problem(text: str, digest: str) -> TabularMDP:
    spec = _read_spec(text)
    problem = make(spec.id, **spec.params)
    if problem.digest != digest:
        raise InvalidInput(
            f"audit: {spec.text} is another problem on this worker than where the audit was started. "
            "Install the same versions of replicable-rl and Gymnasium."
        )
    return problem


@lru_cache(maxsize=8)
def _algorithm(text: str) -> Any:
    spec = _read_spec(text)
    return make_algorithm(spec.id, **spec.params)


def _read_spec(text: str) -> ObjectSpec:
    import json

    return ObjectSpec.from_json(json.loads(text))
