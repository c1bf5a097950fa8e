"""How training code is called, and what its identity says: name, version, settings, and what it is asked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.runs.specs import exact_json
from replicable_rl.training import probes
from replicable_rl.training.playing import EpisodeReturns
from replicable_rl.training.sb3 import StableBaselines3

if TYPE_CHECKING:
    from replicable_rl.training.probes import Observations

OWNER = "audit_callable"
_RESERVED = ("version", "probe", "evaluate")


def name_of(function: Any) -> str:
    """Return the name of a function, of what a partial function calls, or of a class of callable objects."""
    if isinstance(function, StableBaselines3):
        return function.name
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def settings_of(
    train: Any,
    version: object,
    params: Mapping[str, Json] | None,
    probe: Observations | None,
    evaluate: Any,
    *,
    in_store: bool,
) -> dict[str, Json]:
    """Return what tells the code from other code of its name: its version and settings, and what it is asked."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidInput(f"{OWNER}: params must be a mapping of names to values, got {shown(params)}.")
    if version is not None and not str(version):
        raise InvalidInput(f"{OWNER}: version must be a text such as '1', got {shown(version)}.")
    settings = dict(params or {})
    for key, value in _arguments(train).items():
        try:
            exact = exact_json(value)
        except InvalidInput:
            if in_store and key not in settings:
                raise InvalidInput(
                    f"{OWNER}: a store cannot tell {key}={shown(value)} from other values. Say it in "
                    f"params={{{key!r}: ...}}."
                ) from None
            continue
        if exact_json(settings.setdefault(key, exact)) != exact:
            raise InvalidInput(f"{OWNER}: {key!r} is {shown(exact)} in train and {settings[key]!r:.60} in params.")
    for reserved in _RESERVED:
        if reserved in settings:
            raise InvalidInput(f"{OWNER}: the name {reserved!r} is taken. Call that parameter something else.")
    if isinstance(train, StableBaselines3):
        settings = train.params | settings
    if version is not None:
        settings["version"] = str(version)
    if probe is not None:
        settings["probe"] = probes.digest(probe)[:16]
    if evaluate is not None:
        settings["evaluate"] = evaluate.exact_json() if isinstance(evaluate, EpisodeReturns) else name_of(evaluate)
    return settings


def _arguments(train: Any) -> dict[str, Any]:
    """Return the arguments that a partial function was given: the first is called "argument 1"."""
    named: dict[str, Any] = {}
    placed: tuple[Any, ...] = ()
    while isinstance(train, functools.partial):
        named, placed, train = train.keywords | named, train.args + placed, train.func
    return {f"argument {i}": value for i, value in enumerate(placed, start=1)} | named
