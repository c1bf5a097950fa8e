"""Which column of a log holds what, of which type it is, and how its names are told to an engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from replicable_rl.data.bins import Binned, Bins, check_bins
from replicable_rl.data.labels import EXACT
from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.wording import brief, listed

PARTS = {"state": "s", "action": "a", "next_state": "t"}  # what the parts of each are called in queries
RAW = "RAW"  # the type of a column of a text file: what it holds is not known before all of it is read
EMPTY = '"NULL"'  # the type of a column without any value
_WHOLE = ("BIGINT", "HUGEINT", "DOUBLE", EMPTY)  # floats must be whole
_NAMES = ("VARCHAR", *_WHOLE)
NUMBERS = (*_WHOLE, "DECIMAL")
_SMALL = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
_LARGE = ("UBIGINT", "UHUGEINT")


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; a state or an action may be several columns, and some of them binned."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
    next_state: tuple[str, ...]
    done: str | None = None
    episode: str | None = None
    order: str | None = None
    bins: Mapping[str, Bins] = field(default_factory=dict)

    def of(self, use: str) -> tuple[str, ...]:
        """Return the columns of one use."""
        columns = getattr(self, use)
        return () if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)

    def bins_of(self, use: str) -> tuple[Bins | None, ...]:
        """Return the bins of every column of one use; next states have those of the states."""
        columns = self.state if use == "next_state" else self.of(use)
        return tuple(self.bins.get(column) for column in columns)

    @property
    def uses(self) -> tuple[str, ...]:
        """What this log has columns for."""
        every = ("state", "action", "reward", "next_state", "done", "episode", "order")
        return tuple(use for use in every if self.of(use))

    @property
    def asked(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        return tuple(dict.fromkeys(name for use in self.uses for name in self.of(use)))

    @property
    def binned(self) -> tuple[Binned, ...]:
        """What of the states and the actions is binned."""
        return tuple(
            Binned(use, place, tuple(bins.edges))
            for use in ("state", "action")
            for place, bins in enumerate(self.bins_of(use))
            if bins is not None
        )


def family(kind: str) -> str:
    """Return one type for all that hold the same values: texts also come as enumerations.

    >>> family("USMALLINT"), family("DECIMAL(10,0)"), family("FLOAT"), family("ENUM('a')")
    ('BIGINT', 'HUGEINT', 'DOUBLE', 'VARCHAR')
    """
    if kind in _LARGE or re.fullmatch(r"DECIMAL\(\d+, ?0\)", kind):
        return "HUGEINT"
    if kind.startswith("ENUM"):
        return "VARCHAR"
    return "BIGINT" if kind in _SMALL else "DOUBLE" if kind in ("FLOAT", "REAL") else kind


def named_columns(bins: Any, **given: Any) -> Columns:
    """Return columns as a user names them."""
    named: dict[str, Any] = {}
    for use in PARTS:
        columns = given[use]
        many = isinstance(columns, (list, tuple)) and columns and all(isinstance(one, str) for one in columns)
        if not isinstance(columns, str) and not many:
            raise InvalidInput(f"from_transitions: {use} must name a column, or several, got {shown(columns)}.")
        named[use] = (columns,) if isinstance(columns, str) else tuple(columns)
    for use in ("reward", "done", "episode", "order"):
        column = given[use]
        if not isinstance(column, str) and not (column is None and use != "reward"):
            raise InvalidInput(f"from_transitions: {use} must name a column, got {shown(column)}.")
        named[use] = column
    if named["state"] == named["next_state"]:  # a part of it may be both: what never changes
        raise InvalidInput(
            f"from_transitions: state and next_state must be two columns, got {shown(given['state'])} for both. Name "
            "the column of the state that comes next."
        )
    if named["order"] is not None and named["episode"] is None:
        raise InvalidInput("from_transitions: order says how the rows of an episode follow each other. Name episode.")
    return Columns(**named, bins=check_bins(bins, named["state"], named["action"]))


def check_header(name: str, columns: Columns, header: Sequence[Any]) -> None:
    """Refuse a header that lacks a column, or has it twice; engines do not tell capitals from small letters."""
    for use in columns.uses:
        for column in columns.of(use):
            if column not in header:
                refuse_column(name, use, column, [str(one) for one in header])
            if list(header).count(column) > 1:
                raise InvalidInput(f"{name}: two columns are called {shown(column)}. Rename one.")
    lowered: dict[str, str] = {}
    for column in columns.asked:
        other = lowered.setdefault(column.lower(), column)
        if other != column:
            raise InvalidInput(f"{name}: the columns {other!r} and {column!r} differ by capitals only. Rename one.")


def check_columns(name: str, columns: Columns, kinds: Mapping[str, str]) -> None:
    """Refuse columns that are not there, or of types that do not go together."""
    for use in columns.uses:
        for column in columns.of(use):
            if column not in kinds:
                refuse_column(name, use, column, tuple(kinds))
    if len(columns.state) != len(columns.next_state):
        raise InvalidInput(
            f"{name}: a state and a next state must be as many columns, got {len(columns.state)} and "
            f"{len(columns.next_state)}."
        )
    for use in PARTS:
        for column, bins in zip(columns.of(use), columns.bins_of(use), strict=True):
            if bins is None and kinds[column] not in (RAW, *_NAMES):
                raise InvalidInput(
                    f"{name}: the column {column!r} holds {brief(kinds[column], 60)}, and a name of {one_of(use)} is a "
                    "text or a whole number. Cast it to text."
                )
            if bins is not None and kinds[column].split("(")[0] not in (*NUMBERS, RAW):
                raise InvalidInput(f"{name}: bins need a column of numbers, got {kinds[column]} in {column!r}.")
    together = zip(columns.state, columns.next_state, columns.bins_of("state"), strict=True)
    for one, other, bins in together:
        if not alike(kinds[one], kinds[other]) and bins is None:
            raise InvalidInput(
                f"{name}: states and next states must be of one type, got {kinds[one]} in {one!r} and "
                f"{kinds[other]} in {other!r}. Convert one of them."
            )


def alike(one: str, other: str) -> bool:
    """Whether two types hold names of one kind; a column without values may be of any."""
    return one == other or {one, other} <= {*_WHOLE} or EMPTY in (one, other)


def refuse_column(name: str, use: str, column: str, names: Sequence[str]) -> NoReturn:
    """Refuse a column that is not there."""
    hint = did_you_mean(column, names) or f" It has {listed(list(names)[:12]) if names else 'no columns'}."
    raise InvalidInput(f"{name}: there is no column {column!r} for {the(use)}.{hint}")


def parts(columns: Columns, use: str, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a state, an action or a next state: what DuckDB calls them, and how it finds them."""
    found = {}
    for place, (column, bins) in enumerate(zip(columns.of(use), columns.bins_of(use), strict=True)):
        if bins is None:
            expression = typed(quoted(column), kinds[column])
        else:
            expression = binned(f"CAST({quoted(column)} AS DOUBLE)", bins)
        found[f"{PARTS[use]}{place}"] = expression
    return found


