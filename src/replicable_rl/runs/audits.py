"""What an audit runs and what is asked of it: an :class:`AuditSpec`, which is stored with the runs.

Replicability is a probability over two samples *and* over the shared randomness r, so an audit takes J shared seeds
and R >= 2 samples for each. All seeds follow from the audit's own ``seed``: the same spec asks for the same runs and so
resumes, more shared seeds or more runs extend it, and another ``seed`` is an independent audit. Of recorded samples it
holds which they are (:class:`Logs`), of training code what else is asked (:class:`Training`).
"""

from __future__ import annotations

import hashlib
import itertools
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from replicable_rl.canonical import Json, from_decimal
from replicable_rl.display import Displayed, described, short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, check_real, plain_number, shown
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs.specs import (
    COUNTS,
    OWN,
    Logged,
    ObjectSpec,
    RunFamily,
    RunSpec,
    check_objects,
    put,
    record_of,
)
from replicable_rl.wording import brief, listed, p_value, percent, plural

if TYPE_CHECKING:
    from replicable_rl.runs.run import Run


@dataclass(frozen=True)
class Training:
    """The questions of an audit of training code, as data; stored with it.

    Attributes
    ----------
    evaluate : str or None
        What measures the return of a run, by its name.
    uniform, uniform_error : float or None
        The mean return of the uniform policy, and its standard error (0 where it is known exactly).
    tolerance : float or None
        How far two actions may be apart and still count as close.
    epsilon, delta : float or None
        The loss (from the worst state, in values normalised to [0, 1]) that a run may have, except with probability
        delta.

    Examples
    --------
    >>> Training(evaluate="episodes", uniform=0.015, uniform_error=0.01).to_json()
    {'evaluate': 'episodes', 'uniform': 0.015, 'uniform_error': 0.01}
    """

    evaluate: str | None = None
    uniform: float | None = None
    uniform_error: float | None = None
    tolerance: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.evaluate, str | None):
            raise InvalidInput(f"Training: evaluate must be a text or None, got {shown(self.evaluate)}.")
        for name, number in (
            ("uniform", self.uniform),
            ("uniform_error", self.uniform_error),
            ("tolerance", self.tolerance),
        ):
            if number is not None:
                low, rule = (-1e300, "a number") if name == "uniform" else (0.0, "a number that is not negative")
                put(self, **{name: check_real("Training", name, number, low=low, high=1e300, rule=rule)})
        for name, share in (("epsilon", self.epsilon), ("delta", self.delta)):
            if share is not None:
                put(self, **{name: check_in_open_interval("Training", name, share)})

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form: what is asked, and nothing else."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, data: Json) -> Training:
        """Read the JSON form back."""
        nothing = dict.fromkeys((one.name for one in fields(cls)), None)
        return cls(**record_of(cls, nothing | data if isinstance(data, dict) else data))


_DIGEST = re.compile("[0-9a-f]{64}")
_FEWEST_LOGS, _MOST_LOGS = 2, 200
_PAIRS = _MOST_LOGS * (_MOST_LOGS - 1) // 2
_NAMED = 3  # pairs of logs that a sentence names
_LONGEST = 60  # letters of a name in a sentence


class LogPair(NamedTuple):
    """Two logs compared: by their places, how likely chance makes such differences, and where they differ most.

    ``p_value`` is corrected for the number of pairs of logs.
    """

    one: int
    two: int
    p_value: float
    state: str
    action: str

    @classmethod
    def from_json(cls, data: Json, logs: int) -> LogPair:
        """Read the JSON form back."""
        if not isinstance(data, dict) or set(data) != set(cls._fields):
            raise InvalidInput(f"Logs: a pair has {', '.join(cls._fields)}; got {shown(data)}.")
        one, two = (check_integer("Logs", name, data[name], low=0, high=logs - 1) for name in ("one", "two"))
        p_value = check_real("Logs", "p_value", data["p_value"], low=0.0, high=1.0, rule="a probability")
        return cls(one, two, p_value, str(data["state"]), str(data["action"]))


