"""The identity of a run, as canonical JSON and its digest.

A :class:`RunSpec` says everything that determines the bits of a run: the problem (a
registered id with parameters, or the digest of its arrays), the algorithm with its
parameters, and both seeds. Its digest is the key under which a run is stored, resumed
and certified. JSON numbers end at 2**53: seeds are written as decimal strings, and a larger
integer among the parameters as ``{"integer": "10000000000000000"}``.
"""

from __future__ import annotations

import hashlib
import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from replicable_rl.canonical import Json, canonical_json
from replicable_rl.errors import InvalidInput, check_integer
from replicable_rl.randomness import MAX_SEED

__all__ = ["ObjectSpec", "RunFamily", "RunSpec"]

_MAX_JSON_INTEGER = 2**53 - 1


@dataclass(frozen=True)
class ObjectSpec:
    """A problem or an algorithm: its id and the parameters of its constructor.

    >>> ObjectSpec("riverswim-v1", {"n_states": 20}).text
    'riverswim-v1:n_states=20'
    """

    id: str
    params: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        params = {str(key): _plain(self.id, str(key), value) for key, value in self.params.items()}
        object.__setattr__(self, "params", MappingProxyType(params))

    def __hash__(self) -> int:
        return hash(self.id)  # parameters may be lists, and equal numbers of other types

    def __reduce__(self) -> tuple[type[ObjectSpec], tuple[str, dict[str, Json]]]:
        return ObjectSpec, (self.id, dict(self.params))  # a read-only mapping cannot be sent to a worker

    @property
    def text(self) -> str:
        """The id and its parameters in the form the command line takes."""
        listed = ",".join(f"{key}={value}" for key, value in self.params.items())
        return f"{self.id}:{listed}" if listed else self.id

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"id": self.id, "params": {key: _encode(value) for key, value in self.params.items()}}

    @classmethod
    def from_json(cls, data: Json) -> ObjectSpec:
        """Read the JSON form back."""
        if not (isinstance(data, dict) and isinstance(data.get("id"), str) and isinstance(data.get("params"), dict)):
            raise InvalidInput(f"ObjectSpec: expected an object with 'id' and 'params', got {data!r}.")
        return cls(data["id"], {key: _decode(value) for key, value in data["params"].items()})


@dataclass(frozen=True)
class RunSpec:
    """Problem, algorithm and both seeds: the identity of a run.

    >>> spec = RunSpec(ObjectSpec("two-goals-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1}), 7, 1)
    >>> RunSpec.from_json(spec.to_json()) == spec
    True
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    shared_seed: int
    sample_seed: int

    def __post_init__(self) -> None:
        for name in ("shared_seed", "sample_seed"):
            check_integer("RunSpec", name, getattr(self, name), low=0, high=MAX_SEED)

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON: the key of this run."""
        return RunFamily(self.problem, self.algorithm).key(self.shared_seed, self.sample_seed)

    def canonical(self) -> bytes:
        """Return the canonical JSON text."""
        return canonical_json(self.to_json())

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "problem": self.problem.to_json(),
            "algorithm": self.algorithm.to_json(),
            "shared_seed": str(self.shared_seed),
            "sample_seed": str(self.sample_seed),
        }

    @classmethod
    def from_json(cls, data: Json) -> RunSpec:
        """Read the JSON form back."""
        if not isinstance(data, dict):
            raise InvalidInput(f"RunSpec: expected an object, got {data!r}.")
        return cls(
            ObjectSpec.from_json(data.get("problem")),
            ObjectSpec.from_json(data.get("algorithm")),
            _seed_from_json(data, "shared_seed"),
            _seed_from_json(data, "sample_seed"),
        )


class RunFamily:
    """All runs of one algorithm on one problem; they differ in their seeds alone.

    >>> family = RunFamily(ObjectSpec("two-goals-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1}))
    >>> family.key(7, 1) == RunSpec(family.problem, family.algorithm, 7, 1).digest
    True
    """

    def __init__(self, problem: ObjectSpec, algorithm: ObjectSpec) -> None:
        self.problem, self.algorithm = problem, algorithm
        pieces = canonical_json(algorithm.to_json()), canonical_json(problem.to_json())
        # In canonical JSON keys are sorted, so the seeds come last; hash what comes before them once.
        self._hash = hashlib.sha256(b'{"algorithm":%b,"problem":%b,"sample_seed":"' % pieces)

    def __reduce__(self) -> tuple[type[RunFamily], tuple[ObjectSpec, ObjectSpec]]:
        return RunFamily, (self.problem, self.algorithm)  # a hash under way cannot be copied to another process

    def key(self, shared_seed: int, sample_seed: int) -> str:
        """Return the digest of the `RunSpec` with these seeds."""
        digest = self._hash.copy()
        digest.update(b'%d","shared_seed":"%d"}' % (sample_seed, shared_seed))
        return digest.hexdigest()


def _plain(owner: str, key: str, value: object) -> Json:
    """Return the value in Python's own types; what JSON cannot say is refused."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Mapping):
        if set(value) == {"integer"}:
            raise InvalidInput(
                f"{owner}: parameter {key!r} uses the form reserved for large integers. Rename 'integer'."
            )
        return {str(k): _plain(owner, key, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(owner, key, v) for v in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise InvalidInput(f"{owner}: parameter {key!r} must be a number, text, list or mapping, got {value!r}.")


def _encode(value: Json) -> Json:
    if isinstance(value, (int, float)) and _MAX_JSON_INTEGER < abs(value) < math.inf:  # such a float is whole
        return {"integer": str(int(value))}
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    return [_encode(item) for item in value] if isinstance(value, list) else value


def _decode(value: Json) -> Json:
    if isinstance(value, dict) and set(value) == {"integer"} and isinstance(value["integer"], str):
        if not re.fullmatch(r"-?[0-9]{1,4000}", value["integer"]):
            raise InvalidInput(f"ObjectSpec: expected the digits of an integer, got {value['integer']!r}.")
        return int(value["integer"])
    if isinstance(value, dict):
        return {key: _decode(item) for key, item in value.items()}
    return [_decode(item) for item in value] if isinstance(value, list) else value


def _seed_from_json(data: dict[str, Any], name: str) -> int:
    text = data.get(name)
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 20):
        raise InvalidInput(f"RunSpec: {name} must be a string of decimal digits, got {text!r}.")
    return check_integer("RunSpec", name, int(text), low=0, high=MAX_SEED)