def typed(value: str, kind: str) -> str:
    """Return a value of a column as what a type says it is."""
    return {EMPTY: value, "DOUBLE": whole(value)}.get(kind, f"CAST({value} AS {kind})")


def whole(value: str) -> str:
    """Return the whole number that a float is; missing where it is none, or so large that others are the same float."""
    number = f"CAST({value} AS DOUBLE)"
    exact = f"CASE WHEN typeof({value}) = 'FLOAT' THEN {2**24} ELSE {EXACT} END"
    fits = f"{number} = floor({number}) AND abs({number}) < {exact}"  # which DuckDB may believe of NaN: see is_nan
    return f"CASE WHEN {fits} THEN TRY_CAST({number} AS BIGINT) END"


def binned(value: str, bins: Bins) -> str:
    """Return the number of the bin of a value; missing where it is missing or no number."""
    steps = " ".join(f"WHEN {value} < {double(edge)} THEN {i}" for i, edge in enumerate(bins.edges))
    return f"CASE WHEN {value} IS NULL OR {is_nan(value)} THEN NULL {steps} ELSE {len(bins.edges)} END"


def is_missing(expressions: Sequence[str], types: Sequence[str] = ()) -> str:
    """Return the condition that one of several values is missing; of floats, what is no number is missing too."""
    each = [f"{one} IS NULL" for one in expressions]
    each += [is_nan(one) for one, kind in zip(expressions, types, strict=False) if kind == "DOUBLE"]
    return f"({' OR '.join(each)})"


