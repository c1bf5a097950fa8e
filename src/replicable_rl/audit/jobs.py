"""What makes the runs of an audit: a job, here or in a worker.

A job of a problem and an algorithm of this package travels as two specs; the worker builds the objects again and
checks that the problem has the same content. What no spec rebuilds everywhere (somebody's own arrays, simulator,
algorithm or training function) travels as it is.
"""

from __future__ import annotations

import contextlib
import functools
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from replicable_rl.audit.identity import own_source
from replicable_rl.canonical import canonical_json, parse_json
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP
from replicable_rl.progress import unheard
from replicable_rl.records import AuditSpec, ObjectSpec, Run, RunSpec, made_with
from replicable_rl.registry import ALGORITHMS, PROBLEMS, build, is_ours
from replicable_rl.solve import algorithm_spec
from replicable_rl.solve.run import solve_as
from replicable_rl.store import packed
from replicable_rl.wording import sentence

OnError = Literal["raise", "record"]
Contents = dict[str, bytes]
_OURS = Path(__file__).resolve().parent.parent  # this package
_THROUGH = (contextlib.__file__, functools.__file__)  # our code also runs through their decorators
_MANY_ROWS = 20_000  # drawn in compiled loops: most of such a run leaves the interpreter to other threads


class Job(Protocol):
    """Something that makes runs from their specs, here or in a worker."""

    @property
    def mdp(self) -> TabularMDP | None:
        """The problem where it is known as a table: policies are evaluated on it."""
        ...

    @property
    def threads(self) -> bool:
        """Whether runs leave the interpreter to others, so that threads do as well as processes."""
        ...

    def run(self, spec: RunSpec) -> Run:
        """Make one run; its identity and its time are added to it."""
        ...


@dataclass(frozen=True)
class SolveJob:
    """Solve a problem with an algorithm; each is a spec, or an object that no spec rebuilds."""

    problem: Any
    algorithm: Any
    digest: str | None = None
    threads: bool = False

    @classmethod
    def of(cls, problem: Any, algorithm: Any) -> SolveJob:
        """Describe the job by specs where these rebuild the very same objects everywhere."""
        parts: list[Any] = [problem, algorithm]
        digest, spec = None, algorithm_spec(algorithm)
        if isinstance(problem, TabularMDP) and _rebuilds(problem.spec, problem):
            parts[0], digest = problem.spec, problem.digest
        if _rebuilds(spec, algorithm):
            parts[1] = spec
        ours = isinstance(problem, TabularMDP) and isinstance(parts[1], ObjectSpec)  # and nobody's subclass
        threads = ours and hasattr(algorithm, "compiled_rows") and algorithm.compiled_rows(problem) >= _MANY_ROWS
        return cls(parts[0], parts[1], digest, threads)

    def __reduce__(self) -> tuple[type[SolveJob], tuple[Any, ...]]:
        return SolveJob, (self.problem, self.algorithm, self.digest, self.threads)  # not what was built here

    @property
    def mdp(self) -> TabularMDP | None:
        """The problem, where it is a table."""
        problem = self._built[0]
        return problem if isinstance(problem, TabularMDP) else None

    @functools.cached_property
    def _built(self) -> tuple[Any, Any]:
        """The problem and the algorithm themselves."""
        problem, algorithm = (
            _rebuilt(canonical_json(part.to_json()).decode(), digest) if isinstance(part, ObjectSpec) else part
            for part, digest in ((self.problem, self.digest), (self.algorithm, None))
        )
        return problem, algorithm

    def run(self, spec: RunSpec) -> Run:
        """Solve once."""
        return solve_as(spec, *self._built)


def with_job(spec: AuditSpec) -> AuditSpec:
    """Return an audit with what makes its runs, and what can be seen of it: as it came, or as its ids have it now."""
    if spec.job is not None:
        return spec
    if spec.logs is not None:
        raise InvalidInput(
            "audit: the spec of an audit over logs does not hold the logs. Give them: audit([...], ...)."
        )
    problem, algorithm = build(spec.problem), build(spec.algorithm)
    return replace(spec, job=SolveJob.of(problem, algorithm), code=own_source(problem, algorithm))


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


def run_chunk(job: Job, specs: Sequence[RunSpec], on_error: OnError) -> tuple[list[Run], Contents]:
    """Make the runs of a chunk; return them without their outputs, and each distinct output once."""
    contents: Contents = {}
    return list(run_one_by_one(job, specs, on_error, contents)), contents


def run_one_by_one(job: Job, specs: Sequence[RunSpec], on_error: OnError, contents: Contents) -> Iterator[Run]:
    """Make runs in order and add new outputs to ``contents``; a failed one is the last, unless it is recorded."""
    context = unheard()  # the audit's own progress is runs, not iterations
    for spec in specs:
        started = time.perf_counter()
        try:
            run = context.run(job.run, spec)
        except (Exception, SystemExit) as error:
            seconds = time.perf_counter() - started
            yield Run.failed(spec, _describe(error), seconds, traceback=_traceback(error))
            if on_error == "raise":
                return
        else:
            # The spec of the audit: somebody's own code is known there by the name that its author gave it.
            yield packed(run, contents, spec=spec, made_with=made_with(), seconds=time.perf_counter() - started)


def _describe(error: BaseException) -> str:
    """Say what went wrong in one line; where, if it was not our own refusal."""
    try:
        message = sentence(error) + "." * str(error).rstrip().endswith(".")
    except Exception:  # an exception that cannot even be written
        message = ""
    if isinstance(error, InvalidInput):
        return message
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"


def _traceback(error: BaseException) -> str | None:
    """Return the traceback as Python prints it, from somebody's own code on; None where all of it is ours."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None:
        return None
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:  # an exception that cannot even be written
        lines = [*traceback.format_tb(frames), type(error).__name__]
    return "".join(lines).encode("utf-8", "backslashreplace").decode()


def _is_ours(file: str) -> bool:
    """Whether code of this package, or what it runs through, is in a file."""
    return file in _THROUGH or Path(file).is_relative_to(_OURS)


def _rebuilds(spec: ObjectSpec, original: Any) -> bool:
    """Whether the spec makes an equal object on every machine that has this package."""
    known = PROBLEMS.get(spec.id) or ALGORITHMS.get(spec.id)
    if not (spec.id.startswith("gymnasium/") if known is None else is_ours(known)):
        return False
    try:
        return bool(build(spec) == original)
    except InvalidInput:
        return False


@functools.lru_cache(maxsize=16)
def _rebuilt(text: str, digest: str | None = None) -> Any:
    """Build what a spec says, once on a worker; a problem must have the digest that it had where it was named."""
    made = build(ObjectSpec.from_json(parse_json(text)))
    if digest is not None and made.digest != digest:
        raise InvalidInput(
            f"audit: {made.spec.text} is another problem on this worker than where the audit was started. "
            "Install the same versions of replicable-rl and Gymnasium."
        )
    return made
