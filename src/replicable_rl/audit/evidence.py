"""What an audit runs and what is asked of it: an :class:`AuditSpec`, which is stored with the runs.

Replicability is a probability over two samples *and* over the shared randomness r, so an audit takes J shared seeds
and R >= 2 samples for each. All seeds follow from the audit's own ``seed``: the same spec asks for the same runs and so
resumes, more shared seeds or more runs extend it, and another ``seed`` is an independent audit. Of recorded samples it
holds which they are (:class:`Logs`), of training code what else is asked (:class:`Training`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from replicable_rl.canonical import from_record
from replicable_rl.display import Displayed, short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, shown
from replicable_rl.logs import Logs
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs.specs import COUNTS, OWN, ObjectSpec, RunFamily, RunSpec, check_objects, put
from replicable_rl.store import RunStore


@dataclass(frozen=True)
class Training:
    """The questions of an audit of training code, as data; stored with it.

    ``evaluate`` is the name of what measures the return of a run, ``uniform`` the mean return of the uniform policy
    (``uniform_error``: its standard error), ``tolerance`` how far two actions may be apart and still count as close.
    ``epsilon`` is the loss (from the worst state, in values normalised to [0, 1]) that a run may have, except with
    probability ``delta``.
    """

    evaluate: str | None = None
    uniform: float | None = None
    uniform_error: float | None = None
    tolerance: float | None = None
    epsilon: float | None = None
    delta: float | None = None


_MOST = 10**7  # runs of an audit


def derived_seed(label: str, *address: int) -> int:
    """Return 64 bits that depend on the label and the address alone, for ever.

    >>> derived_seed("shared", 0, 0)
    13084725234860710184
    """
    text = f"replicable-rl/audit/{label}" + ("/%d" * len(address)) % address
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "little")


class Repeat(NamedTuple):
    """A run that was made again: whether its outputs were the same; None where that could not be done, and why."""

    run: str
    same: bool | None
    why: str = ""


@dataclass(frozen=True)
class AuditSpec(Displayed):
    """An audit as data: what is run, how often, and what is asked of it.

    Attributes
    ----------
    shared_seeds : int or tuple of int
        How many shared seeds J follow from ``seed``, or the seeds themselves.
    runs_per_seed : int
        Runs R >= 2 on fresh samples under each of them.
    rho, require : float or None
        What is promised: two runs differ with at most this probability; and the agreement that is asked for at
        ``level``. "policy": of runs without one, about the last level that they have.
    shared, fresh : str
        Which randomness the runs of a pair have in common, and which they do not.
    code : str or None
        The digest of the source of somebody's own code, where it can be seen. Another one under the same version is a
        warning; an equal one grants nothing.
    logs : Logs or None
        The recorded samples, where samples were not drawn: each is a run under every shared seed.
    training : Training or None
        What is asked of training code beside agreement; None where no training code is run. Its seeds have 32 bits.
    job : object or None
        What makes the runs where no id rebuilds it: somebody's own arrays, simulator or code. No part of the spec.
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    shared_seeds: int | tuple[int, ...] = 60
    runs_per_seed: int = 2
    seed: int = 0
    confidence: float = 0.95
    sampler: str = COUNTS
    rho: float | None = None
    require: float | None = None
    level: str = "policy"
    shared: str = "what the algorithm draws from the shared seed"
    fresh: str = "every sample"
    code: str | None = None
    logs: Logs | None = None
    training: Training | None = None
    job: Any = field(default=None, compare=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_objects("AuditSpec", problem=self.problem, algorithm=self.algorithm)
        runs = self.runs_per_seed if self.logs is None else len(self.logs.digests)
        put(
            self,
            seed=check_integer("audit", "seed", self.seed, low=0, high=MAX_SEED),
            confidence=check_in_open_interval("audit", "confidence", self.confidence),
            runs_per_seed=check_integer("audit", "runs_per_seed", runs, low=2, high=_MOST),
            shared_seeds=_check_seeds(self.shared_seeds, self._seeds_end),
            rho=None if self.rho is None else check_in_open_interval("audit", "rho", self.rho),
            require=None if self.require is None else check_in_open_interval("audit", "require", self.require),
        )
        if self.size > _MOST:
            raise InvalidInput(f"audit: {self.n_seeds} shared seeds x {runs} runs are more than {_MOST} runs.")

    @cached_property
    def family(self) -> RunFamily:
        """The runs with other seeds."""
        return RunFamily(self.problem, self.algorithm, self.sampler if self.logs is None else None)

    @property
    def may_remember(self) -> bool:
        """Whether somebody's own code makes the runs: it may keep something from one call to the next."""
        return self.code is not None or (self.sampler == OWN and self.logs is None)

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
        return tuple(self.each_seed())

    def each_seed(self) -> Iterator[int]:
        """Yield the shared seeds one by one: there may be very many."""
        if isinstance(self.shared_seeds, tuple):
            return iter(self.shared_seeds)
        return itertools.islice(self._derived("shared", self.seed), self.shared_seeds)

    def samples(self, shared_seed: int) -> Sequence[int | str]:
        """Return the samples under a shared seed: the seeds of those that are drawn, the digests of recorded ones."""
        if self.logs is not None:
            return self.logs.digests
        return list(itertools.islice(self._derived("sample", self.seed, shared_seed), self.runs_per_seed))

    @property
    def _seeds_end(self) -> int:
        return MAX_SEED + 1 if self.training is None else 2**32  # NumPy and PyTorch take seeds below it

    def _derived(self, label: str, *address: int) -> Iterator[int]:
        """Yield the different seeds of an address, without end; of 32 bits, some would come twice."""
        met: set[int] = set()
        for i in itertools.count():
            seed = derived_seed(label, *address, i) % self._seeds_end
            if seed not in met:
                met.add(seed)
                yield seed

    def _samples_alike(self, other: AuditSpec) -> bool:
        """Whether the runs of both under one shared seed are the same, as far as both have them."""
        logs = [None if one.logs is None else set(one.logs.digests) for one in (self, other)]
        alike = (self.seed, self._seeds_end) == (other.seed, other._seeds_end) and logs[0] == logs[1]
        return self.family == other.family and alike

    def first(self, n_seeds: int) -> AuditSpec:
        """Return the audit of the first shared seeds alone."""
        seeds = n_seeds if isinstance(self.shared_seeds, int) else self.shared_seeds[:n_seeds]
        return replace(self, shared_seeds=seeds)

    def begins(self, other: AuditSpec) -> bool:
        """Whether the shared seeds of this audit are the first of the other's."""
        if isinstance(self.shared_seeds, int) and isinstance(other.shared_seeds, int):
            return self.n_seeds <= other.n_seeds
        return self.n_seeds <= other.n_seeds and self.seeds == tuple(itertools.islice(other.each_seed(), self.n_seeds))

    def contains(self, other: AuditSpec) -> bool:
        """Whether this audit makes all runs of another one."""
        return self.runs_per_seed >= other.runs_per_seed and self._samples_alike(other) and other.begins(self)

    def picks_from(self, other: AuditSpec) -> bool:
        """Whether it takes some shared seeds of another audit and leaves out earlier ones.

        Nobody knew the runs of a seed when an audit first asked for it in its order. Seeds chosen later, among those
        whose runs are known, show nothing.
        """
        if not self._samples_alike(other) or self.begins(other) or other.begins(self):
            return False
        return not set(self.seeds).isdisjoint(other.each_seed())

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


def audits_of(store: RunStore) -> list[AuditSpec]:
    """Return the audits that a store keeps, in the order in which they came."""
    return [from_record(AuditSpec, record) for record in store.audits()]


def repeats_of(store: RunStore) -> list[Repeat]:
    """Return which runs of a store were made again, and whether they came out the same."""
    return [Repeat(*record) for record in store.repeats()]
