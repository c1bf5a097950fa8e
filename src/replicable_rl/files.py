"""Files appear whole or not at all, and hold every kind of thing in one form.

That form is an archive without compression, which NumPy reads too: ``header.json`` says the kind, the schema and the
plain values of a thing, and has the digest of all of it; beside it are arrays of numbers, each a ``.npy`` file.
"""

import contextlib
import hashlib
import io
import json
import os
import secrets
import stat
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import from_json, read_npy, record_text, to_json
from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.wording import Displayed

Name = str | os.PathLike[str]
SCHEMA = 1
_HEADER = "header.json"
_ALWAYS = (1980, 1, 1, 0, 0, 0)  # the time of every member


@contextlib.contextmanager
def replacing(path: Name) -> Iterator[BinaryIO]:
    """Yield a file to write; at the end of the block it takes the place of ``path``.

    When the block raises, ``path`` is as it was. What is no regular file, such as ``/dev/stdout``, is written to
    directly, and a database is not replaced: it may hold runs.
    """
    named, target = Path(path), Path(os.path.realpath(path))  # what a link leads to
    if named.exists() and not named.is_file() and not named.is_dir():
        with _explained(path, "written"), named.open("wb") as stream:
            yield stream
        return
    with _explained(path, "written"):
        if target.is_file():
            with target.open("rb") as stream:
                if stream.read(16) == b"SQLite format 3\x00":
                    raise InvalidFile(f"{path}: is a database, perhaps of finished runs. Name another file.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with _explained(path, "written"):
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)  # noqa: PTH105  # the atomic primitive by its own name
    except BaseException:
        with contextlib.suppress(OSError):  # it may never have been there
            temporary.unlink()
        raise


def write_text(path: Name, text: str) -> None:
    """Write a text to a file, whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode())


class Parts(NamedTuple):
    """What a file holds: plain values, and arrays of numbers by name."""

    values: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class Artifact(Displayed, ABC):
    """Something that a file can hold: `replicable_rl.save` writes it, `replicable_rl.load` reads it back."""

    saved_as: ClassVar[str]

    @abstractmethod
    def parts(self) -> Parts:
        """Return what is written."""

    @classmethod
    @abstractmethod
    def from_parts(cls, parts: Parts) -> Self:
        """Make it again; what cannot be made is refused."""


Kind = TypeVar("Kind", bound=Artifact)


def write_artifact(thing: Artifact, stream: IO[bytes]) -> None:
    """Write an archive of ``header.json`` and arrays: the same bytes for the same thing, whatever the time is."""
    values, parts = thing.parts()
    arrays = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in parts.items()}
    header = {"kind": thing.saved_as, "schema": SCHEMA, "values": to_json(values)}
    header["digest"] = _digest(header, arrays)
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _ALWAYS), record_text(header))
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _ALWAYS), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, (1, 0), allow_pickle=False)


def read_artifact(stream: IO[bytes], *kinds: type[Kind]) -> Kind:
    """Read a thing of one of these kinds, and check the digest of all that it is made of. Nothing is unpickled."""
    try:
        with zipfile.ZipFile(stream) as archive:
            header = _header(archive)
            kind = next((kind for kind in kinds if kind.saved_as == header["kind"]), None)
            if kind is None:
                raise InvalidInput(f"holds a {header['kind']}, where a {' or a '.join(k.saved_as for k in kinds)} is.")
            names = [name for name in archive.namelist() if name != _HEADER]
            arrays = {name.removesuffix(".npy"): read_npy(archive.read(name)) for name in names}
        if header.pop("digest") != _digest(header, arrays):
            raise InvalidInput("the content does not match its digest; it was changed after it was saved.")
        return kind.from_parts(Parts(from_json(header["values"]), arrays))
    except InvalidInput:
        raise
    except Exception as error:  # whatever zipfile makes of other bytes, and a level of others of other arrays
        raise InvalidInput(f"is no file of this library ({type(error).__name__}: {error!s:.120}).") from None


def load_artifact(path: Name, *kinds: type[Kind]) -> Kind:
    """Read a file that holds a thing of one of these kinds."""
    with _explained(path, "read"), check_regular(path).open("rb") as stream:
        try:
            return read_artifact(stream, *kinds)
        except InvalidInput as error:
            raise InvalidFile(f"{path}: {error}") from None


def kind_in_file(path: Name) -> str | None:
    """Return the kind of thing that a file says it holds; None where it is no file of ours."""
    with contextlib.suppress(Exception), zipfile.ZipFile(check_regular(path)) as archive:  # who reads it says why
        return str(_header(archive)["kind"])
    return None


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the header, and large integers in it as they are written."""
    members = archive.infolist()
    if archive.fp is None or sum(member.file_size for member in members) > archive.fp.seek(0, io.SEEK_END):
        raise InvalidInput("it is larger unpacked, which no file of this library is.")  # and perhaps without end
    if members[0].header_offset != 0:
        raise InvalidInput("it does not begin with its header.")  # half a run may end with the whole of a model
    header: dict[str, Any] = json.loads(archive.read(_HEADER))
    if header["schema"] != SCHEMA:
        raise InvalidInput(f"its schema is {header['schema']!r:.20}, and this release reads {SCHEMA}. Upgrade it.")
    return header


def _digest(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the header without a digest, and of the bits of the arrays."""
    described = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    digest = hashlib.sha256(record_text([header, described]))
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).reshape(-1).data)
    return digest.hexdigest()


def check_regular(path: Name) -> Path:
    """Return the path of a regular file; anything else is refused before it is opened.

    A pipe or a device would be waited for, perhaps for ever, and a number would be taken for an open file.

    >>> check_regular("/dev/null")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidFile: /dev/null: is not a regular file. Name another file.
    """
    if not isinstance(path, (str, bytes, os.PathLike)) or "\0" in os.fsdecode(path):
        raise InvalidInput(f"a path must name a file, got {shown(path)}.")
    name = os.fsdecode(path)
    with _explained(path, "read"):
        mode = Path(name).stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise InvalidFile(f"{path}: is {kind}. Name another file.")
    return Path(name)


@contextlib.contextmanager
def _explained(path: Name, done: str) -> Iterator[None]:
    """Say in one sentence why a file cannot be read or written."""
    try:
        yield
    except OSError as error:
        gone = done == "read" and isinstance(error, FileNotFoundError)
        why = "no such file" if gone else f"cannot be {done} ({error.strerror or error})"
        raise InvalidFile(f"{path!s:.200}: {why}.") from None
