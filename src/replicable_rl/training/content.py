"""Whether two data sets are the same, byte by byte."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, shown


def data_digest(data: Any) -> str:
    """Return a digest of data: bytes, texts, numbers, arrays, and lists and mappings of these; NaN counts by its bits.

    >>> data_digest([np.array([1.0]), "a"]) == data_digest([np.array([1.0]), "b"])
    False
    """
    if isinstance(data, (bytes, bytearray, memoryview)):
        return hashlib.sha256(b"bytes\n" + bytes(data)).hexdigest()
    if isinstance(data, str):
        return hashlib.sha256(b"text\n" + data.encode("utf-8", "backslashreplace")).hexdigest()
    if isinstance(data, Mapping):
        parts = [f"{data_digest(str(key))} {data_digest(value)}" for key, value in sorted(data.items(), key=str)]
        return hashlib.sha256("\n".join(["mapping", *parts]).encode()).hexdigest()
    if isinstance(data, Sequence):
        return hashlib.sha256("\n".join(["list", *map(data_digest, data)]).encode()).hexdigest()
    try:
        array = np.asarray(data)
    except Exception:  # whatever somebody's object raises
        array = np.asarray(None)
    if array.dtype.kind == "f":
        array = array.astype(np.float64).view(np.int64)  # NaN marks what is missing
    if array.dtype.kind not in "iub":
        rule = "bytes, texts, numbers, arrays, or lists and mappings of these"
        raise InvalidInput(f"audit_callable: data must return {rule}, got {shown(data)}.")
    return array_digest("data", np.atleast_1d(array).astype(np.int64, copy=False))
