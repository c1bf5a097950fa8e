"""A log as one relation, which one dialect of SQL asks: DuckDB's, in this process or rewritten for a database.

Only counts leave a relation. Its rows are called ``log``; what is made of them is defined under other names.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.logs.columns import EMPTY, WRITTEN, Columns, quoted, sort_of
from replicable_rl.logs.files import (
    JSON,
    PARQUET,
    CsvFile,
    csv_query,
    files_of,
    json_columns,
    line_of,
    literals,
    unpacked,
)
from replicable_rl.logs.frames import as_coded, opened_frame
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    import duckdb

_ROW = '"(row)"'  # the column of the numbers of rows


class Relation:
    """The rows of a log in DuckDB.

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
        The column with the numbers of rows; without one, the rows are copied into a table that numbers them.
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
        self.total: int | None = None  # how many rows there are, where it was counted before

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
        return self.rows(f"SELECT {quoted(column)} FROM log {where}")[0][0]

    def described(self) -> dict[str, str]:
        """Return the type of every column of the log."""
        return {str(name): str(kind) for name, kind, *_ in self.rows("DESCRIBE SELECT * FROM log")}


class Warehouse(Relation):
    """The rows of a table of Ibis: its own engine groups them, and DuckDB holds the same columns without rows."""

    def __init__(self, duck: duckdb.DuckDBPyConnection, table: Any, columns: Columns) -> None:
        import pyarrow as pa

        super().__init__(duck, "from_transitions", columns)
        self.table, self.defined = table, dict[str, str]()
        with self._asking():
            self.engine = table.get_backend()
            if self.engine.name == "sqlite":
                raise InvalidInput(
                    "from_transitions: SQLite keeps values of any type in any column. Read the table into a frame "
                    "(pandas.read_sql)."
                )
            self.defined["log"] = self.engine.compile(table)
            kinds = table.select(*columns.names).schema().to_pyarrow()
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
    import duckdb

    is_path = isinstance(source, (str, os.PathLike))
    files = files_of(source) if is_path else ()
    connection = duckdb.connect()
    try:
        with contextlib.suppress(duckdb.Error):  # in a notebook without ipywidgets there is none to switch off
            connection.execute("SET enable_progress_bar = false")  # which would write into the page
            connection.execute("SET TimeZone = 'UTC'")  # or times of summer would be an hour of those of winter
        with unpacked(files) as paths:
            log = _of_files(connection, source, files, paths, columns, also) if files else None
            log = log or _of_table(connection, source, columns, also)
            log.kinds = log.kinds or log.described()
            log.columns.check_kinds(log.name, log.kinds)
            yield log
    finally:
        connection.close()


def _of_files(
    duck: duckdb.DuckDBPyConnection,
    source: Any,
    files: Sequence[str],
    paths: Sequence[str],
    columns: Columns,
    also: str,
) -> Relation:
    name, both = files[0] if len(files) == 1 else os.fsdecode(source), list(zip(files, paths, strict=True))
    if files[0].lower().endswith(PARQUET):
        return _of_parquet(duck, name, files, columns, also)
    if files[0].lower().removesuffix(".gz").endswith(JSON):
        columns, lists, places = json_columns(files, paths, columns)
        return _of_arrays(duck, name, columns, lists, places.__getitem__)
    headers = [CsvFile.of(file, path, columns.names) for file, path in both]
    columns = columns.settled(name, headers[0].names)
    for header in headers:
        columns.check(header.file, header.names, also)
    log = Relation(duck, name, columns, partial(line_of, headers), both)
    log.kinds, log.total = dict.fromkeys(columns.names, WRITTEN), sum(header.scan()[1] for header in headers)
    # Some versions let the reader convert what a query converts, and a value that is no number is then an error.
    if log.rows("SELECT 1 FROM duckdb_optimizers() WHERE name = 'type_pushdown'"):
        log.rows("SET disabled_optimizers = 'type_pushdown'")
    log.define("log", csv_query(headers, columns.names))
    return log


