"""Canonical bytes: one JSON text and one digest for one content.

JSON follows RFC 8785 (sorted keys, one spelling of every number), so that a digest
of it means the same in every language. Arrays are hashed by their exact bits:
little-endian, C order, with -0.0 written as 0.0 and NaN refused.
"""

import contextlib
import hashlib
import io
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, shown

Json = Any  # None, bool, int, float, str, and lists and dicts of these

_CHUNK = 1 << 20  # elements hashed at a time, so that a large array is never copied whole


def canonical_json(value: Json) -> bytes:
    """Return the RFC 8785 text of a JSON value.

    >>> canonical_json({"b": 1.0, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise InvalidInput(f"canonical JSON: {error}. Use strings for integers beyond 2**53.") from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise InvalidInput(f"canonical JSON: expected shallow values and Unicode text ({error!s:.120}).") from None


MAX_JSON_INTEGER = 2**53 - 1
_LARGE = "integer"  # the one key of the form that a larger integer has


def to_json(value: Json) -> Json:
    """Return a value with the integers that JSON cannot hold everywhere written as ``{"integer": "..."}``.

    A dataclass becomes a record of its fields but for those that are never compared.

    >>> to_json({"calls": 10**16, "rho": 0.2})
    {'calls': {'integer': '10000000000000000'}, 'rho': 0.2}
    """
    if isinstance(value, (int, float)) and MAX_JSON_INTEGER < abs(value) < math.inf:  # such a float is whole
        return {_LARGE: str(int(value))}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: to_json(vars(value)[name]) for name in _types_of(kind)}
    return value.value if isinstance(value, Enum) else value


def from_json(value: Json) -> Json:
    """Read back what :func:`to_json` wrote."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_LARGE} and isinstance(value[_LARGE], str):
        return from_decimal("JSON: integer", value[_LARGE])
    return {key: from_json(item) for key, item in value.items()}


def json_text(value: Json, *, indent: int | None = None, ascii: bool = True) -> str:
    """Write JSON on one line, or on many with ``indent``; other letters than those of ASCII are escaped, or not.

    JSON has no NaN and no infinity: the first becomes null, the second text. Large integers are as in `to_json`.

    >>> json_text({"loss": [0.5, math.nan, -math.inf], "calls": 10**16})
    '{"loss": [0.5, null, "-inf"], "calls": {"integer": "10000000000000000"}}'
    """
    return json.dumps(_finite(value), indent=indent, ensure_ascii=ascii) + ("" if indent is None else "\n")


def record_text(record: Json) -> bytes:
    """Return a record as JSON with sorted keys, without spaces, and with every bit of its numbers."""
    return json.dumps(_finite(record), sort_keys=True, separators=(",", ":")).encode("ascii")


def record_digest(record: Json) -> str:
    """Return the SHA-256 of the text of a record."""
    return hashlib.sha256(record_text(record)).hexdigest()


def _finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value if isinstance(value, float) else to_json(value)


def parse_json(text: str | bytes) -> Json:
    """Read what `json_text` or `canonical_json` wrote.

    >>> parse_json("[1, 2")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: JSON: cannot be read (Expecting ',' delimiter: line 1 column 6 (char 5)).
    """
    try:
        return from_json(json.loads(text))
    except InvalidInput:
        raise
    except (RecursionError, ValueError) as error:  # no JSON, no Unicode, or an integer of thousands of digits
        raise InvalidInput(f"JSON: cannot be read ({error!s:.120}).") from None


Record = TypeVar("Record")


def from_record(kind: type[Record], data: Json) -> Record:
    """Read back a dataclass that :func:`to_json` wrote, by the types that the fields declare.

    >>> from dataclasses import dataclass
    >>> Point = dataclass(type("Point", (), {"__annotations__": {"x": float, "names": tuple[str, ...] | None}}))
    >>> from_record(Point, to_json(Point(0.5, ("a", "b")))), from_record(Point, {"x": 2, "names": None})
    (Point(x=0.5, names=('a', 'b')), Point(x=2.0, names=None))
    """
    declared = _types_of(kind)  # type: ignore[arg-type]  # classes are hashable
    if not isinstance(data, dict) or set(data) != set(declared):
        raise InvalidInput(f"{kind.__name__}: expected {', '.join(declared)}; got {shown(data)}.")
    return kind(
        **{name: _typed(f"{kind.__name__}: {name}", expected, data[name]) for name, expected in declared.items()}
    )


