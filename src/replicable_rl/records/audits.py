"""What an audit runs and what is asked of it: an :class:`AuditSpec`, which is stored with the runs.

Replicability is a probability over two samples *and* over the shared randomness r, so an audit takes J shared seeds
and R >= 2 samples for each. All seeds follow from the audit's own ``seed``: the same spec asks for the same runs and so
resumes, more shared seeds or more runs extend it, and another ``seed`` is an independent audit.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

from replicable_rl.canonical import Json, from_decimal
from replicable_rl.display import Displayed, described
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, plain_number, shown
from replicable_rl.randomness import MAX_SEED
from replicable_rl.records.logs import Logs
from replicable_rl.records.specs import COUNTS, OWN, ObjectSpec, RunFamily, RunSpec
from replicable_rl.records.training import Training
from replicable_rl.wording import brief, plural

_MOST = 10**7
_FIRST = struct.Struct("<Q24x").unpack  # the first 64 bits of a digest
_BITS = 64  # of a seed; other people's code gets seeds of 32
_SHARED, _FRESH = "what the algorithm draws from the shared seed", "every sample"


def derived_seed(label: str, *address: int) -> int:
    """Return 64 bits that depend on the label and the address alone, for ever.

    >>> derived_seed("shared", 0, 0)
    13084725234860710184
    """
    text = f"replicable-rl/audit/{label}" + ("/%d" * len(address)) % address
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "little")


def derived_seeds(label: str, address: int, ends: Iterable[str]) -> Iterator[int]:
    """Yield the derived seeds of many addresses that begin alike, which is hashed once.

    >>> list(derived_seeds("shared", 0, ["7", "1/2"])) == [derived_seed("shared", 0, *end) for end in ((7,), (1, 2))]
    True
    """
    start = hashlib.sha256(f"replicable-rl/audit/{label}/{address}/".encode("ascii"))
    for end in ends:
        digest = start.copy()
        digest.update(end.encode("ascii"))
        yield _FIRST(digest.digest())[0]


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
    problem, algorithm : ObjectSpec
        What is run.
    shared_seeds : int or tuple of int
        How many shared seeds J follow from ``seed``, or the seeds themselves.
    runs_per_seed : int
        Runs R >= 2 on fresh samples under each of them.
    seed : int
        What all other seeds follow from.
    confidence : float
        Of every interval.
    sampler : str
        Who draws the samples.
    rho : float or None
        What is promised: two runs differ with at most this probability.
    require : float or None
        The agreement that is asked for at ``level``.
    level : str
        What the question is about. "policy": of runs without one, about the last level that they have.
    shared, fresh : str
        Which randomness the runs of a pair have in common, and which they do not.
    seed_bits : {64, 32}
        How long seeds are: 32 bits where they are handed to other people's code, as NumPy's and PyTorch's are.
    training : Training or None
        What is asked of somebody's training code beside agreement: returns, a tolerance, a loss.
    logs : Logs or None
        The recorded samples, where samples were not drawn: each is a run under every shared seed.
    code : str or None
        The digest of the source of somebody's own code, where it can be seen. Another one under the same version is a
        warning; an equal one grants nothing.
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
    shared: str = _SHARED
    fresh: str = _FRESH
    code: str | None = None
    logs: Logs | None = None
    seed_bits: int = _BITS
    training: Training | None = None
    job: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("problem", "algorithm"):
            if not isinstance(getattr(self, name), ObjectSpec):
                raise InvalidInput(f"AuditSpec: {name} must be an ObjectSpec, got {shown(getattr(self, name))}.")
        for name in ("sampler", "level", "shared", "fresh", "code"):
            text = getattr(self, name)
            if not isinstance(text, str) and (name, text) != ("code", None):
                raise InvalidInput(f"AuditSpec: {name} must be a text, got {shown(text)}.")
        normal: dict[str, Any] = {
            "level": str(self.level),
            "seed": check_integer("audit", "seed", self.seed, low=0, high=MAX_SEED),
            "confidence": check_in_open_interval("audit", "confidence", self.confidence),
            "runs_per_seed": _check_runs(self.runs_per_seed),
            "seed_bits": _check_bits(self.seed_bits),
            "shared_seeds": _check_seeds(self.shared_seeds, self.seed_bits),
        }
        if not isinstance(self.training, Training | None):
            raise InvalidInput(f"AuditSpec: training must be a Training or None, got {shown(self.training)}.")
        for name in ("rho", "require"):
            if getattr(self, name) is not None:
                normal[name] = check_in_open_interval("audit", name, getattr(self, name))
        if self.logs is not None:
            normal["runs_per_seed"] = len(self.logs.digests)
        for name, value in normal.items():
            object.__setattr__(self, name, value)
        if self.size > _MOST:
            seeds = self.size // self.runs_per_seed
            raise InvalidInput(f"audit: {seeds} shared seeds x {self.runs_per_seed} runs are more than {_MOST} runs.")

    def __repr__(self) -> str:
        of = f"{brief(self.problem.text, 150)}, {brief(self.algorithm.text, 150)}"
        size = f"{plural(self.n_seeds, 'shared seed')} × {plural(self.runs_per_seed, 'run')}"
        asked = {"seed": self.seed, "confidence": self.confidence, "rho": self.rho, "require": self.require}
        given = "".join(f", {name}={value}" for name, value in asked.items() if value is not None)
        return described(self, f"{of}: {size}{given}, level={self.level!r}")

    @cached_property
    def family(self) -> RunFamily:
        """The runs with other seeds."""
        return RunFamily(self.problem, self.algorithm, self.sampler if self.logs is None else None)

    @property
    def may_remember(self) -> bool:
        """Whether somebody's own code makes the runs: it may keep something from one call to the next."""
        return self.code is not None or (self.sampler == OWN and self.logs is None)

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
            yield from self.shared_seeds
        elif self.seed_bits == _BITS:
            yield from derived_seeds("shared", self.seed, map(str, range(self.shared_seeds)))
        else:
            yield from self._drawn(self.shared_seeds, "shared", self.seed)

    def seeds_as_asked(self, audits: Iterable[AuditSpec]) -> Iterator[int]:
        """Yield the shared seeds in the order in which ``audits``, those of a store, and this one first asked for them.

        A verdict on the first of them holds whenever somebody looks, for nobody knew their runs when the order was
        fixed. It ends before a seed that an earlier audit asked for and this one leaves out.
        """
        earlier = [one for one in itertools.takewhile(lambda one: one != self, audits) if one._samples_alike(self)]
        if all(isinstance(one.shared_seeds, int) for one in (*earlier, self)):
            yield from self.each_seed()  # they all ask for the first of the same seeds
            return
        own, met, begun = set(self.seeds), set[int](), False
        for one in (*earlier, self):
            new = [seed for seed in one.each_seed() if seed not in met]
            met.update(new)
            begun = begun or not own.isdisjoint(new)
            for seed in new if begun else ():
                if seed not in own:
                    return
                yield seed

    def _samples_alike(self, other: AuditSpec) -> bool:
        """Whether the runs of both under one shared seed are the same, as far as both have them."""
        logs = [
            None if one.logs is None else set(one.logs.digests) for one in (self, other)
        ]  # others: another question
        seeds = [(one.seed, one.seed_bits) for one in (self, other)]
        return self.family == other.family and seeds[0] == seeds[1] and logs[0] == logs[1]

    @property
    def n_seeds(self) -> int:
        """How many shared seeds there are, J."""
        return self.shared_seeds if isinstance(self.shared_seeds, int) else len(self.shared_seeds)

    def samples(self, shared_seed: int) -> Sequence[int | str]:
        """Return the samples under a shared seed: the seeds of those that are drawn, the digests of recorded ones."""
        if self.logs is not None:
            return self.logs.digests
        return list(self._drawn(self.runs_per_seed, "sample", self.seed, shared_seed))

    def _drawn(self, count: int, label: str, *address: int) -> Iterator[int]:
        """Yield the first so many different seeds of an address; of 64 bits, no two are ever the same."""
        if self.seed_bits == _BITS:
            yield from (derived_seed(label, *address, i) for i in range(count))
            return
        met: set[int] = set()
        for i in itertools.count():
            if len(met) == count:
                return
            seed = derived_seed(label, *address, i) % 2**self.seed_bits
            if seed not in met:
                met.add(seed)
                yield seed

    @property
    def runs(self) -> list[RunSpec]:
        """The identities of all runs, those of one shared seed together."""
        return list(itertools.starmap(self.family.spec, self.keys.values()))

    @property
    def keys(self) -> dict[str, tuple[int, int | str]]:
        """The digests of all runs in the same order, each with its shared seed and its sample."""
        return self.keys_of(self.seeds)

    def keys_of(self, seeds: Sequence[int]) -> dict[str, tuple[int, int | str]]:
        """Return the same for some of the shared seeds."""
        each = range(self.runs_per_seed)
        if self.logs is not None or self.seed_bits != _BITS:
            pairs = [(shared, sample) for shared in seeds for sample in self.samples(shared)]
        else:
            samples = derived_seeds("sample", self.seed, (f"{shared}/{i}" for shared in seeds for i in each))
            pairs = list(zip((shared for shared in seeds for _ in each), samples, strict=True))
        return dict(zip(map(bytes.hex, self.family.digests(pairs)), pairs, strict=True))

    def contains(self, other: AuditSpec) -> bool:
        """Whether this audit makes all runs of another one."""
        same = self.runs_per_seed >= other.runs_per_seed and self._samples_alike(other)
        if same and isinstance(self.shared_seeds, int) and isinstance(other.shared_seeds, int):
            return self.shared_seeds >= other.shared_seeds  # the first of the same
        return same and set(self.seeds) >= set(other.seeds)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        data: dict[str, Json] = {name: getattr(self, name) for name in _SAID}
        seeds = self.shared_seeds
        return data | {
            "problem": self.problem.to_json(),
            "algorithm": self.algorithm.to_json(),
            "shared_seeds": seeds if isinstance(seeds, int) else [str(seed) for seed in seeds],
            "seed": str(self.seed),
            "logs": None if self.logs is None else self.logs.to_json(),
            "training": None if self.training is None else self.training.to_json(),
        }

    @classmethod
    def from_json(cls, data: Json) -> AuditSpec:
        """Read the JSON form back."""
        if not isinstance(data, dict) or set(data) != set(_SAID):
            raise InvalidInput(f"AuditSpec: expected {', '.join(sorted(_SAID))}; got {shown(data)}.")
        read: dict[str, Any] = dict(data)
        read |= {name: ObjectSpec.from_json(data[name]) for name in ("problem", "algorithm")}
        if isinstance(data["shared_seeds"], list):
            read["shared_seeds"] = [from_decimal("AuditSpec: shared_seeds", one, 20) for one in data["shared_seeds"]]
        read["logs"] = None if data["logs"] is None else Logs.from_json(data["logs"])
        read["training"] = None if data["training"] is None else Training.from_json(data["training"])
        return cls(**read | {"seed": from_decimal("AuditSpec: seed", data["seed"], 20)})


