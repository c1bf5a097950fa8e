"""What names in a text file are: whole numbers, numbers, truth values, dates, times, or texts.

All different names of a column decide, never the first rows. Two ways to write a name are two names, or refused: '01'
and '1' never become one. The one exception are states that are whole numbers: 2.0 is the state 2 (`floats_of_pandas`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from replicable_rl.data.columns import RAW, number
from replicable_rl.data.labels import MOST_DIGITS

_WHOLE = f"-?(0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})"
_WITHOUT, _WITH_ZERO = f"0|-?[1-9][0-9]{{0,{MOST_DIGITS - 1}}}", r"(0|-?[1-9][0-9]{0,14})\.0"  # 0 has no sign
_NUMBER = r"-?((0|[1-9][0-9]{0,14})\.([0-9]*[1-9]|0)|[1-9](\.[0-9]*[1-9])?e[-+][0-9]{2,3})"  # as Python writes floats
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = rf"{_DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?"
FORMS = {  # of names in a text file, by the type that they get where all of them fit
    "HUGEINT": _WHOLE,
    "DOUBLE": f"{_WHOLE}|{_NUMBER}",
    "BOOLEAN": "true|false|True|False",
    "DATE": _DATE,
    "TIMESTAMP": _TIME,
}
TYPES = {"whole": "HUGEINT", "number": "DOUBLE", "truth": "BOOLEAN", "date": "DATE", "time": "TIMESTAMP"}
BLANKS = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
BLANKS += "\u2028\u2029\u202f\u205f\u3000\u200b\u2060\ufeff"  # the last three have no width
MISSING = ("NA", "N/A", "NULL", "null", "NaN", "nan")


def kind_of(raw: str, is_json: bool) -> str:
    """Return the query for what a name is, as it is written."""
    value = unwrapped(raw, is_json)
    times = (
        f"WHEN regexp_full_match({value}, '{_DATE}') AND TRY_CAST({value} AS DATE) IS NOT NULL THEN 'date' "
        f"WHEN regexp_full_match({value}, '{_TIME}') AND TRY_CAST({value} AS TIMESTAMP) IS NOT NULL THEN 'time' "
    )
    if is_json:
        return (
            f"CASE WHEN {raw}[1] IN ('[', '{{') THEN 'other' WHEN {raw} IN ('true', 'false') THEN 'truth' "
            f"WHEN {raw}[1] <> '\"' THEN CASE WHEN regexp_full_match({raw}, '{_WHOLE}') THEN 'whole' ELSE 'number' END "
            f"{times} ELSE 'text' END"
        )
    return (
        f"CASE WHEN regexp_full_match({raw}, '{_WHOLE}') THEN 'whole' "
        f"WHEN regexp_full_match({raw}, '{_NUMBER}') THEN 'number' "
        f"WHEN {raw} IN ('true', 'false', 'True', 'False') THEN 'truth' {times} ELSE 'text' END"
    )


def trimmed(raw: str) -> str:
    """Return the query for a value without blanks at its ends, also those that nobody sees."""
    return f"trim({raw}, '{BLANKS}')"


def is_none_of_json(raw: str) -> str:
    """Return the condition that a value of JSON is missing: null, or NaN, which Python writes for it."""
    return f"{raw} IS NULL OR {raw} IN ('NaN', 'nan', '-NaN', '-nan')"


def unwrapped(raw: str, is_json: bool) -> str:
    """Return the query for a value without the quotes of JSON."""
    return f"json_extract_string({raw}, '$')" if is_json else raw


def cast(raw: str, kind: str, is_json: bool) -> str:
    """Return the query for a name of a kind; missing where it is none."""
    value = unwrapped(raw, is_json)
    if kind == "number":
        return number(value, RAW)
    return value if kind == "text" else f"TRY_CAST({value} AS {TYPES[kind]})"


def decided(many: Mapping[str, int]) -> tuple[str, str | None]:
    """Return what names are, by how many different ones are of each kind, and the kind that is out of place.

    >>> decided({"whole": 3}), decided({"whole": 3, "number": 1}), decided({"whole": 3, "text": 1})
    (('whole', None), ('number', None), ('whole', 'text'))
    """
    if set(many) == {"whole", "number"}:
        return "number", None
    order = sorted(many, key=lambda kind: (kind == "other", -many[kind], kind == "text"))
    if order[0] == "other":
        return "text", "other"
    wrong = [kind for kind in order if {kind, order[0]} - {"whole", "number"} and kind != order[0]]
    return order[0], wrong[-1] if wrong else None


def floats_of_pandas(rows: Callable[[str], list[Any]], is_json: bool, declared: str | None) -> bool:
    """Whether the table ``names`` holds whole numbers of which some are written 2.0, and no other names.

    A column of whole numbers becomes one of floats in pandas as soon as one of them is missing, as the next state is
    where an episode ends. The state 2 is then 2.0 in the column of next states. Where all are written so, they are
    floats, unless whole numbers are ``declared``.
    """
    if declared not in (None, "whole"):
        return False
    fits = (f"regexp_full_match({unwrapped('v', is_json)}, '{form}')" for form in (_WITHOUT, _WITH_ZERO))
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {one})" for one in fits)
    ((every, whole, floats),) = rows(f"SELECT COUNT(*), {counts} FROM names")
    return floats > 0 and whole + floats == every and (whole > 0 or declared is not None)


def literal(value: Any) -> str:
    """Return a name for a query.

    >>> literal("it's"), literal(3), literal(True), literal(datetime.date(2026, 1, 31))
    ("'it''s'", '3', 'true', "CAST('2026-01-31' AS DATE)")
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (datetime.datetime, datetime.date)):
        kind = "TIMESTAMP" if isinstance(value, datetime.datetime) else "DATE"
        return f"CAST('{value}' AS {kind})"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
