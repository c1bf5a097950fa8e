"""What tells code from other code: so that a store never gives one program's runs to another.

The identity of a function is what it does when it is called: its instructions and constants, its
defaults, what it closes over, and the functions, classes and values of its own module that it
names, all of them likewise. Functions and classes of other modules count by their names, so a
library's version should be among the parameters where it matters. What has no exact form (an open
environment, a network) is listed as *unsayable*.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any

import numpy as np

from replicable_rl.canonical import Json, array_digest, json_digest
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import ObjectSpec

__all__ = ["code_digest"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def code_digest(subject: Any) -> tuple[str, list[str]]:
    """Return a digest of what a callable or an object does, and the names of what has no exact form.

    >>> def make(bad):
    ...     return lambda shared_seed, sample_seed: [sample_seed if bad else 0]
    >>> code_digest(make(True)) == code_digest(make(False))
    False
    """
    module = getattr(subject, "__module__", None) or type(subject).__module__
    description = _Description(module)
    said = description.of("train", subject)
    return json_digest(said)[:16], sorted(description.unsayable)


class _Description:
    """Describes values as JSON; each object once."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.unsayable: set[str] = set()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def of(self, name: str, value: Any) -> Json:
        if isinstance(value, _PLAIN):
            return [type(value).__name__, repr(value)]
        if id(value) in self._seen:
            return ["again", self._seen[id(value)]]
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        for kinds, describe in _KINDS:
            if isinstance(value, kinds):
                return describe(self, name, value)
        return self._object(name, value)

    def _items(self, name: str, value: Any) -> Json:
        return [type(value).__name__, [self.of(f"{name}[{i}]", item) for i, item in enumerate(value)]]

    def _set(self, name: str, value: Any) -> Json:
        return ["set", [self.of(name, item) for item in sorted(value, key=repr)]]

    def _mapping(self, name: str, value: Any) -> Json:
        return ["mapping", [[self.of(name, key), self.of(f"{name}[{key!r}]", item)] for key, item in value.items()]]

    def _array(self, name: str, value: Any) -> Json:
        if value.dtype.kind not in "biufcSU":
            return self._say_not(name)
        bits = np.frombuffer(np.ascontiguousarray(value).tobytes(), dtype=np.uint8)
        return ["array", str(value.dtype), list(value.shape), array_digest("array", bits)]

    def _partial(self, name: str, value: Any) -> Json:
        return ["partial", self.of(name, value.func), self.of(name, value.args), self.of(name, value.keywords)]

    def _method(self, name: str, value: Any) -> Json:
        return ["method", self.of(name, value.__func__), self.of(f"{name}.__self__", value.__self__)]

    def _named(self, name: str, value: Any) -> Json:
        return ["named", str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", value.__name__))]

    def _function(self, name: str, value: types.FunctionType) -> Json:
        if value.__module__ != self.module:
            return self._named(name, value)
        free = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
        named = [global_ for global_ in _names(value.__code__) if global_ in value.__globals__]
        return [
            "function",
            self.of(name, value.__code__),
            self.of(f"a default of {name}", value.__defaults__),
            self.of(f"a default of {name}", value.__kwdefaults__),
            [[variable, self.of(variable, _contents(cell))] for variable, cell in free],
            [[global_, self.of(global_, value.__globals__[global_])] for global_ in named],
        ]

    def _code(self, name: str, value: types.CodeType) -> Json:
        return ["code", value.co_code.hex(), list(value.co_names), [self.of(name, const) for const in value.co_consts]]

    def _class(self, name: str, value: type) -> Json:
        if value.__module__ != self.module:
            return self._named(name, value)
        members = [(key, item) for key, item in vars(value).items() if not _is_bookkeeping(key)]
        bases = [self.of(name, base) for base in value.__bases__]
        return ["class", value.__qualname__, bases, [[key, self.of(f"{name}.{key}", item)] for key, item in members]]

    def _property(self, name: str, value: Any) -> Json:
        inner = [getattr(value, part, None) for part in ("fget", "fset", "func", "__func__")]
        return ["descriptor", [self.of(name, item) for item in inner]]

    def _spec(self, name: str, value: TabularMDP) -> Json:
        return ["mdp", value.digest]

    def _object(self, name: str, value: Any) -> Json:
        kind = type(value)
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return ["object", self.of(kind.__qualname__, kind), self.of(name, fields)]
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if isinstance(inner, types.FunctionType):  # compiled by numba, or cached
            return ["wrapped", self.of(name, inner)]
        if kind.__module__ == self.module and hasattr(value, "__dict__"):
            return ["object", self.of(kind.__qualname__, kind), self.of(name, vars(value))]
        return self._say_not(name)

    def _say_not(self, name: str) -> Json:
        self.unsayable.add(name)
        return ["unsayable"]


_KINDS: tuple[tuple[Any, Any], ...] = (
    ((list, tuple), _Description._items),
    ((set, frozenset), _Description._set),
    ((dict, types.MappingProxyType), _Description._mapping),
    (ObjectSpec, lambda self, name, value: ["spec", value.to_json()]),
    (np.ndarray, _Description._array),
    (np.generic, lambda self, name, value: ["number", str(value.dtype), repr(value.item())]),
    (TabularMDP, _Description._spec),
    (functools.partial, _Description._partial),
    (types.MethodType, _Description._method),
    (types.FunctionType, _Description._function),
    (types.CodeType, _Description._code),
    ((types.BuiltinFunctionType, np.ufunc), _Description._named),
    (types.ModuleType, lambda self, name, value: ["module", value.__name__]),
    (type, _Description._class),
    ((property, classmethod, staticmethod, functools.cached_property), _Description._property),
)


def _names(code: types.CodeType) -> list[str]:
    """Return the names that code looks up, in the functions inside it too."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return sorted({*code.co_names, *(name for one in inner for name in _names(one))})


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _is_bookkeeping(name: str) -> bool:
    kept = ("__call__", "__init__", "__post_init__", "__new__")
    return name.startswith("__") and name.endswith("__") and name not in kept
