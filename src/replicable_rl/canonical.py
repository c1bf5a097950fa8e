"""Canonical bytes: one JSON text and one digest for one content.

JSON follows RFC 8785 (sorted keys, one spelling of every number), so that a digest
of it means the same in every language. Arrays are hashed by their exact bits:
little-endian, C order, with -0.0 written as 0.0 and NaN refused.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Json", "array_digest", "canonical_json", "json_digest"]

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
        is_float = np.issubdtype(array.dtype, np.floating)
        if not np.can_cast(array.dtype, np.float64 if is_float else np.int64):
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
                piece = piece.astype("<i8")
            digest.update(piece.tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=256)
def _heading(label: str, arrays: int) -> bytes:
    return canonical_json({"label": label, "arrays": arrays})


@lru_cache(maxsize=256)
def _description(is_float: bool, shape: tuple[int, ...]) -> bytes:
    return canonical_json({"dtype": "<f8" if is_float else "<i8", "shape": list(shape)})
