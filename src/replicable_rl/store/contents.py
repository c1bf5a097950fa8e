"""Outputs and histories as bytes by fingerprint, and back; nothing is ever unpickled.

Of a small table most is its header, so that small contents are deflated. The bytes of floats are put together by their
place first, for numbers of like size have like exponents. To inflate one takes no more than the size that any of them
has.
"""

import contextlib
import io
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import json_text, parse_json, read_npz
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.records import LEVELS, Run, history_digest, level_of

HISTORY = "history"  # what a history is called beside the levels
# What a content begins with that is deflated, or so by bytes, or would else look like one of these.
_DEFLATED, _BY_BYTES, _RAW = _MARKS = b"\0z", b"\0b", b"\0r"
_NUMPY = b"\x93NUMPY\x01\0"  # what an array begins with
_SMALL = 2**16  # bytes
_WINDOW, _LEVEL, _MEMORY = -12, 6, 4  # small: it takes longer to set up a larger window than to do the work
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
    marked = data.startswith(_MARKS)
    if len(data) <= _SMALL:
        mark, said = (_BY_BYTES, _by_bytes(data)) if _holds_floats(data) else (_DEFLATED, data)
        work = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _USUAL)
        small = mark + work.compress(said) + work.flush()
        if marked or len(small) < len(data):
            return small
    return _RAW + data if marked else data


def inflated(data: bytes) -> bytes:
    """Return a content as its level encoded it; version 2 stored it so, whatever it begins with."""
    if data.startswith(_RAW):
        return data[len(_RAW) :]
    with contextlib.suppress(zlib.error):
        if data.startswith((_DEFLATED, _BY_BYTES)):
            work = zlib.decompressobj(_WINDOW, _USUAL)
            content = work.decompress(data[len(_DEFLATED) :], _SMALL + 1)
            if work.eof and not work.unused_data:
                if data.startswith(_DEFLATED):
                    return content
                if _holds_floats(content):
                    return _by_bytes(content, back=True)
    return data


def _holds_floats(content: bytes) -> bool:
    """Whether a content is an array of 64-bit floats, as numpy writes it."""
    start, size = _start(content), len(content)
    return content.startswith(_NUMPY) and b"'<f8'" in content[:start] and start <= size and (size - start) % 8 == 0


def _start(content: bytes) -> int:
    """Return where the numbers of an array begin."""
    return len(_NUMPY) + 2 + int.from_bytes(content[len(_NUMPY) : len(_NUMPY) + 2], "little")


def _by_bytes(content: bytes, *, back: bool = False) -> bytes:
    """Return an array of floats with the bytes of one place together, or ``back`` from there."""
    start = _start(content)
    numbers = np.frombuffer(content, dtype=np.uint8, offset=start)
    return content[:start] + numbers.reshape((8, -1) if back else (-1, 8)).T.tobytes()


def decode(owner: str, name: str, data: bytes, digest: str) -> Any:
    """Read an output of a level, or a history, and check its fingerprint."""
    if name != HISTORY and name not in LEVELS:
        raise InvalidInput(
            f"{owner}: no level is called {name!r}; load the module that registers it (--plugin MODULE)."
        )
    reason = "its content does not have this fingerprint"
    for content in dict.fromkeys((inflated(data), data)) if isinstance(data, bytes) else ():  # the second: version 2
        try:
            output = _decode_history(content) if name == HISTORY else LEVELS[name].decode(content)
            if (history_digest(output) if name == HISTORY else LEVELS[name].digest(name, output)) == digest:
                return output
        except Exception as error:  # whatever numpy, zipfile or json say of bytes that they cannot read
            reason = str(error).rstrip(".")
    raise InvalidFile(f"{owner}: {name} {digest[:16]}: is damaged ({reason}). Make its runs again in another file.")


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
