"""Saving and loading a ``Dataset``: one ``.npz`` without pickles, names as JSON inside; the digest is checked."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import Json, canonical_json, parse_json, read_npz, write_npz
from replicable_rl.data.bins import bins_to_json, check_binned
from replicable_rl.data.dataset import Dataset
from replicable_rl.data.labels import read_back, written
from replicable_rl.data.process import Process, check_initial, check_mask, check_names
from replicable_rl.errors import InvalidFile, InvalidInput, check_real
from replicable_rl.files import check_regular, replacing
from replicable_rl.problem.source import check_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = "replicable-rl dataset v1"
_FLAWS = ("broken", "cut", "after", "joined")
_NEEDED = ("key", "reward", "count")
_OPTIONAL = ("early", "starts", "ended")
_MOST_SAID = 1 << 32  # bytes of what a file says of itself


def write_dataset(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, whole or not at all."""
    process = data.process
    metadata: dict[str, Json] = {
        "format": _FORMAT,
        "states": [written(label) for label in process.states],
        "actions": [written(label) for label in process.actions],
        "gamma": process.gamma,
        "reward_range": list(process.reward_range),
        "initial": None if process.initial is None else list(process.initial),
        "ends": process.ends,
        "bins": bins_to_json(process.bins),
        "allowed": None if process.allowed is None else [list(row) for row in process.allowed],
        **{name: getattr(data, name) for name in _FLAWS},
        "width": data.width.hex(),
        "digest": data.sample.digest,
    }
    arrays = {name: array for name in (*_NEEDED, *_OPTIONAL) if (array := getattr(data, name)) is not None}
    arrays["metadata"] = np.frombuffer(canonical_json(metadata), dtype=np.uint8)
    with replacing(path) as stream:
        write_npz(stream, arrays)


def is_dataset(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is a saved data set; only what it says of itself is read."""
    try:
        with zipfile.ZipFile(check_regular(path)) as archive:
            member = archive.getinfo("metadata.npy")
            return member.file_size <= _MOST_SAID and canonical_json(_FORMAT) in archive.read(member)
    except Exception:  # whatever zipfile makes of bytes that it cannot read: who reads the file says why
        return False


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a data set, and check that it is what was saved."""
    file = check_regular(path)
    try:
        with file.open("rb") as stream:
            archive = read_npz(stream)
        metadata = parse_json(archive["metadata"].tobytes())
        if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
            raise InvalidFile(f"{path}: is no {_FORMAT} file.")
        data = _dataset(metadata, archive)
    except InvalidFile:
        raise
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (InvalidInput, KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
        raise InvalidFile(f"{path}: is no {_FORMAT} file, or is damaged ({error!s:.120}).") from None
    if data.sample.digest != metadata["digest"]:
        raise InvalidFile(f"{path}: the content does not match its digest; the file was changed after it was saved.")
    return data


def _dataset(metadata: dict[str, Any], archive: dict[str, NDArray[Any]]) -> Dataset:
    states = check_names("states", [read_back(label) for label in metadata["states"]])
    actions = check_names("actions", [read_back(label) for label in metadata["actions"]])
    if states is None or actions is None:
        raise InvalidInput("Dataset: states and actions must have names")
    gamma = check_real(
        "Dataset", "gamma", metadata["gamma"], low=0.0, high=float(np.nextafter(1.0, 0.0)), rule="a discount in [0, 1)"
    )
    bounds = check_range("Dataset", tuple(map(float, metadata["reward_range"])))  # JSON has no floats above 2**53
    initial = check_initial(metadata["initial"], len(states))
    bins, allowed = check_binned(metadata["bins"]), check_mask(metadata["allowed"], states, len(actions))
    process = Process(states, actions, gamma, bounds, initial, metadata["ends"] is True, bins, allowed)
    arrays = {name: archive[name] for name in (*_NEEDED, *_OPTIONAL) if name in archive}
    key, count = arrays["key"].astype(np.int64), arrays["count"].astype(np.int64)
    n_states, n_actions = len(states), len(actions)
    if key.size and (key.min() < 0 or key.max() >= n_states * n_actions * n_states or count.min() < 1):
        raise InvalidInput("Dataset: a count must be 1 or more, of states and actions that are named")
    pair = key // n_states
    columns = pair // n_actions, pair % n_actions, key % n_states, arrays["reward"].astype(np.float64), count
    more: dict[str, Any] = {name: arrays[name].astype(np.int64) for name in _OPTIONAL if name in arrays}
    more |= {name: int(metadata[name]) for name in _FLAWS}
    return Dataset(process, *columns, **more, width=float.fromhex(metadata["width"]))
