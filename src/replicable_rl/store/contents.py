"""Outputs and histories as bytes by fingerprint, and back; nothing is ever unpickled."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import json_text, parse_json, read_npz
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.records import LEVELS, Run, history_digest, level_of

HISTORY = "history"  # what a history is called beside the levels


def packed(run: Run, contents: dict[str, bytes], **changes: Any) -> Run:
    """Return a run without its outputs and with ``changes``, to travel; what ``contents`` lacks of them is added to it.

    Equal outputs have one fingerprint and are encoded once.

    >>> contents = {}
    >>> run = packed(Run.of({"policy": [0, 1]}), contents)
    >>> list(contents) == [run.fingerprints.policy], run.outputs
    (True, {})
    """
    for name, digest in run.fingerprints.items():
        if digest not in contents:
            contents[digest] = level_of(name).encode(run.outputs[name])
    history = run.history_digest
    if history is not None and history not in contents:
        contents[history] = _encode_history(run.history)
    return run.kept(None, history, **changes)


def decode(owner: str, name: str, data: bytes, digest: str) -> Any:
    """Read an output of a level, or a history, and check its fingerprint."""
    if name != HISTORY and name not in LEVELS:
        raise InvalidInput(
            f"{owner}: no level is called {name!r}; load the module that registers it (--plugin MODULE)."
        )
    reason = "its content does not have this fingerprint"
    try:
        output = _decode_history(data) if name == HISTORY else LEVELS[name].decode(data)
        if (history_digest(output) if name == HISTORY else LEVELS[name].digest(name, output)) == digest:
            return output
    except Exception as error:  # whatever numpy, zipfile or json say of bytes that they cannot read
        reason = str(error).rstrip(".")
    raise InvalidFile(f"{owner}: {name} {digest[:16]}: is damaged ({reason}). Restore the file from a copy.")


def _encode_history(history: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Write a history: the names, which may be any text, as JSON, and the columns in their order."""
    stream = io.BytesIO()
    names = np.frombuffer(json_text(list(history)).encode(), dtype=np.uint8)
    np.savez(stream, names, *(np.asarray(column, dtype=np.float64) for column in history.values()))
    return stream.getvalue()


def _decode_history(data: bytes) -> dict[str, NDArray[np.float64]]:
    names, *columns = read_npz(io.BytesIO(data)).values()
    for column in columns:
        column.setflags(write=False)
    return dict(zip(parse_json(names.tobytes()), columns, strict=True))
