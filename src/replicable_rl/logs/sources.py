"""A log as one relation of DuckDB, whatever it is: files of text or Parquet, frames, columns, or a table of Ibis.

The relation is called ``log``. Its columns are c0, c1, ..., those that are read, in the order of `Columns.names`.

Readers differ in what they forgive, so the bytes of text files are looked at before DuckDB reads them, and the first
row that two readers may read in two ways is refused with its line. Every value of a text file is read as it is written:
DuckDB would guess types from the first rows, and round or refuse what comes later.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import glob
import gzip
import itertools
import json
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidFile, InvalidInput, did_you_mean, is_masked, needs, shown
from replicable_rl.files import check_regular
from replicable_rl.logs.process import EXACT, Binned, Bins
from replicable_rl.wording import brief, listed, sentence

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

NOTHING = "NOTHING"  # the type of a column of next states without any value, where every row is an end
WRITTEN = "WRITTEN"  # the type of a column of a text file: all of its values together say what they are
PARTS = {"state": "s", "action": "a", "next_state": "t"}  # what the parts of each name are called in queries
PARQUET, JSON = ".parquet", (".jsonl", ".ndjson")
_TEXTS = (".csv", ".tsv", *JSON)
ENDINGS = (*_TEXTS, *(f"{ending}.gz" for ending in _TEXTS), PARQUET)
_PACKED = re.compile(r"[.](csv|tsv|jsonl|ndjson|parquet)[.][a-z0-9]+$", re.IGNORECASE)
_DELIMITERS = (",", ";", "\t", "|")
_BLOCK, _LONGEST = 2**22, 2**20  # bytes that are looked at in one go, and bytes of a row
_MOST_UNPACKED = 2**28  # bytes of packed files, or a hundred times what they have packed
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
            Binned(use, place, tuple(bins.edges))
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
            has = f" It has {listed([brief(name, 40) for name in header[:12]])}." if header else ""
            mend = listed([f"{use}=..." for use in dict.fromkeys(use for use, _ in missing)])
            mend += f", and give {also}" if also else ""
            row = " Or name episode=... and order=...: the next row has the next state."
            row = row if any(use == "next_state" for use, _ in missing) else ""
            raise InvalidInput(f"{log}: there is {what}.{close or has} Name {mend}.{row}")
        twice = next((name for name in columns.names if header.count(name) > 1), None)
        if twice is not None:
            raise InvalidInput(f"{log}: two columns are called {shown(twice)}. Rename one.")
        if columns.of("next_state") and len(columns.of("next_state")) != len(columns.of("state")):
            sizes = f"got {len(columns.of('state'))} and {len(columns.of('next_state'))}"
            raise InvalidInput(f"{log}: a state and a next state must be as many columns, {sizes}.")
        return columns


def the(use: str) -> str:
    """Return what people call it in a sentence.

    >>> the("next_state"), the("done")
    ('the next state', 'done')
    """
    return use if use == "done" else f"the {use.replace('_', ' ')}"


# --- relations ----------------------------------------------------------------------------------------------------


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
    place : function
        Where a row is, by its number.
    files : sequence of pairs
        The files, as the user calls them and where they are read.
    row : str
        What numbers the rows in a query; without it, the rows are copied into a table that numbers them.
    """

    def __init__(
        self,
        duck: duckdb.DuckDBPyConnection,
        name: str,
        columns: Columns,
        place: Callable[[int], str] | None = None,
        files: Sequence[tuple[str, str]] = (),
        row: str = "",
    ) -> None:
        self.duck, self.name, self.columns, self.place, self.files, self.row = duck, name, columns, place, files, row
        self.kinds: dict[str, str] = {}  # of every column, as DuckDB calls it
        self.total: int | None = None  # how many rows there are, where they were counted before

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
            self.fetch("copied", f"SELECT {chosen} FROM log")
            self.define(name, "SELECT *, rowid AS i FROM copied")
            rows = self.ask("SELECT COUNT(*) FROM copied")[0]
            if self.total not in (None, rows):
                raise InvalidFile(f"{self.name}: has {self.total} rows, and DuckDB reads {rows}. Save it anew.")

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
                    a = "an action" if use == "action" else f"a {use.replace('_', ' ')}"
                    raise InvalidInput(
                        f"{self.name}: the column {column!r} holds {brief(kind, 60)}, and a name of {a} is a text or a "
                        "whole number. Cast it to text."
                    )
        for state, other, bins in zip(
            columns.of("state"), columns.of("next_state"), columns.bins_of("state"), strict=False
        ):
            sorts = {sort_of(self.kinds[state]), sort_of(self.kinds[other])}
            if bins is None and len(sorts) > 1 and sorts != {"whole", "float"}:
                if not self.ask(f"SELECT COUNT({columns.sql(other)}) FROM log")[0]:
                    self.kinds[other] = NOTHING
                    continue
                raise InvalidInput(
                    f"{self.name}: states and next states must be of one type, got {self.kinds[state]} in {state!r} "
                    f"and {self.kinds[other]} in {other!r}. Cast both to text."
                )


