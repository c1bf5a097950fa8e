"""Packed files, and files that cannot be read."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator

from replicable_rl.errors import InvalidFile
from replicable_rl.wording import sentence


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
