"""What an audit runs, what is asked of it, and the three kinds of evidence that its runs can be.

Replicability is a probability over two samples *and* over the shared randomness r, so an audit takes J shared seeds
and R >= 2 samples for each. All seeds follow from the audit's own ``seed``: the same spec asks for the same runs and so
resumes, more shared seeds or more runs extend it, and another ``seed`` is an independent audit.

The samples of two runs are drawn for them (:class:`FreshSamples`), were recorded (:class:`SeveralLogs`), or are drawn
by training code (:class:`TrainingCode`). Whatever depends on that is a method of the evidence.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from replicable_rl.audit.agreement import Agreement, Outputs, measure, measure_logs
from replicable_rl.canonical import from_record
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, shown
from replicable_rl.logs import Logs
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs import (
    COUNTS,
    OWN,
    Algorithm,
    Logged,
    ObjectSpec,
    PromisedLoss,
    Run,
    RunFamily,
    RunSpec,
    put,
)
from replicable_rl.solve import solve_as
from replicable_rl.store import RunStore
from replicable_rl.wording import Displayed, brief, p_value, percent, plural, short_repr

_MOST = 10**7  # runs of an audit
_LOGS = 6  # logs that are named
_NAME = 40  # letters of a name


# --- what makes the runs ------------------------------------------------------------------------------------------


class Job(ABC):
    """Something that makes runs from their specs, here or in a worker."""

    mdp: TabularMDP | None = None  # the problem where it is known as a table: policies are evaluated on it
    algorithm: Algorithm | None = None
    estimated: bool = False  # whether the problem was itself estimated from data

    @abstractmethod
    def run(self, spec: RunSpec) -> Run:
        """Make one run; its identity and its time are added to it."""


class SolveJob(Job):
    """Solve a problem with an algorithm, or decide on the log, one of ``logs`` by their digests, that a run names."""

    algorithm: Algorithm

    def __init__(self, problem: Any, algorithm: Algorithm, logs: Mapping[str, Any] | None = None) -> None:
        self.problem, self.algorithm, self.logs = problem, algorithm, logs or {}
        self.mdp = problem if isinstance(problem, TabularMDP) else None
        self.estimated = not self.logs and problem.trust.estimated

    def run(self, spec: RunSpec) -> Run:
        """Solve once."""
        problem = self.logs[spec.sample.digest] if isinstance(spec.sample, Logged) else self.problem
        return solve_as(spec, problem, self.algorithm)


# --- kinds of evidence --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence(ABC):
    """What the runs of an audit are compared on.

    ``shared`` and ``fresh`` say which randomness the runs of a pair have in common, and which they do not.
    """

    shared: str = "what the algorithm draws from the shared seed"
    fresh: str = "every sample"

    seeds_end: ClassVar[int] = MAX_SEED + 1
    noun: ClassVar[str] = "run"
    pairs: ClassVar[str] = "pairs"
    advice: ClassVar[Mapping[str, str]] = {}  # what to do after a verdict, where that is special

    @property
    @abstractmethod
    def drawn_by(self) -> str | None:
        """The sampler in the identity of the runs; None where their samples were recorded."""

    @property
    def basis(self) -> object:
        """Equal where the same seeds stand for the same samples."""
        return self.seeds_end

    @property
    def stale(self) -> str:
        """Why nothing is fresh, as far as that is known before the runs."""
        return ""

    @property
    def differ(self) -> bool:
        """Whether a test denies that the samples are of one process."""
        return False

    @property
    def process(self) -> str:
        """Whether the samples are of one process, where that is a question."""
        return ""

    @property
    def subject(self) -> str:
        """What the runs are about, where that is not the problem alone."""
        return ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of what is measured."""
        return ()

    @property
    def promised(self) -> PromisedLoss | None:
        """The loss that was asked for beside agreement."""
        return None

    def samples(self, seeds: Iterator[int], runs_per_seed: int) -> Sequence[int | str]:
        """Return the samples under a shared seed, of which these seeds are drawn."""
        return list(itertools.islice(seeds, runs_per_seed))

    def sample_of(self, run: Run) -> str:
        """Name the sample of a run."""
        return f"sample_seed={run.sample_seed}"

    def labels(self, mdp: TabularMDP | None) -> Labels:
        """Return the names of states and actions, as far as they are known."""
        return Labels() if mdp is None else mdp.labels

    def measure(self, level: str, outputs: Outputs, runs_per_seed: int, confidence: float) -> Agreement:
        """Return how often two runs agree."""
        return measure(level, outputs, runs_per_seed, confidence)


@dataclass(frozen=True)
class FreshSamples(Evidence):
    """Samples that are drawn for every run: by our own sampler of tables, or by the problem itself."""

    sampler: str = COUNTS

    @property
    def drawn_by(self) -> str:
        """The sampler."""
        return self.sampler


