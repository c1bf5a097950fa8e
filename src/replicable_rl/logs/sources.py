"""A log as one relation of DuckDB, whatever it is: files of text or Parquet, frames, columns, or a table of Ibis.

The relation is called ``log``. Its columns are c0, c1, ..., those that are read, in the order of `Columns.names`.

Every value of a text file is read as it is written: DuckDB would guess types from the first rows, and round or refuse
what comes later.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import glob
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidFile, InvalidInput, did_you_mean, is_masked, needs, shown
from replicable_rl.files import check_regular
from replicable_rl.logs.dataset import EXACT, Binned, Bins
from replicable_rl.wording import brief, listed, sentence

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Duck
    from numpy.typing import NDArray

NOTHING = "NOTHING"  # the type of a column of next states without any value, where every row is an end
WRITTEN = "WRITTEN"  # the type of a column of a text file: all of its values together say what they are
PARTS = {"state": "s", "action": "a", "next_state": "t"}  # what the parts of each name are called in queries
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_DELIMITERS = (",", ";", "\t", "|")
_SORTS = {
    "whole": r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DECIMAL\(\d+, ?0\)",
    "float": "FLOAT|DOUBLE",
    "text": r"VARCHAR|ENUM\(.*",
    "written": WRITTEN,
    "number": r"DECIMAL\(.*",
}


def sort_of(kind: str) -> str:
    """Return what a type of DuckDB holds: "whole" numbers, "float", "text", ...; nothing for what is never read.

    >>> sort_of("USMALLINT"), sort_of("DECIMAL(10,0)"), sort_of("ENUM('a')"), sort_of("DATE")
    ('whole', 'whole', 'text', '')
    """
    return next((sort for sort, pattern in _SORTS.items() if re.fullmatch(pattern, kind)), "")


# --- columns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """The columns of every use; a state or an action may be several columns, and some of them binned.

    Without a column of next states, ``follows`` says that the next state is that of the episode's next row; ``ends``
    then says whether an episode ends with its last row, which is left out otherwise.
    """

    uses: Mapping[str, tuple[str, ...]]
    bins: Mapping[str, Bins]
    follows: bool = False
    ends: bool = False
    is_list: bool = False  # of pairs that are allowed, and no log

    def of(self, use: str) -> tuple[str, ...]:
        """Return the columns of one use."""
        return self.uses.get(use, ())

    def bins_of(self, use: str) -> tuple[Bins | None, ...]:
        """Return the bins of every column of one use; next states have those of the states."""
        bins = tuple(self.bins.get(column) for column in self.of("state" if use == "next_state" else use))
        return bins[: len(self.of(use))]

    @property
    def has_ends(self) -> bool:
        """Whether episodes end: a column says so, or their last rows do."""
        return "done" in self.uses or (self.follows and self.ends)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        return tuple(dict.fromkeys(name for names in self.uses.values() for name in names))

    def sql(self, name: str) -> str:
        """Return what a column is called in the relation."""
        return f"c{self.names.index(name)}"

    @property
    def binned(self) -> tuple[Binned, ...]:
        """What of the states and the actions is binned."""
        return tuple(
            (use, place, tuple(bins.edges))
            for use in ("state", "action")
            for place, bins in enumerate(self.bins_of(use))
            if bins is not None
        )

    def settled(self, log: str, header: Sequence[str], also: str = "") -> Columns:
        """Return the columns for a log with this header; refuse one that lacks columns, all of them in one sentence."""
        columns = self
        if "next_state" not in self.uses and not self.follows and not self.is_list:
            if "next_state" not in header and {"episode", "order"} <= set(self.uses):
                columns = replace(self, follows=True)
            elif self.ends:
                raise InvalidInput(f"{log}: last='end' is for logs without a column of next states. Name done=...")
            else:
                columns = replace(self, uses={**self.uses, "next_state": ("next_state",)})
        missing = [(use, name) for use, names in columns.uses.items() for name in names if name not in header]
        if missing:
            what = listed([f"no column {name!r} for {the(use)}" for use, name in missing])
            close = did_you_mean(missing[0][1], header) if len(missing) == 1 else ""
            has = close or f" It has {listed([brief(name, 40) for name in header[:12]])}." * bool(header)
            mend = listed([f"{use}=..." for use in dict.fromkeys(use for use, _ in missing)])
            mend += f", and give {also}" * bool(also)
            row = " Or name episode=... and order=...: the next row has the next state."
            row *= "next_state" in dict(missing)
            raise InvalidInput(f"{log}: there is {what}.{has} Name {mend}.{row}")
        twice = next((name for name in columns.names if header.count(name) > 1), None)
        if twice is not None:
            raise InvalidInput(f"{log}: two columns are called {shown(twice)}. Rename one.")
        sizes = len(columns.of("state")), len(columns.of("next_state"))
        if columns.of("next_state") and sizes[0] != sizes[1]:
            rule = "a state and a next state must be as many columns"
            raise InvalidInput(f"{log}: {rule}, got {sizes[0]} and {sizes[1]}. Name them all.")
        return columns


def the(use: str) -> str:
    """Return what people call it in a sentence.

    >>> the("next_state"), the("done")
    ('the next state', 'done')
    """
    return use if use == "done" else f"the {use.replace('_', ' ')}"


# --- relations ----------------------------------------------------------------------------------------------------


@dataclass
class Relation:
    """The rows of a log in DuckDB; only counts leave them.

    Parameters
    ----------
    duck : connection
        To DuckDB, where the rows are, or else their groups will be.
    name : str
        What messages call the log.
    columns : Columns
        The columns of this log.
    files : sequence of str
        The files that hold it.
    place : function
        Where a row is, by its number; None where rows have no order.
    row : str
        What numbers the rows in a query; without it, the rows are copied into a table that numbers them.
    kinds : dict
        The types of the columns, as DuckDB calls them.
    """

    duck: Duck
    name: str
    columns: Columns
    files: Sequence[str] = ()
    place: Callable[[int], str] | None = None
    row: str = ""
    kinds: dict[str, str] = field(default_factory=dict)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask DuckDB."""
        with _in_one_sentence(self.files):
            return self.duck.execute(query).fetchall()

    def arrays(self, query: str) -> dict[str, np.ndarray[Any, Any]]:
        """Ask DuckDB for columns."""
        with _in_one_sentence(self.files):
            return {name: np.asarray(column) for name, column in self.duck.execute(query).fetchnumpy().items()}

    def ask(self, query: str) -> tuple[Any, ...]:
        """Ask where the rows are; there is one answer."""
        return self.rows(query)[0]

    def define(self, name: str, query: str) -> None:
        """Let queries where the rows are use a name for a query."""
        self.rows(f"CREATE TEMP VIEW {name} AS {query}")

    def fetch(self, name: str, query: str) -> None:
        """Keep in DuckDB what is asked where the rows are."""
        self.rows(f"CREATE TEMP TABLE {name} AS {query}")

    def read(self, name: str, chosen: str) -> None:
        """Define what is chosen of every row, and the number ``i`` of the row."""
        if self.row:
            self.define(name, f"SELECT {chosen}, {self.row} AS i FROM log")
        else:
            file = ", filename" * (self.kinds.get(self.columns.names[0]) == WRITTEN)
            self.fetch("copied", f"SELECT {chosen}{file} FROM log")
            self.define(name, "SELECT *, rowid AS i FROM copied")

    def value(self, column: str, row: int) -> Any:
        """Return what is in a column of a row."""
        where = f"WHERE {self.row} = {row}" if self.row else f"LIMIT 1 OFFSET {row}"
        return self.rows(f"SELECT {self.columns.sql(column)} FROM log {where}")[0][0]

    def check_kinds(self) -> None:
        """Find the types of the columns; refuse those that are no names, or that do not go together."""
        columns = self.columns
        if not self.kinds:
            described = {str(name): str(kind) for name, kind, *_ in self.rows("DESCRIBE SELECT * FROM log")}
            self.kinds = {name: described[columns.sql(name)] for name in columns.names}
        for use in PARTS:
            for column, bins in zip(columns.of(use), columns.bins_of(use), strict=True):
                kind = self.kinds[column]
                if bins is not None and sort_of(kind) not in ("whole", "float", "number", "written"):
                    raise InvalidInput(f"{self.name}: bins need a column of numbers, got {kind} in {column!r}.")
                if bins is None and sort_of(kind) in ("", "number"):
                    rule = f"{the(use)} must be a text or a whole number, got {brief(kind, 60)} in {column!r}"
                    raise InvalidInput(f"{self.name}: {rule}. Cast it to text.")
        uses = columns.of("state"), columns.of("next_state"), columns.bins_of("state")
        for state, following, bins in zip(*uses, strict=False):
            sorts = {sort_of(self.kinds[state]), sort_of(self.kinds[following])}
            if bins is not None or len(sorts) == 1 or sorts == {"whole", "float"}:
                continue
            if self.ask(f"SELECT COUNT({columns.sql(following)}) FROM log")[0]:
                got = f"{self.kinds[state]} in {state!r} and {self.kinds[following]} in {following!r}"
                raise InvalidInput(
                    f"{self.name}: states and next states must be of one type, got {got}. Cast both to text."
                )
            self.kinds[following] = NOTHING


