"""Packed files: whether what was read from them is what was packed.

A gzip file ends with a checksum of its content, which DuckDB does not look at: a file with one wrong bit would be read
as another log. So a thread unpacks the file too, beside the engine, and compares. Python's lock is free while it does,
and nothing leaves the reader before it is done.
"""

from __future__ import annotations

import contextlib
import gzip
import threading
import zlib
from collections.abc import Iterator, Sequence

from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.wording import sentence

_AT_ONCE = 2**20  # bytes


def is_packed(file: str) -> bool:
    """Whether a file is packed, by its name.

    >>> is_packed("log.csv.gz"), is_packed("log.csv")
    (True, False)
    """
    return file.lower().endswith(".gz")


@contextlib.contextmanager
def refusing_unreadable(file: str) -> Iterator[None]:
    """Refuse a file that cannot be read, or not be unpacked, in one sentence."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InvalidFile(f"{file}: cannot be unpacked: it is damaged or breaks off.") from None
    except OSError as error:
        raise InvalidFile(f"{file}: cannot be read ({sentence(error.strerror or error, 100)}).") from None


@contextlib.contextmanager
def checked_beside(files: Sequence[str]) -> Iterator[None]:
    """Check packed files while they are read; a damaged one is refused at the end, whatever was read from it."""
    packed = [file for file in files if is_packed(file)]
    if not packed:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor  # which loads what nobody else needs

    stop = threading.Event()
    with ThreadPoolExecutor(1, "replicable-rl-unpack") as pool:
        check = pool.submit(_check, packed, stop)
        try:
            yield
        except InvalidInput:  # a damaged file is refused as one: what is wrong in it was never written
            check.result()
            raise
        except BaseException:
            stop.set()
            raise
        check.result()


def _check(files: Sequence[str], stop: threading.Event) -> None:
    for file in files:
        with refusing_unreadable(file), gzip.open(file) as stream:
            while not stop.is_set() and stream.read(_AT_ONCE):
                pass
