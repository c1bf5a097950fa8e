"""Other people's modules: what is theirs, those that installed packages name, and definitions that are run again."""

import functools

from replicable_rl.errors import InvalidInput
from replicable_rl.wording import sentence

_PLUGINS = "replicable_rl.plugins"


def is_ours(defined: object) -> bool:
    """Whether a class or function is defined in this package, so that its id means the same everywhere."""
    return str(getattr(defined, "__module__", "")).partition(".")[0] == "replicable_rl"


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