class Warehouse(Relation):
    """The rows of a table of Ibis: its own engine groups them, and DuckDB holds the same columns without rows."""

    def __init__(self, duck: Duck, table: Any, columns: Columns) -> None:
        pa = needs("pyarrow", extra="ibis", who="from_transitions")
        super().__init__(duck, "from_transitions", columns)
        self.defined: dict[str, str] = {}
        with self._asking():
            self.engine = table.get_backend()
            if self.engine.name == "sqlite":
                raise InvalidInput("from_transitions: SQLite's columns have no types. Read the table into a frame.")
            numbered = table.select(**{columns.sql(name): table[name] for name in columns.names})
            self.defined["log"] = self.engine.compile(numbered)
            kinds = numbered.schema().to_pyarrow()
        duck.register("log", pa.table([pa.array([], kind) for kind in kinds.types], kinds.names))

    def ask(self, query: str) -> tuple[Any, ...]:
        """Ask the database."""
        return tuple(self._answer(query).to_pylist()[0].values())

    def define(self, name: str, query: str) -> None:
        """Let queries use a name, there and here."""
        self.defined[name] = self._native(query)
        super().define(name, query)

    def fetch(self, name: str, query: str) -> None:
        """Let the database count, and keep its answer."""
        self.duck.register("fetched", self._answer(query))
        super().fetch(name, "SELECT * FROM fetched")

    def read(self, name: str, chosen: str) -> None:
        """Define what is chosen of every row."""
        self.define(name, f"SELECT {chosen} FROM log")

    def _native(self, query: str) -> str:
        import sqlglot

        return str(sqlglot.transpile(query, read="duckdb", write=self.engine.dialect)[0])

    def _answer(self, query: str) -> Any:
        import ibis

        kinds = ibis.Schema.from_pyarrow(self.duck.sql(query).to_arrow_table().schema)
        defined = ", ".join(f"{name} AS ({text})" for name, text in self.defined.items())
        with self._asking():
            return self.engine.sql(f"WITH {defined} {self._native(query)}", schema=kinds).to_pyarrow()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Refuse what the database refuses, without the query that it quotes."""
        try:
            yield
        except InvalidInput:
            raise
        except Exception as error:  # every database has errors of its own
            text = re.split(r"\bLINE \d+:|\[SQL\b|\bSELECT\b|\bWITH\b", str(error))[0]
            what = sentence(text, 200) or type(error).__name__
            raise InvalidInput(f"from_transitions: the engine of the table refuses ({what}).") from None


@contextlib.contextmanager
def opened(source: Any, columns: Columns, also: str = "") -> Iterator[Relation]:
    """Lend the rows of a log, whatever kind of source it is; ``also`` is what else has to be given."""
    duckdb = needs("duckdb", extra="logs", who="from_transitions")
    files = files_of(source) if isinstance(source, (str, os.PathLike)) else []
    connection = duckdb.connect()
    try:
        with contextlib.suppress(duckdb.Error):  # in a notebook without ipywidgets there is none to switch off
            connection.execute("SET enable_progress_bar = false")  # which would write into the page
        connection.execute("SET TimeZone = 'UTC'")  # or times of summer would be an hour of those of winter
        # This optimizer lets readers convert what a query converts, and a value that is no number is then an error.
        connection.execute("SET disabled_optimizers = 'type_pushdown'")
        if files:
            ending = Path(files[0]).suffix.lower()
            read = {".csv": _of_csv, ".tsv": _of_csv, ".parquet": _of_parquet}.get(ending, _of_json)
            log = read(connection, files[0] if len(files) == 1 else os.fsdecode(source), files, columns, also)
        elif (header := header_of(source)) is not None:
            columns = columns.settled("from_transitions", header, also)
            log = _of_arrays(connection, "from_transitions", columns, source.__getitem__)
        else:
            ibis = sys.modules.get("ibis")  # whoever has a table of Ibis has imported it
            if ibis is None or not isinstance(source, ibis.Table):
                raise InvalidInput(
                    "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table, or a "
                    f"dictionary of arrays, got {shown(source)}."
                )
            log = Warehouse(connection, source, columns.settled("from_transitions", source.columns, also))
        log.check_kinds()
        yield log
    finally:
        connection.close()


def _of_csv(duck: Duck, name: str, files: Sequence[str], columns: Columns, also: str) -> Relation:
    """Return text files as one relation; what their folders are called is no column."""
    lines = [_first_line(file) for file in files]
    other = next((file for file, line in zip(files, lines, strict=True) if line != lines[0]), None)
    if other is not None:
        raise InvalidFile(f"{other}: must name the columns as {files[0]} does, in the same order. Save both alike.")
    headers = {mark: next(csv.reader([lines[0]], delimiter=mark), []) for mark in _DELIMITERS}
    mark = max(headers, key=lambda mark: (len(set(headers[mark]) & set(columns.names)), len(headers[mark])))
    header = headers[mark]
    columns = columns.settled(files[0], header, also)

    def place(row: int) -> str:
        begin = "SELECT MIN(rowid) FROM copied WHERE filename = x.filename"
        file, first = log.rows(f"SELECT filename, ({begin}) FROM copied x WHERE rowid = {row}")[0]
        return _row_of(row - first, file, files)

    def reader(fields: int, options: str) -> str:
        kinds = ", ".join(f"'f{i}': 'VARCHAR'" for i in range(fields))
        return (
            f"read_csv([{literals(files)}], columns={{{kinds}}}, auto_detect=false, header=true, delim='{mark}', "
            f"quote='\"', escape='\"', strict_mode=true, compression='uncompressed', "
            f"hive_partitioning=false, filename=true{options})"
        )

    log = Relation(duck, name, columns, files, place)
    chosen = ", ".join(f"f{header.index(column)} AS {columns.sql(column)}" for column in columns.names)
    log.define("log", f"SELECT {chosen}, filename FROM {reader(len(header), '')}")
    log.kinds = dict.fromkeys(columns.names, WRITTEN)
    # DuckDB refuses rows of too many fields or too few, but for empty fields at the end.
    longer = log.rows(f"SELECT filename FROM {reader(len(header) + 1, ', ignore_errors=true')} LIMIT 1")
    if longer:
        raise InvalidFile(f"{longer[0][0]}: a row has more fields than the header. Mend it, or name all columns.")
    return log


def _first_line(file: str) -> str:
    """Return the line of a text file that names its columns."""
    with _in_one_sentence([file]), Path(file).open(encoding="utf-8-sig", newline="\n") as stream:
        line = stream.readline(2**20).removesuffix("\n").removesuffix("\r")
    if not line.strip() or line.count('"') % 2 or "\r" in line:
        raise InvalidFile(f"{file}: must name the columns in its first line, got {shown(line)}. Save the file anew.")
    return line


def _of_json(duck: Duck, name: str, files: Sequence[str], columns: Columns, also: str) -> Relation:
    """Return files of JSON lines as one relation; Python reads them, which converts nothing."""
    rows: list[Mapping[str, Any]] = []
    names = dict[str, None]()
    for file in files:
        with _in_one_sentence([file]), Path(file).open(encoding="utf-8-sig", newline="\n") as stream:
            for line, text in enumerate(stream, start=1):
                try:
                    rows += [json.loads(text, object_pairs_hook=_named_once)] if text.strip() else []
                    names |= dict.fromkeys(rows[-1] if rows else ())
                except (ValueError, TypeError, RecursionError):
                    rule = "must be an object of JSON that names everything once"
                    raise InvalidFile(f"{file}: line {line} {rule}, got {shown(text)}.") from None
    columns = columns.settled(name, list(names), also)
    return _of_arrays(duck, name, columns, lambda name: [row.get(name) for row in rows])


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; readers differ on what is named twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _of_parquet(duck: Duck, name: str, files: Sequence[str], columns: Columns, also: str) -> Relation:
    """Return files of Parquet as one relation; what their folders are called is no column."""
    log = Relation(duck, name, columns, files, row="nth")
    options = "union_by_name=true, hive_partitioning=false"
    sorts: dict[str, set[str]] = {}
    for file in files:
        described = log.rows(f"DESCRIBE SELECT * FROM read_parquet([{literals([file])}], {options})")
        kinds = {str(column): str(kind) for column, kind, *_ in described}
        log.columns = log.columns.settled(file, list(kinds), also)
        for column in log.columns.names:
            seen = sorts.setdefault(column, set())
            seen.add(sort_of(kinds[column]))
            if len(seen) > 1 and seen != {"whole", "float"}:
                rule = f"the column {column!r} is of type {kinds[column]}, and of another one in other files"
                raise InvalidFile(f"{file}: {rule}. Write all files with one type.")
    sizes = dict(log.rows(f"SELECT file_name, num_rows FROM parquet_file_metadata([{literals(files)}])"))
    begins = np.cumsum([0, *(sizes[file] for file in files)])

    def place(row: int) -> str:
        at = int(np.searchsorted(begins, row, side="right")) - 1
        return _row_of(row - int(begins[at]), files[at], files)

    log.place = place
    chosen = ", ".join(f"{quoted(column)} AS {log.columns.sql(column)}" for column in log.columns.names)
    row = f"{begins[:-1].tolist()}[CAST(file_index AS BIGINT) + 1] + file_row_number"
    log.define("log", f"SELECT {chosen}, {row} AS nth FROM read_parquet([{literals(files)}], {options})")
    return log


def _row_of(row: int, file: str, files: Sequence[str]) -> str:
    """Return where a row is, which is counted from 0 in its file."""
    return f"row {row + 1}{f' of {Path(file).name}' * (len(files) > 1)}"


def _of_arrays(duck: Duck, name: str, columns: Columns, take: Callable[[str], Any]) -> Relation:
    arrays = {columns.sql(column): _as_array(name, column, take(column), columns) for column in columns.names}
    lengths = {array.size for array in arrays.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"{name}: the columns must have one length, got {sorted(lengths)}.")
    duck.register("log", arrays)
    return Relation(duck, name, columns, place=lambda row: f"row {row + 1}")


@contextlib.contextmanager
def _in_one_sentence(files: Sequence[str]) -> Iterator[None]:
    """Refuse what DuckDB or the system refuses, with the file."""
    import duckdb

    try:
        yield
    except UnicodeDecodeError:
        raise InvalidFile(f"{files[0]}: is not UTF-8. Save the file as UTF-8.") from None
    except OSError as error:
        raise InvalidFile(f"{files[0]}: cannot be read ({sentence(error.strerror or error, 100)}).") from None
    except (duckdb.InterruptException, RuntimeError) as error:  # Ctrl-C, where a query was running
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        text = str(error)
        file = next(
            (file for file in files if f"file = {file}\n" in text or file in text), [*files, "from_transitions"][0]
        )
        what = re.split(r"Possible (?:fix|Solution)|\nLINE ", text)[0].removeprefix("Invalid Input Error: ")
        what = re.sub(r"Original Line:.*\n(?=Expected|Value|Invalid)", "", what, flags=re.DOTALL)
        what = re.sub(
            r"The CSV Parser state.*", "lines end in two ways, or a quote is out of place", what, flags=re.DOTALL
        )
        raise InvalidFile(f"{file}: {sentence(what, 200)}.") from None


def quoted(column: str) -> str:
    """Return a column's name for a query."""
    return '"' + column.replace('"', '""') + '"'