class Warehouse(Relation):
    """The rows of a table of Ibis: its own engine groups them, and DuckDB holds the same columns without rows."""

    def __init__(self, duck: duckdb.DuckDBPyConnection, table: Any, columns: Columns) -> None:
        pa = needs("pyarrow", extra="ibis", who="from_transitions")
        super().__init__(duck, "from_transitions", columns)
        self.defined: dict[str, str] = {}
        with self._asking():
            self.engine = table.get_backend()
            if self.engine.name == "sqlite":
                raise InvalidInput(
                    "from_transitions: SQLite keeps values of any type in any column. Read the table into a frame "
                    "(pandas.read_sql)."
                )
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
    files = files_of(source) if isinstance(source, (str, os.PathLike)) else ()
    name = "" if not files else files[0] if len(files) == 1 else os.fsdecode(source)
    connection = duckdb.connect()
    try:
        with contextlib.suppress(duckdb.Error):  # in a notebook without ipywidgets there is none to switch off
            connection.execute("SET enable_progress_bar = false")  # which would write into the page
        connection.execute("SET TimeZone = 'UTC'")  # or times of summer would be an hour of those of winter
        # This optimizer lets readers convert what a query converts, and a value that is no number is then an error.
        connection.execute("SET disabled_optimizers = 'type_pushdown'")
        with _unpacked(files) as paths:
            if not files:
                log = _of_table(connection, source, columns, also)
            elif files[0].lower().endswith(PARQUET):
                log = _of_parquet(connection, name, files, columns, also)
            else:
                is_json = files[0].lower().removesuffix(".gz").endswith(JSON)
                log = (_of_json if is_json else _of_csv)(connection, name, files, paths, columns, also)
            log.check_kinds()
            yield log
    finally:
        connection.close()


def _of_csv(
    duck: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    paths: Sequence[str],
    columns: Columns,
    also: str,
) -> Relation:
    """Return text files as one relation; what their folders are called is no column."""
    asked, texts = columns.names, []
    for file, path in zip(files, paths, strict=True):
        texts.append(CsvFile.of(file, path, asked))
        columns = columns.settled(file, texts[-1].header, also)
    queries = []
    for (header, delimiter), alike in itertools.groupby(texts, key=lambda text: (text.header, text.delimiter)):
        chosen = ", ".join(f"f{header.index(name)} AS {columns.sql(name)}" for name in columns.names)
        kinds = ", ".join(f"'f{i}': 'VARCHAR'" for i in range(len(header)))
        queries.append(
            f"SELECT {chosen} FROM read_csv([{literals([text.path for text in alike])}], columns={{{kinds}}}, "
            f"auto_detect=false, header=true, delim='{delimiter}', quote='\"', escape='\"', "
            "compression='uncompressed', hive_partitioning=false)"
        )
    log = Relation(duck, name, columns, partial(_line_of, texts), list(zip(files, paths, strict=True)))
    log.define("log", " UNION ALL ".join(queries))
    log.kinds = dict.fromkeys(columns.names, WRITTEN)
    log.total = sum(lines.size for text in texts for lines in text.rows())
    return log


