"""Rows that DuckDB reads itself: files, data frames, arrays.

Text is parsed once, into a table, as long as it is not too large; everything else is read where it is, one or two
columns for a first look and all of them for the GROUP BY. What is special about text is in ``textrows``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property

from replicable_rl.data.columns import (
    PARTS,
    RAW,
    Columns,
    double,
    family,
    is_missing,
    literal,
    number,
    packed,
    quoted,
)
from replicable_rl.data.counting import MANY_REWARDS, EpisodeFlaws, Facts
from replicable_rl.data.text import FILE
from replicable_rl.data.viewed import VIEW, ViewedRows
from replicable_rl.errors import InvalidInput, shown

_MOST_ORDERED = 20_000_000  # rows of a frame whose order is looked at: one thread numbers them
_MOST_TEXT = 2**29  # bytes of text that are parsed into a table; more is parsed once for every query
_UTC = "(Z|[+]00(:?00)?)$"
_TIME = "(0000-00-00|0000/00/00)([T ]0?0:00(:00)?Z?)?|0?0:00(:00)?"  # forms of texts that sort by themselves
_UNSURE = 4  # by what factor an approximate number of values may be wrong, and more


@dataclass
class LocalRows(ViewedRows):
    """The rows of a view ``log``. They become ``steps``: a table where text is parsed, a view elsewhere."""

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
        """Return how an order of texts is compared: as numbers, or as texts where all are times, written alike."""
        forms = [
            form
            for (form,) in self.engine.rows(
                f"SELECT DISTINCT {_form('o')} AS form FROM steps WHERE o IS NOT NULL ORDER BY form LIMIT 2"
            )
        ]
        if forms in ([], [""]):
            return _as_place("CAST(o AS VARCHAR)")
        if len(forms) == 1 and re.fullmatch(_TIME, forms[0]):
            return f"regexp_replace(CAST(o AS VARCHAR), '{_UTC}', '')"
        given = self._value(columns.order or "", "order")
        wrong = next((form for form in forms if form and not re.fullmatch(_TIME, form)), forms[-1])
        ((row, value),) = self._wrong_rows(f"{_form(given)} = {literal(wrong)}", f"CAST({given} AS VARCHAR)")
        others = ", and others are" if "" in forms else ""
        raise InvalidInput(
            f"{self._place(row)}: the order {shown(value)} is no number{others}. Write numbers, or times that are all "
            "written like 2024-01-31 09:59."
        )

    def group(self, columns: Columns, facts: Facts) -> bool:
        """Make the table ``grouped``; return whether it is known which rows are in the earlier half of the log."""
        names = [f"{letter}{i}" for use, letter in PARTS.items() for i in range(len(columns.of(use)))]
        steps = self._in_halves(columns, facts.rows)
        value = f"FLOOR(r * {double(1.0 / facts.width)})" if facts.adds else "r"
        total = f"SUM(CAST(FLOOR(r * {double(facts.scale)}) AS BIGINT))" if facts.adds else "0"
        keys = ", ".join(
            [*names, value, *([] if columns.done is None else ["d"])]
        )  # a constant among them would cost time
        early = "COUNT(*) FILTER (WHERE early)" if steps else "0"
        self.engine.rows(
            f"CREATE TEMP TABLE grouped AS SELECT {', '.join(names)}, {_ended(columns)} AS d, {value} AS r, "
            f"COUNT(*) AS n, {early} AS early, {total} AS total "
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
            f"{self._named('state', i, f'came_{one}')} <> {self._named('state', i, two)}" for i, (one, two) in both
        )
        ((broken, tied, after),) = self.engine.rows(
            f"SELECT COUNT(*) FILTER (WHERE {known} AND NOT over AND ({differs})), "
            f"COUNT(*) FILTER (WHERE p = before), COUNT(*) FILTER (WHERE over) FROM "
            f"(SELECT {', '.join(s)}, {came}, {place} AS p, lag({place}) OVER w AS before, lag({over}) OVER w AS over "
            f"FROM steps WINDOW w AS (PARTITION BY e ORDER BY {place}))"
        )
        return EpisodeFlaws(int(broken), int(tied), int(cut) if columns.done else 0, int(after), int(joined))

    def rewards_outside(self, columns: Columns, low: float, high: float) -> tuple[int, str]:
        """Return how many rewards are outside a range, and where the first is."""
        ((many,),) = self.engine.rows(f"SELECT COUNT(*) FROM steps WHERE {self._outside('r', low, high)}")
        row, _ = self._wrong_rows(self._outside(self._reward(columns), low, high))[0]
        return int(many), self._place(row)

    def _outside(self, reward: str, low: float, high: float) -> str:
        return f"{reward} < {double(low)} OR {reward} > {double(high)}"

    # --- how rows become steps ------------------------------------------------------------------

    @cached_property
    def _has_table(self) -> bool:
        """Whether the rows are parsed into a table: text that is not too large."""
        text = self.engine.text
        return text is not None and sum(map(os.path.getsize, text.paths)) <= _MOST_TEXT

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

    def _in_halves(self, columns: Columns, rows: int) -> str | None:
        """Return the query for the steps, and whether they are early; None where it would cost too much to tell."""
        place = "rowid" if self._has_table else "i" if self._numbered else "i - 1"
        too_long = rows > _MOST_ORDERED or (self.engine.files and not self.parquet)
        if not self._has_table and not self._numbered and too_long:
            return None
        if columns.order is not None and self._is_time():
            # Steps of one time are in one half.
            median = f"(SELECT quantile_disc({self._order}, 0.5) FROM steps)"
            return f"SELECT *, {self._order} <= {median} AS early FROM steps"
        several = self._numbered and self._has_files
        if several:
            self.engine.rows(
                "CREATE TEMP TABLE files AS SELECT f, SUM(n) OVER (ORDER BY f) - n AS before FROM "
                "(SELECT f, COUNT(*) AS n FROM steps GROUP BY f)"
            )
        place, steps = ("before + i", "steps JOIN files USING (f)") if several else (place, "steps")
        return f"SELECT *, 2 * ({place}) < {rows} AS early FROM {steps}"

    def _is_time(self) -> bool:
        """Whether the order says when a row came; the steps of episodes that all begin at one number do not."""
        ((episodes, begin),) = self.engine.rows(
            f"SELECT COUNT(*), COUNT(*) FILTER (WHERE o = lowest) FROM (SELECT MIN({self._order}) AS o FROM steps "
            f"GROUP BY e), (SELECT MIN({self._order}) AS lowest FROM steps)"
        )
        return int(episodes) == 1 or 2 * int(begin) <= int(episodes)


def _as_place(order: str) -> str:
    """Return a place in an episode as a number; missing where it is none."""
    return number(order, RAW).replace("AS DOUBLE", "AS DECIMAL(38, 9)")


def _form(order: str) -> str:
    """Return how a place in an episode is written: with 0 for every digit, and nothing where it is a number."""
    text = f"CAST({order} AS VARCHAR)"
    form = f"regexp_replace(regexp_replace({text}, '{_UTC}', 'Z'), '[0-9]', '0', 'g')"
    return f"CASE WHEN {_as_place(text)} IS NULL THEN regexp_replace({form}, '[.]0+', '') ELSE '' END"


def _ended(columns: Columns) -> str:
    """Return whether a step ended its episode; where no column says so, none did, and no row is asked."""
    return "false" if columns.done is None else "d"
