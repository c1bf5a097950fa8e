"""Where experiments get their runs: one store, several processes, one progress bar.

An experiment's plan is data, a list of :class:`Study`. The :class:`Lab` makes the runs that its store lacks
and gives back audits of all of them. Studies travel to worker processes whole (their specs, never objects)
and commit to the store as they go, so a killed reproduction goes on where it was, and a finished one only
reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicable_rl.audit import AuditResult, RunFailed, audit
from replicable_rl.audit.api import tasks_of
from replicable_rl.audit.backends import check_n_jobs
from replicable_rl.audit.plan import AuditPlan, plan_audit
from replicable_rl.errors import check_integer
from replicable_rl.mdp import TabularMDP
from replicable_rl.progress import listening, report
from replicable_rl.records import ObjectSpec, RunFamily
from replicable_rl.registry import make, make_algorithm
from replicable_rl.solve import Algorithm, algorithm_spec
from replicable_rl.store import RunStore

__all__ = ["CONFIDENCE", "SHARED_SEED", "Lab", "Scale", "Study"]

SHARED_SEED = 2023  # the published seed, where one is enough
CONFIDENCE = 0.95  # of every interval
_FEW = 200  # runs that are made before worker processes are even there


@dataclass(frozen=True)
class Scale:
    """How much to run: the paper's size, or a small version that shows the same in seconds.

    Attributes
    ----------
    runs : int
        Runs under one shared seed, where classes of identical outputs are counted.
    quick : bool
        Whether plans leave out points.
    """

    runs: int = 150
    quick: bool = False

    @classmethod
    def of(cls, runs: int | None = None, quick: bool = False) -> Scale:
        """Return the scale that was asked for, or the usual one."""
        usual = 30 if quick else 150
        return cls(usual if runs is None else check_integer("reproduce", "--runs", runs, low=2, high=10**6), quick)

    @property
    def pairs(self) -> int:
        """Pairs of runs, each with its own shared seed, where agreement is estimated: 100 at the usual size."""
        return max(2, 2 * self.runs // 3)

    def some(self, points: Sequence[int], every: int = 2) -> tuple[int, ...]:
        """Return all points of an axis, or every second one of a quick version; the last is always there."""
        return tuple(points) if not self.quick else tuple(reversed(tuple(reversed(points))[::every]))


@dataclass(frozen=True)
class Study:
    """One audit as data: an algorithm on a problem, under how many shared seeds, how many runs under each.

    ``about`` is what the experiment wants to know again of it: the coordinates of a point of a figure.
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    shared_seeds: int | tuple[int, ...]
    runs_per_seed: int = 2
    seed: int = 0
    about: tuple[tuple[str, str | int | float], ...] = field(default=())

    @property
    def point(self) -> dict[str, Any]:
        """The coordinates of this study in its experiment."""
        return dict(self.about)

    @property
    def size(self) -> int:
        """Runs in all."""
        return len(self.plan.shared_seeds) * self.runs_per_seed

    @property
    def plan(self) -> AuditPlan:
        """The seeds."""
        return plan_audit("reproduce", self.shared_seeds, self.runs_per_seed, self.seed, CONFIDENCE)

    def objects(self) -> tuple[TabularMDP, Algorithm]:
        """Build problem and algorithm from their specs."""
        return make(self.problem.id, **self.problem.params), make_algorithm(self.algorithm.id, **self.algorithm.params)

    def audit(self, store: str | RunStore) -> AuditResult:
        """Make the runs that a store lacks, in this process, and return all of them."""
        problem, algorithm = self.objects()
        return audit(
            problem,
            algorithm,
            shared_seeds=self.shared_seeds,
            runs_per_seed=self.runs_per_seed,
            seed=self.seed,
            confidence=CONFIDENCE,
            store=store,
            n_jobs=1,
        )


class Lab:
    """Makes studies and keeps their runs.

    Parameters
    ----------
    store : path
        The SQLite file of all runs.
    n_jobs : int
        Worker processes; -1 for all cores.
    expected : int
        Runs of everything that will be asked for, for the progress bar.
    """

    def __init__(self, store: str | os.PathLike[str], *, n_jobs: int = -1, expected: int = 0) -> None:
        self.store = RunStore(store)
        self._path = str(Path(store))
        self._n_jobs = n_jobs if check_n_jobs(n_jobs) is not None else 1
        self._expected, self._done = expected, 0

    def audits(self, studies: Sequence[Study]) -> list[AuditResult]:
        """Return an audit of every study; what the store has is read, the rest is run first."""
        lacking = {study: missing for study in dict.fromkeys(studies) if (missing := self._missing(study))}
        self._advance(sum(study.size for study in studies) - sum(lacking.values()))
        here = self._n_jobs == 1 or sum(lacking.values()) <= _FEW
        for made in self._here(lacking) if here else self._on_workers(lacking):
            self._advance(lacking[made])
        return [study.audit(self.store) for study in studies]

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _missing(self, study: Study) -> int:
        problem, algorithm = study.objects()
        tasks = tasks_of(RunFamily(problem.spec, algorithm_spec(algorithm)), study.plan)
        return len(tasks) - len(self.store.finished(task.key for task in tasks))

    def _advance(self, runs: int) -> None:
        self._done += runs
        report("runs", self._done, max(self._done, self._expected))

    def _here(self, studies: Iterable[Study]) -> Iterator[Study]:
        for study in studies:
            with listening(_nobody):  # the bar shows the runs of the whole reproduction
                study.audit(self.store)
            yield study

    def _on_workers(self, studies: Iterable[Study]) -> Iterator[Study]:
        """Run whole studies on processes: they are too short to be worth splitting."""
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        calls = (joblib.delayed(_make)(study, self._path) for study in studies)
        try:
            yield from joblib.Parallel(n_jobs=self._n_jobs, batch_size=1, return_as="generator_unordered")(calls)
        except TerminatedWorkerError:
            raise RunFailed(
                "reproduce: a worker process died, by a signal or for want of memory. Finished runs are kept in "
                f"{self._path}, and the same command resumes; --jobs 1 needs the least memory."
            ) from None


def _make(study: Study, store: str) -> Study:
    """Make a study in a worker; its runs travel through the store."""
    with listening(_nobody):
        study.audit(store)
    return study


def _nobody(what: str, done: int, total: int) -> None:
    """Listen to nothing."""
