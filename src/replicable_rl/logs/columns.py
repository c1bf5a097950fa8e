"""Which column of a log holds what, and how a query reads it.

Queries are written in DuckDB's SQL, and where a database may have to answer them, in the part of it that others have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.logs.process import Binned, Bins, check_bins
from replicable_rl.wording import brief, listed

PARTS = {"state": "s", "action": "a", "next_state": "t"}  # what the parts of each name are called in queries
WRITTEN = "WRITTEN"  # the type of a column of a text file: all of its values say together what they are
EMPTY = '"NULL"'  # the type of a column without any value
_SORTS = {
    "whole": r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DECIMAL\(\d+, ?0\)",
    "float": "FLOAT|DOUBLE",
    "text": r"VARCHAR|ENUM\(.*",
    "written": WRITTEN,
    "empty": EMPTY,
    "number": r"DECIMAL\(.*",
}


@dataclass(frozen=True)
class Columns:
    """The columns of every use; a state or an action may be several columns, and some of them binned.

    Without a column of next states, ``follows`` says that the next state is that of the episode's next row; ``ends``
    then says whether an episode ends with its last row, which else is left out.
    """

    uses: Mapping[str, tuple[str, ...]]
    bins: Mapping[str, Bins]
    follows: bool = False
    ends: bool = False
    is_list: bool = False  # of pairs that are allowed, and no log

    def of(self, use: str) -> tuple[str, ...]:
        """Return the columns of one use."""
        return self.uses.get(use, ())

    def bins_of(self, use: str) -> tuple[Bins | None, ...]:
        """Return the bins of every column of one use; next states have those of the states."""
        bins = tuple(self.bins.get(column) for column in self.of("state" if use == "next_state" else use))
        return bins[: len(self.of(use))]

    @property
    def has_ends(self) -> bool:
        """Whether episodes end: a column says so, or their last rows do."""
        return "done" in self.uses or (self.follows and self.ends)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        return tuple(dict.fromkeys(name for names in self.uses.values() for name in names))

    @property
    def binned(self) -> tuple[Binned, ...]:
        """What of the states and the actions is binned."""
        return tuple(
            Binned(use, place, tuple(bins.edges))
            for use in ("state", "action")
            for place, bins in enumerate(self.bins_of(use))
            if bins is not None
        )

    def settled(self, log: str, header: Sequence[str]) -> Columns:
        """Return the columns for a log with this header: where one is called next_state, it holds the next states."""
        if "next_state" in self.uses or self.follows or self.is_list:
            return self
        if "next_state" not in header and {"episode", "order"} <= set(self.uses):
            return replace(self, follows=True)
        if self.ends:
            raise InvalidInput(f"{log}: last='end' is for logs without a column of next states. Name done=... instead.")
        return replace(self, uses={**self.uses, "next_state": ("next_state",)})

    def check(self, log: str, header: Sequence[str], also: str = "") -> None:
        """Refuse a header that lacks columns, all of them in one sentence, or has one twice."""
        missing = [(use, name) for use, names in self.uses.items() for name in names if name not in header]
        if missing:
            what = listed([f"no column {name!r} for {the(use)}" for use, name in missing])
            close = did_you_mean(missing[0][1], header) if len(missing) == 1 else ""
            has = f" It has {listed([brief(name, 40) for name in header[:12]])}." if header else ""
            uses = dict.fromkeys(use for use, _ in missing)
            mend = f" Name {listed([f'{use}=...' for use in uses])}{also and f', and give {also}'}."
            row = " Or name episode=... and order=...: the next row has the next state." if "next_state" in uses else ""
            raise InvalidInput(f"{log}: there is {what}.{close or has}{mend}{row}")
        for name in self.names:
            if header.count(name) > 1:
                raise InvalidInput(f"{log}: two columns are called {shown(name)}. Rename one.")
        small = [name.lower() for name in self.names]
        if len(set(small)) < len(small):  # engines do not tell capitals from small letters
            one, two = (name for name in self.names if small.count(name.lower()) > 1)
            raise InvalidInput(f"{log}: the columns {one!r} and {two!r} differ by capitals only. Rename one.")

    def check_kinds(self, log: str, kinds: Mapping[str, str]) -> None:
        """Refuse columns of types that are no names, or that do not go together."""
        if self.of("next_state") and len(self.of("next_state")) != len(self.of("state")):
            many = f"got {len(self.of('state'))} and {len(self.of('next_state'))}"
            raise InvalidInput(f"{log}: a state and a next state must be as many columns, {many}.")
        for use in PARTS:
            for column, bins in zip(self.of(use), self.bins_of(use), strict=True):
                kind = kinds[column]
                if bins is not None and sort_of(kind) not in ("whole", "float", "number", "written", "empty"):
                    raise InvalidInput(f"{log}: bins need a column of numbers, got {kind} in {column!r}.")
                if bins is None and sort_of(kind) in ("", "number"):
                    a = "an action" if use == "action" else f"a {use.replace('_', ' ')}"
                    raise InvalidInput(
                        f"{log}: the column {column!r} holds {brief(kind, 60)}, and a name of {a} is a text or a whole "
                        "number. Cast it to text."
                    )
        for one, two, bins in zip(self.of("state"), self.of("next_state"), self.bins_of("state"), strict=False):
            sorts = {sort_of(kinds[one]), sort_of(kinds[two])} - {"empty"}
            if bins is None and len(sorts) > 1 and sorts != {"whole", "float"}:
                raise InvalidInput(
                    f"{log}: states and next states must be of one type, got {kinds[one]} in {one!r} and {kinds[two]} "
                    f"in {two!r}. Cast both to text."
                )

    def parts(self, use: str, kinds: Mapping[str, str]) -> Iterator[str]:
        """Yield the queries for the parts of a name: the values, or the numbers of their bins."""
        for column, bins in zip(self.of(use), self.bins_of(use), strict=True):
            value = "NULL" if kinds[column] == EMPTY else quoted(column)
            yield value if bins is None else _bin(as_number(value, kinds[column]), bins)


def named_columns(bins: Any, last: str = "drop", **given: Any) -> Columns:
    """Return columns as a user names them."""
    uses: dict[str, tuple[str, ...]] = {}
    for use, value in given.items():
        several = use in PARTS
        names = tuple(value) if several and isinstance(value, (list, tuple)) else (value,)
        if not names or not all(isinstance(name, str) for name in names):
            if value is None and use not in ("state", "action", "reward"):
                continue
            rule = "must name a column, or several" if several else "must name a column"
            raise InvalidInput(f"from_transitions: {use} {rule}, got {shown(value)}.")
        uses[use] = names
    if uses["state"] == uses.get("next_state"):  # a part of it may be both: what never changes
        raise InvalidInput(
            f"from_transitions: state and next_state must be two columns, got {shown(given['state'])} for both. Name "
            "the column of the state that comes next."
        )
    if "order" in uses and "episode" not in uses:
        raise InvalidInput("from_transitions: order says how the rows of an episode follow each other. Name episode.")
    if last not in ("drop", "end"):
        raise InvalidInput(f"from_transitions: last must be 'drop' or 'end', got {shown(last)}.")
    return Columns(uses, check_bins(bins, (*uses["state"], *uses["action"])), ends=last == "end")


def sort_of(kind: str) -> str:
    """Return what a type of DuckDB holds: "whole" numbers, "float", "text", ...; nothing for what is never read.

    >>> sort_of("USMALLINT"), sort_of("DECIMAL(10,0)"), sort_of("ENUM('a')"), sort_of("DATE")
    ('whole', 'whole', 'text', '')
    """
    return next((sort for sort, pattern in _SORTS.items() if re.fullmatch(pattern, kind)), "")


def finite(value: str) -> str:
    """Return a number, or NULL where it is not finite.

    By arithmetic, which every database has; files of Parquet say how large their numbers are without NaN, and DuckDB
    believes them in comparisons.
    """
    return f"CASE WHEN {value} - {value} = 0 THEN {value} END"


def as_number(value: str, kind: str) -> str:
    """Return a number, also where it is written as a text; NULL where it is none. DuckDB reads '1_0' as 10."""
    if sort_of(kind) not in ("text", "written"):
        return f"CAST({value} AS DOUBLE)"
    return f"CASE WHEN NOT contains({value}, '_') THEN TRY_CAST({value} AS DOUBLE) END"


def reward(value: str, kind: str) -> str:
    """Return a reward: a number, or 1 and 0 for what is true and false; NULL where it is neither."""
    if kind == "BOOLEAN":
        return f"CASE WHEN {value} THEN 1.0 WHEN NOT {value} THEN 0.0 END"
    found = as_number(value, kind)
    if sort_of(kind) in ("text", "written"):
        found = f"COALESCE({found}, CAST({truth(value, kind)} AS DOUBLE))"
    return f"{found} + 0.0"  # -0.0 is the same reward


def truth(value: str, kind: str) -> str:
    """Return what is true or false, also where it is written as 1 or 0; NULL where it is neither."""
    if kind == "BOOLEAN":
        return value
    if sort_of(kind) in ("text", "written"):
        text = f"lower(CAST({value} AS VARCHAR))"
        return f"CASE WHEN {text} IN ('true', '1', '1.0') THEN true WHEN {text} IN ('false', '0', '0.0') THEN false END"
    return f"CASE WHEN {value} = 1 THEN true WHEN {value} = 0 THEN false END"


def _bin(value: str, bins: Bins) -> str:
    """Return the number of the bin of a value; NULL where it is missing or not finite."""
    steps = " ".join(f"WHEN {value} < {double(edge)} THEN {i}" for i, edge in enumerate(bins.edges))
    return f"CASE WHEN {value} - {value} = 0 THEN CASE {steps} ELSE {len(bins.edges)} END END"


def double(value: float) -> str:
    """Return a number for a query, as the float that it is: a plain 0.3 would be a decimal first."""
    return f"CAST('{value!r}' AS DOUBLE)"


def literal(text: str) -> str:
    """Return a text for a query.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quoted(column: str) -> str:
    """Return a column's name for a query."""
    return '"' + column.replace('"', '""') + '"'


def the(use: str) -> str:
    """Return what people call it in a sentence.

    >>> the("next_state"), the("done")
    ('the next state', 'done')
    """
    return use if use == "done" else f"the {use.replace('_', ' ')}"
