"""Files of text: their names of columns, how DuckDB reads them, and on which line a row is.

Every value is read as it is written. DuckDB would guess types from the first rows, and what comes later would be
rounded or refused.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from replicable_rl.data.columns import Columns, check_header, literal, literals, quoted
from replicable_rl.errors import InvalidFile, shown
from replicable_rl.wording import plural, sentence

_DELIMITERS = (",", ";", "\t", "|")
FILE = "(file)"  # the column that says in which file a row is
LONGEST = 2**20  # bytes of a row, and of blank lines before it: engines take no longer ones
_LOOKED_AT = 1000  # lines of JSON whose names of columns are looked at
_BLOCK = 2**22  # bytes that are looked at in one go
_MOST_UNPACKED = 2**28  # bytes of packed files, or a hundred times what they have packed

_SAID = (  # what may be wrong with a row
    "has {}, and the header has {}",
    "has a quote inside of a value in quotes, or blanks around the quotes. Double the one, leave out the others",
    "does not end as the first line does. End all in a line feed, or all in a carriage return and a line feed",
    "has more than a million bytes, or as many blank lines before it: a quote may not be closed",
    "holds a byte 0, or a byte order mark that is not at the beginning of the file. Save the file anew",
    "must be an object of JSON",
)


@dataclass(frozen=True)
class Header:
    """The first line of a file."""

    names: tuple[str, ...]
    delimiter: str
    has_returns: bool = False  # whether lines end in a carriage return and a line feed


@dataclass(frozen=True)
class TextFiles:
    """Files of comma-separated values or JSON lines, in order, and the columns that are asked for."""

    files: tuple[str, ...]
    columns: Columns
    paths: tuple[str, ...]  # where the files are read: those that are packed have been unpacked

    @property
    def is_json(self) -> bool:
        """Whether the files hold JSON lines."""
        return not self.files[0].lower().removesuffix(".gz").endswith((".csv", ".tsv"))

    @cached_property
    def headers(self) -> tuple[Header, ...]:
        """The header of every file; one that lacks a column is refused. The order of columns may differ."""
        read = _json_header if self.is_json else self._csv_header
        found = tuple(map(read, self.files, self.paths))
        for file, header in zip(self.files, found, strict=True):
            check_header(file, self.columns, header.names)
        return found

    @cached_property
    def rows(self) -> int:
        """How many rows there are; the first that is not as the header says, or that readers differ on, is refused."""
        return sum(_scanned(*one)[1] for one in zip(self.files, self.paths, self.headers, strict=True))

    def query(self) -> str:
        """Return what selects the columns, all of them as they are written."""
        parts = []
        for header, some in itertools.groupby(zip(self.headers, self.paths, strict=True), key=lambda pair: pair[0]):
            parts.append(self._query(header, [path for _, path in some]))
        return " UNION ALL ".join(parts)

    @property
    def has_files(self) -> bool:
        """Whether rows say in which file they are: where episodes could be in two of them."""
        return len(self.files) > 1 and self.columns.episode is not None

    def place(self, row: int) -> str:
        """Return the file and the line of a row; rows of all files are counted from 1."""
        for file, path, header in zip(self.files, self.paths, self.headers, strict=True):
            line, rows = _scanned(file, path, header, row)
            if rows == row:
                break
            row -= rows
        return f"{file}, line {line}"

    def explained(self, text: str) -> str:
        """Return what an engine says, with the files as the user calls them; refuse the first line that is no JSON."""
        for file, path in zip(self.files, self.paths, strict=True):
            if self.is_json:
                _json_header(file, path, None)
            text = text.replace(path, file)
        return text

    def _csv_header(self, file: str, path: str) -> Header:
        delimiters = ("\t", *_DELIMITERS) if file.lower().removesuffix(".gz").endswith(".tsv") else _DELIMITERS
        with refusing_unreadable(file), Path(path).open("rb") as stream:
            line = _decoded(file, stream.readline(LONGEST), 1).removeprefix("\ufeff")
        if line.count('"') % 2 or "\r" in line.removesuffix("\n").removesuffix("\r"):
            rule = "must name the columns, in one line that ends with a line feed"
            raise InvalidFile(f"{file}, line 1: {rule}, got {shown(line)}. Rename the columns, or save the file anew.")
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
        read: list[tuple[list[str], str]] = [(next(csv.reader([line], delimiter=one), []), one) for one in delimiters]
        if not read[0][0]:
            raise InvalidFile(f"{file}, line 1: is blank, and must name the columns.")
        names, delimiter = max(read, key=lambda pair: (len(set(pair[0]) & set(self.columns.asked)), len(pair[0])))
        twice = next((name for name in names if name and names.count(name) > 1), None)
        if twice is not None:
            raise InvalidFile(f"{file}, line 1: two columns are called {shown(twice)}. Rename one.")
        return Header(tuple(names), delimiter, line.endswith("\r\n"))

    def _query(self, header: Header, paths: Sequence[str]) -> str:
        """Return what selects the columns of files with one header, and the file if rows are to say theirs."""
        asked = self.columns.asked
        if self.is_json:
            names = ", ".join(f"{literal(name)}: 'JSON'" for name in asked)
            chosen = [f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" for name in asked]
            reader, how = "read_json", "format='newline_delimited'"
        else:
            names = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header.names)))
            chosen = [f"c{header.names.index(name)} AS {quoted(name)}" for name in asked]
            reader, how = "read_csv", f"header=true, delim={literal(header.delimiter)}, quote='\"', escape='\"'"
        if self.has_files:
            chosen, how = [*chosen, quoted(FILE)], f"{how}, filename='{FILE}'"
        # What folders are called is no column: an engine would put it in the place of the one inside.
        how = f"auto_detect=false, compression='uncompressed', hive_partitioning=false, {how}"
        return f"SELECT {', '.join(chosen)} FROM {reader}([{literals(paths)}], columns={{{names}}}, {how})"


@contextlib.contextmanager
def unpacked(files: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Lend files, unpacked where they are packed: their sums are right, and they are no bombs."""
    if not files or not is_packed(files[0]):
        yield files
        return
    left = max(_MOST_UNPACKED, 100 * sum(map(os.path.getsize, files)))
    with tempfile.TemporaryDirectory(prefix="replicable-rl-") as folder:
        paths = tuple(f"{folder}/{i}" for i in range(len(files)))
        for file, path in zip(files, paths, strict=True):
            with refusing_unreadable(file), gzip.open(file) as packed, Path(path).open("wb") as plain:
                while block := packed.read(_BLOCK):
                    left -= plain.write(block)
                    if left < 0:
                        raise InvalidFile(f"{file}: is a hundred times as large unpacked, and more. Unpack it first.")
        yield paths