def _of_json(
    duck: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    paths: Sequence[str],
    columns: Columns,
    also: str,
) -> Relation:
    """Return files of JSON lines as one relation; Python reads them, which converts nothing."""
    places: list[str] = []
    rows: list[Mapping[str, Any]] = []
    for file, path in zip(files, paths, strict=True):
        names = dict[str, None]()
        with _refusing_unreadable(file), Path(path).open("rb") as stream:
            for line, raw in enumerate(iter(lambda: stream.readline(_LONGEST + 1), b""), start=1):
                if len(raw) > _LONGEST:
                    raise InvalidFile(f"{file}, line {line}: has more than a million bytes.")
                if raw.strip(b" \t\r\n"):
                    rows.append(_object(file, line, raw))
                    places.append(f"{file}, line {line}")
                    names |= dict.fromkeys(rows[-1])
        columns = columns.settled(file, list(names) or columns.names, also)
    return _of_arrays(duck, name, columns, lambda name: [row.get(name) for row in rows], places.__getitem__)


def _of_parquet(
    duck: duckdb.DuckDBPyConnection, name: str, files: Sequence[str], columns: Columns, also: str
) -> Relation:
    """Return files of Parquet as one relation; what their folders are called is no column."""
    log = Relation(duck, name, columns, None, [(file, file) for file in files])
    options = "union_by_name=true, hive_partitioning=false"
    first: dict[str, tuple[str, str]] = {}  # of every column, its type and the file
    for file in files:
        described = log.rows(f"DESCRIBE SELECT * FROM read_parquet([{literals([file])}], {options})")
        kinds = {str(column): str(kind) for column, kind, *_ in described}
        log.columns = log.columns.settled(file, list(kinds), also)
        for column in log.columns.names:
            kind, other = first.setdefault(column, (kinds[column], file))
            if {sort_of(kind), sort_of(kinds[column])} not in ({sort_of(kind)}, {"whole", "float"}):
                raise InvalidFile(
                    f"{file}: the column {column!r} is of type {kinds[column]}, and in {other} of type {kind}. Write "
                    "all files with one type."
                )
    sizes = dict(log.rows(f"SELECT file_name, num_rows FROM parquet_file_metadata([{literals(files)}])"))
    begins = np.cumsum([0, *(sizes[file] for file in files)])

    def place(row: int) -> str:
        at = int(np.searchsorted(begins, row, side="right")) - 1
        return f"{files[at]}, row {row - begins[at] + 1}"

    chosen = ", ".join(f"{quoted(name)} AS {log.columns.sql(name)}" for name in log.columns.names)
    row = f"{begins[:-1].tolist()}[CAST(file_index AS BIGINT) + 1] + file_row_number"
    log.define("log", f"SELECT {chosen}, {row} AS nth FROM read_parquet([{literals(files)}], {options})")
    log.place, log.row = place, "nth"
    return log


def _of_table(duck: duckdb.DuckDBPyConnection, source: Any, columns: Columns, also: str) -> Relation:
    """Return a frame, a dictionary of columns, or a table of Ibis; whoever has one of these has imported Ibis."""
    ibis, header = sys.modules.get("ibis"), header_of(source)
    if header is not None:
        columns = columns.settled("from_transitions", header, also)
        return _of_arrays(
            duck, "from_transitions", columns, source.__getitem__, lambda row: f"from_transitions, row {row + 1}"
        )
    if ibis is None or not isinstance(source, ibis.Table):
        raise InvalidInput(
            "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table, or a dictionary "
            f"of arrays, got {shown(source)}."
        )
    return Warehouse(duck, source, columns.settled("from_transitions", source.columns, also))


def _of_arrays(
    duck: duckdb.DuckDBPyConnection,
    name: str,
    columns: Columns,
    take: Callable[[str], Any],
    place: Callable[[int], str],
) -> Relation:
    arrays = {columns.sql(column): _as_array(column, take(column), columns, place) for column in columns.names}
    lengths = {array.size for array in arrays.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"{name}: the columns must have one length, got {sorted(lengths)}.")
    duck.register("log", arrays)
    return Relation(duck, name, columns, place)


