"""What an identity says of the options of Stable-Baselines3: plain values, and the names of classes and functions.

Numbers, texts, lists and mappings are said as they are. A class or a function (``torch.nn.ReLU``) is said by its name,
and an object (``LinearSchedule(0.1, 0.01, 0.5)``) by its name and its settings. What is somebody's own behind a name is
known by the version that he gives.
"""

from __future__ import annotations

import copy
import math
import types
from collections.abc import Iterator, Mapping
from typing import Any

from replicable_rl.canonical import canonical_json
from replicable_rl.errors import InvalidInput, plain_number, shown
from replicable_rl.runs import ObjectSpec

_LIBRARIES = ("stable_baselines3", "sb3_contrib", "torch", "gymnasium", "numpy")


def checked_options(owner: str, name: str, options: object) -> dict[str, Any]:
    """Return a copy of options whose names are texts and whose values an identity can say."""
    if options is None:
        return {}
    if not (isinstance(options, Mapping) and all(isinstance(key, str) for key in options)):
        raise InvalidInput(f"{owner}: {name} must be a mapping from names to values, got {shown(options)}.")
    try:
        canonical_json(ObjectSpec(name, said(options)).to_json())
    except InvalidInput as error:
        raise InvalidInput(
            f"{owner}: {name} are part of the run's identity and must be JSON values, functions or classes "
            f"({str(error).rstrip('.')}). Put other settings into a subclass or an environment of your own."
        ) from error
    return copied(options)  # type: ignore[no-any-return]  # a copy of a mapping is one


def copied(value: Any) -> Any:
    """Copy options deeply, for a model may change them; functions and classes are what they are."""
    if isinstance(value, Mapping):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(one) for one in value) if type(value) in (list, tuple) else copy.deepcopy(value)
    return value if callable(value) and _is_definition(value) else copy.deepcopy(value)


def said(value: Any) -> Any:
    """Return what an identity says of an option.

    >>> said({"gamma": 0.9, "policy_kwargs": {"net_arch": (16,)}, "learning_rate": abs})
    {'gamma': 0.9, 'policy_kwargs': {'net_arch': [16]}, 'learning_rate': {'named': 'builtins.abs'}}
    """
    if isinstance(value, Mapping):
        return {str(key): said(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [said(one) for one in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    number = plain_number(value)
    if number is not None and math.isfinite(number):
        return number
    if _is_definition(value):
        return {"named": _name(value)}
    try:
        return {"object": _name(type(value)), **{name: said(one) for name, one in sorted(vars(value).items())}}
    except (InvalidInput, TypeError):
        if callable(value):
            return {"object": _name(type(value))}
    raise InvalidInput(f"{shown(value)} is no value that an identity can say")


def own_code(value: Any) -> Iterator[Any]:
    """Yield what somebody wrote himself among options."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from own_code(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from own_code(one)
    elif callable(value) and not str(getattr(value, "__module__", "")).startswith(_LIBRARIES):
        yield value


def _is_definition(value: Any) -> bool:
    kinds = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
    return isinstance(value, kinds)


def _name(definition: Any) -> str:
    module = getattr(definition, "__module__", None) or ""
    name = getattr(definition, "__qualname__", type(definition).__qualname__)
    return f"{module}.{name}" if module else str(name)


def checked_callback(owner: str, base: type, callback: Any) -> Any:
    """Return a callback of Stable-Baselines3, a list of them, or a function (locals, globals); refuse what is none."""
    if callback is None:
        return None
    some = list(callback) if isinstance(callback, (list, tuple)) else [callback]
    single = not isinstance(callback, (list, tuple))
    right = some and all(isinstance(one, base) or (single and callable(one)) for one in some)
    if not right or any(isinstance(one, type) for one in some):
        rule = "a BaseCallback of Stable-Baselines3, a list of them, or a function of (locals, globals)"
        raise InvalidInput(f"{owner}: callback must be {rule}, got {shown(callback)}.")
    return tuple(some) if not single else callback


def fresh_callback(callback: Any) -> Any:
    """Return the callback for one run: a copy, for callbacks remember what they have seen."""
    if isinstance(callback, tuple):
        return [copy.deepcopy(one) for one in callback]
    return callback if _is_definition(callback) else copy.deepcopy(callback)
