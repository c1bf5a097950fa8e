"""One GROUP BY where the rows are: from a log to counts of its transitions.

Nothing depends on the order of rows or on threads. Rewards that take few values are counted value by value; where they
take many, they are added up as whole numbers of 2**-k, which is exact, and not as floats, which is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.data.process import Label, plain, spoken, written_key
from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.wording import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.source import Log

_MOST_STATES = 2_000_000
_MANY_REWARDS = 1000  # different values: more are added up
_MOST_ORDERED = 20_000_000  # rows whose order is looked at
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
_FEW_BITS = 60  # of the largest reward, as a whole number


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; a state may be several columns."""

    state: str | tuple[str, ...]
    action: str | tuple[str, ...]
    reward: str
    next_state: str | tuple[str, ...]
    done: str | None = None
    episode: str | None = None

    def named(self) -> dict[str, str]:
        """Return every column with what it is for."""
        named: dict[str, str] = {}
        for use in ("state", "action", "reward", "next_state", "done", "episode"):
            columns = getattr(self, use)
            for column in (columns,) if isinstance(columns, str) else columns or ():
                named[column] = use
        return named


@dataclass(frozen=True)
class Counted:
    """What a log says: labels, and counts of (state, action, next state, reward); -1 is the state after the end."""

    states: list[Label]
    actions: list[Label]
    state: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    reward: NDArray[np.float64]
    count: NDArray[np.int64]
    early: NDArray[np.int64] | None  # of these, in the first half of the rows
    starts: NDArray[np.int64] | None  # episodes that began in each state
    broken: int  # steps of episodes that do not go on where the one before ended
    rewards_added_up: bool


def counted(log: Log, columns: Columns) -> Counted:
    """Count the transitions of a log."""
    kinds = {str(name): _family(str(kind)) for name, kind, *_ in log.rows("DESCRIBE SELECT * FROM log")}
    _check_columns(log, columns, kinds)
    s, a, t = (_label(getattr(columns, use), kinds) for use in ("state", "action", "next_state"))
    r = f"CAST({_quoted(columns.reward)} AS DOUBLE)"
    done = "false" if columns.done is None else f"CAST({_quoted(columns.done)} AS BOOLEAN)"
    rows, distinct, largest = _checked_values(log, columns, kinds, done)
    ordered = rows <= _MOST_ORDERED
    half = f"row_number() OVER () <= {rows // 2}" if ordered else "false"
    adds = distinct > _MANY_REWARDS
    scale = 2.0 ** (_FEW_BITS - (math.frexp(largest)[1] if largest else 0))
    value = "0.0" if adds else "r"
    total = f"SUM(CAST(ROUND(r * {scale!r}) AS HUGEINT))" if adds else "0"
    log.rows(
        f"CREATE TEMP TABLE counts AS SELECT s, a, t, d, {value} AS r, COUNT(*) AS n, "
        f"COUNT(*) FILTER (WHERE h) AS early, {total} AS total FROM (SELECT {s} AS s, {a} AS a, {done} AS d, "
        f"CASE WHEN {done} THEN NULL ELSE {t} END AS t, {r} + 0.0 AS r, {half} AS h FROM log) "
        f"GROUP BY s, a, t, d, {value}"
    )
    log.rows(
        "CREATE TEMP TABLE states AS SELECT label, row_number() OVER (ORDER BY label) - 1 AS id FROM "
        "(SELECT s AS label FROM counts UNION SELECT t FROM counts WHERE NOT d)"
    )
    log.rows(
        "CREATE TEMP TABLE actions AS SELECT label, row_number() OVER (ORDER BY label) - 1 AS id FROM "
        "(SELECT DISTINCT a AS label FROM counts)"
    )
    many = log.rows("SELECT COUNT(*) FROM states")[0][0]
    if many > _MOST_STATES:
        raise InvalidInput(
            f"{log.name}: the log has {many} different states, more than {_MOST_STATES}. Number fewer of them: bin "
            "numeric columns, or leave out columns that name single rows."
        )
    found = log.arrays(
        "SELECT x.id AS s, y.id AS a, COALESCE(z.id, -1) AS t, c.r AS r, c.n AS n, c.early AS early, "
        "CAST(c.total AS DOUBLE) AS total FROM counts c JOIN states x ON c.s = x.label JOIN actions y ON c.a = y.label "
        "LEFT JOIN states z ON c.t = z.label"
    )
    n = found["n"].astype(np.int64)
    reward = found["total"].astype(np.float64) / scale / n if adds else found["r"].astype(np.float64)
    starts, broken = _episodes(log, columns, s, t, many) if columns.episode is not None else (None, 0)
    labels = {
        name: [plain(one) for (one,) in log.rows(f"SELECT label FROM {name} ORDER BY id")]
        for name in ("states", "actions")
    }
    return Counted(
        labels["states"],
        labels["actions"],
        found["s"].astype(np.int64),
        found["a"].astype(np.int64),
        found["t"].astype(np.int64),
        reward,
        n,
        found["early"].astype(np.int64) if ordered else None,
        starts,
        broken,
        adds,
    )


def _episodes(log: Log, columns: Columns, s: str, t: str, many: int) -> tuple[NDArray[np.int64], int]:
    """Return in which states episodes began, and how many steps do not go on where the one before ended."""
    log.rows(
        f"CREATE TEMP TABLE steps AS SELECT {_quoted(columns.episode or '')} AS e, {s} AS s, {t} AS t, "
        "row_number() OVER () AS i FROM log"
    )
    first = log.arrays(
        "SELECT x.id AS s, COUNT(*) AS n FROM (SELECT arg_min(s, i) AS s FROM steps GROUP BY e) f "
        "JOIN states x ON f.s = x.label GROUP BY x.id"
    )
    starts = np.zeros(many, dtype=np.int64)
    starts[first["s"].astype(np.int64)] = first["n"].astype(np.int64)
    broken = log.rows(
        "SELECT COUNT(*) FROM (SELECT s, lag(t) OVER (PARTITION BY e ORDER BY i) AS came FROM steps) "
        "WHERE came IS NOT NULL AND came <> s"
    )
    return starts, int(broken[0][0])


