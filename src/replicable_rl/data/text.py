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
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from replicable_rl.data.columns import Columns, check_header, literal, quoted
from replicable_rl.errors import InvalidFile, shown
from replicable_rl.wording import plural, sentence

_DELIMITERS = (",", ";", "\t", "|")
FILE = "(file)"  # the column that says in which file a row is
_LONGEST = 2**24  # letters of a field, for Python's reader; DuckDB refuses sooner
_LOOKED_AT = 1000  # lines of JSON whose names of columns are looked at


@dataclass(frozen=True)
class Header:
    """The first line of a file."""

    names: tuple[str, ...]
    delimiter: str


@dataclass(frozen=True)
class TextFiles:
    """Files of comma-separated values or JSON lines, in order, and the columns that are asked for."""

    files: tuple[str, ...]
    columns: Columns

    @property
    def is_json(self) -> bool:
        """Whether the files hold JSON lines."""
        return not self.files[0].lower().removesuffix(".gz").endswith((".csv", ".tsv"))

    @cached_property
    def headers(self) -> tuple[Header, ...]:
        """The header of every file; one that lacks a column is refused. The order of columns may differ."""
        read = _json_header if self.is_json else self._csv_header
        found = tuple(map(read, self.files))
        for file, header in zip(self.files, found, strict=True):
            check_header(file, self.columns, header.names)
        return found

    def query(self) -> str:
        """Return what selects the columns, all of them as they are written."""
        parts = []
        for header, some in itertools.groupby(zip(self.headers, self.files, strict=True), key=lambda pair: pair[0]):
            files = [file for _, file in some]
            parts.append(self._query(header, files))
        return " UNION ALL ".join(parts)

    @property
    def has_files(self) -> bool:
        """Whether rows say in which file they are: where episodes could be in two of them."""
        return len(self.files) > 1 and self.columns.episode is not None

    def place(self, row: int) -> str:
        """Return the file and the line of a row; rows of all files are counted from 1."""
        for file, line, _ in itertools.islice(self._rows(), row - 1, row):
            return f"{file}, line {line}"
        return f"{self.files[0]}, row {row}"

    def uneven(self) -> str | None:
        """Say which row has more or fewer fields than the header, or is no JSON; None where there is none."""
        if self.is_json:
            for file in self.files:
                _json_header(file, None)
            return None
        many = dict(zip(self.files, (len(header.names) for header in self.headers), strict=True))
        for file, line, fields in self._rows():
            if fields != many[file]:
                return f"{file}, line {line}: has {plural(fields, 'field')}, and the header has {many[file]}."
        return None

    def _csv_header(self, file: str) -> Header:
        delimiters = ("\t", *_DELIMITERS) if file.lower().removesuffix(".gz").endswith(".tsv") else _DELIMITERS
        with _readable(file):
            read = [(_header(file, one), one) for one in delimiters]
        if not read[0][0]:
            raise InvalidFile(f"{file}, line 1: is blank, and must name the columns.")
        names, delimiter = max(read, key=lambda pair: (len(set(pair[0]) & set(self.columns.asked)), len(pair[0])))
        twice = next((name for name in names if name and names.count(name) > 1), None)
        if twice is not None:
            raise InvalidFile(f"{file}, line 1: two columns are called {shown(twice)}. Rename one.")
        return Header(tuple(names), delimiter)

    def _query(self, header: Header, files: Sequence[str]) -> str:
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
        compression = "gzip" if is_packed(self.files[0]) else "none"
        return (
            f"SELECT {', '.join(chosen)} FROM {reader}([{', '.join(map(literal, files))}], columns={{{names}}}, "
            f"auto_detect=false, compression='{compression}', {how})"
        )

    def _rows(self) -> Iterator[tuple[str, int, int]]:
        """Yield the file, the first line and the number of fields of every row."""
        for file, header in zip(self.files, self.headers, strict=True):
            with _readable(file), _opened(file) as stream:
                if self.is_json:
                    yield from ((file, line, 1) for line, text in enumerate(stream, start=1) if text.strip())
                    continue
                reader, before = _reader(stream, header.delimiter), 0
                for number, row in enumerate(reader):
                    if row and number:
                        yield file, before + 1, len(row)
                    before = reader.line_num


def _header(file: str, delimiter: str) -> list[str]:
    with _opened(file) as stream:
        return next(_reader(stream, delimiter), [])


def _reader(lines: Iterable[str], delimiter: str) -> Any:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    return csv.reader(lines, delimiter=delimiter)


def _json_header(file: str, most: int | None = _LOOKED_AT) -> Header:
    """Return the names of columns in the first lines, or in all; refuse a line that is no object."""
    names: dict[str, None] = {}
    with _readable(file), _opened(file) as lines:
        for line, text in enumerate(itertools.islice(lines, most), start=1):
            if not text.strip():
                continue
            row = None
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(text)
            if not isinstance(row, dict):
                got = shown(text.strip())
                raise InvalidFile(f'{file}, line {line}: must be an object of JSON, such as {{"state": 1}}, got {got}.')
            names |= dict.fromkeys(row)
    return Header(tuple(names), "")


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


@contextlib.contextmanager
def _opened(file: str, errors: str = "strict") -> Iterator[TextIO]:
    how: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "newline": "", "errors": errors}
    with gzip.open(file, **how) if is_packed(file) else Path(file).open(**how) as stream:
        yield stream


@contextlib.contextmanager
def _readable(file: str) -> Iterator[None]:
    """Refuse what cannot be read, in one sentence."""
    try:
        with refusing_unreadable(file):
            yield
    except UnicodeDecodeError:
        raise InvalidFile(f"{file}, line {_undecodable(file)}: is not UTF-8. Save the file as UTF-8.") from None
    except csv.Error as error:
        raise InvalidFile(f"{file}: cannot be read ({sentence(error, 100)}).") from None


def _undecodable(file: str) -> int:
    """Return the first line of a file that is not UTF-8."""
    with _opened(file, "surrogateescape") as stream:
        for line, text in enumerate(stream, start=1):
            if any("\udc80" <= letter <= "\udcff" for letter in text):
                return line
    return 1