def is_nan(value: str) -> str:
    """Return the condition that a float is no number.

    Not by DuckDB's own: files of Parquet say how large their numbers are, without NaN, and it believes them.
    """
    return f"(NOT isfinite({value}) AND NOT isinf({value}))"


def double(value: float) -> str:
    """Return a number for a query, as the float that it is: a plain 0.3 would be a decimal first."""
    return f"CAST('{value!r}' AS DOUBLE)"


def number(expression: str, kind: str) -> str:
    """Return a number, also where it is written as a text; missing where it is none. DuckDB reads '1_0' as 10."""
    value = f"TRY_CAST({expression} AS DOUBLE)"
    return f"CASE WHEN contains({expression}, '_') THEN NULL ELSE {value} END" if kind in ("VARCHAR", RAW) else value


def earned(expression: str, kind: str) -> str:
    """Return a reward: a number, or 1 and 0 for what is true and false; missing where it is neither."""
    found = number(expression, kind)
    return f"COALESCE({found}, CAST({truth(expression, kind)} AS DOUBLE))" if kind in ("VARCHAR", RAW) else found


def packed(names: Sequence[str]) -> str:
    """Return one label of several parts."""
    if len(names) == 1:
        return names[0]
    return "struct_pack(" + ", ".join(f"c{i} := {name}" for i, name in enumerate(names)) + ")"


def literal(name: str | int) -> str:
    """Return a name for a query.

    >>> literal("it's"), literal(3)
    ("'it''s'", '3')
    """
    return str(name) if isinstance(name, int) else "'" + name.replace("'", "''") + "'"


def literals(files: Sequence[str]) -> str:
    """Return files for a query, none of which is taken for a pattern that others fit.

    >>> literals(["log[12].csv"])
    "'log[[]12].csv'"
    """
    return ", ".join(literal(re.sub(r"([*?[])", r"[\1]", file)) for file in files)


def quoted(column: str) -> str:
    """Return a column's name for a query."""
    return '"' + column.replace('"', '""') + '"'


def truth(expression: str, kind: str) -> str:
    """Return what is true or false, also where it is written as 1 or 0; missing where it is neither."""
    if kind == "BOOLEAN":
        return expression
    if kind.split("(")[0] in NUMBERS:
        return f"CASE {expression} WHEN 1 THEN true WHEN 0 THEN false END"
    text = f"lower(CAST({expression} AS VARCHAR))"
    return f"CASE WHEN {text} IN ('true', '1', '1.0') THEN true WHEN {text} IN ('false', '0', '0.0') THEN false END"


def at_the_end(columns: Columns, use: str) -> str:
    """Return what else may be done about a name that is missing: where an episode ends, the next state may be."""
    ends = use == "next_state" and columns.done is None
    return ", or name the column that says where episodes end (done=...)" if ends else ""


def not_whole(value: str) -> str:
    """Return the condition that a float is there, and is no whole number."""
    return f"{value} IS NOT NULL AND NOT {is_nan(value)} AND {whole(value)} IS NULL"


def must_be_whole(use: str, value: float) -> str:
    """Say that a float is no name.

    >>> must_be_whole("next_state", 2.5)
    'the next state must be a text or a whole number below 2**53, got 2.5. Cast all to text, or bin them (bins=...).'
    """
    most = "2**24 in floats of 32 bits" if value.is_integer() and abs(value) < EXACT else "2**53"
    rule = f"must be a text or a whole number below {most}"
    return f"the {said(use)} {rule}, got {value!r}. Cast all to text, or bin them (bins=...)."


def the(use: str) -> str:
    """Return what people call it in a sentence.

    >>> the("next_state"), the("done")
    ('the next state', 'done')
    """
    return use if use == "done" else f"the {said(use)}"


def said(use: str) -> str:
    """Return what people call it."""
    return use.replace("_", " ")


def one_of(use: str) -> str:
    """Return what people call one of them.

    >>> one_of("action"), one_of("next_state")
    ('an action', 'a next state')
    """
    return f"{'an' if use[0] in 'aeiou' else 'a'} {said(use)}"
