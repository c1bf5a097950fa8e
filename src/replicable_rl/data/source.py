"""Where a log is, and how DuckDB reads it: files, folders, data frames, dictionaries of arrays.

Nothing is loaded here: a source becomes a view, and only counts ever leave the engine.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidFile, InvalidInput, is_masked, shown
from replicable_rl.files import check_regular
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    import duckdb

_READERS = {  # how files are read, by how their names end
    ".csv": "read_csv({files}, header=true, union_by_name=true{more})",
    ".csv.gz": "read_csv({files}, header=true, union_by_name=true{more})",
    ".tsv": "read_csv({files}, header=true, delim='\\t'{more})",
    ".parquet": "read_parquet({files}, union_by_name=true)",
    ".jsonl": "read_json({files}, format='newline_delimited')",
    ".ndjson": "read_json({files}, format='newline_delimited')",
}
_VIEW = "log"
_UNCONVERTED = r'converting column "([^"]*)"\. Could not convert string "(.*?)" to \'(\w+)\''


@dataclass
class Log:
    """An open log: the engine, the view that stands for its rows, and its files if it has some."""

    engine: duckdb.DuckDBPyConnection
    files: tuple[str, ...]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query over the view ``log``; what the engine refuses is refused in one sentence."""
        with self.in_one_sentence():
            return self.engine.execute(query).fetchall()

    def arrays(self, query: str) -> dict[str, np.ndarray[Any, Any]]:
        """Run a query and return its columns as arrays."""
        with self.in_one_sentence():
            found = self.engine.execute(query).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

    @contextlib.contextmanager
    def in_one_sentence(self) -> Iterator[None]:
        """Refuse what the engine refuses, with the file, and the line where it names one."""
        import duckdb

        try:
            yield
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise InvalidFile(_explained(self.files, str(error))) from None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.files[0] if self.files else "from_transitions"


@contextlib.contextmanager
def opened(source: Any) -> Iterator[Log]:
    """Lend a log, whatever kind of source it is."""
    import duckdb

    engine = duckdb.connect()
    try:
        log = Log(engine, tuple(_files(source)) if isinstance(source, (str, os.PathLike)) else ())
        if log.files:
            with log.in_one_sentence():
                engine.execute(f"CREATE VIEW {_VIEW} AS SELECT * FROM {_reader(log.files)}")
        else:
            _register(engine, source)
        yield log
    finally:
        engine.close()


def _files(source: str | os.PathLike[str]) -> list[str]:
    """Return the files of a path: itself, those of a folder, or those that fit a pattern."""
    try:
        text = os.fsdecode(source)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"from_transitions: source must name a file, got {shown(source)}.") from None
    path = Path(text)
    if os.path.isdir(text):  # noqa: PTH112  # Path's own raises where a name is too long
        found = sorted(str(file) for file in path.rglob("*") if file.is_file() and _ending(str(file)))
        if not found:
            raise InvalidFile(f"{text}: has no file that ends in {', '.join(_READERS)}.")
    elif any(letter in text for letter in "*?[") and not os.path.exists(text):  # noqa: PTH110
        found = sorted(str(file) for file in Path(path.anchor or ".").glob(str(path.relative_to(path.anchor or "."))))
        if not found:
            raise InvalidFile(f"{text}: no file fits this pattern.")
    else:
        found = [str(check_regular(text))]
    endings = {_ending(file) for file in found}
    if None in endings:
        wrong = next(file for file in found if _ending(file) is None)
        raise InvalidFile(f"{wrong}: a log ends in {', '.join(_READERS)}. Rename it, or read it yourself.")
    if len(endings) > 1:
        raise InvalidFile(
            f"{text}: holds files of several kinds, {', '.join(sorted(map(str, endings)))}. Name one kind."
        )
    for file in found:
        if os.path.getsize(check_regular(file)) == 0:  # noqa: PTH202  # as everywhere here
            raise InvalidFile(f"{file}: is empty.")
    return found


def _ending(file: str) -> str | None:
    return next((ending for ending in sorted(_READERS, key=len, reverse=True) if file.lower().endswith(ending)), None)


def _reader(files: tuple[str, ...]) -> str:
    quoted = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    ending = _ending(files[0]) or ""
    return _READERS[ending].format(files=f"[{quoted}]", more=", sample_size=100000")


def _register(engine: duckdb.DuckDBPyConnection, source: Any) -> None:
    if isinstance(source, Mapping):
        source = _arrays(source)
    try:
        engine.register(_VIEW, source)
    except Exception as error:  # whatever an engine makes of somebody's object
        raise InvalidInput(
            "from_transitions: source must be a file, a folder, a data frame, an Arrow table or a dictionary of "
            f"arrays, got {shown(source)} ({sentence(error, 100)})."
        ) from None


def _arrays(source: Mapping[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for name, values in source.items():
        if not isinstance(name, str):
            raise InvalidInput(
                f"from_transitions: the columns of a dictionary have texts for names, got {shown(name)}."
            )
        try:
            column = np.asarray(values)
        except Exception:  # lists of unequal lengths, and whatever somebody's object raises
            column = np.zeros((0, 0))
        if column.ndim != 1 or is_masked(values):
            raise InvalidInput(
                f"from_transitions: column {name!r} must be a list with one entry a row, got {shown(values)}."
            )
        columns[name] = column
    lengths = {column.size for column in columns.values()}
    if len(lengths) != 1:
        raise InvalidInput(f"from_transitions: the columns must have one length, got {sorted(lengths)}.")
    return columns


def _explained(files: tuple[str, ...], text: str) -> str:
    """Return what an engine says of a file, short: the file, the line, and what is wrong there."""
    file = next((one for one in files if one in text), files[0] if files else "from_transitions")
    line = re.search(r"[Ll]ine:?\s+(\d+)", text)
    where = f"{file}, line {line.group(1)}" if line else file
    lowered = text.lower()
    if found := re.search(
        r'converting column "([^"]*)"\. Could not convert string "(.*?)" to \'(\w+)\'', text, re.DOTALL
    ):
        column, value, kind = found.groups()
        rule = "be a finite number" if kind in ("DOUBLE", "BIGINT") else f"be of one type, such as {kind}"
        return f"{where}: the column {column!r} must {rule}, got {shown(value)}. Mend the row or leave it out."
    for clue, said in (
        ("not utf-8", "is not UTF-8. Save it as UTF-8"),
        ("unicode", "is not UTF-8. Save it as UTF-8"),
        ("gzip", "cannot be unpacked: it is damaged or breaks off"),
        ("zlib", "cannot be unpacked: it is damaged or breaks off"),
        ("no magic bytes", "is not what its name says"),
        ("no files found", "no such file"),
    ):
        if clue in lowered:
            return f"{where}: {said}."
    first = text.splitlines()[0] if text else "it cannot be read"
    return f"{where}: {sentence(first, 200)}."
