"""What is run, what it yields, and what is claimed of it.

A :class:`RunSpec` says everything that determines the bits of a run: the problem (a registered id with parameters,
or the digest of its arrays), the algorithm with its parameters, the shared seed, and the sample. Its digest is the
key under which a run is stored, resumed and certified. JSON numbers end at 2**53: seeds are written as decimal strings,
and a larger integer among the parameters as ``{"integer": "10000000000000000"}``.

An :class:`Algorithm`, and an ingredient such as a rule, is a frozen dataclass: its id and its fields are its identity.

A :class:`Run` has outputs by level, says how it ended, what is claimed about it, and what made it. This is the one form
of a run: what :func:`replicable_rl.solve` returns, what a file holds, what a store keeps. A run that was read from a
store knows its fingerprints, and fetches an output when it is asked for.

*Levels* are what two runs can have in common, in the order in which one implies another:

    model  =>  value  =>  policy

They are replicable in the sense of Definitions A.2, A.1 and 3.1; two runs agree at a level if the whole output is the
same, while A.1 and 3.1 speak of each state or pair. Two runs with the same model have the same value, and so the same
policy. `replicable_rl.register` adds a level: an audit compares it, a store keeps it, and a report shows it like the
others. A run has the levels that its algorithm stands for and no others: a rule that decides publishes a policy and no
values.

A *claim* is about accuracy or about replicability, and of one kind. Replicability is Definition 2.3,
Pr[A(S1; r) = A(S2; r)] >= 1 - rho over two samples and the shared randomness r, unless a claim names another
definition. Kinds:

* ``proved``: every condition of the theorem holds, with its constants;
* ``asymptotic``: the theorem hides constants;
* ``measured``: repeated runs showed it;
* ``stated``: somebody else's code says so. This library knows no proof of it; audits judge it.

The first three are this library's alone (:class:`LibraryClaim`). Where nothing is proved, nothing is claimed, and
:attr:`Claims.missing` says why.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.canonical import (
    Json,
    array_digest,
    canonical_json,
    decimal,
    from_decimal,
    from_json,
    from_record,
    json_digest,
    json_text,
    to_json,
)
from replicable_rl.errors import (
    InvalidInput,
    check_choice,
    check_integer,
    check_real,
    did_you_mean,
    is_masked,
    plain_number,
    shown,
)
from replicable_rl.files import Artifact, Parts, read_artifact, write_artifact
from replicable_rl.paper import cited
from replicable_rl.randomness import MAX_SEED
from replicable_rl.wording import Displayed, brief, described, listed, number, short, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.table import TabularMDP
    from replicable_rl.randomness import SharedRandomness

COUNTS = "counts-v1"  # the sampler of tables: counts, at a cost that does not depend on their number
OWN = "own"  # the problem samples itself: a simulator, an environment
OURS = "replicable-rl"  # no module can be called so
_DIGEST = re.compile("[0-9a-f]{64}")


def put(record: object, **values: Any) -> None:
    """Give a frozen record its checked values while it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


@dataclass(frozen=True)
class ObjectSpec:
    """A problem or an algorithm: its id and the parameters of its constructor.

    >>> ObjectSpec("riverswim-v1", {"n_states": 20}).text
    'riverswim-v1:n_states=20'
    """

    id: str
    params: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not isinstance(self.params, Mapping):
            raise InvalidInput(f"ObjectSpec: needs a text and a mapping, got {shown(self.id)}, {shown(self.params)}.")
        try:
            put(self, params={str(key): exact_json(value, f"{key} must be") for key, value in self.params.items()})
        except InvalidInput as error:
            raise InvalidInput(f"{self.id}: {error}") from None

    def __repr__(self) -> str:
        return described(self, f"{self.id!r}, {short(self.params)}" if self.params else repr(self.id))

    def __hash__(self) -> int:
        return hash(self.id)  # parameters may be lists, and equal numbers of other types

    @property
    def text(self) -> str:
        """The id and its parameters, sorted as in a store, in the form the command line takes."""
        listed = ",".join(f"{key}={parameter_text(value)}" for key, value in sorted(self.params.items()))
        return f"{self.id}:{listed}" if listed else self.id

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"id": self.id, "params": to_json(dict(self.params))}

    @classmethod
    def from_json(cls, data: Json) -> ObjectSpec:
        """Read the JSON form back."""
        return from_record(cls, from_json(data))


def _seed(name: str, text: Any) -> int:
    return check_integer("RunSpec", name, from_decimal(f"RunSpec: {name}", text, 20), low=0, high=MAX_SEED)


def parameter_text(value: Json) -> str:
    """Write a parameter for people; one that is an object of its own, such as a rule, by its id and settings.

    >>> parameter_text({"tolerance": 0.01, "id": "tolerance"}), parameter_text({"id": "published", "cuts": "0f" * 32})
    ('tolerance(tolerance=0.01)', 'published(cuts=0f0f0f0f0f0f...)')
    """
    if not (isinstance(value, dict) and isinstance(value.get("id"), str)):
        return str(value)
    settings = {key: str(text) for key, text in sorted(value.items()) if key != "id"}
    short = (f"{key}={text[:12]}..." if _DIGEST.fullmatch(text) else f"{key}={text}" for key, text in settings.items())
    return f"{value['id']}({', '.join(short)})"


class Drawn(NamedTuple):
    """Data that a sampler drew from a seed."""

    seed: int
    sampler: str = COUNTS


