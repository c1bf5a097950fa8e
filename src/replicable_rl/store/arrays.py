"""Arrays, models and histories as bytes, and back; nothing is ever unpickled."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import array_digest
from replicable_rl.mdp.files import read_mdp, write_mdp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP

__all__ = [
    "decode_array",
    "decode_history",
    "decode_model",
    "encode_array",
    "encode_history",
    "encode_model",
    "history_digest",
]


def encode_array(array: NDArray[Any]) -> bytes:
    """Return an array in numpy's ``.npy`` format."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def decode_array(data: bytes) -> NDArray[Any]:
    """Read an array back."""
    array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def encode_model(model: TabularMDP) -> bytes:
    """Return a learned model in the format of its file."""
    stream = io.BytesIO()
    write_mdp(model, stream)
    return stream.getvalue()


def decode_model(owner: str, data: bytes) -> TabularMDP:
    """Read a model back, and check its digest."""
    return read_mdp(owner, io.BytesIO(data))


def history_digest(history: Mapping[str, NDArray[np.float64]]) -> str:
    """Return the digest of a run's history; NaN, which marks rounds without an entry, counts by its bits."""
    columns = [np.asarray(column).view(np.int64) for column in history.values()]
    return array_digest(f"history {' '.join(history)}", *columns)


def encode_history(history: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Return a history as ``.npz``."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **{name: np.asarray(column) for name, column in history.items()})
    return stream.getvalue()


def decode_history(data: bytes) -> dict[str, NDArray[np.float64]]:
    """Read a history back."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
