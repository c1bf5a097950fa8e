"""Somebody's own code: known by the version that its author gives it, and checked by what can be seen of it.

No program can tell whether another one still does the same. So a store takes runs of somebody's own code only under a
version (or parameters) that its author names. What is seen here is a second check: code that *looks* different under
the same name is refused; code that looks the same is granted nothing.

Seen are the instructions, constants, defaults and parameter names of a function, of the functions and classes of the
same project that it names, in whatever module they are, the arguments of a partial function, and the settings of
objects: numbers, texts, tuples and functions that only their constructors assign. Of the lists, dicts, sets and arrays
of a module, the text that assigns them is seen: a program may fill them while it runs, and what is in them then does
not count. Nor do docstrings and comments. What a program finds while it runs, such as a module that a function
imports, is not seen: it is there only after the first run, and what is seen must be the same before and after.

Of all levels of one's own, what gives outputs their form and their fingerprint is seen. It counts where runs have them.
"""

import ast
import dis
import functools
import importlib.util
import inspect
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.canonical import json_digest
from replicable_rl.errors import InvalidInput, UnknownId
from replicable_rl.mdp import TabularMDP
from replicable_rl.registry import PROBLEMS, build, is_ours, unshipped_levels
from replicable_rl.sampling.problem import Stepped
from replicable_rl.solve.naming import is_ingredient, settings_of
from replicable_rl.wording import brief

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), np.generic)
_STANDARD = tuple(Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib"))
_INSTALLED = {"site-packages", "dist-packages"}
_WORDS = {"__doc__", "__firstlineno__", "__static_attributes__"}  # what the body of a class says about itself
_BY_TEXT = {"globals", "getattr", "vars", "attrgetter"}  # what code says to name something by a text
_CONSTRUCTORS = {"__new__", "__init__", "__post_init__"}
_CONTAINERS = (list, dict, set, bytearray, deque, np.ndarray)
_LOOK = 2  # changes with what is looked at: digests of another look are not compared
_HAS_DOCSTRING = 0x4000000  # of code flags, from Python 3.14 on
_LEVEL = "level "  # what the parts that are levels begin with
_DESCRIPTORS = (property, classmethod, staticmethod, functools.cached_property)
_METHODS = (types.FunctionType, *_DESCRIPTORS)
_FIXED = (*_PLAIN, tuple, frozenset, types.FunctionType)  # settings that stay as they are unless they are assigned


def refuse_nameless(owner: str, what: str, remedy: str) -> None:
    """Refuse to keep runs of code that nobody gave a version."""
    raise InvalidInput(
        f"{owner}: {what} is code of your own, which a store knows only by the version that you give it. {remedy}, and "
        "change it whenever the code changes; or leave the store out."
    )


def refuse_misnamed(owner: str, table: TabularMDP) -> None:
    """Refuse to keep runs on a table whose source names a problem that has other numbers."""
    spec = table.spec
    try:
        digest = spec.params.get("digest") if spec.id == "mdp" else build(spec).digest
    except UnknownId:  # the digest of the table is kept with the runs
        return
    except InvalidInput:  # there is no such problem
        digest = None
    if digest != table.digest:
        raise InvalidInput(
            f"{owner}: the table calls itself {brief(spec.text, 60)}, which is another problem. Leave its source out "
            "(a store then knows it by its numbers), or register it under an id of its own; or leave the store out."
        )


def own_code(problem: Any, algorithm: object) -> str | None:
    """Return what can be seen of the parts of an audit that are not this package's; None if all are."""
    parts: dict[str, list[object]] = {"algorithm": [algorithm], "problem": parts_of(problem)}
    for name, ingredient in _ingredients(algorithm):
        parts.setdefault(name, []).append(ingredient)
    own = {name: [one for one in some if not is_ours(_definition(one))] for name, some in parts.items()}
    return seen(own | own_levels())


def own_levels() -> dict[str, list[object]]:
    """Return, as parts, what gives outputs at levels of somebody's own their form and their fingerprint."""
    return {_LEVEL + name.replace("-", "."): [one.freeze, one.digest] for name, one in unshipped_levels().items()}


def level_in(part: str) -> str | None:
    """Return the name of the level that a part is; None of another part.

    >>> level_in("level my.words"), level_in("algorithm")
    ('my-words', None)
    """
    return part.removeprefix(_LEVEL).replace(".", "-") if part.startswith(_LEVEL) else None


def parts_of(problem: Any) -> list[object]:
    """Return what a problem is made of: of a table at most its numbers, of what is stepped its functions."""
    if isinstance(problem, TabularMDP):
        return content(problem)
    return [type(problem), *problem.code] if isinstance(problem, Stepped) else [problem]


def content(table: TabularMDP | None) -> list[object]:
    """Return the digest of a table that is known by an id of somebody's own, which may come to mean another one."""
    if table is None or table.spec.id == "mdp" or is_ours(PROBLEMS.get(table.spec.id)):  # "mdp": by its digest
        return []
    return [table.digest]


def seen(parts: Mapping[str, Sequence[object]]) -> str | None:
    """Return the digests of parts by their names, and the version of Python that compiled them."""
    digests = [f"{name}:{code_digest(*some).rpartition('-')[2]}" for name, some in parts.items() if some]
    return f"{sys.implementation.cache_tag}-{_LOOK}-{'+'.join(digests)}" if digests else None


def changed_parts(before: Iterable[str | None], now: str | None) -> list[str]:
    """Return the names of the parts that look different from what was seen of them before, at last.

    Nobody may have looked before, or another version of Python, which compiles the same code differently. A level that
    nobody needs may not be registered, so it counts where both have looked at it.

    >>> changed_parts(["cpython-312-aa"], "cpython-312-bb"), changed_parts(["cpython-312-aa"], "cpython-313-bb")
    ([''], [])
    >>> changed_parts(["cpython-312-a:aa+b:bb", "cpython-313-a:cc"], "cpython-312-a:aa+b:cc+level words:dd")
    ['b']
    """
    python, _, parts = (now or "").rpartition("-")
    alike = [one for one in before if one and one.rpartition("-")[0] == python and (":" in one) == (":" in parts)]
    old, new = {name: digest for one in alike for name, digest in _digests(one)}, dict(_digests(parts))
    changed = (name for name in old.keys() | new.keys() if alike and old.get(name) != new.get(name))
    return sorted(name for name in changed if not level_in(name) or (name in old and name in new))


def _digests(code: str) -> Iterator[tuple[str, str]]:
    """Yield the digests of the parts of code by their names."""
    for part in code.rpartition("-")[2].split("+"):
        name, _, digest = part.rpartition(":")
        yield name, digest


def code_digest(*subjects: object) -> str:
    """Return a digest of what can be seen of functions and objects, and the version of Python that compiled it.

    >>> code_digest(functools.partial(max, 1)) == code_digest(functools.partial(max, 2))
    False
    """
    met: dict[int, tuple[int, Any]] = {}  # number and object, which is kept so that no id is used twice
    pieces: list[str] = []
    waiting = deque(subjects)
    while waiting:
        one = waiting.popleft()
        if isinstance(one, _PLAIN):
            pieces.append(repr(one))
        elif id(one) in met:
            pieces.append(f"again {met[id(one)][0]}")
        else:
            met[id(one)] = len(met), one
            parts = list(_parts(one, any(one is subject for subject in subjects)))
            pieces.append(f"{getattr(one, '__name__', type(one).__name__)} of {len(parts)}")
            waiting.extendleft(reversed(parts))
    return f"{sys.implementation.cache_tag}-{_LOOK}-{json_digest(pieces)[:16]}"


def _definition(part: Any) -> Any:
    return part if hasattr(part, "__qualname__") else type(part)


def _ingredients(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the objects with settings of their own that something was made with, and theirs."""
    for name, value in settings_of(thing).items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if is_ingredient(one):
                yield from [(name, one), *((name, inner) for _, inner in _ingredients(one))]


def _parts(one: Any, is_subject: bool) -> Iterator[Any]:
    """Yield what a function, class or object is made of."""
    if isinstance(one, (tuple, frozenset)):
        yield from one if isinstance(one, tuple) else sorted(one, key=repr)
    elif isinstance(one, types.CodeType):
        yield _instructions(one)
        yield from (const for const in one.co_consts if isinstance(const, types.CodeType))
    elif isinstance(one, functools.partial):
        yield from (one.func, _content(one.args), _content(one.keywords))
    elif isinstance(one, types.MethodType):
        yield from (one.__func__, one.__self__)
    elif isinstance(one, types.FunctionType):
        if _is_project(sys.modules.get(one.__module__ or "")):
            yield from (one.__code__, one.__defaults__, tuple(sorted((one.__kwdefaults__ or {}).items())))
            yield from (*_closed_over(one), *_named(one.__code__, one.__globals__), *_dispatched(one))
    elif isinstance(one, type):
        if _is_project(sys.modules.get(one.__module__ or "")):
            members = sorted(vars(one).items())  # of those that Python adds, also later, methods count
            yield from (pair for pair in members if not pair[0].startswith("__") or isinstance(pair[1], _METHODS))
            yield from (*one.__bases__, *([type(one)] if _is_own_metaclass(type(one)) else []))
    elif isinstance(one, _DESCRIPTORS):
        yield from (getattr(one, part, None) for part in ("fget", "fset", "func", "__func__"))
    elif not isinstance(one, types.ModuleType):
        inner = (inspect.getattr_static(one, name, None) for name in ("__wrapped__", "py_func"))  # cached; compiled
        yield from (
            type(one),
            *(item for item in inner if isinstance(item, types.FunctionType)),
            *_settings(one, is_subject),
        )


def _content(value: Any) -> Any:
    """Return what an argument holds, in a form that is looked at."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_content, value))
    if isinstance(value, dict):
        return tuple(sorted(((repr(key), _content(item)) for key, item in value.items()), key=lambda pair: pair[0]))
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def _dispatched(function: types.FunctionType) -> Iterator[Any]:
    """Yield what a generic function calls for other types than the usual ones."""
    registry = getattr(function, "registry", None)
    if isinstance(registry, types.MappingProxyType):
        yield from sorted(((str(kind), called) for kind, called in registry.items()), key=lambda pair: pair[0])


def _is_own_metaclass(kind: type) -> bool:
    return kind is not type and _is_project(sys.modules.get(kind.__module__))


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _named(code: types.CodeType, scope: dict[str, Any]) -> Iterator[Any]:
    """Yield the globals that code names, and what it names of the modules of its project."""
    known = {name for one in _all_code(code) for name in one.co_names}
    if known & _BY_TEXT:
        known |= {text for one in _all_code(code) for text in one.co_consts if isinstance(text, str)}
    names, spaces, modules = sorted(known), [scope], list[types.ModuleType]()
    for space in spaces:  # which grows
        for name in names:
            value = space.get(name)
            if not isinstance(value, types.ModuleType):
                yield from [(name, value)] if name in space else []
                if isinstance(value, _CONTAINERS):
                    yield from _written(sys.modules.get(space.get("__name__", "")), name)
            elif _is_project(value) and value not in modules:
                modules.append(value)
                spaces.append(vars(value))


def _written(module: types.ModuleType | None, name: str) -> Iterator[Any]:
    """Yield what the text of a module assigns to a name, or that of the one it comes from, and what is named there."""
    places = [(module, name)]
    for where, wanted in places:  # which grows
        if where is None or not _is_project(where):
            continue
        for node in _statements(where):
            if isinstance(node, ast.ImportFrom):
                source = importlib.util.resolve_name("." * node.level + (node.module or ""), where.__package__)
                origins = [one.name for one in node.names if wanted == (one.asname or one.name)]
                found = [(sys.modules.get(source), origin) for origin in origins]
                places += [place for place in found if place not in places]
            elif wanted in _names(*getattr(node, "targets", [getattr(node, "target", None)])):
                yield ast.dump(node)
                yield from ((one, vars(where).get(one)) for one in sorted(_names(node) - {wanted}))


@functools.lru_cache(maxsize=64)
def _statements(module: types.ModuleType) -> tuple[ast.AST, ...]:
    """Return the imports and assignments of a module, outside of its functions and classes; none without its text."""
    try:
        waiting: list[ast.AST] = [ast.parse(inspect.getsource(module))]
    except (OSError, TypeError, SyntaxError):
        return ()
    for node in waiting:  # which grows
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    kinds = (ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign)
    return tuple(node for node in waiting if isinstance(node, kinds))


def _names(*nodes: ast.AST | None) -> set[str]:
    inside = (one for node in nodes if node is not None for one in ast.walk(node))
    return {one.id for one in inside if isinstance(one, ast.Name)}


def _settings(one: Any, is_subject: bool) -> Iterator[Any]:
    """Yield what an object was made with and no other method assigns; of other projects' only if it is asked about."""
    plain = {name: value for name, value in getattr(one, "__dict__", {}).items() if isinstance(value, _FIXED)}
    if not plain or not (is_subject or _is_project(sys.modules.get(type(one).__module__))):
        return
    members = [item for kind in type(one).__mro__ for name, item in vars(kind).items() if name not in _CONSTRUCTORS]
    methods = [getattr(member, part, None) for member in members for part in ("fget", "fset", "func")] + members
    codes = [
        code for method in methods if isinstance(method, types.FunctionType) for code in _all_code(method.__code__)
    ]
    steps = (
        step for code in codes if not plain.keys().isdisjoint(code.co_names) for step in dis.get_instructions(code)
    )
    changed = {step.argval for step in steps if step.opname == "STORE_ATTR"}
    changed |= {name for name in plain if isinstance(getattr(type(one), name, None), functools.cached_property)}
    yield from sorted(pair for pair in plain.items() if pair[0] not in changed)


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield code, and that of the functions inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _all_code(const)


def _instructions(code: types.CodeType) -> str:
    """Return what a piece of code does; no instruction loads its docstring, or tells the number of a line."""
    steps = list(dis.get_instructions(code))
    stored = [step.argval if step.opname == "STORE_NAME" else None for step in steps[1:]]  # in the body of a class
    kept = zip(steps, [*stored, None], strict=True)
    does = [(step.opname, _constant(step.argval)) for step, name in kept if name not in _WORDS]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING
    return repr((*counts, code.co_varnames, code.co_exceptiontable.hex(), does))


def _constant(value: Any) -> Any:
    """Return a constant in a form that is the same in every process: sets have an order, code has its name."""
    if isinstance(value, frozenset):
        return "set", *sorted(repr(_constant(item)) for item in value)
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return value.co_name if isinstance(value, types.CodeType) else value


def _is_project(module: types.ModuleType | None) -> bool:
    """Whether a module is somebody's own: neither Python's, nor installed, nor this package's."""
    if module is None:  # made by hand, or gone: its code is all there is
        return True
    file = getattr(module, "__file__", None)
    if module.__name__.partition(".")[0] == "replicable_rl" or file is None:
        return module.__name__ == "__main__"
    path = Path(file).absolute()
    return _INSTALLED.isdisjoint(path.parts) and not any(path.is_relative_to(folder) for folder in _STANDARD)
