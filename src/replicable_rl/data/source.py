"""Where a log is, and who reads it: files, folders, data frames and arrays by DuckDB, tables of Ibis by their engine.

Nothing is loaded here: a source becomes a view, and only counts ever leave the engine.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.data.engine import Engine, engine
from replicable_rl.data.local import VIEW, LocalRows
from replicable_rl.data.text import TextFiles
from replicable_rl.data.textrows import Declared, TextRows
from replicable_rl.errors import InvalidFile, InvalidInput, is_masked, shown
from replicable_rl.files import check_regular
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    from replicable_rl.data.columns import Columns
    from replicable_rl.data.counting import Rows

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet", ".jsonl", ".ndjson")


@contextlib.contextmanager
def opened(source: Any, columns: Columns, declared: Declared) -> Iterator[Rows]:
    """Lend the rows of a log, whatever kind of source it is."""
    with engine() as duck:
        if isinstance(source, (str, os.PathLike)):
            yield _of_files(duck, tuple(_files(source)), columns, declared)
        elif is_ibis_table(source):
            from replicable_rl.data.warehouse import WarehouseRows

            yield WarehouseRows(duck, source)
        else:
            _register(duck, source)
            yield LocalRows(duck)


def _of_files(duck: Engine, files: tuple[str, ...], columns: Columns, declared: Declared) -> LocalRows:
    duck.files = files
    if _ending(files[0]) == ".parquet":
        duck.rows(f"CREATE TEMP VIEW {VIEW} AS SELECT * FROM {_parquet(files)}")
        return LocalRows(duck, _parquet(files, ", filename=true, file_row_number=true"))
    text = TextFiles(files, columns)
    query, duck.text = text.query(), text
    # Some versions let the reader convert what a query converts, and a value that is no number is then an error.
    if duck.rows("SELECT 1 FROM duckdb_optimizers() WHERE name = 'type_pushdown'"):
        duck.rows("SET disabled_optimizers = 'type_pushdown'")
    duck.rows(f"CREATE TEMP VIEW {VIEW} AS {query}")
    return TextRows(duck, text=text, declared=declared)


def is_ibis_table(source: Any) -> bool:
    """Whether a source is a table of Ibis; whoever has one has imported Ibis."""
    ibis = sys.modules.get("ibis")
    return ibis is not None and isinstance(source, ibis.Table)


def _files(source: str | os.PathLike[str]) -> list[str]:
    """Return the files of a path: itself, those of a folder, or those that fit a pattern."""
    try:
        text = os.fsdecode(source)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"from_transitions: source must name a file, got {shown(source)}.") from None
    path = Path(text)
    if os.path.isdir(text):  # noqa: PTH112  # Path's own raises where a name is too long
        try:
            found = sorted(str(file) for file in path.rglob("*") if _ending(str(file)) and file.is_file())
        except OSError as error:
            raise InvalidFile(f"{text}: cannot be read ({error.strerror or error}).") from None
        if not found:
            raise InvalidFile(f"{text}: has no file that ends in {', '.join(ENDINGS)}.")
    elif any(letter in text for letter in "*?[") and not os.path.exists(text):  # noqa: PTH110
        found = sorted(str(file) for file in Path(path.anchor or ".").glob(str(path.relative_to(path.anchor or "."))))
        if not found:
            raise InvalidFile(f"{text}: no file fits this pattern.")
    else:
        found = [str(check_regular(text))]
    endings = {_ending(file) for file in found}
    if None in endings:
        wrong = next(file for file in found if _ending(file) is None)
        raise InvalidFile(f"{wrong}: a log ends in {', '.join(ENDINGS)}. Rename it, or read it yourself.")
    if len(endings) > 1:
        raise InvalidFile(
            f"{text}: holds files of several kinds, {', '.join(sorted(map(str, endings)))}. Name one kind."
        )
    for file in found:
        if os.path.getsize(check_regular(file)) == 0:  # noqa: PTH202  # as everywhere here
            raise InvalidFile(f"{file}: is empty.")
    return found


def _ending(file: str) -> str | None:
    return next((ending for ending in sorted(ENDINGS, key=len, reverse=True) if file.lower().endswith(ending)), None)


def _parquet(files: tuple[str, ...], numbers: str = "") -> str:
    names = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    return f"read_parquet([{names}], union_by_name=true{numbers})"


def _register(duck: Engine, source: Any) -> None:
    if isinstance(source, Mapping):
        source = _arrays(source)
    try:
        source = _forwards(source)
        duck.connection.register(VIEW, source)
    except Exception as error:  # whatever an engine makes of somebody's object
        raise InvalidInput(
            "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table, a Minari data "
            f"set or a dictionary of arrays, got {shown(source)} ({sentence(error, 100)})."
        ) from None


def _forwards(source: Any) -> Any:
    """Return a pandas frame whose columns lie in memory in their own order, as the engine reads them."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(source, pandas.DataFrame):
        return source
    columns = [source.iloc[:, i] for i in range(source.shape[1])]
    plain = [column.to_numpy() for column in columns if isinstance(column.dtype, np.dtype)]
    return source.copy() if any(min(column.strides) < 0 for column in plain) else source


def _arrays(source: Mapping[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for name, values in source.items():
        if not isinstance(name, str):
            raise InvalidInput(
                f"from_transitions: the columns of a dictionary have texts for names, got {shown(name)}."
            )
        try:
            column = np.asarray(values)
            column = column.astype(column.dtype.newbyteorder("="), order="C", copy=False)  # as the engine reads it
            if column.dtype.kind == "M":
                is_date = np.datetime_data(column.dtype)[0] == "D"
                column = column.astype(object) if is_date else column.astype("datetime64[us]")
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
