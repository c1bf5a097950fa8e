"""The engine that counts: DuckDB, inside this process, and what it says when something is wrong with a file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidFile
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    import duckdb

    from replicable_rl.data.text import TextFiles


@dataclass
class Engine:
    """An open connection, and the files that are read with it if there are some."""

    connection: duckdb.DuckDBPyConnection
    files: tuple[str, ...] = ()
    text: TextFiles | None = None  # where the files are text
    source: str = ""  # what the user called the files

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query; what the engine refuses is refused in one sentence."""
        with self.in_one_sentence():
            return self.connection.execute(query).fetchall()

    def arrays(self, query: str) -> dict[str, np.ndarray[Any, Any]]:
        """Run a query and return its columns as arrays."""
        with self.in_one_sentence():
            found = self.connection.execute(query).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

    @contextlib.contextmanager
    def in_one_sentence(self) -> Iterator[None]:
        """Refuse what the engine refuses, with the file, and the line where it names one."""
        import duckdb

        try:
            yield
        except (duckdb.InterruptException, RuntimeError) as error:  # Ctrl-C, where a query was running
            if "interrupt" in str(error).lower():
                raise KeyboardInterrupt from None
            raise
        except (duckdb.Error, UnicodeDecodeError) as error:
            said = str(error) if self.text is None else self.text.explained(str(error))
            raise InvalidFile(_explained(self.files, said)) from None

    @property
    def name(self) -> str:
        """What messages call the log."""
        return (self.files[0] if len(self.files) == 1 else self.source) or "from_transitions"


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """Lend an engine."""
    import duckdb

    connection = duckdb.connect()
    try:
        with contextlib.suppress(duckdb.Error):  # in a notebook without ipywidgets there is none to switch off
            connection.execute("SET enable_progress_bar = false")  # which would write into the page
        yield Engine(connection)
    finally:
        connection.close()


def _explained(files: tuple[str, ...], text: str) -> str:
    """Return what an engine says of a file, short: the file, the line, and what is wrong there."""
    text = text.split("\nLINE ")[0]  # a query that is quoted names all files
    file = next((one for one in files if one in text), files[0] if files else "from_transitions")
    line = re.search(r"[Ll]ine:?\s+(\d+)", text)
    where = f"{file}, line {line.group(1)}" if line else file
    lowered = text.lower()
    for clue, said in (
        ("surrogate", "has a text that is not Unicode. Mend it"),
        ("unicode", "is not UTF-8. Save it as UTF-8"),
        ("no magic bytes", "is not what its name says"),
        ("too small to be a parquet", "is no Parquet file, or breaks off"),
    ):
        if clue in lowered:
            return f"{where}: {said}."
    first = text.splitlines()[0] if text else "it cannot be read"
    return f"{where}: {sentence(first, 200)}."
