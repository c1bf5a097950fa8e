"""Groups of rows get names, and names get numbers.

A row that is wrong makes a group that is wrong, so the checks cost nothing: they look at groups. Only where there is
one, its row is searched for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replicable_rl.data.columns import PARTS, Columns, infinite, is_missing, one_of, packed, said
from replicable_rl.data.forms import as_name, unfit
from replicable_rl.data.labels import Label, plain, written_key
from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from replicable_rl.data.counting import Rows
    from replicable_rl.data.engine import Engine

_MOST_STATES = 2_000_000


def number_groups(rows: Rows, columns: Columns) -> int:
    """Make the tables ``counts``, ``states`` and ``actions`` of ``grouped``; return how many states there are."""
    kinds = _check_groups(rows, columns)
    parts = {use: part_names(columns, use) for use in PARTS}
    names = {use: packed([as_name(part, kinds[part]) for part in parts[use]]) for use in PARTS}
    s, a, t = names.values()
    if columns.done is None and rows.apart and all(names[use] == packed(parts[use]) for use in PARTS):
        rows.engine.rows(f"CREATE TEMP VIEW counts AS SELECT {s} AS s, {a} AS a, {t} AS t, * FROM grouped")
    else:  # several groups may have one name, and all that end have one next state
        rows.engine.rows(
            f"CREATE TEMP TABLE counts AS SELECT {s} AS s, {a} AS a, CASE WHEN d THEN NULL ELSE {t} END AS t, d, "
            f"r + 0.0 AS r, SUM(n) AS n, SUM(early) AS early, SUM(total) AS total FROM grouped "
            "GROUP BY 1, 2, 3, 4, 5"
        )
    return _number_labels(rows.engine)


def part_names(columns: Columns, use: str) -> list[str]:
    """Return what the parts of a state, an action or a next state are called in ``grouped``."""
    return [f"{PARTS[use]}{i}" for i in range(len(columns.of(use)))]


def _check_groups(rows: Rows, columns: Columns) -> dict[str, str]:
    """Refuse labels that are missing or have no written form, and ends that are not true or false; return the types."""
    kinds = {str(name): str(kind) for name, kind, *_ in rows.engine.rows("DESCRIBE grouped")}
    wrong = {}
    for use in PARTS:
        names = part_names(columns, use)
        missing = is_missing(names, [kinds[name] for name in names])
        wrong[use] = f"{missing} AND NOT d" if use == "next_state" else missing
    wrong["done"] = "d IS NULL"
    sums = ", ".join(f"COALESCE(SUM(n) FILTER (WHERE {what}), 0)" for what in wrong.values())
    (found,) = rows.engine.rows(f"SELECT {sums} FROM grouped")
    refuse(rows, columns, dict(zip(wrong, map(int, found), strict=True)))
    for use in PARTS:
        for place, part in enumerate(part_names(columns, use)):
            if kinds[part] == "DOUBLE":
                _refuse_infinite(rows, columns, use, place)
    for use in PARTS:
        for part, column in zip(part_names(columns, use), columns.of(use), strict=True):
            _check_form(rows.engine, part, kinds[part], use, column)
    return kinds


def _refuse_infinite(rows: Rows, columns: Columns, use: str, place: int) -> None:
    """Refuse names that are infinite."""
    part, ends = part_names(columns, use)[place], " AND NOT d" if use == "next_state" else ""
    for (value,) in rows.engine.rows(f"SELECT {part} FROM grouped WHERE isinf({part}){ends} LIMIT 1"):
        raise InvalidInput(infinite(rows.where_part(columns, use, place, value), use, value))


def _check_form(engine: Engine, part: str, kind: str, use: str, column: str) -> None:
    """Refuse a column of which some values have no written form."""
    rows = f"FROM grouped WHERE {'NOT d' if use == 'next_state' else 'true'}"
    condition, what = unfit(part, kind) or ("false", "")
    bad = _undecodable(engine, f"SELECT DISTINCT {part} {rows}") if kind == "BLOB" else None
    if bad is not None:
        condition, what = f"{part} = from_hex('{bad.hex()}')", "bytes that are no text in UTF-8"
    found = engine.rows(f"SELECT CAST({part} AS VARCHAR) {rows} AND ({condition}) LIMIT 1")
    if found:
        raise InvalidInput(
            f"{engine.name}: the column {column!r} holds {what}, such as {shown(found[0][0])}, and names of "
            f"{one_of(use)} need one written form. Convert them to texts."
        )


def _undecodable(engine: Engine, query: str) -> bytes | None:
    """Return the first of some bytes that are no text."""
    for (value,) in engine.rows(query):
        try:
            value.decode()
        except UnicodeDecodeError:
            return bytes(value)
    return None


def _number_labels(engine: Engine) -> int:
    """Make the tables ``states`` and ``actions``, with a number for every label; return how many states there are."""
    engine.rows(
        "CREATE TEMP TABLE states AS SELECT label, row_number() OVER (ORDER BY label) - 1 AS id FROM "
        "(SELECT s AS label FROM counts UNION SELECT t FROM counts WHERE NOT d)"
    )
    engine.rows(
        "CREATE TEMP TABLE actions AS SELECT label, row_number() OVER (ORDER BY label) - 1 AS id FROM "
        "(SELECT DISTINCT a AS label FROM counts)"
    )
    many = int(engine.rows("SELECT COUNT(*) FROM states")[0][0])
    if many > _MOST_STATES:
        raise InvalidInput(
            f"{engine.name}: the log has {many} different states, more than {_MOST_STATES}. Number fewer of them: bin "
            "numeric columns (bins=...), or leave out columns that name single rows."
        )
    return many


def labels_of(engine: Engine, columns: Columns, use: str) -> list[Label]:
    """Return all labels in the order of their numbers; numbers of bins, and of names, become what they stand for."""
    found = [label for (label,) in engine.rows(f"SELECT label FROM {use}s ORDER BY id")]
    stand_for = [
        engine.codes.get(column) if bins is None else bins.labels
        for column, bins in zip(columns.of(use), columns.bins_of(use), strict=True)
    ]
    if len(stand_for) == 1:
        labels = [_label(label, stand_for[0]) for label in found]
    else:  # a composite name, as the engine returns it
        labels = [tuple(map(_label, label.values(), stand_for)) for label in found]
    if any(isinstance(label, tuple) for label in labels) and len(set(map(written_key, labels))) < len(labels):
        raise InvalidInput(
            f"{engine.name}: two different {said(use)}s have one name in 64 bits. Convert them to texts."
        )
    return labels


def _label(value: Any, names: Sequence[Label] | None) -> Label:
    return plain(value) if names is None else names[value]


def refuse(rows: Rows, columns: Columns, wrong: Mapping[str, int]) -> None:
    """Refuse a log in which some use has wrong rows, so many of each."""
    for use, many in wrong.items():
        if many:
            raise InvalidInput(rows.complaint(columns, use, many))