def literals(files: Sequence[str]) -> str:
    """Return files for a query, none of which is taken for a pattern that others fit.

    >>> literals(["log[12].csv", "it's"])
    "'log[[]12].csv', 'it''s'"
    """
    patterns = (re.sub(r"([*?[])", r"[\1]", file).replace("'", "''") for file in files)
    return ", ".join(f"'{pattern}'" for pattern in patterns)


# --- frames -------------------------------------------------------------------------------------------------------


def header_of(source: Any) -> list[str] | None:
    """Return the names of the columns of a frame, an Arrow table or a dictionary of columns; None for anything else."""
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))  # who has one has both
    if isinstance(source, Mapping) or (pandas is not None and isinstance(source, pandas.DataFrame)):
        header = list(source)
        if wrong := [name for name in header if not isinstance(name, str)]:
            raise InvalidInput(f"from_transitions: columns have texts for names, got {shown(wrong[0])}.")
        return header
    if polars is not None and isinstance(source, polars.DataFrame):
        return list(source.columns)
    return list(source.column_names) if arrow is not None and isinstance(source, arrow.Table) else None


def _as_array(owner: str, name: str, values: Any, columns: Columns) -> NDArray[Any]:
    """Return a column as an array of one type that DuckDB need not guess; masked is what is missing."""
    try:
        array = np.fromiter(values, dtype=object) if isinstance(values, (list, tuple, range)) else np.asarray(values)
    except Exception:  # whatever a stranger's object raises
        array = np.asarray(None)
    if array.ndim != 1 or is_masked(values):
        raise InvalidInput(f"{owner}: column {name!r} must be a list with one entry a row, got {shown(values)}.")
    kind = array.dtype.kind
    if kind == "b":
        flags: NDArray[Any] = np.ascontiguousarray(array).view(np.uint8) != 0  # not all bytes are 0 or 1
        return flags
    if kind in "mM":
        units: NDArray[Any] = array.astype(f"{kind}8[us]")
        return units
    if kind in "iuf":
        size = max(min(array.dtype.itemsize, 8), 4 if kind == "f" else 1)
        return np.ascontiguousarray(array, dtype=f"{kind}{size}")
    use = next(use for use in columns.uses if name in columns.of(use))
    is_name = use in PARTS and name not in columns.bins
    items = [_plain(item, is_name) for item in array.tolist()]
    missing = np.array([item is None for item in items], dtype=np.bool_)
    kinds = set(map(type, items)) - {type(None)}
    if kinds <= {float} or (kinds == {int, float} and all(abs(item) < EXACT for item in items if type(item) is int)):
        return np.array([np.nan if item is None else item for item in items], dtype=np.float64)
    if kinds == {int} and all(-(2**63) <= item < 2**63 for item in items if item is not None):
        return np.ma.array([item or 0 for item in items], mask=missing, dtype=np.int64)
    if kinds == {np.datetime64}:
        return np.array([np.datetime64("NaT") if item is None else item for item in items], dtype="M8[us]")
    if kinds == {str} or (kinds == {bool} and not is_name):
        kept = [kinds.copy().pop()() if item is None else item for item in items]
        return np.ma.array(np.array(kept, dtype=object if kinds == {str} else np.bool_), mask=missing)
    usual = str if str in kinds else int
    row = next((i for i, item in enumerate(items) if item is not None and type(item) is not usual), 0)
    rule = "a text or a whole number, as all others" if is_name else "a number"
    raise InvalidInput(
        f"{owner}: {the(use)} must be {rule}, got {shown(items[row])} in row {row + 1}. Cast all to text."
    )


