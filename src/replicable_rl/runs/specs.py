"""Identities: what is run, as canonical JSON and its digest, and whose code it is.

A :class:`RunSpec` says everything that determines the bits of a run: the problem (a registered id with parameters,
or the digest of its arrays), the algorithm with its parameters, the shared seed, and the sample. Its digest is the
key under which a run is stored, resumed and certified. JSON numbers end at 2**53: seeds are written as decimal strings,
and a larger integer among the parameters as ``{"integer": "10000000000000000"}``.

An :class:`Algorithm`, and an ingredient such as a rule, is a frozen dataclass: its id and its fields are its identity.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.canonical import Json, array_digest, canonical_json, from_decimal, from_json, json_digest, to_json
from replicable_rl.display import described, short, short_repr
from replicable_rl.errors import InvalidInput, check_integer, plain_number, shown
from replicable_rl.randomness import MAX_SEED

if TYPE_CHECKING:
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.runs.run import Run

COUNTS = "counts-v1"  # the sampler of tables: counts, at a cost that does not depend on their number
OWN = "own"  # the problem samples itself: a simulator, an environment
OURS = "replicable-rl"  # no module can be called so
_ROOT = f"{Path(__file__).parent.parent}/"  # of the files of this package, as code objects name them
_NOBODYS = {*sys.stdlib_module_names, "numpy"}
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
        put(self, params=MappingProxyType({str(key): self._exact(key) for key in self.params}))

    def _exact(self, key: str) -> Json:
        try:
            return exact_json(self.params[key])
        except InvalidInput as error:
            raise InvalidInput(f"{self.id}: parameter {key!r}: {error}") from None

    def __repr__(self) -> str:
        return described(self, f"{self.id!r}, {short(self.params)}" if self.params else repr(self.id))

    def __hash__(self) -> int:
        return hash(self.id)  # parameters may be lists, and equal numbers of other types

    def __reduce__(self) -> tuple[type[ObjectSpec], tuple[str, dict[str, Json]]]:
        return ObjectSpec, (self.id, dict(self.params))  # a read-only mapping cannot be sent to a worker

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
        if not (isinstance(data, dict) and isinstance(data.get("id"), str) and isinstance(data.get("params"), dict)):
            raise InvalidInput(f"ObjectSpec: expected an object with 'id' and 'params', got {shown(data)}.")
        return cls(data["id"], {key: from_json(value) for key, value in data["params"].items()})


def check_objects(owner: str, **specs: object) -> None:
    """Refuse what is no `ObjectSpec`."""
    for name, spec in specs.items():
        if not isinstance(spec, ObjectSpec):
            raise InvalidInput(f"{owner}: {name} must be an ObjectSpec, got {shown(spec)}.")


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
        check_objects("RunSpec", problem=self.problem, algorithm=self.algorithm)
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


def exact_json(value: Any) -> Json:
    """Return a parameter or a setting as identities say it, an array by its digest; refuse what JSON cannot say.

    >>> exact_json({"layers": (2, 3)})
    {'layers': [2, 3]}
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    number = plain_number(value)
    if number is not None and abs(number) < math.inf:
        return number
    if isinstance(value, np.ndarray):
        return {"array": array_digest(str(value.dtype), value)}
    if isinstance(value, (list, tuple)):
        return [exact_json(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value) and set(value) != {"integer"}:
        return {key: exact_json(item) for key, item in value.items()}
    if isinstance(value, Setting):
        return value.exact_json()
    raise InvalidInput(f"JSON cannot say {shown(value)} exactly.")


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


def speaker(spec: ObjectSpec | None) -> str:
    """Return who is believed to have made the claims of a run that was read: this library, for what it ships."""
    return "code without a name" if spec is None else OURS if spec.id in SHIPPED else spec.id


def algorithm_spec(algorithm: Algorithm) -> ObjectSpec:
    """Return id, version and settings of an algorithm; a setting that JSON cannot say by its type."""
    params: dict[str, Json] = {"version": algorithm.version} if algorithm.version else {}
    for name, value in algorithm.settings.items():
        params[name] = exact_json(value) if _is_exact(value) else type(value).__qualname__
    return ObjectSpec(algorithm.id, params)


# --- whose code ---------------------------------------------------------------------------------------------------


def provider(thing: Any) -> str:
    """Return whose code a class, a function or an object is: "replicable-rl", else the module it comes from.

    What ships is what this package has under its name. An object is ours if its class is, if no attribute of it hides
    a part of its class, and if the objects among its settings are ours.

    >>> provider(provider), provider(functools.partial(provider)), provider({})
    ('replicable-rl', 'replicable-rl', 'builtins')
    """
    if isinstance(thing, functools.partial):
        return provider(thing.func)
    if isinstance(thing, MethodType):
        return provider(thing.__func__)
    if isinstance(thing, (type, FunctionType, BuiltinFunctionType)):
        return OURS if _ships(thing) else str(thing.__module__)
    kind: Any = type(thing)
    if not _ships(kind):
        return str(kind.__module__)
    settings, methods = _parts(kind)
    for name, value in vars(thing).items() if kind.__dictoffset__ else ():
        if name in methods:
            return str(kind.__module__) if provider(value) == OURS else provider(value)
        if name in settings and not _is_plain(type(value)) and provider(value) != OURS:
            return provider(value)
    return OURS


def is_our_file(file: str) -> bool:
    """Whether a file, as a code object names it, is one of this package."""
    return file.startswith(_ROOT)


def is_reloaded(old: Any, new: Any) -> bool:
    """Whether a class or a function was defined again under its name, as a notebook does where a cell is run again."""
    kinds = (type, FunctionType)
    if old is new or not (isinstance(old, kinds) and isinstance(new, kinds)):
        return old is new
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _is_plain(kind: type) -> bool:
    """Whether a class is of Python or NumPy: numbers, texts and arrays have no methods of anybody's own."""
    return kind.__module__.partition(".")[0] in _NOBODYS


@functools.lru_cache(maxsize=512)
def _ships(defined: Any) -> bool:
    """Whether a class, with its bases, or a function is the one that this package has under its name."""
    namespace: Any = vars(sys.modules.get(defined.__module__, ABC))
    if not is_our_file(namespace.get("__file__") or ""):
        return False
    *owners, name = defined.__qualname__.split(".")
    for owner in owners:
        namespace = vars(namespace.get(owner, ABC))
    bases = defined.__mro__[1:] if isinstance(defined, type) else ()
    return namespace.get(name) is defined and all(_is_plain(base) or _ships(base) for base in bases)


@functools.lru_cache(maxsize=512)
def _parts(kind: type) -> tuple[set[str], set[str]]:
    """Return the names of the settings of a class, and of the methods that no attribute of an object may hide."""
    settings = {item.name for item in fields(kind)} if is_dataclass(kind) else set()
    members = {name: member for base in reversed(kind.__mro__) for name, member in vars(base).items()}
    code: Any = object if is_dataclass(kind) else (FunctionType, property, classmethod, staticmethod)
    methods = {
        name for name, item in members.items() if isinstance(item, code) and not isinstance(item, cached_property)
    }
    return settings, methods - settings
