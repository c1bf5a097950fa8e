"""What identities say of an algorithm: its id, its version, and its settings with those of its ingredients."""

import dataclasses
import functools
import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from replicable_rl import algorithms
from replicable_rl.canonical import Json, array_digest
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.records import OURS, ObjectSpec
from replicable_rl.rules.cuts import Cuts

SHIPPED: dict[str, Any] = {
    algorithm.id: algorithm
    for algorithm in (
        algorithms.PhasedVI,
        algorithms.ReplicablePhasedVI,
        algorithms.ApproximateMDP,
        algorithms.ReplicableApproximateMDP,
        algorithms.RMax,
        algorithms.ReplicableRMax,
        algorithms.PlugInPolicy,
    )
}


def algorithm_spec(algorithm: object) -> ObjectSpec:
    """Return id and parameters of an algorithm; parameters left to the theorem are left out."""
    kind = type(algorithm)
    own = {**vars(kind), **getattr(algorithm, "__dict__", {})}  # an id that is inherited means another algorithm
    version = {"version": own["version"]} if "version" in own else {}
    params = {name: _written(value) for name, value in _given(algorithm).items()}
    id = own.get("id", _full_name(kind))
    if isinstance(id, str) and SHIPPED.get(id, kind) is not kind:
        belongs = f"the id {id!r} belongs to {SHIPPED[id].__name__}"
        raise InvalidInput(f"{kind.__name__}: {belongs}. Give your class its own id.")
    return ObjectSpec(id, params | version)


def speaker(spec: ObjectSpec | None) -> str:
    """Return who is believed to have made the claims of a run that was read: this library, for what it ships."""
    return "code without a name" if spec is None else OURS if spec.id in SHIPPED else spec.id


def settings_of(thing: object) -> dict[str, Any]:
    """Return the fields of a dataclass, and the attributes of an object, without its id and version."""
    kind: Any = type(thing)
    settings = {name: getattr(thing, name) for name in _defaults(kind)}
    if "__dataclass_fields__" not in vars(kind):
        state: Any = object.__getstate__(thing)  # with slots: a pair
        for held in state if isinstance(state, tuple) else [state]:
            settings |= held or {}
    return {
        name: value
        for name, value in settings.items()
        if name not in ("id", "version") and not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@functools.lru_cache(maxsize=256)
def _defaults(kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass with their defaults; of another class nothing."""
    return {field.name: field.default for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}


def is_ingredient(value: object) -> bool:
    """Whether a setting is an object with an id or with fields, which has settings itself."""
    return not isinstance(value, type) and (
        dataclasses.is_dataclass(value) or isinstance(getattr(value, "id", None), str)
    )


def said(value: Any) -> Json:
    """Return a setting as identities say it: an array by its digest, an ingredient by its id and its settings.

    >>> said({"layers": (2, 3)})
    {'layers': [2, 3]}
    """
    if value is None or isinstance(value, (str, int, numbers.Integral)):  # truth values are integers
        return value
    if isinstance(value, (float, numbers.Real)) and math.isfinite(value) and float(value) == value:
        return float(value)
    if isinstance(value, np.ndarray):
        return {"array": array_digest(str(value.dtype), value)}
    if isinstance(value, (list, tuple)):
        return [said(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: said(item) for key, item in value.items()}
    if isinstance(value, Cuts):
        return value.digest
    if is_ingredient(value):
        kind: Any = type(value)
        name = getattr(value, "id", _full_name(kind))
        left = {key for key, default in _defaults(kind).items() if default is None}  # None: as the plan says
        given = {key: item for key, item in settings_of(value).items() if item is not None or key not in left}
        settings = {key: said(item) for key, item in given.items()}
        return {"id": name, **settings} if settings else name
    raise InvalidInput(f"JSON cannot say {shown(value)} exactly.")


def unsaid(algorithm: object) -> str | None:
    """Return the name of a setting that JSON cannot say: no identity is exact without it."""
    for name, value in _given(algorithm).items():
        try:
            said(value)
        except InvalidInput:
            return name
    return None


def _given(algorithm: object) -> dict[str, Any]:
    """Return the settings that an identity says: of a dataclass those that are not left at their defaults."""
    kind: Any = type(algorithm)
    settings, defaults = settings_of(algorithm), _defaults(kind)
    if not dataclasses.is_dataclass(kind):
        return settings
    return {
        name: value
        for name, value in settings.items()
        if not _is_default(value, defaults.get(name, dataclasses.MISSING))
    }


def _written(value: Any) -> Any:
    """Return a setting as it stands in the spec; one that JSON cannot say, which no store takes, by its type."""
    try:
        return said(value)
    except InvalidInput:
        return type(value).__qualname__


def _is_default(value: object, default: object) -> bool:
    if value is default or value is None:
        return value is default
    plain = type(value) in (bool, int, float, str)  # most are, and numpy takes its time to say so
    return bool(value == default) if plain or np.ndim(value) == 0 else False  # type: ignore[arg-type]  # arrays have no truth
