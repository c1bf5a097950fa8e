"""Rows that DuckDB reads itself: files, data frames, arrays.

Text is parsed once, into a table, as long as it is not too large; everything else is read where it is, one or two
columns for a first look and all of them for the GROUP BY. What is special about text is in ``textrows``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from replicable_rl.data.columns import (
    PARTS,
    RAW,
    Columns,
    at_the_end,
    double,
    earned,
    is_missing,
    number,
    packed,
    parts,
    quoted,
    the,
    truth,
)
from replicable_rl.data.comparing import BLOCKS
from replicable_rl.data.counting import MANY_REWARDS, EpisodeFlaws, Facts
from replicable_rl.data.engine import Engine
from replicable_rl.data.forms import FLOATS, as_name, family
from replicable_rl.data.jsonlines import FILE
from replicable_rl.data.naming import literal
from replicable_rl.data.packed import is_packed
from replicable_rl.data.wholes import must_be_whole, not_whole
from replicable_rl.errors import InvalidInput, shown

VIEW = "log"
_MOST_ORDERED = 20_000_000  # rows of a frame whose order is looked at: one thread numbers them
_MOST_SORTED = 5_000_000  # times from which it is seen where blocks begin
_MOST_TEXT = 2**29  # bytes of text that are parsed into a table; more is parsed once for every query
_UNPACKED = 10  # how much larger a compressed text may be
_UNSURE = 4  # by what factor an approximate number of values may be wrong, and more


@dataclass
class LocalRows:
    """The rows of a view ``log``. They become ``steps``: a table where text is parsed, a view elsewhere."""

    engine: Engine
    parquet: str = ""  # the call that reads the files with their row numbers, for Parquet

    @property
    def apart(self) -> bool:
        """Whether two groups differ in what a part or the reward is: they are read as what they are."""
        return True

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The type of every column."""
        described = self.engine.rows(f"DESCRIBE SELECT * FROM {VIEW}")
        return {str(name): family(str(kind)) for name, kind, *_ in described}

    _order: str = "o"  # how places in an episode are compared

    # --- the four questions ----------------------------------------------------------------------

    def facts(self, columns: Columns) -> Facts:
        """Look at the rewards, before the rows are grouped."""
        self._make_steps(columns)
        wrong = {"reward": "r IS NULL OR NOT isfinite(r)"}
        kinds = {str(name): family(str(kind)) for name, kind, *_ in self.engine.rows("DESCRIBE steps")}
        wrong |= {use: is_missing([use[0]], [kinds[use[0]]]) for use in ("episode", "order") if columns.of(use)}
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {what})" for what in wrong.values())
        ((rows, distinct, lowest, highest, *found),) = self.engine.rows(
            f"SELECT COUNT(*), APPROX_COUNT_DISTINCT(r), MIN(r) FILTER (WHERE isfinite(r)), "
            f"MAX(r) FILTER (WHERE isfinite(r)), {counts} FROM steps"
        )
        if MANY_REWARDS / _UNSURE < distinct < MANY_REWARDS * _UNSURE:  # whether they are many must not be a guess
            distinct = self.engine.rows("SELECT COUNT(DISTINCT r) FROM steps")[0][0]
        wrong_rows = dict(zip(wrong, map(int, found), strict=True))
        if kinds.get("o") == "VARCHAR":
            self._order = self._order_of_texts(columns)
        return Facts(int(rows), wrong_rows, float(lowest or 0.0), float(highest or 0.0), int(distinct) > MANY_REWARDS)

    def _order_of_texts(self, columns: Columns) -> str:
        """Return how an order of texts is compared: as numbers where all are numbers, and else as texts."""
        place = _as_place("CAST(o AS VARCHAR)")
        ((texts, every),) = self.engine.rows(
            f"SELECT COUNT(*) FILTER (WHERE {place} IS NULL), COUNT(*) FROM steps WHERE o IS NOT NULL"
        )
        if 0 < texts < every:
            given = f"CAST({self._value(columns.order or '', 'order')} AS VARCHAR)"
            ((row, value),) = self._wrong_rows(f"{given} IS NOT NULL AND {_as_place(given)} IS NULL", given)
            raise InvalidInput(
                f"{self._place(row)}: the order {shown(value)} is no number, and others are. Mend the row or leave it "
                "out."
            )
        return "CAST(o AS VARCHAR)" if texts else place

    def group(self, columns: Columns, facts: Facts) -> bool:
        """Make the table ``grouped``; return whether it is known in which block of the log each row is."""
        names = [f"{letter}{i}" for use, letter in PARTS.items() for i in range(len(columns.of(use)))]
        steps = self._in_blocks(columns, facts.rows)
        value = f"FLOOR(r * {double(1.0 / facts.width)})" if facts.adds else "r"
        total = f"SUM(CAST(FLOOR(r * {double(facts.scale)}) AS BIGINT))" if facts.adds else "0"
        keys = ", ".join(
            [*names, value, *([] if columns.done is None else ["d"])]
        )  # a constant among them would cost time
        blocks = [f"COUNT(*) FILTER (WHERE b = {i})" if steps else "0" for i in range(BLOCKS - 1)]
        blocks.append(f"COUNT(*) - ({' + '.join(blocks)})" if steps else "0")  # so would one more filter
        self.engine.rows(
            f"CREATE TEMP TABLE grouped AS SELECT {', '.join(names)}, {_ended(columns)} AS d, {value} AS r, "
            f"COUNT(*) AS n, {', '.join(f'{many} AS b{i}' for i, many in enumerate(blocks))}, {total} AS total "
            f"FROM ({steps or 'SELECT * FROM steps'}) GROUP BY {keys}"
        )
        return steps is not None

    def first(self, columns: Columns) -> EpisodeFlaws:
        """Make the table ``firsts``; return what is wrong with episodes."""
        s, t = ([f"{letter}{i}" for i in range(len(columns.state))] for letter in "st")
        over, several = _ended(columns), self._numbered and self._has_files
        place = self._order if columns.order else "rowid" if self._has_table else packed(["f", "i"]) if several else "i"
        self.engine.rows(
            "CREATE TEMP TABLE firsts AS SELECT s, COUNT(*) AS n, COUNT(*) FILTER (WHERE NOT over) AS cut, "
            "COUNT(*) FILTER (WHERE several) AS joined FROM "
            f"(SELECT arg_min({packed(s)}, {place}) AS s, arg_max({over}, {place}) AS over, "
            f"{'MIN(f) <> MAX(f)' if self._has_files else 'false'} AS several FROM steps GROUP BY e) GROUP BY s"
        )
        ((cut, joined),) = self.engine.rows("SELECT SUM(cut), SUM(joined) FROM firsts")
        came = ", ".join(f"lag({one}) OVER w AS came_{one}" for one in t)
        known = " AND ".join(f"came_{one} IS NOT NULL" for one in t)
        both = enumerate(zip(t, s, strict=True))
        differs = " OR ".join(
            f"{self._compared(i, f'came_{one}')} <> {self._compared(i, two)}" for i, (one, two) in both
        )
        ((broken, tied, after),) = self.engine.rows(
            f"SELECT COUNT(*) FILTER (WHERE {known} AND NOT over AND ({differs})), "
            f"COUNT(*) FILTER (WHERE p = before), COUNT(*) FILTER (WHERE over) FROM "
            f"(SELECT {', '.join(s)}, {came}, {place} AS p, lag({place}) OVER w AS before, lag({over}) OVER w AS over "
            f"FROM steps WINDOW w AS (PARTITION BY e ORDER BY {place}))"
        )
        return EpisodeFlaws(int(broken), int(tied), int(cut) if columns.done else 0, int(after), int(joined))

    def complaint(self, columns: Columns, use: str, many: int) -> str:
        """Say in which row something is missing, or is not what it must be."""
        for column in columns.of(use) if use in PARTS else ():
            if self.kinds[column] == FLOATS:
                wrong = self._before_the_end(columns, use, not_whole(quoted(column)))
                for row, value in self._wrong_rows(wrong, quoted(column)):
                    return f"{self._place(row)}: {must_be_whole(use, value, many)} Mend the row, or make floats of all."
        given = [self._value(name, use) if use not in PARTS else quoted(name) for name in columns.of(use)]
        shows = " || ', ' || ".join(f"COALESCE(CAST({one} AS VARCHAR), '')" for one in given)
        ((row, value),) = self._wrong_rows(self._wrong(columns, use), shows)
        value = self._shown(columns, use, row, value)
        mend = f"Mend the row or leave it out{at_the_end(columns, use)}."
        return f"{self._place(row)}: {complained(use, value, many)} {mend}"

    def where_label(self, columns: Columns, kind: str, label: Any) -> str:
        """Return where a name is first: the file and the row."""
        uses = ("state", "next_state") if kind == "states" else ("action",)
        return self._first_of([self._is_called(columns, use, label) for use in uses])

    def where_pair(self, columns: Columns, state: Any, action: Any) -> str:
        """Return where an action is first taken in a state: the file and the row."""
        both = self._is_called(columns, "state", state), self._is_called(columns, "action", action)
        return self._first_of([None if None in both else f"{both[0]} AND {both[1]}"])

    def where_part(self, columns: Columns, use: str, place: int, value: Any) -> str:
        """Return where a part of a name is first: the file and the row."""
        part = list(self._parts(columns, use).values())[place]
        return self._first_of([self._before_the_end(columns, use, self._is_named(columns, use, place, part, value))])

    def _first_of(self, conditions: Sequence[str | None]) -> str:
        """Return the first row in which one of some conditions holds; only the log where one is not known."""
        found = [row for one in conditions if one is not None for row in self._wrong_rows(one)]
        return self._place(min(found)[0]) if found and None not in conditions else self.engine.name

    def _is_called(self, columns: Columns, use: str, label: Any) -> str | None:
        """Return the condition that a state, an action or a next state has a name; None for a list in the log."""
        values = label if len(columns.of(use)) > 1 else (label,)
        if any(isinstance(value, tuple) for value in values):
            return None
        parts = enumerate(zip(self._parts(columns, use).values(), values, strict=True))
        conditions = [self._is_named(columns, use, place, part, value) for place, (part, value) in parts]
        return self._before_the_end(columns, use, " AND ".join(conditions))

    def _is_named(self, columns: Columns, use: str, place: int, part: str, name: Any) -> str:
        """Return the condition that a part of a state or an action has a name."""
        column, bins = columns.of(use)[place], columns.bins_of(use)[place]
        codes = self.engine.codes.get(column) if bins is None else bins.labels
        return f"{self._named(use, place, column, part)} = {literal(name) if codes is None else codes.index(name)}"

    def _named(self, use: str, place: int, column: str, part: str) -> str:
        return as_name(part, self.kinds[column])

    def _before_the_end(self, columns: Columns, use: str, condition: str) -> str:
        """Return the condition for rows that count: what comes after the end need not be named."""
        if use != "next_state" or columns.done is None:
            return f"({condition})"
        return f"({condition}) AND NOT {self._done(columns)}"

    def rewards_outside(self, columns: Columns, low: float, high: float) -> tuple[int, str]:
        """Return how many rewards are outside a range, and where the first is, if it is known."""
        ((many,),) = self.engine.rows(f"SELECT COUNT(*) FROM steps WHERE {self._outside('r', low, high)}")
        row, _ = self._wrong_rows(self._outside(self._reward(columns), low, high))[0]
        return int(many), self._place(row)

    def _outside(self, reward: str, low: float, high: float) -> str:
        return f"{reward} < {double(low)} OR {reward} > {double(high)}"

    def _place(self, row: Any) -> str:
        file, number = row if isinstance(row, tuple) else (self.engine.name, row)
        return f"{file}, row {number}"

    def _compared(self, place: int, part: str) -> str:
        """Return a part of a state as it is compared with that of the step before."""
        return part

    def _shown(self, columns: Columns, use: str, row: Any, value: Any) -> Any:
        """Return the value of a row as messages show it."""
        return value

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

    # --- how rows become steps ------------------------------------------------------------------

    @cached_property
    def _has_table(self) -> bool:
        """Whether the rows are parsed into a table: text that is not too large."""
        sizes = (
            os.path.getsize(file) * (_UNPACKED if is_packed(file) else 1)  # noqa: PTH202
            for file in self.engine.files
        )
        return bool(self.engine.files) and not self.parquet and sum(sizes) <= _MOST_TEXT

    def _make_steps(self, columns: Columns) -> None:
        found = {name: part for use in PARTS for name, part in self._parts(columns, use).items()}
        found |= {} if columns.done is None else {"d": self._done(columns)}
        found["r"] = f"{self._reward(columns)} + 0.0"  # -0.0 is the same reward
        found |= {use[0]: self._value(one, use) for use in ("episode", "order") for one in columns.of(use)}
        found |= {"f": quoted(FILE)} if self._has_files and not self._numbered else {}
        selected = ", ".join(f"{expression} AS {name}" for name, expression in found.items())
        if self._has_table:
            self.engine.rows(f"CREATE TEMP TABLE steps AS SELECT {selected} FROM {VIEW}")
        elif self._numbered:
            numbers = "filename AS f, file_row_number AS i" if len(self.engine.files) > 1 else "file_row_number AS i"
            self.engine.rows(f"CREATE TEMP VIEW steps AS SELECT {selected}, {numbers} FROM {self.parquet}")
        else:
            self.engine.rows(f"CREATE TEMP VIEW steps AS SELECT {selected}, row_number() OVER () AS i FROM {VIEW}")

    @property
    def _has_files(self) -> bool:
        """Whether the steps say in which of several files they are."""
        return self._numbered and len(self.engine.files) > 1

    @cached_property
    def _numbered(self) -> bool:
        """Whether the files number their rows themselves, in parallel."""
        return bool(self.parquet) and not {"filename", "file_row_number"} & set(self.kinds)

    def _in_blocks(self, columns: Columns, rows: int) -> str | None:
        """Return the query for the steps and their blocks b; None where it would cost too much to tell them."""
        place = "rowid" if self._has_table else "i" if self._numbered else "i - 1"
        too_long = rows > _MOST_ORDERED or (self.engine.files and not self.parquet)
        if not self._has_table and not self._numbered and too_long:
            return None
        if columns.order is not None and self._is_time():
            return self._in_time(rows)
        several = self._numbered and self._has_files
        if several:
            self.engine.rows(
                "CREATE TEMP TABLE files AS SELECT f, SUM(n) OVER (ORDER BY f) - n AS before FROM "
                "(SELECT f, COUNT(*) AS n FROM steps GROUP BY f)"
            )
        place, steps = ("before + i", "steps JOIN files USING (f)") if several else (place, "steps")
        return f"SELECT *, CAST(CAST({place} AS BIGINT) * {BLOCKS} // {rows} AS TINYINT) AS b FROM {steps}"

    def _is_time(self) -> bool:
        """Whether the order says when a row came; the steps of episodes that all begin at one number do not."""
        ((episodes, begin),) = self.engine.rows(
            f"SELECT COUNT(*), COUNT(*) FILTER (WHERE o = lowest) FROM (SELECT MIN({self._order}) AS o FROM steps "
            f"GROUP BY e), (SELECT MIN({self._order}) AS lowest FROM steps)"
        )
        return int(episodes) == 1 or 2 * int(begin) <= int(episodes)

    def _in_time(self, rows: int) -> str:
        """Return the query for the steps and their blocks, by the order; rows of one time are in one block."""
        some = max(1, rows // _MOST_SORTED)  # of very many, a part that goes by their values: it is the same every time
        self.engine.rows(
            f"CREATE TEMP TABLE edges AS SELECT quantile_disc({self._order}, {[i / BLOCKS for i in range(1, BLOCKS)]}) "
            f"AS q FROM steps WHERE hash({self._order}) % {some} = 0"
        )
        later = " + ".join(
            f"CAST(COALESCE({self._order} > (SELECT q[{i}] FROM edges), false) AS INTEGER)" for i in range(1, BLOCKS)
        )
        return f"SELECT *, {later} AS b FROM steps"

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
        kinds = [
            "INTEGER" if bins else self.kinds[column]
            for column, bins in zip(columns.of(use), columns.bins_of(use), strict=True)
        ]
        missing = is_missing(list(self._parts(columns, use).values()), kinds)
        ends = use == "next_state" and columns.done is not None
        return f"{missing} AND NOT COALESCE({self._done(columns)}, false)" if ends else missing

    def _parts(self, columns: Columns, use: str) -> dict[str, str]:
        return parts(columns, use, self.kinds)

    def _value(self, column: str, use: str = "") -> str:
        return quoted(column)

    def _reward(self, columns: Columns) -> str:
        return earned(self._value(columns.reward, "reward"), self.kinds[columns.reward])

    def _done(self, columns: Columns) -> str:
        return truth(self._value(columns.done or "", "done"), self.kinds[columns.done or ""])


def _as_place(order: str) -> str:
    """Return a place in an episode as a number; missing where it is none."""
    return number(order, RAW).replace("AS DOUBLE", "AS DECIMAL(38, 9)")


def _ended(columns: Columns) -> str:
    """Return whether a step ended its episode; where no column says so, none did, and no row is asked."""
    return "false" if columns.done is None else "d"


def complained(use: str, value: object, many: int) -> str:
    """Say what is wrong with a value, and how often; None where the value is not known."""
    rules = {"reward": "must be a finite number", "done": "must be true or false, or 1 or 0"}
    got = f", got {shown(value)}" if use in rules and value is not None else ""
    more = f" ({many} rows are wrong)" if many > 1 else ""
    return f"{the(use)} {rules.get(use, 'is missing')}{got}{more}."
