"""Outputs and histories as bytes by fingerprint, and back; nothing is ever unpickled.

Of a small table most is its header, so that small contents are deflated. To inflate one takes no more than the size
that any of them has.
"""

import io
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import json_text, parse_json
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.records import LEVELS, Run, history_digest, level_of

HISTORY = "history"  # what a history is called beside the levels
_DEFLATED = b"\0z"  # what a deflated content begins with; no level of ours begins so
_SMALL = 2**16  # bytes
_WINDOW, _LEVEL, _MEMORY = -12, 6, 4  # small, for to set up a larger window takes longer than the work
# Frozen for ever: what most contents begin with.
_USUAL = (
    b"\x93NUMPY\x01\0>\0{'descr': '<f8', 'fortran_order': False, 'shape': (8, 4), }    \n\0\0\0\0\0\0\0\0"
    b"\x93NUMPY\x01\0>\0{'descr': '<i8', 'fortran_order': False, 'shape': ("
)


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
            contents[digest] = deflated(level_of(name).encode(run.outputs[name]))
    history = run.history_digest
    if history is not None and history not in contents:
        contents[history] = _encode_history(run.history)
    return run.kept(None, history, **changes)


def deflated(data: bytes) -> bytes:
    """Return a content as it is stored: small ones take less room so.

    >>> len(deflated(bytes(1000))), inflated(deflated(b"content"))
    (12, b'content')
    """
    if len(data) > _SMALL:
        return data
    work = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _USUAL)
    small = _DEFLATED + work.compress(data) + work.flush()
    return small if len(small) < len(data) or data.startswith(_DEFLATED) else data


def inflated(data: bytes) -> bytes:
    """Return a content as its level encoded it."""
    if not data.startswith(_DEFLATED):
        return data
    work = zlib.decompressobj(_WINDOW, _USUAL)
    content = work.decompress(data[len(_DEFLATED) :], _SMALL + 1)
    if len(content) > _SMALL or not work.eof or work.unused_data:
        raise ValueError("it is not deflated as it should be")
    return content


def decode(owner: str, name: str, data: bytes, digest: str) -> Any:
    """Read an output of a level, or a history, and check its fingerprint."""
    if name != HISTORY and name not in LEVELS:
        raise InvalidInput(
            f"{owner}: no level is called {name!r}; load the module that registers it (--plugin MODULE)."
        )
    try:
        data = inflated(data)
        if name == HISTORY:
            output: Any = _decode_history(data)
            same = history_digest(output) == digest
        else:
            output = LEVELS[name].decode(data)
            same = LEVELS[name].digest(name, output) == digest
        if not same:
            raise ValueError("its content does not have this fingerprint")  # worded below
    except Exception as error:  # whatever numpy, zipfile or json say of bytes that they cannot read
        reason = str(error).rstrip(".")
        raise InvalidFile(
            f"{owner}: {name} {digest[:16]}: is damaged ({reason}). Make its runs again in another file."
        ) from None
    return output


def _encode_history(history: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Write a history: the names, which may be any text, as JSON, and the columns in their order."""
    stream = io.BytesIO()
    names = np.frombuffer(json_text(list(history)).encode(), dtype=np.uint8)
    np.savez(stream, names, *(np.asarray(column, dtype=np.float64) for column in history.values()))
    return stream.getvalue()


def _decode_history(data: bytes) -> dict[str, NDArray[np.float64]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        names, *columns = (archive[name] for name in archive.files)
    for column in columns:
        column.setflags(write=False)
    return dict(zip(parse_json(names.tobytes()), columns, strict=True))