class Logged(NamedTuple):
    """Data that somebody recorded, known by its digest."""

    digest: str


Sample = Drawn | Logged  # where the data of a run came from


@dataclass(frozen=True)
class RunSpec:
    """Problem, algorithm, shared seed and sample: the identity of a run.

    >>> spec = RunSpec(ObjectSpec("two-goals-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1}), 7, Drawn(1))
    >>> RunSpec.from_json(spec.to_json()) == spec
    True
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    shared_seed: int
    sample: Sample

    __repr__ = short_repr

    def __post_init__(self) -> None:
        put(self, shared_seed=check_integer("RunSpec", "shared_seed", self.shared_seed, low=0, high=MAX_SEED))
        if isinstance(self.sample, Drawn):
            check_integer("RunSpec", "sample_seed", self.sample.seed, low=0, high=MAX_SEED)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON: the key of this run."""
        return json_digest(self.to_json())

    @property
    def sample_seed(self) -> int | None:
        """The seed of a sample that was drawn."""
        return self.sample.seed if isinstance(self.sample, Drawn) else None

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "problem": self.problem.to_json(),
            "algorithm": self.algorithm.to_json(),
            "shared_seed": str(self.shared_seed),
            "sample": {"kind": "drawn", "sampler": self.sample.sampler, "seed": str(self.sample.seed)}
            if isinstance(self.sample, Drawn)
            else {"kind": "recorded", "digest": self.sample.digest},
        }

    @classmethod
    def from_json(cls, data: Json) -> RunSpec:
        """Read the JSON form back."""
        match data:
            case {"sample": {"kind": "drawn", "sampler": str(sampler), "seed": seed}}:
                sample: Sample = Drawn(_seed("sample seed", seed), sampler)
            case {"sample": {"kind": "recorded", "digest": str(digest)}}:
                sample = Logged(digest)
            case _:
                raise InvalidInput(f"RunSpec: expected a sample that was drawn or recorded, got {shown(data)}.")
        specs = ObjectSpec.from_json(data.get("problem")), ObjectSpec.from_json(data.get("algorithm"))
        return cls(*specs, _seed("shared_seed", data.get("shared_seed")), sample)


@dataclass(frozen=True, repr=False)
class RunFamily:
    """All runs of one algorithm on one problem with samples of one sampler, or with recorded ones (sampler None).

    They differ in their shared seed and their sample alone: the seed of one that was drawn, the digest of one that was
    recorded.

    >>> family = RunFamily(ObjectSpec("two-goals-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1}))
    >>> family.key(7, 1) == family.spec(7, 1).digest
    True
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    sampler: str | None = COUNTS

    @cached_property
    def _start(self) -> bytes:
        """What all their identities begin with: in canonical JSON keys are sorted, so sample and seed come last."""
        specs = tuple(canonical_json(spec.to_json()) for spec in (self.algorithm, self.problem))
        drawn = b'"kind":"drawn","sampler":%b,"seed":"' % canonical_json(self.sampler)
        return b'{"algorithm":%b,"problem":%b,"sample":{' % specs + (b'"digest":"' if self.sampler is None else drawn)

    __repr__ = short_repr

    def key(self, shared_seed: int, sample: int | str) -> str:
        """Return the digest of the `RunSpec` with this shared seed and sample."""
        return self.digests([(shared_seed, sample)])[0].hex()

    def digests(self, seeds: Iterable[tuple[int, int | str]]) -> list[bytes]:
        """Return the same as bytes, for many shared seeds and samples."""
        digests, start = [], hashlib.sha256(self._start)
        kind = ',"kind":"recorded"' if self.sampler is None else ""
        for shared_seed, sample in seeds:
            digest = start.copy()
            digest.update(f'{sample}"{kind}}},"shared_seed":"{shared_seed}"}}'.encode())
            digests.append(digest.digest())
        return digests

    def spec(self, shared_seed: int, sample: int | str, key: str | None = None) -> RunSpec:
        """Return the `RunSpec` with this shared seed and sample, and with its key where that is known."""
        spec = object.__new__(RunSpec)  # the seeds of an audit need no check
        spec.__dict__.update(
            problem=self.problem,
            algorithm=self.algorithm,
            shared_seed=shared_seed,
            sample=Logged(str(sample)) if self.sampler is None else Drawn(int(sample), self.sampler),
            digest=key or self.key(shared_seed, sample),
        )
        return spec


# --- settings -----------------------------------------------------------------------------------------------------


class Setting(ABC):
    """What an identity knows by its id and its fields: an algorithm, a rule, a mechanism, a threshold."""

    @property
    @abstractmethod
    def id(self) -> str:
        """What identities call it."""

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that are not left at their defaults; an identity says no others."""
        if not is_frozen(type(self)):
            raise InvalidInput(f"{type(self).__name__}: must be a frozen dataclass, for its fields are its identity.")
        values = vars(self)
        return {
            name: values[name]
            for name, default in _defaults(type(self)).items()
            if values[name] is not default and (isinstance(values[name], np.ndarray) or values[name] != default)
        }

    def exact_json(self) -> Json:
        """Return the id and the settings; the id alone where every setting is left at its default."""
        settings = {name: exact_json(value) for name, value in self.settings.items()}
        return {"id": self.id, **settings} if settings else self.id


