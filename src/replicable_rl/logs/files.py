"""Files of logs: which ones a path names, and how text is read.

CSV files are read by DuckDB, every value as it is written: it would guess types from the first rows, and what comes
later would be rounded or refused. Readers also differ in what they forgive, so the bytes are looked at first, and the
first row that two readers may read in two ways is refused with its line. JSON lines are read by Python.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.files import check_regular
from replicable_rl.logs.columns import Columns, literal, quoted
from replicable_rl.wording import plural, sentence

PARQUET, JSON = ".parquet", (".jsonl", ".ndjson")
_TEXTS = (".csv", ".tsv", *JSON)
ENDINGS = (*_TEXTS, *(f"{ending}.gz" for ending in _TEXTS), PARQUET)
_PACKED = re.compile(r"[.](csv|tsv|jsonl|ndjson|parquet)[.](gz|bz2|xz|zst|lz4|br|Z|zip|7z)$", re.IGNORECASE)
_DELIMITERS = (",", ";", "\t", "|")
_LONGEST = 2**20  # bytes of a row, and of blank lines before it: engines take no longer ones
_BLOCK = 2**22  # bytes that are looked at in one go
_MOST_UNPACKED = 2**28  # bytes of packed files, or a hundred times what they have packed
_LONG = "has more than a million bytes, or as many blank lines before it: a quote may not be closed"
_WRONG = (
    "has {}, and the header has {}",
    "has a quote inside of a value in quotes, or blanks around the quotes. Double the one, leave out the others",
    "does not end as the first line does. End all in a line feed, or all in a carriage return and a line feed",
    _LONG,
    "holds a byte 0, or a byte order mark that is not at the beginning of the file. Save the file anew",
)


# --- paths --------------------------------------------------------------------------------------------------------


def files_of(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the files of a path, all of one kind: itself, those of a folder, or those that fit a pattern."""
    text = os.fsdecode(source)
    path, base = Path(text), Path()
    if os.path.isdir(text):  # noqa: PTH112  # Path's own raises where a name is too long
        found, base = list(_inside(path)), path
    elif set(text) & set("*?[") and not os.path.exists(text):  # noqa: PTH110
        base = Path(*itertools.takewhile(lambda part: not set(part) & set("*?["), path.parts))
        found = list(base.glob(str(path.relative_to(base))))
    else:
        return _of_one_kind(text, [text])
    kept = sorted(str(file) for file in found if not _is_hidden(file.relative_to(base)))
    if not kept:
        rule = f"has no file that ends in {', '.join(ENDINGS)}" if base == path else "no file fits this pattern"
        but = ", but for those whose name, or folder, begins with . or _, which are left out" if found else ""
        raise InvalidFile(f"{text}: {rule}{but}.")
    return _of_one_kind(text, kept)


def _of_one_kind(source: str, files: Sequence[str]) -> tuple[str, ...]:
    names: dict[str, str] = {}
    for file in files:
        other = names.setdefault(os.path.realpath(check_regular(file)), file)
        if other != file:
            raise InvalidFile(f"{file}: is the same file as {other}, and would count twice. Name one of them.")
        if not file.lower().endswith(ENDINGS):
            raise InvalidFile(f"{file}: a log ends in {', '.join(ENDINGS)}. Rename it, or read it yourself.")
    kinds = {max((ending for ending in ENDINGS if file.lower().endswith(ending)), key=len) for file in files}
    if len(kinds) > 1:
        raise InvalidFile(f"{source}: holds files of several kinds, {', '.join(sorted(kinds))}. Name one kind.")
    return tuple(files)


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the logs of a folder and of the folders in it, also those that no reader takes."""

    def fail(error: OSError) -> None:
        with refusing_unreadable(str(error.filename)):
            raise error

    for where, folders, names in os.walk(folder, onerror=fail):
        yield from (Path(where, name) for name in names if name.lower().endswith(ENDINGS) or _PACKED.search(name))
        for link in (Path(where, name) for name in folders if Path(where, name).is_symlink()):  # which are not followed
            if not _is_hidden(link.relative_to(folder)) and not link.resolve().is_relative_to(folder.resolve()):
                raise InvalidFile(f"{link}: is a link to a folder, and is not followed. Name the folder itself.")


def _is_hidden(path: Path) -> bool:
    """Whether a path leads to a file that engines leave out.

    >>> _is_hidden(Path("day=1/a.csv")), _is_hidden(Path("_temporary/a.csv"))
    (False, True)
    """
    return any(part[0] in "._" for part in path.parts)


@contextlib.contextmanager
def unpacked(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lend the paths of files, unpacked where they are packed: their sums are right, and they are no bombs."""
    if not files or not files[0].lower().endswith(".gz"):
        yield tuple(files)
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


@contextlib.contextmanager
def refusing_unreadable(file: str) -> Iterator[None]:
    """Refuse a file that cannot be read, or not be unpacked, in one sentence."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InvalidFile(f"{file}: cannot be unpacked: it is damaged or breaks off.") from None
    except OSError as error:
        raise InvalidFile(f"{file}: cannot be read ({sentence(error.strerror or error, 100)}).") from None


def _decoded(file: str, data: bytes, line: int) -> str:
    """Return the text that bytes are, of which the first are on a line."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise InvalidFile(f"{file}, line {line}: is not UTF-8. Save the file as UTF-8.") from None


# --- CSV ----------------------------------------------------------------------------------------------------------


