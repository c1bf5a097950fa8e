"""Levels: what two runs can have in common, and the order in which one implies another.

    model  =>  value  =>  policy

Two runs with the same model have the same value, and so the same policy. The list is open: `replicable_rl.register`
adds one, and an audit compares it, a store keeps it, and a report shows it like the others. A run has the levels that
its algorithm stands for and no others: a rule that decides publishes a policy and no values.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replicable_rl.canonical import array_digest, json_text
from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.runs.provenance import is_reloaded, load_plugins

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
# What runs have beside their levels: the columns of their table, their history.
_TAKEN = {
    *("problem", "algorithm", "sampler", "shared_seed", "sample_seed", "log", "samples", "status", "return"),
    *("loss", "measured_return", "measured_low", "measured_high", "error", "run", "seconds", "history"),
}


def freeze_array(name: str, output: Any) -> Any:
    """Return an output as a read-only array of 64-bit integers or floats."""
    try:
        array = np.asarray(output)
    except ValueError:
        raise InvalidInput(f"Run: {name} must be an array of numbers, got rows of several lengths.") from None
    if array.dtype.kind not in "iufb" or array.ndim == 0 or array.size == 0:
        raise InvalidInput(f"Run: {name} must be an array of numbers, got {array.dtype} of shape {array.shape}.")
    is_float, fits = array.dtype.kind == "f", array.dtype in (np.int64, np.float64)
    if fits:  # most do, and there are many runs
        frozen = array + 0.0 if is_float else array.copy()  # -0.0 becomes 0.0
    else:
        with np.errstate(over="ignore"):  # refused below
            frozen = array.astype(np.float64) + 0.0 if is_float else array.astype(np.int64)
    if is_float and np.isnan(frozen).any():
        raise InvalidInput(f"Run: {name} must hold numbers, got NaN. Find where the computation produced it.")
    if not fits and not np.can_cast(array.dtype, frozen.dtype) and not np.array_equal(frozen, array):
        raise InvalidInput(f"Run: {name} must hold numbers of 64 bits, got {array.dtype} that does not fit.")
    frozen.setflags(write=False)
    return frozen


@dataclass(frozen=True)
class Level:
    """A kind of output by its name, what it implies, and how it is kept.

    Outputs are arrays of integers or floats unless the four functions say otherwise.

    Parameters
    ----------
    name : str
        Lower-case, such as ``"policy"``.
    implies : tuple of str
        Levels that are the same whenever this one is.
    freeze : callable
        (name, output) -> the output in its one form, read-only; refuses what is none.
    digest : callable
        (name, output) -> fingerprint: equal exactly where the outputs are.
    encode, decode : callable
        Output -> an array of numbers, which files and stores keep, and back.

    Examples
    --------
    >>> Level("weights", implies=("policy",)).implies
    ('policy',)
    """

    name: str
    implies: tuple[str, ...] = ()
    freeze: Callable[[str, Any], Any] = field(default=freeze_array, repr=False)
    digest: Callable[[str, Any], str] = field(default=array_digest, repr=False)
    encode: Callable[[Any], Any] = field(default=np.asarray, repr=False)
    decode: Callable[[Any], Any] = field(default=np.asarray, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidInput(f"Level: name must be lower-case letters, digits, '-' and '_'; got {shown(self.name)}.")
        if self.name in _TAKEN:
            raise InvalidInput(f"Level: every run has {self.name!r} beside its levels. Choose another name.")
        if not isinstance(self.implies, (tuple, list)) or not all(isinstance(one, str) for one in self.implies):
            raise InvalidInput(f"Level: implies must be a tuple of names of levels, got {shown(self.implies)}.")
        object.__setattr__(self, "implies", tuple(self.implies))
        object.__setattr__(self, "name", str(self.name))


LEVELS: dict[str, Level] = {}  # by name, in the order of registration


def add_level(level: Level) -> Level:
    """Add a level for good; the same one again changes nothing.

    Parameters
    ----------
    level : Level
        What it implies must be registered before it.
    """
    if not isinstance(level, Level):
        raise InvalidInput(f"register: level must be a Level, got {shown(level)}.")
    known = LEVELS.get(level.name)
    if known is not None and not _is_same(known, level):
        raise InvalidInput(f"register: {level.name!r} is another level already. Choose another name.")
    for name in level.implies:
        level_of(name)
    LEVELS[level.name] = level
    _ordered.cache_clear()
    return level


def _is_same(known: Level, level: Level) -> bool:
    """Whether a level is registered again: with the same functions, or with the same ones run again."""
    pairs = zip(vars(known).values(), vars(level).values(), strict=True)
    return all(is_reloaded(old, new) if callable(old) else old == new for old, new in pairs)


def level_of(name: str) -> Level:
    """Return a level by its name.

    >>> level_of("polcy")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: level must be one of model, value, bytes, policy, got \
