"""Groups of rows get names, and names get numbers.

A row that is wrong makes a group that is wrong, so the checks cost nothing: they look at groups. Only where there is
one, its row is searched for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicable_rl.data.columns import PARTS, Columns, is_missing, packed
from replicable_rl.errors import InvalidInput

if TYPE_CHECKING:
    from replicable_rl.data.bins import Bins
    from replicable_rl.data.counting import Rows
    from replicable_rl.data.engine import Engine
    from replicable_rl.data.labels import Label

_MOST_STATES = 2_000_000


def number_groups(rows: Rows, columns: Columns) -> int:
    """Make the tables ``counts``, ``states`` and ``actions`` of ``grouped``; return how many states there are."""
    _check_groups(rows, columns)
    s, a, t = (packed(part_names(columns, use)) for use in PARTS)
    # Several groups may have one name, written in two ways, and all that end have one next state.
    rows.engine.rows(
        f"CREATE TEMP TABLE counts AS SELECT {s} AS s, {a} AS a, CASE WHEN d THEN NULL ELSE {t} END AS t, d, "
        "r + 0.0 AS r, SUM(n) AS n, SUM(early) AS early, SUM(total) AS total FROM grouped GROUP BY 1, 2, 3, 4, 5"
    )
    return _number_labels(rows.engine)


def part_names(columns: Columns, use: str) -> list[str]:
    """Return what the parts of a state, an action or a next state are called in ``grouped``."""
    return [f"{PARTS[use]}{i}" for i in range(len(columns.of(use)))]


def _check_groups(rows: Rows, columns: Columns) -> None:
    """Refuse names that are missing or no names, and ends that are not true or false."""
    wrong = {}
    for use in PARTS:
        missing = is_missing(part_names(columns, use))
        wrong[use] = f"{missing} AND NOT d" if use == "next_state" else missing
    wrong["done"] = "d IS NULL"
    sums = ", ".join(f"COALESCE(SUM(n) FILTER (WHERE {what}), 0)" for what in wrong.values())
    (found,) = rows.engine.rows(f"SELECT {sums} FROM grouped")
    refuse(rows, columns, dict(zip(wrong, map(int, found), strict=True)))


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
    """Return all labels in the order of their numbers; numbers of bins become what they stand for."""
    found = [label for (label,) in engine.rows(f"SELECT label FROM {use}s ORDER BY id")]
    every = columns.bins_of(use)
    if len(every) == 1:
        return [_label(label, every[0]) for label in found]
    return [tuple(map(_label, label.values(), every)) for label in found]  # as the engine returns several parts


def _label(name: Any, bins: Bins | None) -> Label:
    return name if bins is None else bins.labels[name]


def refuse(rows: Rows, columns: Columns, wrong: Mapping[str, int]) -> None:
    """Refuse a log in which some use has wrong rows, so many of each."""
    for use, many in wrong.items():
        if many:
            raise InvalidInput(rows.complaint(columns, use, many))