_SAID = tuple(one.name for one in fields(AuditSpec) if one.name != "job")  # in the JSON form


def _check_runs(runs_per_seed: object) -> int:
    if plain_number(runs_per_seed) == 1:
        raise InvalidInput(
            "audit: runs_per_seed must be at least 2, got 1. One run under a shared seed has nothing to agree with."
        )
    return check_integer("audit", "runs_per_seed", runs_per_seed, low=2, high=_MOST)


def _check_bits(bits: object) -> int:
    if type(bits) is not int or bits not in (32, _BITS):
        raise InvalidInput(f"AuditSpec: seed_bits must be 32 or {_BITS}, got {shown(bits)}.")
    return bits


def _check_seeds(shared_seeds: Any, bits: int) -> int | tuple[int, ...]:
    """Return how many shared seeds there are, or which."""
    if plain_number(shared_seeds) is not None:  # a list is the other case
        return check_integer("audit", "shared_seeds", shared_seeds, low=1, high=_MOST)
    rule = "audit: shared_seeds must be how many to use, or a list of different seeds"
    try:
        seeds = None if isinstance(shared_seeds, (str, bytes)) else list(shared_seeds)
    except Exception:  # whatever somebody's object raises
        seeds = None
    if seeds is None:
        raise InvalidInput(f"{rule}, got {shown(shared_seeds)}.")
    high = MAX_SEED if bits == _BITS else 2**bits - 1
    listed = tuple(check_integer("audit", "a shared seed", seed, low=0, high=high) for seed in seeds)
    if not listed:
        raise InvalidInput(f"{rule}, got an empty list.")
    if len(set(listed)) < len(listed):
        twice = next(seed for seed in listed if listed.count(seed) > 1)
        raise InvalidInput(f"{rule}, got {twice} twice.")
    return listed
