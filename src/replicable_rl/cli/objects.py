"""Problems and algorithms as a command line writes them: ``id:key=value,key=value``."""

import contextlib
from decimal import Decimal

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.runs import ObjectSpec


def parse_object(text: str) -> ObjectSpec:
    """Read ``id:key=value,key=value``; values are numbers, true, false, or else text.

    >>> dict(parse_object("garnet-v1:n_states=5e1,gamma=0.95").params)
    {'n_states': 50, 'gamma': 0.95}
    """
    id, _, listed = text.partition(":")
    params: dict[str, Json] = {}
    for item in filter(None, listed.split(",")):
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals) or key in params:
            rule = "parameters are written key=value, each once, and separated by commas"
            raise InvalidInput(f"{text}: {rule}, got {shown(item)}.")
        number = number_of(value)
        words = {"true": True, "false": False}
        params[key] = words.get(value.lower(), value) if number is None else number
    return ObjectSpec(id, params)


def number_of(text: str) -> int | float | None:
    """Read a number, and one such as 1.3e7 as the integer that it is; 1e+23 is how Python writes a float.

    >>> number_of("1e16"), number_of("13_000"), number_of("1e+23"), number_of("x")
    (10000000000000000, 13000, 1e+23, None)
    """
    with contextlib.suppress(ValueError):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    is_exact = "e" in text.lower() and "+" not in text and number.is_integer()
    return int(Decimal(text)) if is_exact else number
