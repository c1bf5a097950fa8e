"""Arrays, models and histories as bytes, and back; nothing is ever unpickled."""

from __future__ import annotations

import io
from collections.abc import Mapping
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


def decode_array(owner: str, encoded: Encoded) -> NDArray[Any]:
    """Read a table back; read-only."""
    try:
        if encoded.dtype not in _KINDS.values():
            raise ValueError(f"type {encoded.dtype!r}")
        shape = tuple(map(int, encoded.shape.split(",")))
        table: NDArray[Any] = np.frombuffer(encoded.data, dtype=encoded.dtype).reshape(shape)
    except ValueError as error:
        raise InvalidFile(f"{owner}: is damaged ({error}).") from None
    return table


def encode_model(model: TabularMDP) -> Encoded:
    """Write a learned model in the format of its file."""
    stream = io.BytesIO()
    write_mdp(model, stream)
    return Encoded("npz", "", stream.getvalue())


def decode_model(owner: str, encoded: Encoded) -> TabularMDP:
    """Read a model back, and check its digest."""
    return read_mdp(owner, io.BytesIO(encoded.data))


def history_digest(history: Mapping[str, NDArray[np.float64]]) -> str:
    """Return the digest of a run's history; NaN, which marks rounds without an entry, counts by its bits."""
    columns = [np.asarray(column).view(np.int64) for column in history.values()]
    return array_digest(f"history {' '.join(history)}", *columns)


def encode_history(history: Mapping[str, NDArray[np.float64]]) -> Encoded:
    """Write a history, a column for every name."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **{name: np.asarray(column) for name, column in history.items()})
    return Encoded("npz", "", stream.getvalue())


def decode_history(encoded: Encoded) -> dict[str, NDArray[np.float64]]:
    """Read a history back."""
    with np.load(io.BytesIO(encoded.data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
