"""Where a log is, and who reads it: files, folders, data frames and arrays by DuckDB, tables of Ibis by their engine.

Nothing is loaded here: a source becomes a view, and only counts ever leave the engine.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.data.engine import Engine, engine
from replicable_rl.data.frames import read_frame
from replicable_rl.data.local import LocalRows
from replicable_rl.data.parquet import check_files, parquet
from replicable_rl.data.text import TextFiles, refusing_unreadable, unpacked
from replicable_rl.data.textrows import TextRows
from replicable_rl.data.viewed import VIEW
from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.files import check_regular

if TYPE_CHECKING:
    from replicable_rl.data.columns import Columns
    from replicable_rl.data.counting import Rows
    from replicable_rl.data.labels import Declared
    from replicable_rl.data.warehouse import WarehouseRows

_TEXTS = (".csv", ".tsv", ".jsonl", ".ndjson")
_OTHERS = re.compile(r"[.](csv|tsv|jsonl|ndjson|parquet)[.](gz|bz2|xz|zst|lz4|br|Z|zip|7z)$", re.IGNORECASE)  # no logs
_PATTERN = "*?["
ENDINGS = (*_TEXTS, *(f"{ending}.gz" for ending in _TEXTS), ".parquet")


@contextlib.contextmanager
def opened(source: Any, columns: Columns, declared: Declared) -> Iterator[Rows]:
    """Lend the rows of a log, whatever kind of source it is."""
    files = tuple(_files(source)) if isinstance(source, (str, os.PathLike)) else ()
    with engine() as duck, unpacked(files) as paths:
        yield _rows(duck, source, files, paths, columns, declared)


def _rows(
    duck: Engine, source: Any, files: tuple[str, ...], paths: tuple[str, ...], columns: Columns, declared: Declared
) -> LocalRows | WarehouseRows:
    if files:
        duck.source = os.fsdecode(source)
        return _of_files(duck, files, paths, columns, declared)
    if is_ibis_table(source):
        from replicable_rl.data.warehouse import WarehouseRows

        return WarehouseRows(duck, source)
    return read_frame(duck, source, columns)


def _of_files(
    duck: Engine, files: tuple[str, ...], paths: tuple[str, ...], columns: Columns, declared: Declared
) -> LocalRows:
    duck.files = files
    if _ending(files[0]) == ".parquet":
        check_files(duck, files, columns)
        duck.rows(f"CREATE TEMP VIEW {VIEW} AS SELECT * FROM {parquet(files)}")
        return LocalRows(duck, parquet(files, ", filename=true, file_row_number=true"))
    text = TextFiles(files, columns, paths)
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
    found = _found(text)
    endings = {_ending(file) for file in found}
    if None in endings:
        wrong = next(file for file in found if _ending(file) is None)
        raise InvalidFile(f"{wrong}: a log ends in {', '.join(ENDINGS)}. Rename it, or read it yourself.")
    if len(endings) > 1:
        raise InvalidFile(
            f"{text}: holds files of several kinds, {', '.join(sorted(map(str, endings)))}. Name one kind."
        )
    names: dict[str, str] = {}
    for file in found:
        other = names.setdefault(os.path.realpath(check_regular(file)), file)
        if other != file:
            raise InvalidFile(f"{file}: is the same file as {other}, and would count twice. Name one of them.")
    return found


def _found(text: str) -> list[str]:
    """Return the files that a text names."""
    path = Path(text)
    if os.path.isdir(text):  # noqa: PTH112  # Path's own raises where a name is too long
        every = list(_inside(path))
        found = sorted(str(path / file) for file in every if not _is_hidden(file.parts))
        if not found:
            but = ", but for those whose name, or folder, begins with . or _, which are left out" if every else ""
            raise InvalidFile(f"{text}: has no file that ends in {', '.join(ENDINGS)}{but}.")
        return found
    if any(letter in text for letter in _PATTERN) and not os.path.exists(text):  # noqa: PTH110
        known = list(itertools.takewhile(lambda part: not set(part) & set(_PATTERN), path.parts))
        fit = Path(path.anchor or ".").glob(str(path.relative_to(path.anchor or ".")))
        found = sorted(str(file) for file in fit if not _is_hidden(file.parts[len(known) :]))
        if not found:
            raise InvalidFile(f"{text}: no file fits this pattern.")
        return found
    return [str(check_regular(text))]


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the logs of a folder and of the folders in it, whichever they are; one that cannot be read is refused."""

    def fail(error: OSError) -> None:
        with refusing_unreadable(str(error.filename)):
            raise error

    for where, folders, names in os.walk(folder, onerror=fail):
        yield from (Path(where, name).relative_to(folder) for name in names if _ending(name) or _OTHERS.search(name))
        for link in filter(Path.is_symlink, (Path(where, name) for name in folders)):  # walking does not follow it
            if not _is_hidden(link.relative_to(folder).parts) and not link.resolve().is_relative_to(folder.resolve()):
                raise InvalidFile(f"{link}: is a link to a folder, and is not followed. Name the folder itself.")


def _is_hidden(parts: Sequence[str]) -> bool:
    """Whether a path leads to a file that engines leave out.

    >>> _is_hidden(["day=1", "a.csv"]), _is_hidden(["_temporary", "a.csv"])
    (False, True)
    """
    return any(part[0] in "._" for part in parts)


def _ending(file: str) -> str | None:
    return next((ending for ending in sorted(ENDINGS, key=len, reverse=True) if file.lower().endswith(ending)), None)