'polcy'. Did you mean 'policy'?
    """
    is_text = isinstance(name, str)  # what else somebody gives may have no hash
    if is_text and name not in LEVELS:
        load_plugins()
    if not is_text or name not in LEVELS:
        known = in_order(LEVELS)
        hint = did_you_mean(name, known) if is_text else ""
        raise InvalidInput(f"level must be one of {', '.join(known)}, got {shown(name)}.{hint}")
    return LEVELS[name]


def check_level(owner: str, name: str) -> str:
    """Return the name of a level, or refuse what is none."""
    try:
        return level_of(name).name
    except InvalidInput as error:
        raise InvalidInput(f"{owner}: {error}") from None


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return levels so that each comes before what it implies; unknown ones come last.

    >>> in_order(["policy", "model", "value"])
    ('model', 'value', 'policy')
    """
    return _ordered(tuple(names), tuple(LEVELS))


def usual_level(names: Iterable[str]) -> str:
    """Return the level that counts where nobody names one: the policy, or else the last of those that there are.

    >>> usual_level(["policy", "value"]), usual_level(["bytes"]), usual_level([])
    ('policy', 'bytes', 'policy')
    """
    ordered = in_order(names)
    return ordered[-1] if ordered and "policy" not in ordered else "policy"


@functools.lru_cache(maxsize=64)
def _ordered(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    order = {name: i for i, name in enumerate(known)}
    return tuple(sorted(set(names), key=lambda name: (-len(implied(name)), order.get(name, len(order)), str(name))))


def implied(name: str) -> set[str]:
    """Return all levels that a level implies, directly or through others."""
    direct = LEVELS[name].implies if name in LEVELS else ()  # what is implied was there before: no circles
    return set(direct).union(*map(implied, direct))


def _freeze_value(name: str, output: Any) -> Any:
    """Values are an (S, A) table of floats, finite but for actions that are not allowed: -inf, and not all of them."""
    q = freeze_array(name, output)
    q = freeze_array(name, q.astype(np.float64)) if q.dtype.kind == "i" else q
    if q.ndim != 2 or not (np.isfinite(q).all() or np.isfinite(q.max(axis=1)).all()):
        raise InvalidInput(f"Run: {name} must be a finite (S, A) table, got shape {q.shape}.")
    return q


def _freeze_bytes(name: str, output: Any) -> bytes:
    """Bytes are kept as they are; a mapping of names to arrays, such as weights, is written out, bit by bit."""
    if isinstance(output, (bytes, bytearray, memoryview)):
        frozen = bytes(output)
    elif isinstance(output, Mapping):
        arrays = {str(key): _numbers(name, key, output[key]) for key in sorted(output, key=str)}
        heading = [[key, array.dtype.newbyteorder("<").str, list(array.shape)] for key, array in arrays.items()]
        whole = (np.ascontiguousarray(one, dtype=one.dtype.newbyteorder("<")).tobytes() for one in arrays.values())
        frozen = b"\n".join([json_text(heading).encode(), *whole]) if arrays else b""
    else:
        raise InvalidInput(f"Run: {name} must be bytes or a mapping of names to arrays, got {shown(output)}.")
    if not frozen:
        raise InvalidInput(f"Run: {name} must not be empty.")
    return frozen


def _numbers(name: str, key: Any, value: Any) -> Any:
    value = value.detach().cpu() if hasattr(value, "detach") else value  # a tensor of PyTorch
    try:
        array = np.asarray(value)
    except Exception:  # rows of several lengths, and whatever somebody's object raises
        array = np.asarray(None)
    if array.dtype.kind not in "iufb":
        raise InvalidInput(f"Run: {name} must hold arrays of numbers, got {shown(value)} under {shown(key)}.")
    return array


def _bytes_digest(name: str, output: bytes) -> str:
    return hashlib.sha256(f"replicable-rl {name} {len(output)}\n".encode() + output).hexdigest()


def _as_array(output: bytes) -> Any:
    return np.frombuffer(output, dtype=np.uint8)


add_level(
    Level("bytes", freeze=_freeze_bytes, digest=_bytes_digest, encode=_as_array, decode=lambda array: array.tobytes())
)  # weights, or whatever else training code returns
add_level(Level("policy"))  # actions of states, or of observations of a probe set
add_level(Level("value", implies=("policy",), freeze=_freeze_value))
