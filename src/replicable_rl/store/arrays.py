"""Arrays, models and histories as bytes, and back; nothing is ever unpickled."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidFile
from replicable_rl.mdp.files import read_mdp, write_mdp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP

__all__ = [
    "Encoded",
    "decode_array",
    "decode_history",
    "decode_model",
    "encode_array",
    "encode_history",
    "encode_model",
    "history_digest",
]

_KINDS = {"f": "<f8", "i": "<i8"}


class Encoded(NamedTuple):
    """A table as its bytes in C order, little-endian; anything else as the bytes of an ``.npz`` file."""

    dtype: str
    shape: str
    data: bytes


def encode_array(array: NDArray[Any]) -> Encoded:
    """Write a table of 64-bit integers or floats."""
    dtype = _KINDS[array.dtype.kind]
    return Encoded(dtype, ",".join(map(str, array.shape)), array.astype(dtype, copy=False).tobytes())


def decode_array(owner: str, encoded: Encoded, digest: str) -> NDArray[Any]:
    """Read a table back, and check its fingerprint; read-only."""
    with _undamaged(owner):
        if encoded.dtype not in _KINDS.values():
            raise ValueError(f"type {encoded.dtype!r}")
        shape = tuple(map(int, encoded.shape.split(",")))
        table: NDArray[Any] = np.frombuffer(encoded.data, dtype=encoded.dtype).reshape(shape)
        levels = ("policy",) if encoded.dtype == _KINDS["i"] else ("value", "policy")  # an action may be a float
        _check(any(array_digest(level, table) == digest for level in levels))
    return table


def encode_model(model: TabularMDP) -> Encoded:
    """Write a learned model in the format of its file."""
    stream = io.BytesIO()
    write_mdp(model, stream)
    return Encoded("npz", "", stream.getvalue())


def decode_model(owner: str, encoded: Encoded, digest: str) -> TabularMDP:
    """Read a model back, and check its digest."""
    with _undamaged(owner):
        model = read_mdp("its file", io.BytesIO(encoded.data))
        _check(model.digest == digest)
    return model


def history_digest(history: Mapping[str, NDArray[np.float64]]) -> str:
    """Return the digest of a run's history; NaN, which marks rounds without an entry, counts by its bits."""
    columns = [np.asarray(column, dtype=np.float64).view(np.int64) for column in history.values()]
    return array_digest(f"history {' '.join(history)}", *columns)


def encode_history(history: Mapping[str, NDArray[np.float64]]) -> Encoded:
    """Write a history: the names, which may be any text, as JSON, and the columns in their order."""
    stream = io.BytesIO()
    names = np.frombuffer(json.dumps(list(history)).encode(), dtype=np.uint8)
    np.savez(stream, names, *(np.asarray(column, dtype=np.float64) for column in history.values()))
    return Encoded("npz", "", stream.getvalue())


def decode_history(owner: str, encoded: Encoded, digest: str) -> dict[str, NDArray[np.float64]]:
    """Read a history back, and check its digest."""
    with _undamaged(owner), np.load(io.BytesIO(encoded.data), allow_pickle=False) as archive:
        names, *columns = (archive[name] for name in archive.files)
        history: dict[str, NDArray[np.float64]] = dict(zip(json.loads(names.tobytes()), columns, strict=True))
        _check(history_digest(history) == digest)
    return history


@contextlib.contextmanager
def _undamaged(owner: str) -> Iterator[None]:
    """Turn what numpy, zipfile or json say of bytes that they cannot read into one clear sentence."""
    try:
        yield
    except Exception as error:
        reason = str(error).rstrip(".")
        raise InvalidFile(f"{owner}: is damaged ({reason}). Make its runs again in another file.") from None


def _check(same: bool) -> None:
    if not same:
        raise ValueError("its content does not have this fingerprint")
