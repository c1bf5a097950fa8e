"""Saving and loading a ``TabularMDP``: one ``.npz`` without pickles, metadata as JSON inside.

``docs/problems.md`` describes the format. The digest is checked on loading.
"""

from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import canonical_json, parse_json, read_npz, write_npz
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import check_regular, replacing
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.support import allowed_of
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import Level, register_level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_FORMAT = "replicable-rl mdp"
_VERSION = 1
_ARRAYS = ("indptr", "next_state", "probability", "reward", "initial")
_KINDS = {"indptr": "i", "next_state": "i", "probability": "f", "reward": "f", "initial": "f", "metadata": "u"}
_KINDS["allowed"] = "u"


def save_mdp(mdp: TabularMDP, path: str | os.PathLike[str]) -> None:
    """Write ``mdp`` to ``path``, whole or not at all."""
    with replacing(path) as stream:
        write_mdp(mdp, stream)


def write_mdp(mdp: TabularMDP, stream: IO[bytes]) -> None:
    """Write ``mdp`` to an open file."""
    allowed = allowed_of(mdp)
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "n_actions": mdp.n_actions,
        "gamma": mdp.gamma,
        "reward_range": list(mdp.reward_range),
        "states": mdp.labels.states,
        "actions": mdp.labels.actions,
        "layout": mdp.labels.layout,
        "digest": mdp.digest,
        "estimated": mdp.estimated,
    }
    arrays: dict[str, NDArray[Any]] = {**mdp.rows._asdict(), "initial": mdp.initial}
    if allowed is not None:
        arrays["allowed"] = allowed.reshape(-1).astype(np.uint8)
    arrays["metadata"] = np.frombuffer(canonical_json(metadata), dtype=np.uint8)
    write_npz(stream, arrays)


def load_mdp(path: str | os.PathLike[str]) -> TabularMDP:
    """Read a process written by :meth:`TabularMDP.save`, and check its digest.

    Parameters
    ----------
    path : path
        A ``.npz`` file; ``docs/problems.md`` describes it. Nothing is unpickled.
    """
    file = check_regular(path)
    try:
        with file.open("rb") as stream:
            return read_mdp(path, stream)
    except OSError as error:
        raise InvalidFile(f"{path}: not a {_FORMAT} file ({error}).") from None


def read_mdp(path: str | os.PathLike[str], stream: IO[bytes]) -> TabularMDP:
    """Read a process from an open file, which messages call ``path``."""
    try:
        archive = read_npz(stream)
        metadata = _read_metadata(path, archive)
        arrays = {name: _read_array(path, archive, name) for name in _ARRAYS}
        allowed = _read_array(path, archive, "allowed") if "allowed" in archive else None
    except InvalidFile:
        raise
    except InvalidInput as error:
        raise InvalidFile(f"{path}: not a {_FORMAT} file ({str(error).rstrip('.')}).") from None
    initial = arrays.pop("initial")
    rows = Rows(**arrays)
    try:
        options = _options(metadata)
        mask = None if allowed is None else allowed.reshape(-1, max(options["n_actions"], 1))
        mdp = TabularMDP(rows, initial=initial, allowed=mask, **options)
    except InvalidInput as error:
        raise InvalidFile(f"{path}: {error}") from None
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidFile(f"{path}: its metadata is incomplete ({error}).") from None
    if mdp.digest != metadata["digest"]:
        raise InvalidFile(f"{path}: the content does not match its digest; the file was changed after it was saved.")
    return mdp


def _options(metadata: dict[str, Any]) -> dict[str, Any]:
    names = {key: None if metadata[key] is None else tuple(metadata[key]) for key in ("states", "actions", "layout")}
    low, high = map(_float, metadata["reward_range"])
    return {
        "n_actions": int(metadata["n_actions"]),
        "gamma": metadata["gamma"],
        "reward_range": (low, high),
        "labels": Labels(**names),
        "estimated": metadata["estimated"] is True,
    }


def _float(number: Any) -> Any:
    return float(number) if type(number) is int else number  # JSON writes a whole float as an integer


def _read_metadata(path: str | os.PathLike[str], archive: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    metadata = parse_json(_read_array(path, archive, "metadata").tobytes())
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        raise InvalidFile(f"{path}: not a {_FORMAT} file.")
    version = metadata.get("version")
    if version != _VERSION:
        raise InvalidFile(f"{path}: format version {version!r} is not {_VERSION}. Upgrade replicable-rl.")
    if "digest" not in metadata:
        raise InvalidFile(f"{path}: its metadata has no digest.")
    return metadata


def _read_array(path: str | os.PathLike[str], archive: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in archive:
        raise InvalidFile(f"{path}: not a {_FORMAT} file (it has no array {name!r}).")
    array = archive[name]
    if array.dtype.kind != _KINDS[name] or array.ndim != 1:
        raise InvalidFile(f"{path}: array {name!r} has type {array.dtype} and shape {array.shape}.")
    return array


def _freeze_model(name: str, output: Any) -> TabularMDP:
    if not isinstance(output, TabularMDP):
        raise InvalidInput(f"Run: a {name} must be a TabularMDP, got {type(output).__name__}.")
    return output if output.estimated else output._with(estimated=True, _source=None)


def _encode_model(model: TabularMDP) -> bytes:
    stream = io.BytesIO()
    write_mdp(model, stream)
    return stream.getvalue()


register_level(
    Level(
        "model",
        implies=("value",),
        freeze=_freeze_model,
        digest=lambda name, model: model.digest,
        encode=_encode_model,
        decode=lambda data: read_mdp("model", io.BytesIO(data)),
        suffix=".npz",
    )
)
