"""Other people's code: whose it is, the modules that installed packages name, and definitions that are run again."""

import dataclasses
import functools
import operator
import os
import sys
import types
from typing import Any, NamedTuple

from replicable_rl.errors import InvalidInput
from replicable_rl.wording import sentence

OURS = "replicable-rl"  # no module can be called so
_PLUGINS = "replicable_rl.plugins"
_ROOT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")  # noqa: PTH118, PTH120  # as code objects have it
_NOBODYS = {*sys.stdlib_module_names, "numpy"}
_CODE = (types.FunctionType, types.BuiltinFunctionType)
_CODE_OF = operator.attrgetter("__code__")


class _Seen(NamedTuple):
    """A class of ours when it was looked at: of every base, its members, and its functions with their code."""

    mro: tuple[type, ...]
    members: list[list[Any]]
    functions: list[tuple[list[Any], list[Any]]]


_OURS_AS_SEEN: dict[type, _Seen] = {}


def provider(thing: Any) -> str:
    """Return whose code a class, a function or an object is: "replicable-rl", else the module it comes from.

    Names prove nothing: what ships is found under its name in a module of this package, with methods from its files. An
    object is ours if its class is, if no method of it was replaced, and if the objects among its settings are ours.

    >>> provider(provider), provider(functools.partial(sentence)), provider({})
    ('replicable-rl', 'replicable-rl', 'builtins')
    """
    if isinstance(thing, (functools.partial, types.MethodType)):
        return provider(thing.func if isinstance(thing, functools.partial) else thing.__func__)
    if isinstance(thing, (type, *_CODE)):
        return OURS if _ships(thing) else _module(thing)
    kind, own = type(thing), getattr(thing, "__dict__", {})
    settings = [one.name for one in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
    for name, value in own.items():
        if name not in settings and _replaces(getattr(kind, name, None), settings):
            return _module(value)
    parts = [kind, *filter(_acts, map(own.get, settings))]
    return next((one for one in map(provider, parts) if one != OURS), OURS)


def is_our_file(file: str) -> bool:
    """Whether a file, as a code object names it, is one of this package."""
    return file.startswith(_ROOT)


def _module(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def _root(thing: Any) -> str:
    return _module(thing).partition(".")[0]


def _acts(value: Any) -> bool:
    """Whether a value has somebody's methods; numbers, texts, arrays and the like have none."""
    kind: Any = type(value)
    return _has_methods(kind)


@functools.lru_cache(maxsize=512)  # every run asks, of hundreds of values
def _has_methods(kind: Any) -> bool:
    return _root(kind) not in _NOBODYS


def _replaces(defined: Any, settings: list[str]) -> bool:
    """Whether an attribute of an object hides this one of its class, which is no place to keep a value."""
    kept = defined is None or isinstance(defined, functools.cached_property)
    return not kept and (bool(settings) or isinstance(defined, (*_CODE, types.MethodType, property)))


def _ships(defined: Any) -> bool:
    """Whether a class or a function is the one that this package has under its name, and written in its files."""
    found: Any = sys.modules.get(_module(defined))
    if not is_our_file(getattr(found, "__file__", None) or ""):
        return False
    for name in getattr(defined, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    if found is not defined or not isinstance(defined, type):
        return found is defined and _is_written_here(defined)
    bases = [one for one in defined.__mro__ if _has_methods(one)]
    seen = _OURS_AS_SEEN.get(defined)
    if seen is not None and seen.mro is defined.__mro__ and all(map(_is_as_seen, bases, seen.members, seen.functions)):
        return True
    members = [list(vars(one).values()) for one in bases]
    own = [value for one in bases for name, value in vars(one).items() if not name.startswith("__")]
    ships = all(_root(one) == "replicable_rl" for one in bases) and all(map(_is_written_here, own))
    if ships:
        functions = [[one for one in each if isinstance(one, types.FunctionType)] for each in members]
        _OURS_AS_SEEN[defined] = _Seen(defined.__mro__, members, [(one, list(map(_CODE_OF, one))) for one in functions])
    return ships


def _is_as_seen(kind: type, members: list[Any], functions: tuple[list[Any], list[Any]]) -> bool:
    """Whether a class still has the members that it had, and its functions their code; every run asks."""
    now = vars(kind).values()
    same = len(now) == len(members) and all(map(operator.is_, now, members))
    return same and all(map(operator.is_, map(_CODE_OF, functions[0]), functions[1]))


def _is_written_here(member: Any) -> bool:
    """Whether a function is in a file of this package, as a member of a class may hold one; objects by their class."""
    if isinstance(member, types.FunctionType) and not vars(member):  # nearly all are
        return is_our_file(member.__code__.co_filename)
    for holder in ("fget", "func", "__func__", "__wrapped__"):
        member = getattr(member, holder, None) or member
    if not isinstance(member, types.FunctionType):
        return isinstance(member, type) or not _acts(member) or provider(member) == OURS
    return is_our_file(member.__code__.co_filename)


@functools.cache
def load_plugins() -> None:
    """Import, once, what installed packages name under the entry points ``replicable_rl.plugins``."""
    from importlib.metadata import entry_points

    for plugin in entry_points(group=_PLUGINS):
        try:
            plugin.load()
        except (Exception, SystemExit) as error:  # whatever somebody's module raises, its own sentence says why
            raise InvalidInput(
                f"plugin {plugin.name}: cannot be loaded ({type(error).__name__}: {sentence(error)})."
            ) from error


def is_reloaded(old: object, new: object) -> bool:
    """Whether a definition was run again, as a notebook does: a class or function of the same name.

    >>> is_reloaded(dict, dict), is_reloaded(functools.partial(int), functools.partial(str))
    (True, False)
    """
    if old is new:
        return True
    places = [(getattr(one, "__module__", None), getattr(one, "__qualname__", None)) for one in (old, new)]
    return places[0] == places[1] and places[0][1] is not None
