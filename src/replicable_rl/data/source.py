"""Where a log is, and who reads it: files, folders, data frames and arrays by DuckDB, tables of Ibis by their engine.

Nothing is loaded here: a source becomes a view, and only counts ever leave the engine.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.data.engine import Engine, engine
from replicable_rl.data.frames import read_frame
from replicable_rl.data.local import VIEW, LocalRows
from replicable_rl.data.parquet import check_files, parquet
from replicable_rl.data.text import TextFiles
from replicable_rl.data.textrows import TextRows
from replicable_rl.data.wholes import Declared, with_whole_floats
from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.files import check_regular

if TYPE_CHECKING:
    from replicable_rl.data.columns import Columns
    from replicable_rl.data.counting import Rows
    from replicable_rl.data.warehouse import WarehouseRows

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet", ".jsonl", ".ndjson")


@contextlib.contextmanager
def opened(source: Any, columns: Columns, declared: Declared) -> Iterator[Rows]:
    """Lend the rows of a log, whatever kind of source it is."""
    with engine() as duck:
        rows = _rows(duck, source, columns, declared)
        rows.kinds = with_whole_floats(columns, rows.kinds, declared)
        yield rows


def _rows(duck: Engine, source: Any, columns: Columns, declared: Declared) -> LocalRows | WarehouseRows:
    if isinstance(source, (str, os.PathLike)):
        files = tuple(_files(source))
        duck.source = os.fsdecode(source)
        return _of_files(duck, files, columns, declared)
    if is_ibis_table(source):
        from replicable_rl.data.warehouse import WarehouseRows

        return WarehouseRows(duck, source)
    return read_frame(duck, source, columns, declared)


def _of_files(duck: Engine, files: tuple[str, ...], columns: Columns, declared: Declared) -> LocalRows:
    duck.files = files
    if _ending(files[0]) == ".parquet":
        check_files(duck, files, columns)
        duck.rows(f"CREATE TEMP VIEW {VIEW} AS SELECT * FROM {parquet(files)}")
        return LocalRows(duck, parquet(files, ", filename=true, file_row_number=true"))
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
