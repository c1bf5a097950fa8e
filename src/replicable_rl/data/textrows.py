"""Rows of text files: grouped as they are written; then all different names of a column say what they are.

They are whole numbers if all of them are, and else texts. As pandas writes them, 2.0 is the whole number 2. What is
refused is refused with the file and the line, which are searched for only then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from replicable_rl.data.columns import (
    PARTS,
    RAW,
    Columns,
    at_the_end,
    binned,
    literal,
    number,
    packed,
    quoted,
    said,
    truth,
)
from replicable_rl.data.counting import EpisodeFlaws, Facts
from replicable_rl.data.labels import Declared
from replicable_rl.data.local import LocalRows
from replicable_rl.data.text import TextFiles
from replicable_rl.errors import InvalidFile, InvalidInput, shown

Query = Callable[[str], str]  # of an expression

WHOLE = "0|-?[1-9][0-9]{0,37}"  # 0 has no sign: two ways to write a name are never one
_WHOLE_FLOAT = r"(0|-?[1-9][0-9]{0,14})\.0"
_NUMBER = r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+e)(e?[-+]?[0-9]+)?"
_MISSING = ("NA", "N/A", "NULL", "null", "NaN", "nan")
_SAID = {
    "whole": "is a whole number, and others are texts",
    "text": "is a text, and others are whole numbers",
    "number": "is no text and no whole number",
    "other": "is no text and no whole number",
}


class _Name(NamedTuple):
    """One column of names: states and next states together, or actions."""

    kind: str  # "states" or "actions"
    place: int
    uses: tuple[tuple[str, str], ...]  # (use, column)
    declared: frozenset[Any]


@dataclass
class TextRows(LocalRows):
    """The rows of text files."""

    text: TextFiles = field(kw_only=True)
    declared: Declared = (None, None)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Every column is what it is written as."""
        return dict.fromkeys(self.text.headers[0].names, RAW)

    @property
    def _has_files(self) -> bool:
        """Whether the steps say in which of several files they are: where episodes could be in two of them."""
        return self.text.has_files

    def facts(self, columns: Columns) -> Facts:
        """Look at the rewards; the engine must have found all rows of all files."""
        there, found = self.text.rows, super().facts(columns)
        if found.rows != there:
            raise InvalidFile(f"{self.engine.name}: has {there} rows, and DuckDB reads {found.rows}. Save it anew.")
        return found

    def group(self, columns: Columns, facts: Facts) -> bool:
        """Make the table ``grouped``, of rows with the same texts, and then of the names that these are."""
        ordered = super().group(columns, facts)
        ((many,),) = self.engine.rows("SELECT COALESCE(SUM(n) FILTER (WHERE d IS NULL), 0) FROM grouped")
        if many:
            raise InvalidInput(self.complaint(columns, "done", int(many)))
        self._casts: dict[tuple[str, int], Query] = {}  # those of bins are what they are
        for name in self._names(columns):
            cast = self._decide(columns, name)
            self._casts |= {(use, name.place): cast for use, _ in name.uses}
        self.engine.rows("ALTER TABLE grouped RENAME TO written")
        parts = [(use, place, f"{PARTS[use]}{place}") for use in PARTS for place in range(len(columns.of(use)))]
        chosen = ", ".join(f"{self._named(use, place, part)} AS {part}" for use, place, part in parts)
        self.engine.rows(f"CREATE TEMP VIEW grouped AS SELECT {chosen}, d, r, n, early, total FROM written")
        return ordered

    def first(self, columns: Columns) -> EpisodeFlaws:
        """Make the table ``firsts``, of names."""
        found = super().first(columns)
        self.engine.rows("ALTER TABLE firsts RENAME TO written_firsts")
        many = len(columns.state)
        parts = [self._named("state", i, f"s.c{i}" if many > 1 else "s") for i in range(many)]
        self.engine.rows(
            f"CREATE TEMP TABLE firsts AS SELECT {packed(parts)} AS s, SUM(n) AS n FROM written_firsts GROUP BY 1"
        )
        return found

    def _named(self, use: str, place: int, part: str) -> str:
        return self._casts[use, place](part) if (use, place) in self._casts else part

    def _place(self, row: Any) -> str:
        return self.text.place(row)

    # --- names ----------------------------------------------------------------------------------------

    def _names(self, columns: Columns) -> list[_Name]:
        found = []
        for kind, uses, declared in zip(
            ("states", "actions"), (("state", "next_state"), ("action",)), self.declared, strict=True
        ):
            several = columns.bins_of(uses[0])
            for place, bins in enumerate(several):
                parts = frozenset(one if len(several) == 1 else one[place] for one in declared or ())
                name = _Name(kind, place, tuple((use, columns.of(use)[place]) for use in uses), parts)
                if bins is None:
                    found.append(name)
                else:
                    self._refuse_missing(columns, name, "{} IS NULL".format)
        return found

    def _decide(self, columns: Columns, name: _Name) -> Query:
        """Return how the names of a column are read; refuse those that are missing or of several kinds."""
        each = " UNION ALL ".join(
            f"SELECT {PARTS[use]}{name.place} AS v FROM grouped" + " WHERE NOT d" * (use == "next_state")
            for use, _ in name.uses
        )
        self.engine.rows(f"CREATE OR REPLACE TEMP TABLE names AS SELECT DISTINCT v FROM ({each})")
        self._refuse_missing(columns, name, self._is_missing(name))
        if any(isinstance(one, str) for one in name.declared):
            return self._unwrapped
        found = dict(self.engine.rows(f"SELECT {self._kind_of('v')} AS k, COUNT(*) FROM names GROUP BY k"))
        right = "text" if not name.declared and found.get("text", 0) > found.get("whole", 0) else "whole"
        for kind in _SAID:
            if kind in found and kind != right:
                place, use, value = self._first(columns, name, lambda raw: f"{self._kind_of(raw)} = '{kind}'")  # noqa: B023
                raise InvalidInput(
                    f"{place}: the {use} {shown(value)} {_SAID[kind]}. Write all alike, bin the column (bins=...), or "
                    f"give {name.kind}=[...] as texts to read all of them as texts."
                )
        return self._unwrapped if right == "text" else _whole

    def _kind_of(self, raw: str) -> str:
        """Return the query for what a name is, as it is written."""
        kinds = (
            f"WHEN regexp_full_match({raw}, '{WHOLE}|{_WHOLE_FLOAT}') THEN 'whole' "
            f"WHEN regexp_full_match({raw}, '{_NUMBER}', 'i') THEN 'number' "
        )
        if self.text.is_json:
            return f"CASE {kinds} WHEN {raw}[1] = '\"' THEN 'text' ELSE 'other' END"
        return f"CASE {kinds} ELSE 'text' END"

    def _is_missing(self, name: _Name) -> Query:
        """Return the condition that a name is missing: blank, or one of the marks of that which is not declared."""
        if self.text.is_json:
            return self._is_none
        marks = ", ".join(literal(mark) for mark in _MISSING if mark not in name.declared)
        return lambda raw: f"{raw} IS NULL OR trim({raw}) = '' OR {raw} IN ({marks or 'NULL'})"

    def _first(self, columns: Columns, name: _Name, condition: Query, *, raw: bool = True) -> tuple[str, str, Any]:
        """Return the place, the use and the value of the first name for which a condition holds."""
        found = []
        for use, column in name.uses:
            value = quoted(column) if raw else self._parts(columns, use)[f"{PARTS[use]}{name.place}"]
            rows = self._wrong_rows(self._before_the_end(columns, use, condition(value)), quoted(column))
            found += [(row, said(use), value) for row, value in rows]
        row, use, value = min(found, key=lambda one: one[0])
        return self._place(row), use, value

    def _refuse_missing(self, columns: Columns, name: _Name, condition: Query) -> None:
        held = " OR ".join(
            f"({condition(f'{PARTS[use]}{name.place}')})" + " AND NOT d" * (use == "next_state") for use, _ in name.uses
        )
        if not self.engine.rows(f"SELECT 1 FROM grouped WHERE {held} LIMIT 1"):
            return
        place, use, value = self._first(columns, name, condition, raw=False)
        bins = columns.bins_of(name.uses[0][0])[name.place]
        is_none = value is None or not str(value).strip() or (self.text.is_json and bins is None)
        rule = "is missing" if is_none or not bins else "must be a number, for it has bins"
        declare = "" if bins or is_none else f", or name it in {name.kind}=[...] if it is a name"
        declare += at_the_end(columns, use.replace(" ", "_"))
        got = "" if is_none else f", got {shown(value)}"
        raise InvalidInput(f"{place}: the {use} {rule}{got}. Mend the row or leave it out{declare}.")

    # --- how rows become steps ------------------------------------------------------------------

    def _parts(self, columns: Columns, use: str) -> dict[str, str]:
        return {
            f"{PARTS[use]}{place}": quoted(column) if bins is None else binned(number(self._value(column), RAW), bins)
            for place, (column, bins) in enumerate(zip(columns.of(use), columns.bins_of(use), strict=True))
        }

    def _value(self, column: str, use: str = "") -> str:
        value = self._unwrapped(quoted(column))
        if self.text.is_json and use in ("episode", "order"):
            value = quoted(column) if use == "episode" else value  # 1 and "1" are two episodes
            return f"CASE WHEN NOT ({self._is_none(quoted(column))}) THEN {value} END"
        return value

    def _done(self, columns: Columns) -> str:
        return truth(self._value(columns.done or ""), RAW)

    def _unwrapped(self, raw: str) -> str:
        """Return the query for a value without the quotes of JSON."""
        return f"json_extract_string({raw}, '$')" if self.text.is_json else raw

    def _is_none(self, raw: str) -> str:
        """Return the condition that a value of JSON is missing: null, or NaN, which Python writes for it."""
        return f"{raw} IS NULL OR {raw} IN ('NaN', 'nan', '-NaN', '-nan')"


def _whole(raw: str) -> str:
    return f"TRY_CAST(regexp_replace({raw}, '\\.0$', '') AS HUGEINT)"
