"""Rows of text files: grouped as they are written; then all different names say what they are.

What is refused is refused with the file and the line, which are searched for only then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from replicable_rl.data import labels, naming
from replicable_rl.data.columns import (
    PARTS,
    RAW,
    Columns,
    at_the_end,
    binned,
    infinite,
    number,
    packed,
    quoted,
    said,
    truth,
)
from replicable_rl.data.counting import EpisodeFlaws, Facts
from replicable_rl.data.local import LocalRows
from replicable_rl.data.naming import literal
from replicable_rl.data.text import TextFiles
from replicable_rl.data.wholes import Declared, declared_kind, part_of
from replicable_rl.errors import InvalidInput, shown

Query = Callable[[str], str]  # of an expression


class _Name(NamedTuple):
    """One column of names: states and next states together, or actions."""

    kind: str  # "states" or "actions"
    place: int
    uses: tuple[tuple[str, str], ...]  # (use, column)
    declared: tuple[Any, ...] | None


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
    def apart(self) -> bool:
        """Whether two groups differ in what a part or the reward is, not only in how it is written."""
        return not self._mended

    @property
    def _has_files(self) -> bool:
        """Whether the steps say in which of several files they are: where episodes could be in two of them."""
        return self.text.has_files

    def group(self, columns: Columns, facts: Facts) -> bool:
        """Make the table ``grouped``, of rows with the same texts, and then of the names that these are."""
        ordered = super().group(columns, facts)
        self._refuse_done(columns)
        self._casts: dict[str, list[Query]] = {use: [_as_it_is] * len(columns.of(use)) for use in PARTS}
        self._mended: set[int] = set()  # parts of states that are written in two ways, 2 and 2.0
        for name in self._names(columns):
            made = self._decide(columns, name)
            for use, _ in name.uses:
                self._casts[use][name.place] = made
        parts = {
            f"{letter}{i}": made(f"{letter}{i}")
            for use, letter in PARTS.items()
            for i, made in enumerate(self._casts[use])
        }
        if any(name != query for name, query in parts.items()):  # else all names are texts, and stay what they are
            self.engine.rows("ALTER TABLE grouped RENAME TO written")
            chosen = ", ".join(f"{query} AS {name}" for name, query in parts.items())
            self.engine.rows(f"CREATE TEMP TABLE grouped AS SELECT {chosen}, d, r, n, early, total FROM written")
        return ordered

    def first(self, columns: Columns) -> EpisodeFlaws:
        """Make the table ``firsts``, of names."""
        found = super().first(columns)
        self.engine.rows("ALTER TABLE firsts RENAME TO written_firsts")
        many = len(columns.state)
        parts = [self._casts["state"][i](f"s.c{i}" if many > 1 else "s") for i in range(many)]
        self.engine.rows(
            f"CREATE TEMP TABLE firsts AS SELECT {packed(parts)} AS s, SUM(n) AS n FROM written_firsts GROUP BY 1"
        )
        return found

    def _compared(self, place: int, part: str) -> str:
        return self._casts["state"][place](part) if place in self._mended else part

    # --- what is said of a row that is wrong ------------------------------------------------------------

    def _named(self, use: str, place: int, column: str, part: str) -> str:
        return self._casts[use][place](part)

    def _place(self, row: Any) -> str:
        return self.text.place(row)

    def _search(self, cases: Sequence[tuple[str, str, str]]) -> tuple[int, str, Any]:
        """Return the first row in which a condition holds, of which use it is, and the value there."""
        found = []
        for use, column, condition in cases:
            rows = self._wrong_rows(condition, quoted(column))
            found += [(row, use, value) for row, value in rows]
        return min(found, key=lambda one: one[0])

    def _refuse_done(self, columns: Columns) -> None:
        if columns.done is None:
            return
        many = int(self.engine.rows("SELECT COALESCE(SUM(n) FILTER (WHERE d IS NULL), 0) FROM grouped")[0][0])
        if many:
            raise InvalidInput(self.complaint(columns, "done", many))

    # --- names ----------------------------------------------------------------------------------------

    def _names(self, columns: Columns) -> list[_Name]:
        found = []
        for kind, uses, declared in zip(
            ("states", "actions"), (("state", "next_state"), ("action",)), self.declared, strict=True
        ):
            for place, bins in enumerate(columns.bins_of(uses[0])):
                pairs = tuple((use, columns.of(use)[place]) for use in uses)
                if bins is None:
                    found.append(_Name(kind, place, pairs, part_of(declared, place, len(columns.of(uses[0])))))
                else:
                    self._refuse_missing(columns, _Name(kind, place, pairs, None), _is_null)
        return found

    def _decide(self, columns: Columns, name: _Name) -> Query:
        """Return how the names of a column are read; refuse those that are missing or of several kinds."""
        is_json = self.text.is_json
        letters = [f"{PARTS[use]}{name.place}" for use, _ in name.uses]
        ends = ["" if use != "next_state" else " WHERE NOT d" for use, _ in name.uses]
        each = " UNION ALL ".join(
            f"SELECT {one} AS v FROM grouped{end}" for one, end in zip(letters, ends, strict=True)
        )
        self.engine.rows(f"CREATE OR REPLACE TEMP TABLE names AS SELECT DISTINCT v FROM ({each})")
        is_missing = naming.is_none_of_json if is_json else self._is_missing(name)
        if self.engine.rows(f"SELECT 1 FROM names WHERE {is_missing('v')} LIMIT 1"):
            self._refuse_missing(columns, name, is_missing)
        self._refuse_blanks(columns, name)
        asked = declared_kind(name.declared or ())
        floats = asked == "whole" or name.kind == "states"
        if floats and naming.floats_of_pandas(self.engine.rows, is_json, asked):
            self._mended.add(name.place)
            return partial(naming.cast, kind="whole", is_json=is_json)
        if asked is None:
            counts = self.engine.rows(f"SELECT {naming.kind_of('v', is_json)} AS k, COUNT(*) FROM names GROUP BY k")
            kind, wrong = naming.decided({str(k): int(many) for k, many in counts})
            if kind in ("whole", "number"):
                self._refuse_infinite(columns, name)
            if wrong is not None:
                self._refuse_kind(columns, name, kind, wrong)
            if kind == "number":
                self._refuse_large(columns, name)
        else:
            kind = asked
            self._refuse_undeclared(columns, name, kind)

        has_blank = "" in (name.declared or ()) and kind == "text"

        def made(raw: str) -> str:
            value = naming.cast(raw, kind, is_json)
            return f"COALESCE({value}, '')" if has_blank else value

        self._refuse_two_ways(columns, name, made)
        return made

    def _is_missing(self, name: _Name) -> Query:
        """Return the condition that a name is blank, or one of the marks of a missing value that is not declared."""
        known = {one for one in name.declared or () if isinstance(one, str)}
        marks = ", ".join(literal(mark) for mark in naming.MISSING if mark not in known)
        also = f" OR {{}} IN ({marks})" if marks else ""
        declared = ", ".join(literal(one) for one in known if not one.strip(naming.BLANKS))
        blank = f" AND {{}} NOT IN ({declared})" if declared else ""
        null = "false" if "" in known else "{} IS NULL"
        return lambda raw: f"{null.format(raw)} OR ({naming.trimmed(raw)} = ''{blank.format(raw)})" + also.format(raw)

    def _refused(self, columns: Columns, name: _Name, condition: Query) -> tuple[str, str, Any]:
        """Return the place, the use and the value of the first name for which a condition holds."""
        cases = [
            (use, column, self._before_the_end(columns, use, condition(quoted(column)))) for use, column in name.uses
        ]
        row, use, value = self._search(cases)
        return self.text.place(row), said(use), value

    def _refuse_missing(self, columns: Columns, name: _Name, condition: Query) -> None:
        for use, column in name.uses:
            part = f"{PARTS[use]}{name.place}"
            held = f"({condition(part)})" + (" AND NOT d" if use == "next_state" else "")
            ((many,),) = self.engine.rows(f"SELECT COALESCE(SUM(n), 0) FROM grouped WHERE {held}")
            if not many:
                continue
            expression = self._parts(columns, use)[part]
            wrong = self._before_the_end(columns, use, condition(expression))
            row, _, value = self._search([(use, column, wrong)])
            bins = columns.bins_of(use)[name.place]
            is_none = value is None or not str(value).strip() or (self.text.is_json and bins is None)
            got = "" if is_none else f", got {shown(value)}"
            more = f" ({many} rows are wrong)" if many > 1 else ""
            rule = "must be a number, for it has bins" if bins and got else "is missing"
            declare = "" if bins or not got else f", or name it in {name.kind}=[...] if it is a name"
            declare += at_the_end(columns, use)
            raise InvalidInput(
                f"{self.text.place(row)}: the {said(use)} {rule}{got}{more}. Mend the row or leave it out{declare}."
            )

    def _refuse_blanks(self, columns: Columns, name: _Name) -> None:
        if self.text.is_json:
            return
        known = ", ".join(literal(one) for one in name.declared or () if isinstance(one, str))

        def condition(raw: str) -> str:
            return f"{raw} <> {naming.trimmed(raw)}" + (f" AND {raw} NOT IN ({known})" if known else "")

        if self.engine.rows(f"SELECT 1 FROM names WHERE {condition('v')} LIMIT 1"):
            place, use, value = self._refused(columns, name, condition)
            raise InvalidInput(
                f"{place}: the {use} {shown(value)} begins or ends with a blank. Take it away, or name it so in "
                f"{name.kind}=[...]."
            )

    def _refuse_kind(self, columns: Columns, name: _Name, kind: str, wrong: str) -> None:
        def has(kind: str) -> Query:
            return lambda raw: f"{naming.kind_of(raw, self.text.is_json)} = '{kind}'"

        place, use, value = self._refused(columns, name, has(wrong))
        if wrong == "other":
            raise InvalidInput(f"{place}: the {use} must be a text, a number or a truth value, got {shown(value)}.")
        ((example,),) = self.engine.rows(f"SELECT MIN(v) FROM names WHERE {has(kind)('v')}")
        raise InvalidInput(
            f"{place}: the {use} {shown(value)} is {labels.a(wrong)}, and others are {labels.several(kind)}, such as "
            f"{shown(example)}. Write them alike, or give {name.kind}=[...] as texts to read all of them as texts."
        )

    def _refuse_infinite(self, columns: Columns, name: _Name) -> None:
        """Refuse what is infinite among numbers."""

        def condition(raw: str) -> str:
            return f"COALESCE(isinf({number(raw, RAW)}), false)"

        if self.engine.rows(f"SELECT 1 FROM names WHERE {condition('v')} LIMIT 1"):
            place, use, value = self._refused(columns, name, condition)
            raise InvalidInput(infinite(place, use, value))

    def _refuse_large(self, columns: Columns, name: _Name) -> None:
        """Refuse whole numbers among others that floats would round."""

        def condition(raw: str) -> str:
            return f"regexp_full_match({raw}, '-?[0-9]+') AND abs(TRY_CAST({raw} AS DOUBLE)) >= {labels.EXACT}"

        if self.engine.rows(f"SELECT 1 FROM names WHERE {condition('v')} LIMIT 1"):
            place, use, value = self._refused(columns, name, condition)
            raise InvalidInput(
                f"{place}: the {use} {shown(value)} is too large for a float, and others are floats. Give "
                f"{name.kind}=[...] as texts to read all of them as texts."
            )

    def _refuse_undeclared(self, columns: Columns, name: _Name, kind: str) -> None:
        """Refuse what is not a number where numbers are declared."""
        if kind == "text":
            return

        def condition(raw: str) -> str:
            value = naming.unwrapped(raw, self.text.is_json)
            # A cast would round 1.5 to a whole number.
            whole = f"NOT regexp_full_match({value}, '-?[0-9]+') OR " if kind == "whole" else ""
            return f"{whole}{naming.cast(raw, kind, self.text.is_json)} IS NULL"

        if self.engine.rows(f"SELECT 1 FROM names WHERE {condition('v')} LIMIT 1"):
            place, use, got = self._refused(columns, name, condition)
            raise InvalidInput(
                f"{place}: the {use} {shown(got)} is not {labels.a(kind)}, and those in {name.kind}=[...] are. Mend "
                "the row, or declare texts."
            )

    def _refuse_two_ways(self, columns: Columns, name: _Name, made: Query) -> None:
        query = f"SELECT MIN(v), MAX(v) FROM names GROUP BY {made('v')} HAVING COUNT(*) > 1 LIMIT 1"
        for one, two in self.engine.rows(query):
            pair = f"{literal(one)}, {literal(two)}"
            place, use, value = self._refused(columns, name, partial(_is_one_of, pair))
            other = two if value == one else one
            raise InvalidInput(
                f"{place}: the {use} {shown(value)} is written {shown(other)} elsewhere. Write it in one way, or give "
                f"{name.kind}=[...] as texts if they are two."
            )

    # --- how rows become steps ------------------------------------------------------------------

    def _parts(self, columns: Columns, use: str) -> dict[str, str]:
        return {
            f"{PARTS[use]}{place}": quoted(column) if bins is None else binned(number(self._value(column), RAW), bins)
            for place, (column, bins) in enumerate(zip(columns.of(use), columns.bins_of(use), strict=True))
        }

    def _value(self, column: str, use: str = "") -> str:
        value = naming.unwrapped(quoted(column), self.text.is_json)
        if self.text.is_json and use in ("episode", "order"):
            return f"CASE WHEN NOT ({naming.is_none_of_json(quoted(column))}) THEN {value} END"
        return value

    def _done(self, columns: Columns) -> str:
        return truth(self._value(columns.done or ""), RAW)


def _as_it_is(raw: str) -> str:
    return raw


def _is_one_of(values: str, raw: str) -> str:
    return f"{raw} IN ({values})"


def _is_null(raw: str) -> str:
    return f"{raw} IS NULL"