@lru_cache(maxsize=64)
def _types_of(kind: Any) -> dict[str, Any]:
    declared = typing.get_type_hints(kind)
    return {item.name: declared[item.name] for item in fields(kind) if item.compare}


def _typed(name: str, kind: Any, value: Json) -> Any:
    """Return a value of JSON as one of this type, or refuse it."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        for part in parts:
            with contextlib.suppress(InvalidInput):
                return _typed(name, part, value)
    elif origin is tuple and isinstance(value, list):
        return tuple(_typed(name, parts[0], item) for item in value)
    elif origin is Mapping and isinstance(value, dict):
        return value
    elif is_dataclass(kind):
        return from_record(kind, value)  # type: ignore[arg-type]  # a class, not one of its objects
    elif issubclass(kind, Enum) and value in [member.value for member in kind]:
        return kind(value)
    elif type(value) is kind or (kind is float and type(value) is int):
        return kind(value) if kind is float else value
    raise InvalidInput(f"{name} cannot be {shown(value)}.")


def decimal(number: int | None) -> str | None:
    """Return a seed or a count as text: always text, for some pass what JSON holds."""
    return None if number is None else str(number)


def from_decimal(name: str, text: Json, digits: int = 4000) -> int:
    """Read a seed or a count back."""
    unsigned = text.removeprefix("-") if isinstance(text, str) else ""
    if not (unsigned.isascii() and unsigned.isdecimal() and len(unsigned) <= digits):
        raise InvalidInput(f"{name} must be a string of decimal digits, got {text!r:.80}.")
    return int(text)


def json_digest(value: Json) -> str:
    """Return the SHA-256 of the canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def array_digest(label: str, *arrays: NDArray[Any]) -> str:
    """Return the SHA-256 of a label and the exact bits of some arrays.

    Two arrays have the same digest exactly when they have the same shape and equal
    elements; the width of an integer type does not matter.

    >>> array_digest("x", np.array([0.0])) == array_digest("x", np.array([-0.0]))
    True
    >>> array_digest("x", np.array([1, 2], dtype=np.int32)) == array_digest("x", np.array([1, 2]))
    True
    """
    digest = hashlib.sha256(_heading(label, len(arrays)))
    for array in arrays:
        is_float = array.dtype.kind == "f"
        wanted = np.float64 if is_float else np.int64
        if array.dtype != wanted and not np.can_cast(array.dtype, wanted):
            raise InvalidInput(f"{label}: {array.dtype} has no exact 64-bit form. Convert the array first.")
        digest.update(_description(is_float, array.shape))
        flat = np.ascontiguousarray(array).reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            piece = flat[start : start + _CHUNK]
            if is_float:
                if np.isnan(piece).any():
                    raise InvalidInput(f"{label}: NaN has no fingerprint. Find where the computation produced it.")
                piece = piece.astype("<f8") + 0.0  # adding 0.0 turns -0.0 into 0.0
            else:
                piece = piece.astype("<i8", copy=False)
            digest.update(piece.data)
    return digest.hexdigest()


@lru_cache(maxsize=256)
def _heading(label: str, arrays: int) -> bytes:
    return canonical_json({"label": label, "arrays": arrays})


@lru_cache(maxsize=256)
def _description(is_float: bool, shape: tuple[int, ...]) -> bytes:
    return canonical_json({"dtype": "<f8" if is_float else "<i8", "shape": list(shape)})


def array_to_bytes(array: NDArray[Any]) -> bytes:
    """Return the bytes of a ``.npy`` file.

    >>> read_npy(array_to_bytes(np.array([[1, 2], [3, 4]]))).tolist()
    [[1, 2], [3, 4]]
    """
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, (1, 0), allow_pickle=False)
    return stream.getvalue()


def read_npy(data: bytes) -> NDArray[Any]:
    """Read the bytes of a ``.npy`` file of numbers; nothing is unpickled."""
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if array.dtype.kind not in "iuf":
        raise InvalidInput(f"array: expected a .npy file of numbers, got {array.dtype!s:.80}.")
    array.setflags(write=False)
    return array
