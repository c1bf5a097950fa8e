"""What makes the runs of an audit: a job, here or in a worker."""

from __future__ import annotations

import contextlib
import functools
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.audit.identity import own_source
from replicable_rl.errors import InvalidInput
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import unheard
from replicable_rl.registry import build
from replicable_rl.runs import OURS, Algorithm, Run, RunSpec, is_our_file, made_with, provider
from replicable_rl.solve import solve_as
from replicable_rl.store import packed
from replicable_rl.wording import sentence

OnError = Literal["raise", "record"]
Contents = dict[str, bytes]
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

    @property
    def observations(self) -> Any:
        """What functions are compared on; None where nothing returns functions."""
        ...

    def run(self, spec: RunSpec) -> Run:
        """Make one run; its identity and its time are added to it."""
        ...

    def shape_of(self, run: Run) -> str | None:
        """Say in which shape a run returned its tables, where all runs must return one shape."""
        ...

    def anew(self) -> Job:
        """Return the job with what its modules hold since they were imported again."""
        ...


class Solving:
    """What the jobs have in common that solve: an algorithm returns tables of the problem's shape."""

    observations: None = None

    def shape_of(self, run: Run) -> None:
        """Say nothing."""

    def anew(self) -> Self:
        """Return the job as it is."""
        return self


@dataclass(frozen=True)
class SolveJob(Solving):
    """Solve a problem with an algorithm."""

    problem: Any
    algorithm: Algorithm

    @property
    def mdp(self) -> TabularMDP | None:
        """The problem, where it is a table."""
        return self.problem if isinstance(self.problem, TabularMDP) else None

    @property
    def threads(self) -> bool:
        """Whether runs are long and compiled."""
        ours = self.mdp is not None and provider(self.algorithm) == OURS
        return ours and self.algorithm.compiled_rows(self.mdp) >= _MANY_ROWS

    def run(self, spec: RunSpec) -> Run:
        """Solve once."""
        return solve_as(spec, self.problem, self.algorithm)


def with_job(spec: AuditSpec) -> AuditSpec:
    """Return an audit with what makes its runs, and what can be seen of it: as it came, or as its ids have it now."""
    if spec.job is not None:
        return spec
    if spec.logs is not None:
        raise InvalidInput(
            "audit: the spec of an audit over logs does not hold the logs. Give them: audit([...], ...)."
        )
    problem, algorithm = build(spec.problem), build(spec.algorithm)
    return replace(spec, job=SolveJob(problem, algorithm), code=own_source(problem, algorithm))


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
    while frames is not None and _leads_on(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None:
        return None
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:  # an exception that cannot even be written
        lines = [*traceback.format_tb(frames), type(error).__name__]
    return "".join(lines).encode("utf-8", "backslashreplace").decode()


def _leads_on(file: str) -> bool:
    """Whether code of this package, or what it runs through, is in a file."""
    return file in _THROUGH or is_our_file(file)