@dataclass(frozen=True)
class Logs:
    """The recorded samples of an audit.

    Attributes
    ----------
    names : tuple of str
        What people call them: their files, or "log 1", "log 2", ...
    digests : tuple of str
        Which data they are.
    rows : tuple of int
        How many transitions each has.
    compared : int
        Pairs of logs that had anything in common to be compared by.
    differing : int
        How many of these differ by more than chance.
    pairs : tuple of LogPair
        The pairs that were compared, the most different first; of very many, the first ones.
    alarm : float
        The probability that logs of one process are said to differ.
    states, actions : tuple of str or None
        Their names; None where there are very many.
    """

    names: tuple[str, ...]
    digests: tuple[str, ...]
    rows: tuple[int, ...]
    compared: int = 0
    differing: int = 0
    pairs: tuple[LogPair, ...] = ()
    alarm: float = 1e-3
    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        K = len(self.digests)
        for name, count in (("compared", self.compared), ("differing", self.differing)):
            check_integer("Logs", name, count, low=0, high=_PAIRS)
        check_in_open_interval("Logs", "alarm", self.alarm)
        if not _FEWEST_LOGS <= K <= _MOST_LOGS:
            raise InvalidInput(f"audit: takes {_FEWEST_LOGS} to {_MOST_LOGS} logs, got {K}.")
        if not len(self.names) == len(self.rows) == K:
            raise InvalidInput(f"audit: {K} logs need {K} names and numbers of rows, got {shown(self.names)}.")
        for i, digest in enumerate(self.digests):
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise InvalidInput(f"audit: a log is known by 64 hexadecimal digits, got {shown(digest)}.")
            if digest in self.digests[:i]:
                twice = self.names[self.digests.index(digest)], self.names[i]
                raise InvalidInput(
                    f"audit: {twice[0]} and {twice[1]} hold the same data, which is no evidence. Give each log once."
                )

    def name_of(self, run: Run) -> str:
        """Return the name of the log that a run decided on."""
        sample = None if run.spec is None else run.spec.sample
        if not isinstance(sample, Logged) or sample.digest not in self.digests:
            return "a log"
        return self.names[self.digests.index(sample.digest)]

    @property
    def differ(self) -> bool:
        """Whether some of them come from different processes, as far as a test can tell."""
        return self.differing > 0

    @property
    def sentence(self) -> str:
        """What is to be said of them before anything else."""
        if not self.compared:
            return (
                "Nobody knows whether these logs come from one process: no action was tried in one state by two of "
                "them often enough to compare."
            )
        alarm = f"A false alarm comes in {percent(self.alarm)} of audits."
        if not self.differ:
            least = f"smallest {p_value(self.pairs[0].p_value)}, corrected for their number" if self.pairs else ""
            said = f"No difference between the logs was found ({plural(self.compared, 'pair')} of logs compared"
            return f"{said}{', ' * bool(least)}{least}). A small one may be there."
        named = [self._named(pair) for pair in self.pairs[: min(_NAMED, self.differing)]]
        more = f" {self.differing} of {plural(self.compared, 'pair')} of logs differ." if self.compared > 1 else ""
        return (
            f"THE LOGS COME FROM DIFFERENT PROCESSES: {listed(named)}.{more} Where they decide otherwise, that need "
            f"not be chance, and nothing is shown about replicability. {alarm}"
        )

    def _named(self, pair: LogPair) -> str:
        names = (brief(self.names[i], _LONGEST) for i in (pair.one, pair.two))
        where = f"action {brief(pair.action, _LONGEST)} in state {brief(pair.state, _LONGEST)}"
        return f"{' and '.join(names)} differ by more than chance ({p_value(pair.p_value)}, most of all {where})"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {**asdict(self), "pairs": [pair._asdict() for pair in self.pairs]}

    @classmethod
    def from_json(cls, data: Json) -> Logs:
        """Read the JSON form back."""
        read = record_of(cls, data)
        for name in ("names", "digests", "states", "actions"):
            texts = read[name]
            if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
                read[name] = tuple(texts)
            elif texts is not None or name in ("names", "digests"):
                raise InvalidInput(f"Logs: {name} must be texts, got {shown(texts)}.")
        if not isinstance(read["rows"], list) or not isinstance(read["pairs"], list):
            raise InvalidInput(
                f"Logs: rows and pairs must be lists, got {shown(read['rows'])}, {shown(read['pairs'])}."
            )
        read["rows"] = tuple(check_integer("Logs", "rows", rows, low=0, high=2**63) for rows in read["rows"])
        read["pairs"] = tuple(LogPair.from_json(pair, len(read["digests"])) for pair in read["pairs"])
        return cls(**read)


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
        check_objects("AuditSpec", problem=self.problem, algorithm=self.algorithm)
        texts = {"sampler": self.sampler, "level": self.level, "shared": self.shared, "fresh": self.fresh}
        for name, text in (texts if self.code is None else texts | {"code": self.code}).items():
            if not isinstance(text, str):
                raise InvalidInput(f"AuditSpec: {name} must be a text, got {shown(text)}.")
        if not isinstance(self.training, Training | None):
            raise InvalidInput(f"AuditSpec: training must be a Training or None, got {shown(self.training)}.")
        put(
            self,
            level=str(self.level),
            seed=check_integer("audit", "seed", self.seed, low=0, high=MAX_SEED),
            confidence=check_in_open_interval("audit", "confidence", self.confidence),
            runs_per_seed=_check_runs(self.runs_per_seed) if self.logs is None else len(self.logs.digests),
            seed_bits=_check_bits(self.seed_bits),
            shared_seeds=_check_seeds(self.shared_seeds, self.seed_bits),
            rho=None if self.rho is None else check_in_open_interval("audit", "rho", self.rho),
            require=None if self.require is None else check_in_open_interval("audit", "require", self.require),
        )
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
        seeds, own = self.shared_seeds, vars(self)
        return {one.name: own[one.name] for one in fields(self) if one.name != "job"} | {
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
        read = record_of(cls, data, "job")
        read |= {name: ObjectSpec.from_json(data[name]) for name in ("problem", "algorithm")}
        if isinstance(data["shared_seeds"], list):
            read["shared_seeds"] = [from_decimal("AuditSpec: shared_seeds", one, 20) for one in data["shared_seeds"]]
        read["logs"] = None if data["logs"] is None else Logs.from_json(data["logs"])
        read["training"] = None if data["training"] is None else Training.from_json(data["training"])
        return cls(**read | {"seed": from_decimal("AuditSpec: seed", data["seed"], 20)})


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