@dataclass(frozen=True)
class SeveralLogs(Evidence):
    """Samples that were recorded: every log decides under every shared seed."""

    fresh: str = "every log"
    logs: Logs = field(default_factory=lambda: Logs((), (), ()))

    noun: ClassVar[str] = "log"
    pairs: ClassVar[str] = "comparisons of two logs"
    advice: ClassVar[Mapping[str, str]] = {
        "not met": "diagnose a log to see its fragile states, and use a rule such as affordable.",
        "undecided": "add logs of the same process.",
    }

    @property
    def drawn_by(self) -> None:
        """Nobody draws them."""

    @property
    def basis(self) -> object:
        """The logs in any order."""
        return frozenset(self.logs.digests)

    def samples(self, seeds: Iterator[int], runs_per_seed: int) -> Sequence[int | str]:
        """Return the digests of the logs."""
        return self.logs.digests

    def sample_of(self, run: Run) -> str:
        """Name the log of a run."""
        return brief(self.logs.name_of(run), _NAME)

    @property
    def differ(self) -> bool:
        """Whether some of them come from different processes, as far as a test can tell."""
        return self.logs.differ

    @property
    def process(self) -> str:
        """Whether the logs come from one process, as far as a test can tell."""
        logs, pairs = self.logs, f"{plural(self.logs.compared, 'pair')} of logs"
        if not logs.compared:
            return "Whether these logs come from one process is not known: no two share an action with enough rows."
        if not logs.differ:
            return f"No difference between the logs was found ({pairs} compared). A small one may be there."
        pair = logs.pairs[0]
        return (
            f"THE LOGS COME FROM DIFFERENT PROCESSES: {logs.differing} of {pairs} differ by more than chance, above "
            f"all {brief(logs.names[pair.one], _NAME)} and {brief(logs.names[pair.two], _NAME)} "
            f"({p_value(pair.p_value)}) after action {brief(pair.action, _NAME)} in state {brief(pair.state, _NAME)}. "
            f"So their decisions show nothing about replicability. A false alarm comes in {percent(logs.alarm)} of "
            "audits."
        )

    @property
    def subject(self) -> str:
        """The logs and their sizes."""
        sizes = zip(self.logs.names, self.logs.rows, strict=True)
        names = [f"{brief(name, _NAME)} ({plural(rows, 'row')})" for name, rows in sizes]
        others = [f"{len(names) - _LOGS} more"] if len(names) > _LOGS else []
        return f"{plural(len(names), 'log')}: {', '.join(names[:_LOGS] + others)}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """What no audit can know of logs."""
        return ("the logs are independent samples of one process" + ", which a test denies" * self.differ,)

    def labels(self, mdp: TabularMDP | None) -> Labels:
        """Return the names in the logs."""
        return Labels(self.logs.states, self.logs.actions)

    def measure(self, level: str, outputs: Outputs, runs_per_seed: int, confidence: float) -> Agreement:
        """Return how often two logs agree."""
        return measure_logs(level, outputs, runs_per_seed, confidence)


@dataclass(frozen=True)
class TrainingCode(Evidence):
    """Training code, which draws from its own two seeds, of 32 bits, and what is asked of it beside agreement.

    ``evaluate`` is the name of what measures the return of a run, ``uniform`` the mean return of the uniform policy and
    ``uniform_error`` its standard error. ``epsilon`` is the loss (from the worst state, in values normalised to [0, 1])
    that a run may have, except with probability ``delta``. ``stale`` says why nothing is fresh.
    """

    shared: str = "what train draws from shared_seed"
    fresh: str = "what train draws from sample_seed"
    stale: str = ""
    evaluate: str | None = None
    uniform: float | None = None
    uniform_error: float = 0.0
    epsilon: float | None = None
    delta: float = 0.0

    seeds_end: ClassVar[int] = 2**32  # NumPy and PyTorch take seeds below it
    advice: ClassVar[Mapping[str, str]] = {
        "not met": "train on more data, or draw more of the training from the shared seed."
    }

    @property
    def drawn_by(self) -> str:
        """The code itself."""
        return OWN

    @property
    def promised(self) -> PromisedLoss | None:
        """The loss that was asked for."""
        return None if self.epsilon is None else PromisedLoss(self.epsilon, self.delta, "worst")


# --- the spec -----------------------------------------------------------------------------------------------------


def derived_seed(label: str, *address: int) -> int:
    """Return 64 bits that depend on the label and the address alone, for ever.

    >>> derived_seed("shared", 0, 0)
    13084725234860710184
    """
    text = f"replicable-rl/audit/{label}" + ("/%d" * len(address)) % address
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "little")


@dataclass(frozen=True)
class AuditSpec(Displayed):
    """An audit as data: what is run, how often, and what is asked of it.

    Attributes
    ----------
    shared_seeds : int or tuple of int
        How many shared seeds J follow from ``seed``, or the seeds themselves.
    runs_per_seed : int
        Runs R >= 2 under each of them; of logs, their number.
    rho, require : float or None
        What is promised: two runs differ with at most this probability; and the agreement that is asked for at
        ``level``. "policy": of runs without one, about the last level that they have.
    foreign : bool
        Whether somebody's own code makes the runs: it may keep something from one call to the next.
    evidence : FreshSamples, SeveralLogs or TrainingCode
        Where samples come from.
    job : Job or None
        What makes the runs. No part of the spec: an audit that is read from a store has none.
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    shared_seeds: int | tuple[int, ...] = 60
    runs_per_seed: int = 2
    seed: int = 0
    confidence: float = 0.95
    rho: float | None = None
    require: float | None = None
    level: str = "policy"
    foreign: bool = False
    evidence: FreshSamples | SeveralLogs | TrainingCode = FreshSamples()
    job: Job | None = field(default=None, compare=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        put(
            self,
            seed=check_integer("audit", "seed", self.seed, low=0, high=MAX_SEED),
            confidence=check_in_open_interval("audit", "confidence", self.confidence),
            runs_per_seed=check_integer("audit", "runs_per_seed", self.runs_per_seed, low=2, high=_MOST),
            shared_seeds=_check_seeds(self.shared_seeds, self.evidence.seeds_end),
            rho=None if self.rho is None else check_in_open_interval("audit", "rho", self.rho),
            require=None if self.require is None else check_in_open_interval("audit", "require", self.require),
        )
        if self.size > _MOST:
            seeds, runs = self.n_seeds, self.runs_per_seed
            raise InvalidInput(f"audit: {seeds} shared seeds x {runs} runs are more than {_MOST} runs.")

    @cached_property
    def family(self) -> RunFamily:
        """The runs with other seeds."""
        return RunFamily(self.problem, self.algorithm, self.evidence.drawn_by)

    @property
    def n_seeds(self) -> int:
        """How many shared seeds there are, J."""
        return self.shared_seeds if isinstance(self.shared_seeds, int) else len(self.shared_seeds)

    @property
    def size(self) -> int:
        """Runs in all."""
        return self.n_seeds * self.runs_per_seed

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The J shared seeds."""
        if isinstance(self.shared_seeds, tuple):
            return self.shared_seeds
        return tuple(itertools.islice(self._derived("shared", self.seed), self.shared_seeds))

    def samples(self, shared_seed: int) -> Sequence[int | str]:
        """Return the samples under a shared seed: the seeds of those that are drawn, the digests of recorded ones."""
        return self.evidence.samples(self._derived("sample", self.seed, shared_seed), self.runs_per_seed)

    def _derived(self, label: str, *address: int) -> Iterator[int]:
        """Yield the different seeds of an address, without end; of 32 bits, some would come twice."""
        yielded: set[int] = set()
        for i in itertools.count():
            seed = derived_seed(label, *address, i) % self.evidence.seeds_end
            if seed not in yielded:
                yielded.add(seed)
                yield seed

    @property
    def samples_of(self) -> tuple[RunFamily, int, object]:
        """Equal for two audits whose runs under one shared seed are the same, as far as both have them."""
        return self.family, self.seed, self.evidence.basis

    def picks_from(self, other: AuditSpec) -> bool:
        """Whether it takes some shared seeds of another audit and leaves out earlier ones.

        Nobody knew the runs of a seed when an audit first asked for it in its order. Seeds chosen later, among those
        whose runs are known, show nothing.
        """
        if self.samples_of != other.samples_of or set(self.seeds).isdisjoint(other.seeds):
            return False
        n = min(self.n_seeds, other.n_seeds)
        return self.seeds[:n] != other.seeds[:n]

    @property
    def runs(self) -> list[RunSpec]:
        """The identities of all runs, those of one shared seed together."""
        return list(itertools.starmap(self.family.spec, self.keys_of(self.seeds).values()))

    def keys_of(self, seeds: Iterable[int]) -> dict[str, tuple[int, int | str]]:
        """Return the digests of the runs under these shared seeds, each with its shared seed and its sample."""
        pairs = [(shared, sample) for shared in seeds for sample in self.samples(shared)]
        return dict(zip(map(bytes.hex, self.family.digests(pairs)), pairs, strict=True))


def _check_seeds(shared_seeds: Any, end: int) -> int | tuple[int, ...]:
    """Return how many shared seeds there are, or which."""
    if not isinstance(shared_seeds, Sequence) or isinstance(shared_seeds, (str, bytes)):
        return check_integer("audit", "shared_seeds", shared_seeds, low=1, high=_MOST)
    seeds = tuple(check_integer("audit", "a shared seed", seed, low=0, high=end - 1) for seed in shared_seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidInput(f"audit: shared_seeds must be how many to use, or different seeds, got {shown(seeds)}.")
    return seeds


class Repeat(NamedTuple):
    """A run that was made again: whether its outputs were the same; None where that could not be done, and why."""

    run: str
    same: bool | None
    why: str = ""


def audits_of(store: RunStore) -> list[AuditSpec]:
    """Return the audits that a store keeps, in the order in which they came."""
    return [from_record(AuditSpec, record) for record in store.audits()]


def repeats_of(store: RunStore) -> list[Repeat]:
    """Return which runs of a store were made again, and whether they came out the same."""
    return [Repeat(*record) for record in store.repeats()]