def _of_parquet(
    duck: duckdb.DuckDBPyConnection, name: str, files: Sequence[str], columns: Columns, also: str
) -> Relation:
    """Return files of Parquet as one relation; what their folders are called is no column."""
    call = f"read_parquet([{literals(files)}], union_by_name=true, hive_partitioning=false{{}})"
    log = Relation(duck, name, columns, None, [(file, file) for file in files], _ROW)
    first: dict[str, tuple[str, str]] = {}  # of every column, its type and the file
    for file in files:
        one = f"read_parquet([{literals([file])}], hive_partitioning=false)"
        kinds = {str(column): str(kind) for column, kind, *_ in log.rows(f"DESCRIBE SELECT * FROM {one}")}
        log.columns = log.columns.settled(file, list(kinds))
        log.columns.check(file, list(kinds), also)
        schema = f"parquet_schema({literals([file])})"
        nothing = {name for (name,) in log.rows(f"SELECT name FROM {schema} WHERE logical_type = 'NullType()'")}
        for column in (name for name in log.columns.names if name not in nothing):  # what holds no value has no type
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

    log.place = place
    if len(files) == 1:
        log.define("log", f"SELECT *, file_row_number AS {_ROW} FROM {call.format(', file_row_number=true')}")
        return log
    duck.register("begins", {"file": np.array(files, dtype=object), "begin": begins[:-1]})
    numbered = call.format(", filename=true, file_row_number=true")
    log.define("log", f"SELECT *, begin + file_row_number AS {_ROW} FROM {numbered} JOIN begins ON filename = file")
    return log


def _of_table(duck: duckdb.DuckDBPyConnection, source: Any, columns: Columns, also: str) -> Relation:
    """Return a frame, a dictionary of columns, or a table of Ibis; whoever has one of these has imported Ibis."""
    ibis, frame = sys.modules.get("ibis"), opened_frame(source)
    if frame is not None:
        header, take = frame
        columns = columns.settled("from_transitions", header)
        columns.check("from_transitions", header, also)
        lists = {name: take(header.index(name)) for name in columns.names}
        return _of_arrays(duck, "from_transitions", columns, lists, lambda row: f"from_transitions, row {row + 1}")
    if ibis is None or not isinstance(source, ibis.Table):
        raise InvalidInput(
            "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table, or a dictionary "
            f"of arrays, got {shown(source)}."
        )
    columns = columns.settled("from_transitions", source.columns)
    columns.check("from_transitions", source.columns, also)
    return Warehouse(duck, source, columns)


def _of_arrays(
    duck: duckdb.DuckDBPyConnection, name: str, columns: Columns, lists: dict[str, Any], place: Callable[[int], str]
) -> Relation:
    found = {column: as_coded(column, values, columns, place) for column, values in lists.items()}
    lengths = {len(column.values) for column in found.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"{name}: the columns must have one length, got {sorted(lengths)}.")
    duck.register("arrays", {f"c{i}": column.values for i, column in enumerate(found.values())})
    chosen = [f"NULLIF(c{i}, {one.missing})" if one.missing else f"c{i}" for i, one in enumerate(found.values())]
    log = Relation(duck, name, columns, place)
    log.define(
        "log", f"SELECT {', '.join(f'{c} AS {quoted(n)}' for c, n in zip(chosen, found, strict=True))} FROM arrays"
    )
    empty = {n for n, one in found.items() if one.values.dtype.kind == "f" and np.isnan(one.values).all()}
    log.kinds = {n: EMPTY if n in empty else kind for n, kind in log.described().items()}
    return log


@contextlib.contextmanager
def _in_one_sentence(files: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Refuse what DuckDB refuses, with the file, and the line where it names one."""
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:  # Ctrl-C, where a query was running
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise
    except (duckdb.Error, UnicodeDecodeError) as error:
        text = str(error).split("\nLINE ")[0]  # a query that is quoted names all files
        file = next((file for file, path in files if path in text), files[0][0] if files else "from_transitions")
        line = re.search(r"[Ll]ine:?\s+(\d+)", text)
        where = f"{file}, line {line.group(1)}" if line else file
        is_unicode = "unicode" in text.lower()
        what = "is not UTF-8. Save it as UTF-8" if is_unicode else sentence(text.splitlines()[0] if text else "", 200)
        raise InvalidFile(f"{where}: {what}.") from None