@functools.lru_cache(maxsize=256)
def is_frozen(kind: type) -> bool:
    """Whether a class is a frozen dataclass, and its objects keep their fields in a dictionary."""
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    return is_dataclass(kind) and kind.__dataclass_params__.frozen and not slots  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=256)
def _defaults(kind: Any) -> dict[str, Any]:
    return {item.name: item.default for item in fields(kind)}


def exact_json(value: Any, rule: str = "a setting must be") -> Json:
    """Return a parameter or a setting as identities say it, an array by its digest; refuse what JSON cannot say.

    >>> exact_json({"layers": (2, 3)})
    {'layers': [2, 3]}
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    number = plain_number(value)
    if number is not None and abs(number) < math.inf:
        return number
    if isinstance(value, np.ndarray) and not is_masked(value):  # the digest says nothing of a mask
        return {"array": array_digest(str(value.dtype), value)}
    if isinstance(value, (list, tuple)):
        return [exact_json(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value) and set(value) != {"integer"}:
        return {key: exact_json(item) for key, item in value.items()}
    if isinstance(value, Setting):
        return value.exact_json()
    raise InvalidInput(f"{rule} a value that JSON can say exactly, got {shown(value)}.")


def _is_exact(value: Any) -> bool:
    try:
        exact_json(value)
    except InvalidInput:
        return False
    return True


def inexact_setting(thing: Setting) -> str | None:
    """Return the name of a setting that JSON cannot say: no identity is exact without it."""
    return next((name for name, value in thing.settings.items() if not _is_exact(value)), None)


# --- algorithms ---------------------------------------------------------------------------------------------------


class PromisedLoss(NamedTuple):
    """The loss that is promised: at most ``epsilon``, except with probability ``delta``.

    ``over`` says whether it is that from the "initial" distribution, or from the "worst" state.
    """

    epsilon: float
    delta: float
    over: str


class Algorithm(Setting):
    """Anything that solves a problem from shared randomness and fresh samples: a frozen dataclass.

    Its fields, its ``id`` and its ``version`` are part of the identity of a run. A class that says no ``id`` is known
    by its full name; neither is inherited. ``needs`` is the type of source that it takes.

    Examples
    --------
    >>> import dataclasses, replicable_rl as rr
    >>> @dataclasses.dataclass(frozen=True)
    ... class Always(rr.Algorithm):
    ...     action: int
    ...     def solve(self, source, shared, rng):
    ...         return rr.Run.of({"policy": [self.action] * source.n_states})
    >>> rr.solve(rr.make("chain-v1"), Always(1), shared_seed=1).policy.tolist()
    [1, 1, 1, 1, 1]
    """

    needs: ClassVar[type] = object
    id: ClassVar[str]
    version: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.id = vars(cls).get("id", f"{cls.__module__}.{cls.__qualname__}")
        cls.version = vars(cls).get("version", "")

    @abstractmethod
    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Return the run; every use of ``shared`` is addressed, every sample comes from ``source`` and ``rng``."""

    def plan(self, source: Any) -> Any:
        """Return what a run on a source will do, and what may be claimed of it; None where nobody can say."""
        return None

    @property
    def promised_loss(self) -> PromisedLoss | None:
        """The loss of the policy that is promised; None where there is no such promise."""
        return None


SHIPPED: dict[str, Any] = {}  # the algorithms of this library, by id
ALGORITHMS: dict[str, Callable[..., Any]] = {}  # these, and those that were registered


def algorithm_spec(algorithm: Algorithm) -> ObjectSpec:
    """Return id, version and settings of an algorithm; a setting that JSON cannot say by its type."""
    params: dict[str, Json] = {"version": algorithm.version} if algorithm.version else {}
    for name, value in algorithm.settings.items():
        try:
            params[name] = exact_json(value)
        except InvalidInput:
            params[name] = type(value).__qualname__
    return ObjectSpec(algorithm.id, params)


# --- whose code ---------------------------------------------------------------------------------------------------


def provider(thing: Any) -> str:
    """Return whose code a class, a function or an object is: "replicable-rl", else the module it comes from.

    An object is ours if its class is, and if the objects among its settings are.

    >>> provider(provider), provider(functools.partial(provider)), provider({})
    ('replicable-rl', 'replicable-rl', 'builtins')
    """
    if isinstance(thing, functools.partial):
        return provider(thing.func)
    is_code = isinstance(thing, (type, FunctionType, BuiltinFunctionType, MethodType))
    module = str((thing if is_code else type(thing)).__module__)
    if not f"{module}.".startswith("replicable_rl."):
        return module
    ingredients = vars(thing).values() if isinstance(thing, Setting) else ()
    owners = (provider(value) for value in ingredients if isinstance(value, Setting))
    return next((owner for owner in owners if owner != OURS), OURS)


def is_reloaded(old: Any, new: Any) -> bool:
    """Whether a class or a function was defined again under its name, as a notebook does where a cell is run again."""
    kinds = (type, FunctionType)
    if old is new or not (isinstance(old, kinds) and isinstance(new, kinds)):
        return old is new
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


# --- levels -------------------------------------------------------------------------------------------------------


def freeze_array(name: str, output: Any) -> Any:
    """Return an output as a read-only array of 64-bit integers or floats; -0.0 becomes 0.0."""
    try:
        array = np.asarray(output)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "iufb" or array.ndim == 0 or array.size == 0:
        raise InvalidInput(f"Run: {name} must be an array of numbers, got {shown(output)}.")
    is_float = array.dtype.kind == "f"
    with np.errstate(over="ignore"):  # refused below
        frozen = array.astype(np.float64) + 0.0 if is_float else array.astype(np.int64)
    if is_float and np.isnan(frozen).any():
        raise InvalidInput(f"Run: {name} must hold numbers, got NaN. Find where the computation produced it.")
    if array.dtype != frozen.dtype and not np.array_equal(frozen, array):
        raise InvalidInput(f"Run: {name} must hold numbers of 64 bits, got {array.dtype} that does not fit.")
    frozen.setflags(write=False)
    return frozen