def _scanned(file: str, path: str, header: Header, last: int = -1) -> tuple[int, int]:
    """Return on which line the last row of a file begins, and its number; refuse the first row that is wrong."""
    from replicable_rl.data import _lines

    state, end = np.array([1, 1, 0, 0, 0, 0, 0]), b"\r\n" if header.has_returns else b"\n"
    delimiter = ord(header.delimiter) if header.delimiter else 0
    is_letter = ~np.isin(np.arange(256), [0, 10, 13, 239, delimiter])  # inside of a value: 239 begins a byte order mark
    with refusing_unreadable(file), Path(path).open("rb") as stream:
        if delimiter:
            stream.readline()
            state[:2] = 2
        while block := stream.read(_BLOCK) + stream.readline(LONGEST + 1):
            if not block.isascii():
                _decoded(file, block, int(state[1]))
            data = np.frombuffer(block if block.endswith(b"\n") else block + end, dtype=np.uint8)
            given = data, state, last, LONGEST
            how = is_letter, delimiter, len(header.names), header.has_returns
            wrong = _lines.delimited(*given, *how) if delimiter else _lines.objects(*given)
            if wrong:
                said = _SAID[wrong - 1].format(plural(int(state[5]), "field"), len(header.names))
                raise InvalidFile(f"{file}, line {state[0]}: {said}.")
            if state[2] == last:
                return int(state[0]), last
    if state[4]:
        raise InvalidFile(f"{file}, line {state[0]}: has a quote that is not closed.")
    return int(state[0]), int(state[2])


def _json_header(file: str, path: str, most: int | None = _LOOKED_AT) -> Header:
    """Return the names of columns in the first lines, or in all; refuse a line that is no object."""
    names: dict[str, None] = {}
    with refusing_unreadable(file), Path(path).open("rb") as stream:
        lines = iter(lambda: stream.readline(LONGEST + 1), b"")
        for line, raw in enumerate(itertools.islice(lines, most), start=1):
            text, row = _decoded(file, raw, line).strip(), None
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(text) if text else {}
            if not isinstance(row, dict):
                raise InvalidFile(f"{file}, line {line}: must be an object of JSON, got {shown(text)}.")
            names |= dict.fromkeys(row)
    return Header(tuple(names), "")


def _decoded(file: str, data: bytes, line: int) -> str:
    """Return the text that bytes are, of which the first are on a line."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise InvalidFile(f"{file}, line {line}: is not UTF-8. Save the file as UTF-8.") from None


def is_packed(file: str) -> bool:
    """Whether a file is packed, by its name."""
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
