"""Files appear whole or not at all: written under a temporary name, then renamed."""

import contextlib
import csv
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.wording import visible

Name = str | os.PathLike[str]


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
    """Write rows under the names of their columns, whole or not at all; what a row lacks is left empty.

    A spreadsheet takes a text that begins with ``=``, ``+``, ``-``, ``@`` or a tab for a formula, and runs it. Such a
    text gets an apostrophe in front; numbers stay numbers. Control characters are written as escapes.
    """
    columns = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_no_formula, columns))
    writer.writerows([_no_formula(row.get(name, "")) for name in columns] for row in rows)
    write_text(path, text.getvalue())


def _no_formula(cell: object) -> object:
    """Return a cell that no spreadsheet runs.

    >>> _no_formula("=1+1"), _no_formula("-0.5"), _no_formula(-1)
    ("'=1+1", '-0.5', -1)
    """
    if not isinstance(cell, str):
        return cell
    text = visible(cell)  # a bare return would begin a row
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text
    return text


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


def check_regular(path: Name) -> Path:
    """Return the path of a regular file; anything else is refused before it is opened.

    A pipe or a device would be waited for, perhaps for ever, and a number would be taken for an open file.

    >>> check_regular("/dev/null")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidFile: /dev/null: is not a regular file. Name another file.
    """
    try:
        name = os.fspath(path)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"a path must name a file, got {shown(path)}.") from None
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116  # Path's own refuses a name that is bytes
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise InvalidFile(f"{path}: is {kind}. Name another file.")
    except FileNotFoundError:
        raise InvalidFile(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:  # the second: a name with a zero in it
        raise _unreadable(path, error) from None
    return Path(os.fsdecode(name))


def read_file(path: Name, most: int = 1 << 32) -> bytes:
    """Return the content of a regular file of at most so many bytes."""
    file = check_regular(path)
    try:
        with file.open("rb") as stream:
            if (size := os.fstat(stream.fileno()).st_size) > most:
                raise InvalidFile(f"{path}: has {size} bytes, and at most {most} are read. Name another file.")
            return stream.read(size)  # a reader sets aside as much memory as it is asked for
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Name, error: Exception) -> InvalidFile:
    if isinstance(error, InvalidFile):
        return error
    return InvalidFile(f"{str(path)!r:.200}: cannot be read ({getattr(error, 'strerror', None) or error}).")


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