@dataclass(frozen=True)
class Level:
    """A kind of output by its name, what it implies, and how it is kept.

    Outputs are arrays of integers or floats unless the four functions say otherwise.

    Parameters
    ----------
    name : str
        Lower-case, such as ``"policy"``.
    implies : tuple of str
        Levels that are the same whenever this one is.
    freeze, digest : callable
        (name, output) -> the output in its one form, read-only; and -> a text, equal exactly where the outputs are.
    encode, decode : callable
        Output -> an array of numbers, which files and stores keep, and back.

    Examples
    --------
    >>> Level("weights", implies=("policy",)).implies
    ('policy',)
    """

    name: str
    implies: tuple[str, ...] = ()
    freeze: Callable[[str, Any], Any] = field(default=freeze_array, repr=False)
    digest: Callable[[str, Any], str] = field(default=array_digest, repr=False)
    encode: Callable[[Any], Any] = field(default=np.asarray, repr=False)
    decode: Callable[[Any], Any] = field(default=np.asarray, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            rule = "lower-case letters, digits, '-' and '_'"
            raise InvalidInput(f"Level: name must be {rule}; got {shown(self.name)}.")


def add_level(level: Level) -> Level:
    """Add a level for good, after those that it implies; the same one again changes nothing."""
    for name in level.implies:
        level_of(name)
    same = zip(vars(LEVELS.get(level.name, level)).values(), vars(level).values(), strict=True)
    if not all(old == new or is_reloaded(old, new) for old, new in same):
        raise InvalidInput(f"register: {level.name!r} is another level already. Choose another name.")
    LEVELS[level.name] = level
    return level


def level_of(name: str, owner: str = "") -> Level:
    """Return a level by its name, or refuse in the owner's name what is none.

    >>> level_of("polcy", "audit")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: audit: level must be one of model, value, bytes, policy, got \
'polcy'. Did you mean 'policy'?
    """
    if not isinstance(name, str) or name not in LEVELS:
        known = in_order(LEVELS)
        hint = did_you_mean(name, known) if isinstance(name, str) else ""
        rule = f"level must be one of {', '.join(known)}, got {shown(name)}.{hint}"
        raise InvalidInput(f"{owner}: {rule}" if owner else rule)
    return LEVELS[name]


def check_level(owner: str, name: str) -> str:
    """Return the name of a level, or refuse what is none."""
    return level_of(name, owner).name


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Return levels so that each comes before what it implies; unknown ones come last.

    >>> in_order(["policy", "model", "value"])
    ('model', 'value', 'policy')
    """
    order = [*LEVELS, *sorted(set(map(str, names)) - set(LEVELS))]
    return tuple(sorted(set(names), key=lambda name: (-len(implied(name)), order.index(name))))


def usual_level(names: Collection[str]) -> str:
    """Return the level that counts where nobody names one: the policy, or else the last of those that there are.

    >>> usual_level(["policy", "value"]), usual_level(["bytes"]), usual_level([])
    ('policy', 'bytes', 'policy')
    """
    ordered = in_order(names)
    return ordered[-1] if ordered and "policy" not in ordered else "policy"


def implied(name: str) -> set[str]:
    """Return all levels that a level implies, directly or through others."""
    direct = LEVELS[name].implies if name in LEVELS else ()  # what is implied was there before: no circles
    return set(direct).union(*map(implied, direct))


def _freeze_value(name: str, output: Any) -> Any:
    """Values are an (S, A) table of floats, finite but for actions that are not allowed: -inf, and not all of them."""
    q = freeze_array(name, output)
    q = freeze_array(name, q.astype(np.float64)) if q.dtype.kind == "i" else q
    if q.ndim != 2 or not (np.isfinite(q).all() or np.isfinite(q.max(axis=1)).all()):
        raise InvalidInput(f"Run: {name} must be a finite (S, A) table, got shape {q.shape}.")
    return q


def _freeze_bytes(name: str, output: Any) -> bytes:
    """Bytes are kept as they are; a mapping of names to arrays, such as weights, is written out, bit by bit."""
    if isinstance(output, (bytes, bytearray, memoryview)) and len(output):
        return bytes(output)
    if not isinstance(output, Mapping) or not output:
        raise InvalidInput(f"Run: {name} must be bytes or a mapping of names to arrays, got {shown(output)}.")
    heading, whole = [], []
    for key in sorted(output, key=str):
        try:
            array = np.asarray(output[key])
        except Exception:  # rows of several lengths, and whatever somebody's object raises
            array = np.asarray(None)
        if array.dtype.kind not in "iufb":
            raise InvalidInput(f"Run: {name} must hold arrays of numbers, got {shown(output[key])} under {shown(key)}.")
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        heading.append([str(key), array.dtype.str, list(array.shape)])
        whole.append(array.tobytes())
    return b"\n".join([json_text(heading).encode(), *whole])


def _bytes_digest(name: str, output: bytes) -> str:
    return hashlib.sha256(f"replicable-rl {name} {len(output)}\n".encode() + output).hexdigest()


def _as_array(output: bytes) -> Any:
    return np.frombuffer(output, dtype=np.uint8)


class Model(Artifact):
    """A process that runs may publish: a table."""

    @abstractmethod
    def as_estimate(self) -> Model:
        """Return the same process as one that was estimated from data."""


def _freeze_model(name: str, output: Any) -> Model:
    if not isinstance(output, Model):
        raise InvalidInput(f"Run: a {name} must be a TabularMDP, got {type(output).__name__}.")
    return output.as_estimate()


def _encode_model(model: Model) -> Any:
    stream = io.BytesIO()
    write_artifact(model, stream)
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


def _decode_model(array: Any) -> Model:
    return read_artifact(io.BytesIO(array.tobytes()), *Model.__subclasses__())


_SHIPPED = (
    # Weights, or whatever else training code returns.
    Level("bytes", freeze=_freeze_bytes, digest=_bytes_digest, encode=_as_array, decode=lambda array: array.tobytes()),
    Level("policy"),  # actions of states, or of observations of a probe set
    Level("value", ("policy",), freeze=_freeze_value),
    Level("model", ("value",), _freeze_model, lambda name, model: model.digest, _encode_model, _decode_model),
)
LEVELS = {level.name: level for level in _SHIPPED}  # by name, in the order of registration


class Fingerprints(dict[str, str]):
    """Digests of the exact bits, by level; also as attributes, None for a level that the run does not have.

    Equal fingerprints mean identical outputs, never merely close ones.

    >>> Fingerprints(policy="b7ec").policy, Fingerprints(policy="b7ec").model
    ('b7ec', None)
    """

    def __getattr__(self, level: str) -> str | None:
        if level in self or level in LEVELS:
            return self.get(level)
        raise AttributeError(f"there is no level {level!r}.{did_you_mean(level, LEVELS)}")


# --- how it ended -------------------------------------------------------------------------------------------------


class StatusCode(Enum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED_BY_RULE = "stopped by the rule"
    ALL_KNOWN = "every pair known"
    BUDGET_SPENT = "budget spent"
    FAILED = "failed"


@dataclass(frozen=True)
class Status(Displayed):
    """How a run ended, as a code for programs and a sentence for people."""

    code: StatusCode
    sentence: str

    __repr__ = short_repr

    def __str__(self) -> str:
        return f"{self.code.value}: {self.sentence}"


def status_from(data: Json) -> Status | None:
    """Read back what `to_json` wrote of a status."""
    return None if data is None else from_record(Status, data)


UNSAID = Status(StatusCode.COMPLETED, "the code that ran does not say how it ended")  # no run ends without a word


@functools.cache
def made_with() -> Mapping[str, str]:
    """Return the versions of what computes here, and the platform: part of a run, but not of its identity."""
    import platform
    from importlib.metadata import version

    packages = {name: version(name) for name in ("replicable-rl", "numpy", "numba", "scipy")}
    machine = f"{platform.system()}-{platform.machine()}"
    return {**packages, "python": platform.python_version(), "platform": machine}


# --- claims -------------------------------------------------------------------------------------------------------

_DEFINITION = "def:replicability"
THIS_SEED = "a second run with this shared seed, given the data of the first"
CERTIFICATE = "certificate replicability: a second run with what the first one published"
FIXED_SEED = "the shared seed was fixed before the data"
_ESTIMATE = ", as a statement about the estimated table, not about the process behind it"


def asks_for_nothing(gain: float) -> str:
    """Say that a loss is allowed that is as large as all that can be gained."""
    return f"asks for nothing here: the best policy gains {number(gain, 3)}"


@dataclass(frozen=True)
class Claim:
    """One thing that is said, with its ground. Made outside this library it is stated, and of no other kind.

    >>> print(Claim("accuracy", "stated", "the policy is within 0.1 of optimal", 0.1, "my proof", by="mine-v1"))
    stated by mine-v1, not by this library (my proof): the policy is within 0.1 of optimal.
    """

    about: str  # "accuracy" or "replicability"
    kind: str  # "stated"; of this library's own claims "proved", "asymptotic" or "measured"
    statement: str  # what holds, as a clause for people
    bound: float  # epsilon (in values normalised to [0, 1], or of an entry of the model) or rho
    source: str  # the theorem, by the paper's LaTeX label (people are shown the PDF's number too), or the audit
    failure: float = 0.0  # the probability with which it may not hold; for rho there is none beside ``bound``
    level: str | None = None  # what is accurate, or identical in two runs
    conditions: tuple[str, ...] = ()  # what must be true of the run or of the problem
    definition: str | None = None  # of replicability; None for accuracy
    by: str | None = None  # whose code states it, filled in by what runs that code
    gain: float | None = None  # what the best policy gains, where the claim allows to lose as much; None elsewhere

    _kinds: ClassVar[tuple[str, ...]] = ("stated",)
    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_choice("Claim", "about", self.about, ("accuracy", "replicability"))
        if self.kind not in self._kinds:
            raise InvalidInput(
                f"Claim: kind must be {' or '.join(map(repr, self._kinds))}, got {shown(self.kind)}. What others than "
                "this library claim is stated, whatever its ground: name that in source."
            )
        if not _is_text(self.source) or not _is_text(self.statement):
            raise InvalidInput("Claim: a claim says what holds and names its source; one of the two is empty.")
        if isinstance(self.conditions, str) or not all(map(_is_text, self.conditions)):
            raise InvalidInput(f"Claim: conditions must be a tuple of texts, got {shown(self.conditions)}.")
        high, usual = (1.0, _DEFINITION) if self.about == "replicability" else (math.inf, None)
        highest = {"bound": high, "failure": 1.0} | ({} if self.gain is None else {"gain": math.inf})
        for name, most in highest.items():
            rule = f"a number from 0 to {most:g}"
            put(self, **{name: check_real("Claim", name, vars(self)[name], low=0.0, high=most, rule=rule)})
        put(self, conditions=tuple(self.conditions), definition=self.definition or usual)

    def __str__(self) -> str:
        ground = f"{self.ground} ({self.source})"
        empty = "" if self.gain is None else f"{asks_for_nothing(self.gain)}; "
        proviso = f", if {listed(list(self.conditions))}" if self.conditions else ""
        return f"{ground if self.kind == 'stated' else cited(ground)}: {empty}{self.statement}{proviso}."

    @property
    def ground(self) -> str:
        """The kind, and by whom a claim is stated."""
        return self.kind if self.by is None else f"stated by {self.by}, not by this library"

    @property
    def on_policy(self) -> bool:
        """Whether it is about what a policy loses."""
        return self.about == "accuracy" and self.level in ("policy", None)


class LibraryClaim(Claim):
    """A claim of this library: it alone says that something is proved, asymptotic or measured."""

    _kinds = ("proved", "asymptotic", "measured")


@dataclass(frozen=True)
class Claims(Displayed):
    """What is claimed, and a sentence for everything that is not.

    >>> print(Claims(missing={"accuracy": "iterations=1 where thm:rpvi needs 100"}))
    Nothing is proved about accuracy: iterations=1 where Theorem 4.1 (thm:rpvi) needs 100.
    """

    made: tuple[Claim, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)  # what a claim would be about -> why there is none
    gain: float | None = None  # of the best policy, where a loss that is as large is allowed

    __repr__ = short_repr

    def __post_init__(self) -> None:
        put(self, made=tuple(self.made))
        subjects = {(claim.about, claim.definition) for claim in self.made}
        if len(subjects) < len(self.made):
            raise InvalidInput("Claims: there must be at most one claim about accuracy, and one about replicability.")

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)

    def __hash__(self) -> int:
        return hash((self.made, frozenset(self.missing.items())))

    @property
    def accuracy(self) -> Claim | None:
        """What is claimed about accuracy; None if nothing is."""
        return next((claim for claim in self.made if claim.about == "accuracy"), None)

    @property
    def replicability(self) -> Claim | None:
        """What is claimed about a second run, whatever the shared seed; None if nothing is."""
        return next((claim for claim in self.made if claim.definition == _DEFINITION), None)

    @property
    def of_this_seed(self) -> Claim | None:
        """What this run's data say of a second run with this shared seed, or these cuts; None if not enough."""
        return next((claim for claim in self.made if claim.definition in (THIS_SEED, CERTIFICATE)), None)

    def __str__(self) -> str:
        claims = [f"{text[:1].upper()}{text[1:]}" for text in map(str, self.made)]
        gaps = [f"Nothing is proved about {about}: {cited(why)}." for about, why in self.missing.items()]
        return " ".join([*claims, *gaps]) or "Nothing is claimed."

    def told(
        self,
        conditions: tuple[str, ...] = (),
        gain: float | None = None,
        estimated: bool = False,
        by: str | None = None,
    ) -> Claims:
        """Return the claims as those of a run.

        They hold under the ``conditions`` of its source, too. A bound on the loss that is no less than the ``gain`` of
        the best policy asks for nothing. Claims on an ``estimated`` table end at the table. What other code claims is
        stated ``by`` it.
        """
        empty = [gain is not None and claim.on_policy and claim.bound >= gain for claim in self.made]
        if not (conditions or estimated or by or any(empty)):
            return self
        made = []
        for claim, is_empty in zip(self.made, empty, strict=True):
            values = {item.name: vars(claim)[item.name] for item in fields(Claim)}
            values["conditions"] = tuple(dict.fromkeys((*claim.conditions, *conditions)))
            if estimated:
                values["statement"] = claim.statement.removesuffix(_ESTIMATE) + _ESTIMATE
            if is_empty:
                values["gain"] = gain
            made.append(type(claim)(**values) if by is None else Claim(**values | {"kind": "stated", "by": by}))
        return Claims(tuple(made), self.missing, gain if any(empty) else self.gain)

    def to_json(self) -> Json:
        """Return the JSON form."""
        return to_json(self)

    @classmethod
    def from_json(cls, data: Json, by: str = "whoever wrote it") -> Claims:
        """Read the JSON form back; what others than this library have claimed is stated ``by`` them."""
        if not isinstance(data, dict) or not isinstance(data.get("made"), list):
            raise InvalidInput(f"Claims: expected a list of claims, got {shown(data)}.")
        kinds = [
            Claim if isinstance(item, dict) and item.get("kind") == "stated" else LibraryClaim for item in data["made"]
        ]
        made = tuple(from_record(kind, item) for kind, item in zip(kinds, data["made"], strict=True))
        claims = replace(from_record(cls, data | {"made": []}), made=made)
        if not all(isinstance(text, str) for text in claims.missing.values()):
            raise InvalidInput(f"Claims: expected what is missing by name, got {shown(claims.missing)}.")
        return claims if by == OURS or LibraryClaim not in kinds else claims.told(by=by)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def speaker(spec: ObjectSpec | None) -> str:
    """Return who is believed to have made the claims of a run that was read: this library, for what it ships."""
    return "code without a name" if spec is None else OURS if spec.id in SHIPPED else spec.id


# --- runs ---------------------------------------------------------------------------------------------------------

History = Mapping[str, "NDArray[np.float64]"]
Fetch = Callable[[str, str], Any]  # (name of a level, or of a column in its folder; digest) -> what is kept
_NO_CLAIMS = Claims()
HISTORY = "history/"  # the folder of its columns, in files and stores


class Kept(Mapping[str, Any]):
    """Arrays that are kept elsewhere, known by their names and digests: each is fetched when it is asked for."""

    def __init__(self, digests: Mapping[str, str], fetch: Fetch | None, folder: str = "") -> None:
        self.digests, self._fetch, self._folder = digests, fetch, folder

    def __getitem__(self, name: str) -> Any:
        if self._fetch is None:
            raise InvalidInput(f"Run: {name} is not here; the run travels without it.")
        return self._fetch(self._folder + name, self.digests[name])

    def __contains__(self, name: object) -> bool:
        return name in self.digests  # a mapping would fetch it

    def __iter__(self) -> Iterator[str]:
        return iter(self.digests)

    def __len__(self) -> int:
        return len(self.digests)


@dataclass(frozen=True, eq=False)
class Run(Artifact):
    """What one run yields; immutable.

    Algorithms build one with :meth:`of`; :func:`replicable_rl.solve` adds the identity and the versions.

    Attributes
    ----------
    outputs : mapping of levels to outputs
        What the algorithm stands for: ``policy``, ``value``, ``model``, or levels of its own.
    fingerprints : Fingerprints
        Their digests, to compare runs by.
    status, claims
        How it ended, and what is claimed about it.
    samples : int or None
        Transitions drawn; None where training code does not report it. On a log: its rows.
    history : mapping of names to arrays
        What happened round by round, for algorithms that explore; empty otherwise.
    spec : RunSpec or None
        The identity of the run.
    made_with : mapping
        Versions and platform.
    seconds : float
        The time that it took where it ran: the one thing that a repetition changes.
    error : str or None
        Why it failed; such a run has no outputs.
    traceback : str or None
        Where it failed, as Python prints it; of runs that were just made, for a store keeps the error alone.
    """

    saved_as: ClassVar[str] = "run"
    fingerprints: Fingerprints
    outputs: Mapping[str, Any] = field(repr=False)
    status: Status | None = None
    claims: Claims = field(default_factory=Claims)
    samples: int | None = None
    history: History = field(default_factory=dict, repr=False)
    spec: RunSpec | None = None
    made_with: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = 0.0
    error: str | None = None
    traceback: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        outputs: Mapping[str, Any],
        *,
        status: Status | None = None,
        claims: Claims | None = None,
        samples: int | None = None,
        history: History | None = None,
    ) -> Run:
        """Freeze the outputs, take their fingerprints and build a run.

        Parameters
        ----------
        outputs : mapping
            By level; at least one. A (S, A) table under ``"value"`` must fit the actions under ``"policy"``.
        status, claims, samples, history
            As the attributes.

        Examples
        --------
        >>> run = Run.of({"policy": [0, 1]}, status=Status(StatusCode.COMPLETED, "decided"), samples=20)
        >>> run.policy.tolist(), list(run.fingerprints)
        ([0, 1], ['policy'])
        """
        if not isinstance(outputs, Mapping) or not outputs:
            raise InvalidInput(f"Run: outputs must be a mapping of levels to outputs, got {shown(outputs)}.")
        levels = [level_of(name) for name in in_order(outputs)]
        frozen = {level.name: level.freeze(level.name, outputs[level.name]) for level in levels}
        if "value" in frozen and "policy" in frozen:
            _check_fit(frozen["value"], frozen["policy"])
        prints = Fingerprints({level.name: level.digest(level.name, frozen[level.name]) for level in levels})
        columns = {name: np.array(column, dtype=np.float64) for name, column in (history or {}).items()}
        for column in columns.values():
            column.setflags(write=False)
        claims = _NO_CLAIMS if claims is None else claims
        return cls(prints, MappingProxyType(frozen), status, claims, samples, MappingProxyType(columns))

    @classmethod
    def failed(cls, spec: RunSpec | None, error: str, seconds: float = 0.0, *, traceback: str | None = None) -> Run:
        """Return a run that raised; what no Unicode text can hold of its words is escaped."""
        error = error.encode("utf-8", "backslashreplace").decode()
        run = cls(Fingerprints(), {}, Status(StatusCode.FAILED, error), seconds=seconds, error=error)
        return run.but(spec=spec, made_with=made_with(), traceback=traceback)

    def completed(self, spec: RunSpec, **changes: Any) -> Run:
        """Return the same run with its identity, with what made it, and with ``changes``."""
        return self.but(spec=spec, made_with=made_with(), **changes)

    def kept(self, fetch: Fetch | None, **changes: Any) -> Run:
        """Return the same run without its arrays, which ``fetch`` brings when asked for them, and with ``changes``."""
        outputs = {} if fetch is None else Kept(self.fingerprints, fetch)
        return self.but(outputs=outputs, history=Kept(self.columns, fetch, HISTORY), **changes)

    def but(self, **changes: Any) -> Run:
        """Return the same run with other parts; as `dataclasses.replace`, in a tenth of the time: there are many."""
        other = object.__new__(Run)  # also of a class of somebody's own, which may say anything of itself
        other.__dict__.update(self.__dict__, **changes)
        return other

    @property
    def columns(self) -> Mapping[str, str]:
        """The digests of the columns of its history, by name."""
        if isinstance(self.history, Kept):
            return self.history.digests
        return {name: column_digest(name, column) for name, column in self.history.items()}

    def to_json(self) -> dict[str, Json]:
        """Return everything but the outputs as JSON; ``samples`` is a string, for it may pass 2**53."""
        return {
            "spec": None if self.spec is None else self.spec.to_json(),
            "run": None if self.spec is None else self.spec.digest,
            "status": to_json(self.status),
            "claims": self.claims.to_json(),
            "samples": decimal(self.samples),
            "fingerprints": dict(self.fingerprints),
            "history": {name: column.tolist() for name, column in self.history.items()},
            "made_with": dict(self.made_with),
        }

    def parts(self) -> Parts:
        """Return what a file holds of it: an array for every level, and for every column of its history."""
        if self.error is not None:
            raise InvalidInput(f"save: this run failed, and has nothing to save ({self.error.rstrip('.')}).")
        arrays = {level: level_of(level).encode(self.output(level)) for level in self.fingerprints}
        columns = {f"{HISTORY}{i}": column for i, column in enumerate(self.history.values())}
        return Parts({**self.to_json(), "history": list(self.history)}, arrays | columns)

    @classmethod
    def from_parts(cls, parts: Parts) -> Run:
        """Make a run of what a file holds."""
        values, arrays = parts.values, parts.arrays
        spec = None if values["spec"] is None else RunSpec.from_json(values["spec"])
        run = Run.of(
            {name: level_of(name).decode(arrays[name]) for name in values["fingerprints"]},
            status=status_from(values["status"]),
            claims=Claims.from_json(values["claims"], speaker(None if spec is None else spec.algorithm)),
            samples=None if values["samples"] is None else from_decimal("samples", values["samples"]),
            history={name: arrays[f"{HISTORY}{i}"] for i, name in enumerate(values["history"])},
        )
        return run.but(spec=spec, made_with=dict(values["made_with"]))

    def output(self, level: str) -> Any:
        """Return the output at a level, or say which levels there are."""
        if level in self.outputs:
            return self.outputs[level]
        level_of(level)
        has = ", ".join(self.fingerprints) or "nothing, for it failed"
        raise InvalidInput(f"Run: there is no {level}; this run stands for {has}.")

    @property
    def policy(self) -> NDArray[np.int64]:
        """The action chosen in each state, (S,)."""
        return self.output("policy")  # type: ignore[no-any-return]  # outputs have the type of their level

    @property
    def q(self) -> NDArray[np.float64]:
        """Action values, (S, A), in the units of the problem's rewards."""
        return self.output("value")  # type: ignore[no-any-return]

    @property
    def value(self) -> NDArray[np.float64]:
        """The value of each state under the best action, max_a q(s, a)."""
        return self.q.max(axis=1)  # type: ignore[no-any-return]

    @property
    def model(self) -> TabularMDP | None:
        """The learned model; None for algorithms that learn none."""
        return self.outputs.get("model")

    @property
    def key(self) -> str:
        """The digest of its identity."""
        return self._spec.digest

    @property
    def shared_seed(self) -> int:
        """The shared seed."""
        return self._spec.shared_seed

    @property
    def sample_seed(self) -> int | None:
        """The seed of the sample; None where it was recorded."""
        return self._spec.sample_seed

    @property
    def _spec(self) -> RunSpec:
        if self.spec is None:
            raise InvalidInput("Run: this run has no identity yet; `solve` gives it one.")
        return self.spec

    def __repr__(self) -> str:
        specs = () if self.spec is None else (self.spec.problem, self.spec.algorithm)
        parts = [brief(spec.text, 120) for spec in specs]
        parts += [f"{level} {print[:8]}" for level, print in self.fingerprints.items()]
        parts += [] if self.samples is None else [f"{number(self.samples)} samples"]
        return described(self, ", ".join([*parts, str(self.status or "no status")]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._what_repeats() == other._what_repeats()

    def __hash__(self) -> int:
        return hash((self.spec, *self.fingerprints.values()))

    def _what_repeats(self) -> tuple[Any, ...]:
        return self.spec, self.fingerprints, self.status, self.claims, self.samples, self.columns, self.error


def column_digest(name: str, column: Any) -> str:
    """Return the digest of a column of a history; NaN, which marks rounds without an entry, counts by its bits."""
    return array_digest(f"history {name}", np.asarray(column, dtype=np.float64).view(np.int64))


def _check_fit(q: NDArray[np.float64], policy: NDArray[np.int64]) -> None:
    """Refuse a policy that is not one of its table of values."""
    fits = policy.shape == q.shape[:1] and policy.dtype.kind == "i"
    if not fits or policy.view(np.uint64).max() >= q.shape[1]:  # -1 is 2**64 - 1
        rule = f"values of shape {q.shape} go with one action in 0..{q.shape[1] - 1} for every state"
        raise InvalidInput(f"Run: {rule}, got a policy {shown(policy)}.")
    if q.min() == -np.inf and not np.isfinite(q[np.arange(policy.size), policy]).all():
        raise InvalidInput("Run: the policy must take allowed actions, and takes one whose value is -inf.")
