"""The rows of a view ``log`` as a user sees them: of which types they are, what they hold, and where a wrong one is.

How they are counted is in ``local``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from replicable_rl.data.columns import (
    PARTS,
    Columns,
    at_the_end,
    earned,
    family,
    is_missing,
    literal,
    must_be_whole,
    not_whole,
    packed,
    parts,
    quoted,
    the,
    truth,
)
from replicable_rl.data.engine import Engine
from replicable_rl.errors import shown

VIEW = "log"


@dataclass
class ViewedRows:
    """The rows of a view ``log``."""

    engine: Engine
    parquet: str = ""  # the call that reads the files with their row numbers, for Parquet

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The type of every column."""
        described = self.engine.rows(f"DESCRIBE SELECT * FROM {VIEW}")
        return {str(name): family(str(kind)) for name, kind, *_ in described}

    @cached_property
    def _numbered(self) -> bool:
        """Whether the files number their rows themselves, in parallel."""
        return bool(self.parquet) and not {"filename", "file_row_number"} & set(self.kinds)

    def _parts(self, columns: Columns, use: str) -> dict[str, str]:
        return parts(columns, use, self.kinds)

    def _value(self, column: str, use: str = "") -> str:
        return quoted(column)

    def _reward(self, columns: Columns) -> str:
        return earned(self._value(columns.reward, "reward"), self.kinds[columns.reward])

    def _done(self, columns: Columns) -> str:
        return truth(self._value(columns.done or "", "done"), self.kinds[columns.done or ""])

    # --- where something is -------------------------------------------------------------------------

    def complaint(self, columns: Columns, use: str, many: int) -> str:
        """Say in which row something is missing, or is not what it must be."""
        for column, bins in zip(columns.of(use), columns.bins_of(use), strict=True) if use in PARTS else ():
            if self.kinds[column] == "DOUBLE" and bins is None:
                wrong = self._before_the_end(columns, use, not_whole(quoted(column)))
                for row, value in self._wrong_rows(wrong, quoted(column)):
                    return f"{self._place(row)}: {must_be_whole(use, value)}"
        given = [self._value(name, use) if use not in PARTS else quoted(name) for name in columns.of(use)]
        shows = " || ', ' || ".join(f"COALESCE(CAST({one} AS VARCHAR), '')" for one in given)
        ((row, value),) = self._wrong_rows(self._wrong(columns, use), shows)
        mend = f"Mend the row or leave it out{at_the_end(columns, use)}."
        return f"{self._place(row)}: {complained(use, value, many)} {mend}"

    def where_label(self, columns: Columns, kind: str, label: Any) -> str:
        """Return where a name is first: the file and the row."""
        uses = ("state", "next_state") if kind == "states" else ("action",)
        return self._first_of([self._is_called(columns, use, label) for use in uses])

    def where_pair(self, columns: Columns, state: Any, action: Any) -> str:
        """Return where an action is first taken in a state: the file and the row."""
        both = self._is_called(columns, "state", state), self._is_called(columns, "action", action)
        return self._first_of([f"{both[0]} AND {both[1]}"])

    def _first_of(self, conditions: Sequence[str]) -> str:
        """Return the first row in which one of some conditions holds."""
        found = [row for one in conditions for row in self._wrong_rows(one)]
        return self._place(min(found)[0]) if found else self.engine.name

    def _is_called(self, columns: Columns, use: str, label: Any) -> str:
        """Return the condition that a state, an action or a next state has a name."""
        names = label if len(columns.of(use)) > 1 else (label,)
        every = zip(self._parts(columns, use).values(), names, columns.bins_of(use), strict=True)
        conditions = [
            f"{self._named(use, place, part)} = {literal(name if bins is None else bins.labels.index(name))}"
            for place, (part, name, bins) in enumerate(every)
        ]
        return self._before_the_end(columns, use, " AND ".join(conditions))

    def _named(self, use: str, place: int, part: str) -> str:
        return part

    def _before_the_end(self, columns: Columns, use: str, condition: str) -> str:
        """Return the condition for rows that count: what comes after the end need not be named."""
        if use != "next_state" or columns.done is None:
            return f"({condition})"
        return f"({condition}) AND NOT {self._done(columns)}"

    def _place(self, row: Any) -> str:
        file, number = row if isinstance(row, tuple) else (self.engine.name, row)
        return f"{file}, row {number}"

    def _wrong_rows(self, condition: str, shows: str = "NULL") -> list[tuple[Any, Any]]:
        """Return the first row in which a condition holds, counted from 1 and with its file, and what it shows."""
        if self._numbered:
            # Not by WHERE: where a file says how large its numbers are, the engine skips parts that hold NaN.
            place, held = packed(["filename", "file_row_number"]), f"FILTER (WHERE {condition})"
            ((at, found),) = self.engine.rows(
                f"SELECT MIN({place}) {held}, arg_min(struct_pack(v := {shows}), {place}) {held} FROM {self.parquet}"
            )
            return [] if at is None else [((str(at["c0"]), int(at["c1"]) + 1), found["v"])]
        found = self.engine.rows(
            f'SELECT "(row)", {shows} FROM (SELECT *, row_number() OVER () AS "(row)" FROM {VIEW}) '
            f'WHERE {condition} ORDER BY "(row)" LIMIT 1'
        )
        return [(int(row), value) for row, value in found]

    def _wrong(self, columns: Columns, use: str) -> str:
        """Return the condition that a row of the view is wrong."""
        if use == "reward":
            return f"{self._reward(columns)} IS NULL OR NOT isfinite({self._reward(columns)})"
        if use == "done":
            return f"{self._done(columns)} IS NULL"
        if use not in PARTS:
            given = self._value(columns.of(use)[0], use)
            kind = self.engine.rows(f"DESCRIBE SELECT {use[0]} FROM steps")[0][1]
            return is_missing([given], [family(str(kind))])
        missing = is_missing(list(self._parts(columns, use).values()))
        ends = use == "next_state" and columns.done is not None
        return f"{missing} AND NOT COALESCE({self._done(columns)}, false)" if ends else missing


def complained(use: str, value: object, many: int) -> str:
    """Say what is wrong with a value, and how often; None where the value is not known."""
    rules = {"reward": "must be a finite number", "done": "must be true or false, or 1 or 0"}
    got = f", got {shown(value)}" if use in rules and value is not None else ""
    more = f" ({many} rows are wrong)" if many > 1 else ""
    return f"{the(use)} {rules.get(use, 'is missing')}{got}{more}."
