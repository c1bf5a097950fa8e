"""``run_audits``: make the runs that audits still lack, store them, and say what all of them show.

The store is asked once what it has. What it lacks is made in chunks that last a fraction of a second, so that fast runs
do not drown in overhead and a killed audit repeats little; slow runs travel one by one. The order in which runs finish
has no influence on any result: runs are looked up by their keys.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from replicable_rl.audit.evidence import AuditSpec, audits_of, repeats_of
from replicable_rl.audit.identity import warn_of_other_source
from replicable_rl.audit.jobs import Contents, Job, OnError, run_one_by_one, with_job
from replicable_rl.audit.repeats import Pristine
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.workers import Batch, Chunk, RunFailed, kept_where, on_workers, wants_workers
from replicable_rl.canonical import to_json
from replicable_rl.errors import InvalidFile, InvalidInput, check_integer, shown
from replicable_rl.progress import bar_where_it_is_seen, report
from replicable_rl.runs import Run, RunSpec
from replicable_rl.store import RunStore

_COMMIT_EVERY = 0.2  # seconds of finished runs that a kill may cost
_CHUNK = 0.5  # seconds that a chunk should take on a worker
_LARGEST_CHUNK = 2000
_FIRST_CHUNK = 8  # runs of an audit whose pace is not known, where those before it were fast
_FAST = 0.01  # seconds of a run


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
            with bar_where_it_is_seen():  # and not while somebody works on a result
                result = next(results, None)
            if result is None:
                return
            yield result


def _results(
    specs: Sequence[AuditSpec], store: RunStore, n_jobs: int | None, on_error: OnError
) -> Generator[AuditResult, None, None]:
    if on_error not in ("raise", "record"):
        raise InvalidInput(f"audit: on_error must be 'raise' or 'record', got {shown(on_error)}.")
    if n_jobs is not None and check_integer("audit", "n_jobs", n_jobs, low=-(2**15), high=2**15) == 0:
        raise InvalidInput("audit: n_jobs (--jobs) must be the number of workers, or -1 for one on every core; got 0.")
    audits = _opened(specs, store, on_error)
    with Pristine({i: audit.job for i, audit in enumerate(audits) if audit.again}) as pristine:
        yield from _made(audits, _Waiting(audits, pristine), store, n_jobs, on_error)


def _made(
    audits: Sequence[_Audit], waiting: _Waiting, store: RunStore, n_jobs: int | None, on_error: OnError
) -> Iterator[AuditResult]:
    """Make what is missing, and yield the results of audits that are whole."""
    yield from waiting.whole(store)
    queue = _Queue([audit for audit in audits if audit.missing], store)
    if not queue.size:
        return
    workers = wants_workers(n_jobs) and queue.size > 1
    batches = on_workers(queue.chunks, queue.jobs, store, n_jobs, on_error) if workers else _here(queue, on_error)
    total = sum(audit.spec.size for audit in audits)
    finished = total - queue.size
    report("runs", finished, total)
    with contextlib.closing(batches):
        for number, runs, contents in batches:
            new = store.add([run for run in runs if run.error is None or on_error == "record"], contents)
            queue.learn(number, runs, rivals=new < sum(run.error is None for run in runs))
            queue.audits[number].take(runs, store)
            finished += len(runs)
            report("runs", min(finished, total), total)
            yield from waiting.whole(store)
    for audit in queue.audits:  # what another process made meanwhile
        audit.found |= store.runs(audit.spec.family) if not audit.is_whole else {}
    yield from waiting.whole(store)


@dataclass(eq=False)
class _Audit:
    """An audit under way: its runs in order, which of them are there, and which are missing."""

    spec: AuditSpec
    job: Job
    found: dict[str, Run]  # of the whole family, shared with other audits of it
    keys: list[str]
    on_error: OnError
    missing: list[RunSpec] = field(default_factory=list)
    shape: str | None = None  # what the first run returned, where all must return the same
    there: int = 0  # so many runs, from the first on, are there
    again: bool = False  # whether a few are to be made again

    def take(self, runs: Sequence[Run], store: RunStore) -> None:
        """Take in finished runs; the first that failed ends the work, unless failures are recorded."""
        for run in runs:
            self.found[run.key] = run.kept(store.output)
            self._checked(run, store)

    def _checked(self, run: Run, store: RunStore) -> Run:
        """Return a run; one that returned arrays of another shape than the first has failed."""
        shape = None if run.error is not None else self.job.shape_of(run)
        self.shape = self.shape or shape
        if shape not in (None, self.shape) and run.spec is not None:
            run = Run.failed(run.spec, f"train: the first run returned {self.shape}, this one {shape}.", run.seconds)
        if run.error is not None and self.on_error == "raise":
            raise self._failed(run, store)
        return run

    def _failed(self, run: Run, store: RunStore) -> RunFailed:
        number = 1 + self.keys.index(run.key)
        sample = f"sample_seed={run.sample_seed}" if self.spec.logs is None else self.spec.logs.name_of(run)
        seeds = f"shared_seed={run.shared_seed}, {sample}"
        return RunFailed(
            f"audit: run {number} of {len(self.keys)} ({seeds}) failed: {(run.error or '').rstrip('.')}. "
            f"Use on_error='record' to count failures and go on; {kept_where(store)}.",
            run.traceback,
        )

    @property
    def is_whole(self) -> bool:
        """Whether every run is there."""
        keys, found, last = self.keys, self.found, len(self.keys)
        self.there = next((i for i in range(self.there, last) if keys[i] not in found), last)
        return self.there == last

    def result(self, store: RunStore, number: int, pristine: Pristine) -> AuditResult:
        """Return what the runs show, a few of which are made again where code may remember."""
        runs = tuple(self.found[key] for key in self.keys)
        self.shape = None  # the first to finish need not be the first
        runs = tuple(self._checked(run, store) for run in runs)
        again = pristine.repeats(number, runs, self.spec.runs_per_seed) if self.again else []
        if again:
            with contextlib.suppress(InvalidFile):  # what cannot be written can be read
                store.add_repeats(map(list, again))
        repeats = tuple(dict.fromkeys((*again, *repeats_of(store)))) if self.spec.may_remember else ()
        return AuditResult(self.spec, runs, store, len(runs), self.job.mdp, self.job.observations, repeats)


def _opened(specs: Sequence[AuditSpec], store: RunStore, on_error: OnError) -> list[_Audit]:
    """Look up, once, what the store has of every audit, and keep the specs in it."""
    known, repeated, specs = audits_of(store), repeats_of(store), [with_job(spec) for spec in specs]
    families = {family: store.runs(family) for family in dict.fromkeys(spec.family for spec in specs)}
    for spec in specs:
        warn_of_other_source(spec, known, store.path or "this store")
        if any(map(spec.picks_from, known)):
            raise InvalidInput(
                f"audit: shared_seeds takes some of the seeds that {store.path or 'this store'} was asked for before, "
                "and leaves out others. Seeds chosen among those whose runs are known show nothing: begin with all of "
                "them, or list new ones, or use another store."
            )
    asked: set[str] = set()
    audits = []
    for spec in specs:
        keys = spec.keys_of(spec.seeds)
        audit = _Audit(spec, spec.job, families[spec.family], list(keys), on_error)
        if on_error == "raise":
            for key in [key for key, run in audit.found.items() if run.error is not None and key in keys]:
                del audit.found[key]
        for key in itertools.filterfalse(audit.found.__contains__, keys):
            if key not in asked:  # those of two audits are made once
                audit.missing.append(spec.family.spec(*keys[key]))
        if spec.may_remember:
            audit.again = bool(keys.keys() - audit.found.keys()) or not {one.run for one in repeated} & keys.keys()
        asked.update(run.digest for run in audit.missing)
        audits.append(audit)
    for audit in audits:
        with contextlib.suppress(*([] if audit.missing else [InvalidFile])):  # what cannot be written can be read
            store.add_audit(to_json(audit.spec))
    return audits


class _Waiting:
    """The audits whose results are still to be yielded, in order."""

    def __init__(self, audits: Sequence[_Audit], pristine: Pristine) -> None:
        self._audits, self._pristine = list(reversed(list(enumerate(audits)))), pristine

    def whole(self, store: RunStore) -> Iterator[AuditResult]:
        """Yield the results of those that come next and are whole."""
        while self._audits and self._audits[-1][1].is_whole:
            number, audit = self._audits.pop()
            yield audit.result(store, number, self._pristine)


class _Queue:
    """The runs still to make, handed out in chunks that last about as long as asked."""

    def __init__(self, audits: Sequence[_Audit], store: RunStore) -> None:
        self.audits, self.store = audits, store
        self.jobs = [audit.job for audit in audits]
        self.size = sum(len(audit.missing) for audit in audits)
        self._left = [list(reversed(audit.missing)) for audit in audits]  # taken from the end
        self._paces = [[0.0, 0.0] for _ in audits]  # seconds, runs
        self._seconds = self._runs = 0.0
        self._lock = threading.Lock()  # joblib asks for work from threads of its own

    def learn(self, number: int, runs: Sequence[Run], *, rivals: bool) -> None:
        """Take note of how long runs last, and get out of the way of another process."""
        with self._lock:
            seconds = sum(run.seconds for run in runs)
            before = self._paces[number]  # counts half: the first run may have waited for a compiler
            self._paces[number] = [before[0] / 2.0 + seconds, before[1] / 2.0 + len(runs)]
            self._seconds, self._runs = self._seconds + seconds, self._runs + len(runs)
            if rivals:  # it works in the same order and would be met at every chunk
                random.Random().shuffle(self._left[number])

    def chunks(self, workers: int) -> Iterator[Chunk]:
        """Yield chunks until no run is left; what another process finished meanwhile is left out."""
        for number in self._one_of_each() if workers > 1 else ():
            yield from self._chunk(number, 1)
        for number, left in enumerate(self._left):
            while left:
                size = max(1, min(self._size(number), _LARGEST_CHUNK, -(-len(left) // (2 * workers))))
                yield from self._chunk(number, size)

    def _one_of_each(self) -> Iterable[int]:
        """Return one audit of every algorithm: workers that begin with different ones compile different things."""
        return {audit.spec.algorithm.id: number for number, audit in reversed(list(enumerate(self.audits)))}.values()

    def _chunk(self, number: int, size: int) -> Iterator[Chunk]:
        with self._lock:
            left = self._left[number]
            chunk = [left.pop() for _ in range(min(size, len(left)))]
        if self.store.path is not None:
            with contextlib.suppress(InvalidFile):  # nobody hears a thread of joblib's; the next `add` says it
                finished = self.store.finished(spec.digest for spec in chunk)
                chunk = [spec for spec in chunk if spec.digest not in finished]
        if chunk:
            yield number, self.jobs[number], chunk

    def _size(self, number: int) -> int:
        """How many runs of an audit last about as long as a chunk should."""
        seconds, runs = self._paces[number]
        if runs:
            return int(_CHUNK * runs / seconds) if seconds else _LARGEST_CHUNK
        return _FIRST_CHUNK if self._runs and self._seconds / self._runs < _FAST else 1


def _here(queue: _Queue, on_error: OnError) -> Generator[Batch, None, None]:
    """Run in this process; yield what has finished every so often, and what is left when interrupted."""
    for number, job, chunk in queue.chunks(workers=1):
        runs: list[Run] = []
        contents: Contents = {}
        since = time.monotonic()
        making = run_one_by_one(job, chunk, on_error, contents)
        while True:
            try:
                runs.append(next(making))
            except StopIteration:
                break
            except BaseException:
                if runs:  # Ctrl-C: what has finished is kept
                    yield number, runs, contents
                raise
            if time.monotonic() - since >= _COMMIT_EVERY:
                yield number, runs, contents
                runs, since = [], time.monotonic()
                contents.clear()  # they are stored
        if runs:
            yield number, runs, contents