def _check_columns(log: Log, columns: Columns, kinds: dict[str, str]) -> None:
    for column, use in columns.named().items():
        if column not in kinds:
            hint = did_you_mean(column, kinds) or f" It has {listed(list(kinds)[:12])}."
            raise InvalidInput(f"{log.name}: there is no column {column!r} for the {_said(use)}.{hint}")
    for one, other in zip(_listed(columns.state), _listed(columns.next_state), strict=False):
        if kinds[one] != kinds[other]:
            raise InvalidInput(
                f"{log.name}: states and next states must be of one type, got {kinds[one]} in {one!r} and "
                f"{kinds[other]} in {other!r}. Convert one of them."
            )
    if len(_listed(columns.state)) != len(_listed(columns.next_state)):
        raise InvalidInput(
            f"{log.name}: a state and a next state must be as many columns, got {len(_listed(columns.state))} and "
            f"{len(_listed(columns.next_state))}."
        )


def _checked_values(log: Log, columns: Columns, kinds: dict[str, str], done: str) -> tuple[int, int, float]:
    """Refuse missing and impossible values; return the number of rows and of rewards, and the largest of them."""
    reward = _quoted(columns.reward)
    number = f"TRY_CAST({reward} AS DOUBLE)"
    bad = {"the reward": f"{number} IS NULL OR NOT isfinite({number})"}
    for use in ("state", "action", "next_state", "done", "episode"):
        names = [f"{_quoted(name)} IS NULL" for name in _listed(getattr(columns, use))]
        if use == "done" and names:
            names = [f"TRY_CAST({_quoted(columns.done or '')} AS BOOLEAN) IS NULL"]
        if names:
            missing = " OR ".join(names)
            known = "true" if columns.done is None else f"NOT COALESCE({_try(done)}, false)"
            bad[f"the {_said(use)}"] = f"({missing}) AND {known}" if use == "next_state" else missing
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {what})" for what in bad.values())
    (row,) = log.rows(f"SELECT COUNT(*), APPROX_COUNT_DISTINCT({number}), MAX(ABS({number})), {counts} FROM log")
    rows, distinct, largest = int(row[0]), int(row[1]), float(row[2] or 0.0)
    if rows == 0:
        raise InvalidInput(f"{log.name}: the log has no rows.")
    for (what, wrong), many in zip(bad.items(), row[3:], strict=True):
        if many:
            raise InvalidInput(_where(log, columns, what, wrong, int(many)))
    return rows, distinct, largest


def _where(log: Log, columns: Columns, what: str, wrong: str, many: int) -> str:
    """Say in which row something is missing or is no number."""
    use = what.removeprefix("the ").replace(" ", "_")
    shows = " || ', ' || ".join(
        f"COALESCE(CAST({_quoted(name)} AS VARCHAR), '')" for name in _listed(getattr(columns, use))
    )
    row, value = log.rows(
        f"SELECT i, {shows} FROM (SELECT *, row_number() OVER () AS i FROM log) WHERE {wrong} ORDER BY i LIMIT 1"
    )[0]
    is_text = len(log.files) == 1 and ".csv" in log.files[0].lower()
    place = f"{log.name}, line {row + 1}" if is_text else f"{log.name}, row {row}"
    rule = "must be a finite number" if use == "reward" else "must be true or false" if use == "done" else "is missing"
    got = "" if rule == "is missing" else f", got {shown(value)}"
    more = f" ({many} rows are wrong)" if many > 1 else ""
    return f"{place}: {what} {rule}{got}{more}. Mend the row or leave it out."


def index_of(
    labels: list[Label], declared: tuple[Label, ...] | None, kind: str, log_name: str
) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """Return all labels in order, those that are declared or those that were seen, and where the seen ones are."""
    if declared is None:
        return tuple(labels), np.arange(len(labels))
    place = {written_key(label): i for i, label in enumerate(declared)}
    where = np.array([place.get(written_key(label), -1) for label in labels], dtype=np.int64)
    if (where < 0).any():
        unknown = labels[int(np.argmax(where < 0))]
        hint = did_you_mean(spoken(unknown), map(spoken, declared))
        raise InvalidInput(
            f"{log_name}: {kind} must name all that occur, and {shown(unknown)} is not among the {len(declared)}.{hint}"
        )
    return declared, where


def _family(kind: str) -> str:
    """Return one type for all that hold the same names: texts also come as enumerations, with an order of their own."""
    if kind.startswith("ENUM"):
        return "VARCHAR"
    return "BIGINT" if kind in _INTEGERS else "DOUBLE" if kind in ("FLOAT", "REAL") else kind


def _label(columns: str | tuple[str, ...], kinds: dict[str, str]) -> str:
    parts = [f"CAST({_quoted(name)} AS {kinds[name]})" for name in _listed(columns)]
    if len(parts) == 1:
        return parts[0]
    return "struct_pack(" + ", ".join(f"c{i} := {part}" for i, part in enumerate(parts)) + ")"


def _listed(columns: Any) -> tuple[str, ...]:
    return () if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _try(expression: str) -> str:
    return expression.replace("CAST(", "TRY_CAST(", 1)


def _said(use: str) -> str:
    return use.replace("_", " ")
