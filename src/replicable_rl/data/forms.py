"""Types of columns: which hold names, and which name a value of each type is, told to an engine.

What the engine holds is counted as it is. Only the groups that come of it get their names: a million rows cost no
more than their few hundred states.
"""

from __future__ import annotations

import re

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")
_LARGE = ("UBIGINT", "HUGEINT", "UHUGEINT")
WHOLE = ("BIGINT", "HUGEINT")  # of one kind: whole numbers
ZONED = "TIMESTAMP WITH TIME ZONE"
CODED = "CODED"  # numbers of names that Python read
FLOATS = "FLOATS"  # floats that stand for whole numbers: NaN, where one is missing, made floats of them
EMPTY = '"NULL"'  # a column without any value
_PARTS = ("VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "DOUBLE", "UUID", "BLOB", *WHOLE)  # of lists
_NAMES = ("TIMESTAMP_NS", "TIME_NS", "INTERVAL", ZONED, CODED, FLOATS, EMPTY, *_PARTS)


def family(kind: str) -> str:
    """Return one type for all that hold the same names: texts also come as enumerations, with an order of their own.

    >>> family("USMALLINT"), family("DECIMAL(10,0)"), family("FLOAT"), family("INTEGER[]")
    ('BIGINT', 'HUGEINT', 'DOUBLE', 'BIGINT[]')
    """
    if kind.endswith("]") and "(" not in kind:
        inner, bracket, rest = kind.partition("[")
        return family(inner) + bracket + rest
    if kind.startswith("ENUM"):
        return "VARCHAR"
    if kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        return "TIMESTAMP"
    if kind in _LARGE or re.fullmatch(r"DECIMAL\(\d+, ?0\)", kind):
        return "HUGEINT"
    return "BIGINT" if kind in _INTEGERS else "DOUBLE" if kind in ("FLOAT", "REAL") else kind


def are_names(kind: str) -> bool:
    """Whether the values of a type have one written form.

    >>> are_names("DECIMAL(12,2)"), are_names("BIGINT[]"), are_names("STRUCT(a BIGINT)"), are_names("INTERVAL[]")
    (True, True, False, False)
    """
    inner = kind.partition("[")[0] if kind.endswith("]") else ""
    return kind in _NAMES or inner in _PARTS or bool(re.fullmatch(r"DECIMAL\(\d+, ?\d+\)(\[\d*\])*", kind))


def as_name(value: str, kind: str) -> str:
    """Return the query for the name of a value: see :func:`replicable_rl.data.labels.plain`."""
    if kind == "DOUBLE":
        return f"({value} + 0.0)"  # -0.0 is the same name
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return f"CAST(CAST({value} AS VARCHAR) AS DOUBLE)"
    simple = {
        "UUID": f"CAST({value} AS VARCHAR)",
        "BLOB": f"decode({value})",
        "TIMESTAMP_NS": f"CAST({value} AS TIMESTAMP)",
        "TIME_NS": f"CAST({value} AS TIME)",
        ZONED: f"(CAST(make_timestamp(epoch_us({value})) AS VARCHAR) || '+00:00')",
        "INTERVAL": _duration(value),
    }
    return simple.get(kind, value)


def unfit(value: str, kind: str) -> tuple[str, str] | None:
    """Return the condition that a value has no name, and what such values are; None where all values have one."""
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return f"CAST({as_name(value, kind)} AS {kind}) <> {value}", "decimals of more digits than 64 bits hold"
    if kind in ("TIMESTAMP_NS", "TIME_NS"):
        return f"CAST({as_name(value, kind)} AS {kind}) <> {value}", "times finer than a microsecond"
    if kind == "INTERVAL":
        return f"datepart('month', {value}) <> 0 OR datepart('year', {value}) <> 0", "durations of months, not of days"
    return None


def _duration(value: str) -> str:
    us, day = f"epoch_us({value})", 86_400_000_000
    rest = f"(({us} % {day} + {day}) % {day})"
    days = f"(({us} - {rest}) // {day})"
    two = [f"lpad(CAST({rest} // {unit} % {most} AS VARCHAR), 2, '0')" for unit, most in _UNITS]
    fine = f"CASE WHEN {rest} % 1000000 = 0 THEN '' ELSE '.' || lpad(CAST({rest} % 1000000 AS VARCHAR), 6, '0') END"
    sign = f"CASE WHEN {us} < 0 THEN '+' ELSE '' END"
    clock = " || ':' || ".join(two)
    return f"({days} || ' days ' || {sign} || {clock} || {fine})"


_UNITS = ((3_600_000_000, 24), (60_000_000, 60), (1_000_000, 60))
