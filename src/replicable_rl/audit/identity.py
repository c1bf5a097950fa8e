"""Somebody's own code: known by the version that its author gives it, and checked by what can be seen of it.

No program can tell whether another one still does the same. So a store takes runs of somebody's own code only under a
version (or parameters) that its author names. What is seen here is a second check: code that *looks* different under
the same name is refused; code that looks the same is granted nothing.

Seen are the instructions, constants, defaults and parameter names of a function, and of the functions and methods of
the same project that it names, in whatever module they are. Docstrings, comments and the content of containers, which
a program may fill while it runs, do not count.
"""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replicable_rl.canonical import json_digest
from replicable_rl.errors import InvalidInput

__all__ = ["code_digest", "refuse_nameless"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_HAS_DOCSTRING = 0x4000000  # of code flags, from Python 3.14 on


def refuse_nameless(owner: str, what: str, remedy: str) -> None:
    """Refuse to keep runs of code that nobody gave a version."""
    raise InvalidInput(
        f"{owner}: {what} is code of your own, which a store knows only by the version that you give it. {remedy}, and "
        "change it whenever the code changes; or leave the store out."
    )


def code_digest(*subjects: object) -> str:
    """Return a digest of what can be seen of functions, or of the classes of objects.

    >>> def make(bad):
    ...     return lambda shared_seed, sample_seed: [sample_seed if bad else 0]
    >>> code_digest(make(True)) == code_digest(make(False))  # what it closes over counts
    False
    """
    seen: dict[int, Any] = {}  # kept, so that no id is used twice
    pieces: list[str] = []
    waiting = list(subjects)
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, _PLAIN):
            pieces.append(repr(one))
        elif isinstance(one, (tuple, frozenset)):
            waiting += one if isinstance(one, tuple) else sorted(one, key=repr)
        elif isinstance(one, types.CodeType):
            pieces.append(_instructions(one))
            waiting += [const for const in one.co_consts if isinstance(const, types.CodeType)]
        else:
            waiting += _parts(one)
    return json_digest(pieces)[:16]


def _parts(one: Any) -> Iterator[Any]:
    """Yield what a function, class or object is made of."""
    if isinstance(one, functools.partial):
        yield from (one.func, *one.args, *(item for pair in sorted(one.keywords.items()) for item in pair))
    elif isinstance(one, types.MethodType):
        yield from (one.__func__, type(one.__self__))
    elif isinstance(one, types.FunctionType):
        if _is_of_a_project(one):
            yield from (one.__code__, *(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values())
            yield from _closed_over(one)
            yield from _named(one.__code__, one.__globals__)
    elif isinstance(one, type):
        if _is_of_a_project(one):
            yield one.__qualname__
            members = ((name, item) for name, item in sorted(vars(one).items()) if name not in _BOOKKEEPING)
            yield from (part for pair in members for part in pair)
            yield from one.__bases__
    elif isinstance(one, (property, classmethod, staticmethod, functools.cached_property)):
        yield from (getattr(one, part, None) for part in ("fget", "fset", "func", "__func__"))
    elif not isinstance(one, types.ModuleType):
        inner = inspect.unwrap(one) if callable(one) else one
        inner = getattr(inner, "py_func", inner)  # compiled by numba
        yield inner if inner is not one else type(one)


_BOOKKEEPING = ("__doc__", "__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__")


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _named(code: types.CodeType, scope: dict[str, Any]) -> Iterator[Any]:
    """Yield the globals that code names, and what it names of the modules of its project."""
    names = sorted(_names(code))
    for name in names:
        value = scope.get(name)
        if isinstance(value, types.ModuleType):
            yield from (getattr(value, inner) for inner in names if _is_project(value) and hasattr(value, inner))
        elif name in scope:
            yield value


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code looks up, in the functions inside it too."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return {*code.co_names, *(name for one in inner for name in _names(one))}


def _instructions(code: types.CodeType) -> str:
    """Return what a piece of code does, without its docstring and its line numbers."""
    constants = [const for const in code.co_consts if not isinstance(const, types.CodeType)]
    flagged = sys.version_info >= (3, 14)
    if constants and (code.co_flags & _HAS_DOCSTRING if flagged else isinstance(code.co_consts[0], str)):
        constants[0] = None
    seen = (code.co_code.hex(), code.co_exceptiontable.hex(), code.co_names, code.co_varnames, code.co_argcount)
    return repr((*seen, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING, constants))


def _is_of_a_project(one: Any) -> bool:
    return _is_project(sys.modules.get(one.__module__ or ""))


def _is_project(module: types.ModuleType | None) -> bool:
    """Whether a module is somebody's own: neither Python's, nor installed, nor this package's."""
    if module is None:  # made by hand, or gone: its code is all there is
        return True
    if module.__name__.partition(".")[0] == "replicable_rl":
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ == "__main__"
    return not Path(file).absolute().is_relative_to(sys.prefix) and not str(file).startswith(_INSTALLED)
