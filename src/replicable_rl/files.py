"""Files appear whole or not at all: written under a temporary name, then renamed."""

import contextlib
import csv
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from replicable_rl.errors import InvalidFile


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file to write; at the end of the block it takes the place of ``path``.

    When the block raises, ``path`` is as it was. What is no regular file, such as ``/dev/stdout``, is written to
    directly, and a database is not replaced: it may hold runs.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with _as_invalid_file(target), target.open("wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))  # what a link leads to
    if target.is_file() and _starts_with(target, b"SQLite format 3\x00"):
        raise InvalidFile(f"{path}: is a database, perhaps of finished runs. Name another file.")
    with _as_invalid_file(target):
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with _as_invalid_file(target), os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
        with _as_invalid_file(target):
            os.replace(temporary, target)  # noqa: PTH105  # the atomic primitive by its own name
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_csv(path: str | os.PathLike[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows under the names of their columns, whole or not at all; what a row lacks is left empty."""
    columns = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text to a file, whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode())


@contextlib.contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a directory to fill; at the end of the block it appears under ``path``.

    A ``path`` that exists and is not an empty directory is refused, before and after.
    """
    target = Path(path)
    with _as_invalid_file(target):
        taken = target.exists() and not (target.is_dir() and not any(target.iterdir()))
    if taken:
        raise InvalidFile(f"{target}: exists and is not an empty directory. Save elsewhere or remove it first.")
    with _as_invalid_file(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        with _as_invalid_file(target):
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            os.rename(temporary, target)  # noqa: PTH104  # succeeds on an empty directory only
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextlib.contextmanager
def _as_invalid_file(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be written ({error.strerror or error}).") from None


def _starts_with(path: Path, magic: bytes) -> bool:
    with _as_invalid_file(path), path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