def _plain(item: Any, is_name: bool) -> Any:
    """Return a value as Python's own; None for what is missing. Numbers that are no names may be decimal ones."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and (item is pandas.NA or item is pandas.NaT):
        return None
    if isinstance(item, datetime.datetime) and not is_name:
        naive = item.astimezone(datetime.UTC).replace(tzinfo=None) if item.tzinfo else item
        return np.datetime64(naive, "us")
    item = item.item() if isinstance(item, np.generic) else item
    item = float(item) if isinstance(item, Decimal) and not is_name else item
    return None if isinstance(item, float) and item != item else item


# --- files --------------------------------------------------------------------------------------------------------


def files_of(source: str | os.PathLike[str]) -> list[str]:
    """Return the files of a path, all of one kind: itself, those in a folder, or those that fit a pattern."""
    text = os.fsdecode(source)
    files = [text]
    if os.path.isdir(text):  # noqa: PTH112  # Path's own raises where a name is too long
        files = sorted(glob.glob(f"{glob.escape(text)}/*"))  # noqa: PTH207
        folder = next((file for file in files if os.path.isdir(file)), None)  # noqa: PTH112
        if folder is not None:
            raise InvalidFile(
                f"{text}: holds the folder {folder}. Name the files by a pattern, such as {text}/*/*.csv."
            )
        files = [file for file in files if set(map(str.lower, Path(file).suffixes)) & set(ENDINGS)]
    elif glob.has_magic(text) and not os.path.exists(text):  # noqa: PTH110
        files = sorted(glob.glob(text, recursive=True))  # noqa: PTH207
    if not files:
        raise InvalidFile(f"{text}: no file here ends in {', '.join(ENDINGS)}.")
    for file in files:
        check_regular(file)
        if not file.lower().endswith(ENDINGS):
            raise InvalidFile(f"{file}: a log ends in {', '.join(ENDINGS)}. Unpack it first, or save it anew.")
    if len({Path(file).suffix.lower() for file in files}) > 1:
        raise InvalidFile(f"{text}: holds files of several kinds. Name one kind, such as {text}/*.csv.")
    if len(set(map(os.path.realpath, files))) < len(files):
        raise InvalidFile(f"{text}: holds a file twice, by a link, which would count twice. Name each file once.")
    return files