class CsvFile(NamedTuple):
    """A file of comma-separated values: what it is called, where it is read, and what its first line says."""

    file: str
    path: str
    names: tuple[str, ...]
    delimiter: str
    has_returns: bool  # whether lines end in a carriage return and a line feed

    @classmethod
    def of(cls, file: str, path: str, names: Sequence[str]) -> CsvFile:
        """Look at the header of a file; its delimiter is the one with which it has most of the columns asked for."""
        with refusing_unreadable(file), Path(path).open("rb") as stream:
            line = _decoded(file, stream.readline(_LONGEST), 1).removeprefix("\ufeff")
        if line.count('"') % 2 or "\r" in line.removesuffix("\n").removesuffix("\r"):
            rule = "must name the columns, in one line that ends with a line feed"
            raise InvalidFile(f"{file}, line 1: {rule}, got {shown(line)}. Rename the columns, or save the file anew.")
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
        delimiters = sorted(_DELIMITERS, key=lambda mark: mark != "\t" or ".tsv" not in file.lower())
        read: list[tuple[list[str], str]] = [
            (next(csv.reader([line], delimiter=mark), []), mark) for mark in delimiters
        ]
        if not read[0][0]:
            raise InvalidFile(f"{file}, line 1: is blank, and must name the columns.")
        found, delimiter = max(read, key=lambda pair: (len(set(pair[0]) & set(names)), len(pair[0])))
        twice = next((name for name in found if name and found.count(name) > 1), None)
        if twice is not None:
            raise InvalidFile(f"{file}, line 1: two columns are called {shown(twice)}. Rename one.")
        return cls(file, path, tuple(found), delimiter, line.endswith("\r\n"))

    def scan(self, last: int = -1) -> tuple[int, int]:
        """Return on which line the last row begins, and its number; refuse the first row that is wrong."""
        from replicable_rl.logs._lines import delimited

        state, end = np.array([2, 2, 0, 0, 0, 0, 0]), b"\r\n" if self.has_returns else b"\n"
        is_letter = ~np.isin(np.arange(256), [0, 10, 13, 239, ord(self.delimiter)])  # 239 begins a byte order mark
        with refusing_unreadable(self.file), Path(self.path).open("rb") as stream:
            stream.readline()
            while block := stream.read(_BLOCK) + stream.readline(_LONGEST + 1):
                if not block.isascii():
                    _decoded(self.file, block, int(state[1]))
                data = np.frombuffer(block if block.endswith(b"\n") else block + end, dtype=np.uint8)
                how = is_letter, ord(self.delimiter), len(self.names), self.has_returns
                wrong = delimited(data, state, last, _LONGEST, *how)
                if wrong:
                    rule = _WRONG[wrong - 1].format(plural(int(state[5]), "field"), len(self.names))
                    raise InvalidFile(f"{self.file}, line {state[0]}: {rule}.")
                if state[2] == last:
                    return int(state[0]), last
        if state[4]:
            raise InvalidFile(f"{self.file}, line {state[0]}: has a quote that is not closed.")
        return int(state[0]), int(state[2])


def line_of(files: Sequence[CsvFile], row: int) -> str:
    """Return the file and the line of a row; rows of all files are counted from 0."""
    row += 1
    for file in files:
        line, rows = file.scan(row)
        if rows == row:
            break
        row -= rows
    return f"{file.file}, line {line}"


def csv_query(files: Sequence[CsvFile], names: Sequence[str]) -> str:
    """Return what selects columns of files, all of them as they are written."""
    queries = []
    for (header, delimiter), some in itertools.groupby(files, key=lambda file: (file.names, file.delimiter)):
        chosen = ", ".join(f"c{header.index(name)} AS {quoted(name)}" for name in names)
        types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header)))
        queries.append(
            f"SELECT {chosen} FROM read_csv([{literals([file.path for file in some])}], columns={{{types}}}, "
            f"auto_detect=false, header=true, delim={literal(delimiter)}, quote='\"', escape='\"', "
            "compression='uncompressed', hive_partitioning=false)"
        )  # what folders are called is no column: an engine would put it in the place of the one inside
    return " UNION ALL ".join(queries)


def literals(files: Sequence[str]) -> str:
    """Return files for a query, none of which is taken for a pattern that others fit.

    >>> literals(["log[12].csv"])
    "'log[[]12].csv'"
    """
    return ", ".join(literal(re.sub(r"([*?[])", r"[\1]", file)) for file in files)


# --- JSON lines ---------------------------------------------------------------------------------------------------


def json_columns(
    files: Sequence[str], paths: Sequence[str], columns: Columns
) -> tuple[Columns, dict[str, list[Any]], list[str]]:
    """Return the columns of files of JSON lines, as lists, and the place of every row."""
    places: list[str] = []
    rows: list[Mapping[str, Any]] = []
    for file, path in zip(files, paths, strict=True):
        first, names = len(rows), dict[str, None]()
        with refusing_unreadable(file), Path(path).open("rb") as stream:
            blank = 0
            for line, raw in enumerate(iter(lambda: stream.readline(_LONGEST + 1), b""), start=1):
                blank = 0 if raw.strip(b" \t\r\n") else blank + len(raw)
                if len(raw) > _LONGEST or blank > _LONGEST:
                    raise InvalidFile(f"{file}, line {line}: {_LONG}.")
                if not blank:
                    rows.append(_object(file, line, raw))
                    places.append(f"{file}, line {line}")
                    names |= dict.fromkeys(rows[-1])
        columns = columns.settled(file, list(names))
        columns.check(file, list(names) if len(rows) > first else columns.names)
    return columns, {name: [row.get(name) for row in rows] for name in columns.names}, places


def _object(file: str, line: int, raw: bytes) -> Mapping[str, Any]:
    """Return an object of JSON; one that names something twice is refused, for readers differ on it."""
    text = _decoded(file, raw, line).strip(" \t\r\n")
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text, object_pairs_hook=_once)
        if isinstance(found, dict):
            return found
    raise InvalidInput(f"{file}, line {line}: must be an object of JSON that names everything once, got {shown(text)}.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found