@contextlib.contextmanager
def _in_one_sentence(files: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Refuse what DuckDB refuses, with the file."""
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:  # Ctrl-C, where a query was running
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        text = str(error).split("\nLINE ")[0]  # a query that is quoted names all files
        file = next((file for file, path in files if path in text), files[0][0] if files else "from_transitions")
        raise InvalidFile(f"{file}: {sentence(text.splitlines()[0] if text else '', 200)}.") from None


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


def _as_array(name: str, values: Any, columns: Columns, place: Callable[[int], str]) -> NDArray[Any]:
    """Return a column as an array of one type that DuckDB need not guess; masked is what is missing."""
    try:
        array = np.fromiter(values, dtype=object) if isinstance(values, (list, tuple, range)) else np.asarray(values)
    except Exception:  # whatever a stranger's object raises
        array = np.asarray(None)
    if array.ndim != 1 or is_masked(values):
        raise InvalidInput(
            f"from_transitions: column {name!r} must be a list with one entry a row, got {shown(values)}."
        )
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
    uses = [use for use in columns.uses if name in columns.of(use)]
    names = [use for use in uses if use in PARTS and name not in columns.bins]
    items = [_plain(item) for item in array.tolist()]
    if {"episode", "order"} >= set(uses):
        items = [_seconds(item) if isinstance(item, datetime.datetime) else item for item in items]
    typed = _typed(items, is_name=bool(names))
    if typed is not None:
        return typed
    first = next((type(item) for item in items if item is not None), str)
    right = {int, float} if first in (int, float) else {str} & {first} if names else {first}
    row = next((i for i, item in enumerate(items) if item is not None and type(item) not in right), 0)
    rule, cast = ("a text or a whole number, as all others", " Cast all to text.") if names else ("a number", "")
    raise InvalidInput(f"{place(row)}: {the((names or uses)[0])} must be {rule}, got {shown(items[row])}.{cast}")


def _plain(item: Any) -> Any:
    """Return a value as Python's own; None for what is missing."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and (item is pandas.NA or item is pandas.NaT):
        return None
    plain = item.item() if isinstance(item, np.generic) else item
    return None if isinstance(plain, float) and plain != plain else plain


def _seconds(time: datetime.datetime) -> float:
    """Return a time as a number; one without a zone is one of UTC, or times of summer would come twice."""
    return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()


def _typed(items: Sequence[Any], is_name: bool) -> NDArray[Any] | None:
    """Return values as an array of one of Python's own types; None where they are of several, or of another.

    >>> _typed([1, 2.5, None], False), _typed([1, True], True), _typed([2**64], True)
    (array([1. , 2.5, nan]), None, None)
    """
    kinds = set(map(type, items)) - {type(None)}
    missing = np.array([item is None for item in items], dtype=np.bool_)
    if not is_name and kinds & {bool, Decimal} and kinds <= {bool, int, float, Decimal}:
        items, kinds = [None if item is None else float(item) for item in items], {float}
    if kinds <= {float} or (kinds == {int, float} and all(abs(item) < EXACT for item in items if type(item) is int)):
        return np.array([np.nan if item is None else item for item in items], dtype=np.float64)
    if kinds == {int} and all(-(2**63) <= item < 2**63 for item in items if item is not None):
        return np.ma.array([item or 0 for item in items], mask=missing, dtype=np.int64)
    if kinds in ({str}, {bool}):
        filled = ["" if item is None else item for item in items] if kinds == {str} else list(map(bool, items))
        return np.ma.array(np.array(filled, dtype=object if kinds == {str} else np.bool_), mask=missing)
    return None


# --- files --------------------------------------------------------------------------------------------------------


def files_of(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the files of a path, all of one kind: itself, those of a folder, or those that fit a pattern."""
    text = os.fsdecode(source)
    if os.path.isdir(text):  # noqa: PTH112  # Path's own raises where a name is too long
        files, rule = sorted(_inside(Path(text))), f"has no file that ends in {', '.join(ENDINGS)}"
    elif glob.has_magic(text) and not os.path.exists(text):  # noqa: PTH110
        files, rule = sorted(glob.glob(text, recursive=True)), "no file fits this pattern"  # noqa: PTH207
    else:
        files, rule = [text], ""
    if not files:
        raise InvalidFile(f"{text}: {rule}. Names that begin with . or _ do not count.")
    names: dict[str, str] = {}
    for file in files:
        other = names.setdefault(os.path.realpath(check_regular(file)), file)
        if other != file:
            raise InvalidFile(f"{file}: is the same file as {other}, and would count twice. Name one of them.")
        if not file.lower().endswith(ENDINGS):
            raise InvalidFile(f"{file}: a log ends in {', '.join(ENDINGS)}. Rename it, or read it yourself.")
    kinds = {max((ending for ending in ENDINGS if file.lower().endswith(ending)), key=len) for file in files}
    if len(kinds) > 1:
        raise InvalidFile(f"{text}: holds files of several kinds, {', '.join(sorted(kinds))}. Name one kind.")
    return tuple(files)


def _inside(folder: Path) -> Iterator[str]:
    """Yield the logs of a folder and of the folders in it, also those that no reader takes."""

    def fail(error: OSError) -> None:
        with _refusing_unreadable(str(error.filename)):
            raise error

    for where, folders, names in list(os.walk(folder, onerror=fail)):
        paths = [path for path in map(Path(where).joinpath, sorted(folders + names)) if not _is_hidden(path, folder)]
        if link := next((path for path in paths if path.name in folders and path.is_symlink()), None):
            raise InvalidFile(f"{link}: is a link to a folder, and is not followed. Name the folder itself.")
        logs = (path for path in paths if path.name in names)
        yield from (str(path) for path in logs if path.name.lower().endswith(ENDINGS) or _PACKED.search(path.name))


def _is_hidden(path: Path, folder: Path) -> bool:
    """Whether engines leave out what has this path in a folder.

    >>> _is_hidden(Path("logs/day=1/a.csv"), Path("logs")), _is_hidden(Path("logs/_temporary/a.csv"), Path("logs"))
    (False, True)
    """
    return any(part[0] in "._" for part in path.relative_to(folder).parts)


@contextlib.contextmanager
def _unpacked(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lend the paths of files, unpacked where they are packed: their sums are right, and they are no bombs."""
    if not files or not files[0].lower().endswith(".gz"):
        yield tuple(files)
        return
    left = max(_MOST_UNPACKED, 100 * sum(map(os.path.getsize, files)))
    with tempfile.TemporaryDirectory(prefix="replicable-rl-") as folder:
        paths = tuple(f"{folder}/{i}" for i in range(len(files)))
        for file, path in zip(files, paths, strict=True):
            with _refusing_unreadable(file), gzip.open(file) as packed, Path(path).open("wb") as plain:
                while block := packed.read(_BLOCK):
                    left -= plain.write(block)
                    if left < 0:
                        raise InvalidFile(f"{file}: is a hundred times as large unpacked, and more. Unpack it first.")
        yield paths


@contextlib.contextmanager
def _refusing_unreadable(file: str) -> Iterator[None]:
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


class CsvFile(NamedTuple):
    """A file of delimited values: what it is called, where it is read, and what its first line says."""

    file: str
    path: str
    header: tuple[str, ...]
    delimiter: str
    has_returns: bool  # whether lines end in a carriage return and a line feed

    @classmethod
    def of(cls, file: str, path: str, names: Sequence[str]) -> CsvFile:
        """Look at the header of a file; its delimiter is the one with which it has most of the columns asked for."""
        with _refusing_unreadable(file), Path(path).open("rb") as stream:
            line = _decoded(file, stream.readline(_LONGEST), 1).removeprefix("\ufeff")
        if line.count('"') % 2 or "\r" in line.removesuffix("\n").removesuffix("\r"):
            rule = "must name the columns, in one line that ends with a line feed"
            raise InvalidFile(f"{file}, line 1: {rule}, got {shown(line)}. Rename the columns, or save the file anew.")
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
        marks = sorted(_DELIMITERS, key=lambda mark: mark != "\t" or ".tsv" not in file.lower())
        headers = {mark: tuple(next(csv.reader([line], delimiter=mark), ())) for mark in marks}
        delimiter = max(marks, key=lambda mark: (len(set(headers[mark]) & set(names)), len(headers[mark])))
        header = headers[delimiter]
        if not header:
            raise InvalidFile(f"{file}, line 1: is blank, and must name the columns.")
        return cls(file, path, header, delimiter, line.endswith("\r\n"))

    def rows(self) -> Iterator[NDArray[np.int64]]:
        """Yield on which lines rows begin, some thousands of rows at a time; refuse the first row that is wrong."""
        line, end = 2, b"\r\n" if self.has_returns else b"\n"
        with _refusing_unreadable(self.file), Path(self.path).open("rb") as stream:
            stream.readline()
            while block := stream.read(_BLOCK) + stream.readline(_LONGEST):
                while block.count(b'"') % 2 and (more := stream.read(_BLOCK) + stream.readline(_LONGEST)):
                    block += more
                    if len(block) > 4 * _BLOCK:
                        raise InvalidFile(f"{self.file}, line {line}: a quote is not closed here, or further down.")
                if not block.isascii():
                    _decoded(self.file, block, line)
                yield line + self._begins(block if block.endswith(b"\n") else block + end, line)
                line += block.count(b"\n")

    def _begins(self, block: bytes, line: int) -> NDArray[np.int64]:
        """Return how many lines come before each row; refuse a row that two readers may read in two ways."""
        data = np.frombuffer(block, dtype=np.uint8)
        feeds, quotes = np.flatnonzero(data == 10), np.flatnonzero(data == 34)
        inside = np.zeros(data.size, dtype=np.bool_)
        if quotes.size:
            inside = np.bitwise_xor.accumulate((data == 34).view(np.uint8)).view(np.bool_)
        ends = feeds[~inside[feeds]]
        begins = np.append(0, ends[:-1] + 1)[: ends.size]
        if not ends.size or ends[-1] != data.size - 1:
            raise InvalidFile(f"{self.file}, line {line}: a quote is not closed here, or further down.")
        delimiters = np.flatnonzero(data == ord(self.delimiter))
        fields = np.diff(np.searchsorted(delimiters[~inside[delimiters]], np.append(begins, data.size))) + 1
        filled = ends - begins > self.has_returns
        returns = np.flatnonzero(data == 13)
        returns = returns[~inside[returns]]
        around = np.frombuffer(b"\n" + block + b"\n", dtype=np.uint8)
        opens, closes = around[quotes[::2]], around[quotes[1::2] + 2]  # what comes before a quote, and what after it
        allowed = [10, 34, ord(self.delimiter)]
        wrong = {
            "has {} fields, and the header has {}": begins[filled & (fields != len(self.header))],
            "has a quote inside of a value, or blanks around quotes. Double the one, leave out the others": np.append(
                quotes[::2][~np.isin(opens, allowed)], quotes[1::2][~np.isin(closes, [*allowed, 13])]
            ),
            "does not end as the first line does. End all in a line feed, or all in a carriage return and it": (
                np.setxor1d(returns + 1, ends) if self.has_returns else returns
            ),
            "holds a byte 0, or a byte order mark that is not at the beginning of the file. Save the file anew": (
                np.flatnonzero(data == 0) if 0 in block else np.array([block.find(b"\xef\xbb\xbf")])
            ),
        }
        first = {rule: int(places[places >= 0].min()) for rule, places in wrong.items() if (places >= 0).any()}
        if first:
            rule = min(first, key=lambda rule: first[rule])
            row = int(np.searchsorted(ends, first[rule]))
            at = line + int(np.searchsorted(feeds, begins[row]))
            raise InvalidFile(f"{self.file}, line {at}: {rule.format(fields[row], len(self.header))}.")
        return np.asarray(np.searchsorted(feeds, begins[filled]), dtype=np.int64)


def _line_of(files: Sequence[CsvFile], row: int) -> str:
    """Return the file and the line of a row; rows of all files are counted from 0."""
    for file in files:
        for lines in file.rows():
            if row < lines.size:
                return f"{file.file}, line {lines[row]}"
            row -= lines.size
    return files[-1].file


def _object(file: str, line: int, raw: bytes) -> Mapping[str, Any]:
    """Return an object of JSON; one that names something twice is refused, for readers differ on it."""
    text = _decoded(file, raw, line).strip(" \t\r\n")
    with contextlib.suppress(ValueError, RecursionError):
        pairs = json.loads(text, object_pairs_hook=list)
        if text.startswith("{") and len(dict(pairs)) == len(pairs):
            return dict(pairs)
    raise InvalidInput(f"{file}, line {line}: must be an object of JSON that names everything once, got {shown(text)}.")
