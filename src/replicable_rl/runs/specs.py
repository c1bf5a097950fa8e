"""Identities: what is run, as canonical JSON and its digest.

A :class:`RunSpec` says everything that determines the bits of a run: the problem (a registered id with parameters,
or the digest of its arrays), the algorithm with its parameters, the shared seed, and the sample. Its digest is the
key under which a run is stored, resumed and certified. An :class:`AuditSpec` says which runs an audit makes, and what
is asked of them. JSON numbers end at 2**53: seeds are written as decimal strings, and a larger integer among the
parameters as ``{"integer": "10000000000000000"}``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from replicable_rl.canonical import Json, canonical_json, from_decimal, from_json, json_digest, to_json
from replicable_rl.display import described, short
from replicable_rl.errors import InvalidInput, check_integer, plain_number, shown
from replicable_rl.randomness import MAX_SEED
from replicable_rl.wording import brief

COUNTS = "counts-v1"  # the sampler of tables: counts, at a cost that does not depend on their number
OWN = "own"  # the problem samples itself: a simulator, an environment
_DIGEST = re.compile("[0-9a-f]{64}")


def put(record: object, **values: Any) -> None:
    """Give a frozen record its checked values while it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def record_of(kind: Any, data: Json, *without: str) -> dict[str, Any]:
    """Return a JSON object that has exactly the fields of a dataclass, but for some; refuse anything else."""
    names = [one.name for one in fields(kind) if one.name not in without]
    if not isinstance(data, dict) or set(data) != set(names):
        raise InvalidInput(f"{kind.__name__}: expected {', '.join(names)}; got {shown(data)}.")
    return dict(data)


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
            raise InvalidInput(
                f"ObjectSpec: needs a text and a mapping, got {shown(self.id)} and {shown(self.params)}."
            )
        params = {str(key): _plain(self.id, str(key), value) for key, value in self.params.items()}
        put(self, params=MappingProxyType(params), id=str(self.id))

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


def parameter_text(value: Json) -> str:
    """Write a parameter for people; one that is an object of its own, such as a rule, by its id and settings.

    >>> parameter_text({"tolerance": 0.01, "id": "tolerance"}), parameter_text({"id": "published", "cuts": "0f" * 32})
    ('tolerance(tolerance=0.01)', 'published(cuts=0f0f0f0f0f0f...)')
    """
    if not (isinstance(value, dict) and isinstance(value.get("id"), str)):
        return str(value)
    named = {key: str(one) for key, one in sorted(value.items()) if key != "id"}
    short = {key: f"{one[:12]}..." if _DIGEST.fullmatch(one) else one for key, one in named.items()}
    return f"{value['id']}({', '.join(f'{key}={one}' for key, one in short.items())})"


class Drawn(NamedTuple):
    """Data that a sampler drew from a seed."""

    seed: int
    sampler: str = COUNTS

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"kind": "drawn", "sampler": self.sampler, "seed": str(self.seed)}


class Logged(NamedTuple):
    """Data that somebody recorded, known by its digest."""

    digest: str

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"digest": self.digest, "kind": "recorded"}


Sample = Drawn | Logged  # where the data of a run came from


def sample_from_json(data: Json) -> Sample:
    """Read the JSON form of a sample back.

    >>> sample_from_json(Drawn(7).to_json())
    Drawn(seed=7, sampler='counts-v1')
    """
    if isinstance(data, dict) and data.get("kind") == "drawn" and isinstance(data.get("sampler"), str):
        return Drawn(_seed("sample seed", data.get("seed")), data["sampler"])
    if isinstance(data, dict) and data.get("kind") == "recorded" and isinstance(data.get("digest"), str):
        return Logged(data["digest"])
    raise InvalidInput(f"sample: expected one that was drawn or recorded, got {shown(data)}.")


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

    def __repr__(self) -> str:
        of = f"{brief(self.problem.text, 150)}, {brief(self.algorithm.text, 150)}"
        return described(self, f"{of}, shared_seed={self.shared_seed}, {self.sample!r}")

    def __post_init__(self) -> None:
        check_objects("RunSpec", problem=self.problem, algorithm=self.algorithm)
        put(self, shared_seed=check_integer("RunSpec", "shared_seed", self.shared_seed, low=0, high=MAX_SEED))
        if isinstance(self.sample, Drawn):
            check_integer("RunSpec", "sample_seed", self.sample.seed, low=0, high=MAX_SEED)
        elif not isinstance(self.sample, Logged):
            raise InvalidInput(f"RunSpec: sample must be Drawn or Logged, got {shown(self.sample)}.")

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
            "sample": self.sample.to_json(),
        }

    @classmethod
    def from_json(cls, data: Json) -> RunSpec:
        """Read the JSON form back."""
        if not isinstance(data, dict):
            raise InvalidInput(f"RunSpec: expected an object, got {shown(data)}.")
        return cls(
            ObjectSpec.from_json(data.get("problem")),
            ObjectSpec.from_json(data.get("algorithm")),
            _seed("shared_seed", data.get("shared_seed")),
            sample_from_json(data.get("sample")),
        )


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
        return b'{"algorithm":%b,"problem":%b,"sample":{' % specs + (b'"digest":' if self.sampler is None else drawn)

    def __repr__(self) -> str:
        return described(self, f"{brief(self.problem.text, 200)}, {brief(self.algorithm.text, 200)}, {self.sampler}")

    def key(self, shared_seed: int, sample: int | str) -> str:
        """Return the digest of the `RunSpec` with this shared seed and sample."""
        return self.digests([(shared_seed, sample)])[0].hex()

    def digests(self, seeds: Iterable[tuple[int, int | str]]) -> list[bytes]:
        """Return the same as bytes, for many shared seeds and samples."""
        found, recorded, start = [], self.sampler is None, hashlib.sha256(self._start)
        for shared_seed, sample in seeds:
            digest = start.copy()
            said = f'{canonical_json(sample).decode()},"kind":"recorded' if recorded else sample
            digest.update(f'{said}"}},"shared_seed":"{shared_seed}"}}'.encode())
            found.append(digest.digest())
        return found

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


def _plain(owner: str, key: str, value: object) -> Json:
    """Return the value in Python's own types; what JSON cannot say is refused."""
    if value is None or type(value) in (bool, str, int, float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        if set(value) == {"integer"}:
            raise InvalidInput(
                f"{owner}: parameter {key!r} uses the form reserved for large integers. Rename 'integer'."
            )
        return {str(k): _plain(owner, key, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(owner, key, v) for v in value]
    number = plain_number(value)
    if number is not None:
        return number
    raise InvalidInput(f"{owner}: parameter {key!r} must be a number, text, list or mapping, got {shown(value)}.")


def _seed(name: str, text: Any) -> int:
    return check_integer("RunSpec", name, from_decimal(f"RunSpec: {name}", text, 20), low=0, high=MAX_SEED)
