"""From a log to counts of its transitions: one GROUP BY where the rows are, and only its groups are looked at here.

Queries are written in DuckDB's SQL, and what a database may have to answer, in the part of it that others have. Nothing
depends on the order of rows or on threads.

*Rewards* that take few values are counted value by value. A log of measured profits has nearly as many rewards as rows:
counting each by itself would count nothing, and one mean for every transition would hide that rewards vary. So the line
is cut into stretches, and each stretch of a transition is an outcome, with the mean of its rewards. Stretches are as
long as a power of two and begin at its multiples: those of two logs lie within each other. Rewards are added up as
whole numbers of 2**-k, which is exact, and not as floats, which is not.

*Names* are grouped as they are written, and then all different ones of a column say what they are: in a text file whole
numbers if all of them are, and texts otherwise.

*Wrong rows* make wrong groups, so the checks look at groups, each of which knows its first row; all classes of wrong
rows are refused together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.logs.dataset import EXACT, NO_FLAWS, WHOLE, Bins, Declared, Flaws, Label
from replicable_rl.logs.sources import NOTHING, PARTS, WRITTEN, Relation, sort_of, the

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MANY_REWARDS = 1000  # different values: more are added up
STRETCHES = 256  # that cover the range, about
_LOOKED_AT = 100_000  # rows of a first look at rewards
_MOST_STATES = 2_000_000
_HALF = 2.0**30  # sums of parts of this size fit 64 bits, for 2**32 rows
_WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})\.0")
_NUMBER = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+e)(e?[-+]?[0-9]+)?", re.IGNORECASE)
_MISSING = {"NA", "N/A", "NULL", "null", "NaN", "nan"}  # in text files
_AS_TEXTS = "cast all to text, or declare all names as texts (states=..., actions=...)"
_ORDER = "must be a number in all rows, or in all a time such as 2024-01-31 09:59"
_DECIMAL = "CASE WHEN NOT contains(o, '_') THEN TRY_CAST(o AS DECIMAL(38, 9)) END"  # an order that is written
_TIME = "CASE WHEN regexp_matches(o, '^[0-9]{4}-') THEN TRY_CAST(o AS TIMESTAMPTZ) END"

Read = tuple[Any, str]  # what a written value stands for, or None, and the rule that the value breaks


class Wrong(NamedTuple):
    """A class of wrong rows: the use of a column, the rule, how many rows break the rule, and the first of them."""

    use: str
    rule: str
    rows: int
    first: int | None


class Names(NamedTuple):
    """The names of the states or of the actions, in order."""

    labels: list[Label]
    number: Integers  # of the name that each written value stands for; -1 where it is none
    rules: NDArray[Any]  # which each value breaks, or ""


class LogCounts(NamedTuple):
    """What a log says: names, counts of (state, action, next state, reward), and what `Dataset` takes besides them.

    The next state -1 is the one after the end.
    """

    states: list[Label]
    actions: list[Label]
    outcomes: tuple[NDArray[Any], ...]
    bounds: tuple[float, float]  # of the rewards
    more: dict[str, Any]


class Count:
    """The count of a log.

    Parameters
    ----------
    log : Relation
        The rows.
    declared : pair
        All states and all actions, where they are declared.
    bounds : (low, high), optional
        Which every reward obeys.
    allowed : (S, A) truth values, optional
        Which actions each of the declared states has.
    """

    def __init__(
        self,
        log: Relation,
        declared: Declared,
        bounds: tuple[float, float] | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        self.log, self.columns, self.declared, self.bounds, self.allowed = log, log.columns, declared, bounds, allowed
        self.wrong: list[Wrong] = []
        size = len(self.columns.of("state"))
        self.parts = {use: [f"{PARTS[use]}{i}" for i in range(size)] for use in ("state", "next_state")}
        self.parts["action"] = [f"a{i}" for i in range(len(self.columns.of("action")))]
        self.keys = [name for use in PARTS for name in self.parts[use]]
        uses = self.columns.uses
        self.has_done, self.has_order = "done" in uses, "order" in uses
        self.has_ends, self.follows = self.columns.has_ends, self.columns.follows
        self.done = "COALESCE(d, true)" if self.has_ends else "false"
        self.first = "MIN(i)" if log.place else "NULL"

    def counted(self) -> LogCounts:
        """Count the transitions of the log."""
        self._read()
        rows, lowest, highest = self.log.ask("SELECT COUNT(*), MIN(r), MAX(r) FROM steps")
        if not rows:
            raise InvalidInput(f"{self.log.name}: has no rows{' but the last ones of episodes' * self.follows}.")
        low, high = float(lowest or 0.0), float(highest or 0.0)
        width, is_timed = self._group(low, high)
        states, actions = self._names("states", ("state", "next_state")), self._names("actions", ("action",))
        tables = (("x", "states", "state"), ("y", "actions", "action"), ("z", "states", "next_state"))
        joins = " ".join(f"JOIN {table} {x} ON {_same(x, self.parts[use], 'g')}" for x, table, use in tables)
        found = self.log.arrays(
            f"SELECT x.id AS s, y.id AS a, z.id AS t, {self.done} AS d, COALESCE(r, 0.0) AS r, n, early, high, low, "
            f"first_row, r IS NULL AS no_reward, {'d IS NULL' if self.has_done else 'false'} AS no_done "
            f"FROM grouped g {joins}"
        )
        at = {name: column.astype(np.int64) for name, column in found.items() if name not in ("d", "r")}
        is_done, reward = found["d"].astype(np.bool_), found["r"].astype(np.float64) + 0.0
        self._check(at, is_done, states, actions)
        if self.bounds is not None and (low < self.bounds[0] or high > self.bounds[1]):
            least, most = self.bounds
            rule = f"is outside reward_range [{least:g}, {most:g}] (all go from {low:g} to {high:g})"
            outside = f"r < {_double(least)} OR r > {_double(most)}"
            self.wrong.append(
                Wrong("reward", rule, *self.log.ask(f"SELECT COUNT(*), {self.first} FROM steps WHERE {outside}"))
            )
        starts, flaws = self._walked(states) if "episode" in self.columns.uses else (None, NO_FLAWS)
        self._refuse()
        s, a, t = states.number[at["s"]], actions.number[at["a"]], np.where(is_done, -1, states.number[at["t"]])
        order = np.lexsort((reward, t, a, s))  # several values may be one name, and all ends are one next state
        columns = [column[order] for column in (s, a, t, reward)]
        new = np.flatnonzero(np.any([np.append(True, column[1:] != column[:-1]) for column in columns], axis=0))
        s, a, t, reward = (column[new] for column in columns)
        n, early, upper, lower = (np.add.reduceat(at[name][order], new) for name in ("n", "early", "high", "low"))
        if width:
            total = (upper.astype(object) * int(_HALF) + lower).astype(np.float64)
            reward = np.clip(into_stretches(total / n / scale(low, high), reward, width), low, high)
        more = {"early": early if is_timed else None, "starts": starts, "width": width, "flaws": flaws}
        return LogCounts(states.labels, actions.labels, (s, a, t, reward, n), (low, high), more)

    # --- rows ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Define ``steps``: the parts of names, r (reward), d (done), e (episode), o (order), i (number of the row)."""
        columns, kinds = self.columns, self.log.kinds
        queries = {use: list(self._parts_of(use)) for use in PARTS}
        if columns.is_list:
            queries["next_state"] = queries["state"]
        chosen = [f"{query} AS {part}" for use in PARTS for query, part in zip(queries[use], self.parts[use])]  # noqa: B905
        letters = ["r"]
        for use in ("reward", "done", "episode", "order"):
            for name in columns.of(use):
                value, kind = columns.sql(name), kinds[name]
                if use in ("reward", "order") and sort_of(kind) == "text" and not self.log.place:
                    rule = f"must be a column of numbers{' or times' * (use == 'order')}, got {kind} in {name!r}"
                    raise InvalidInput(f"{self.log.name}: {the(use)} {rule}. Cast it in the database.")
                read = {"reward": _reward, "done": _truth}.get(use)
                query = read(value, kind) if read else _finite(value) if sort_of(kind) == "float" else value
                chosen.append(f"{query} AS {use[0]}")
                letters += [use[0]] * (use != "reward")
        if columns.is_list:
            chosen.append("0.0 AS r")
        letters += ["i"] * (self.log.place is not None)
        self.log.read("given", ", ".join(chosen))
        order = self._order()
        if "episode" in columns.uses:
            self._walk(order)
        kept = {name: name for name in [*self.keys, *letters]} | {"r": _finite("r")}
        source = "given"
        if self.follows:
            last = "ahead IS NULL"
            if columns.ends:
                kept["d"] = f"(d OR {last})" if self.has_done else last
            kept["o"] = "place"
            source = "walked" if columns.ends else f"walked WHERE NOT ({last}) OR {self.done}"
        elif self.has_order:
            kept["o"] = order
        self.log.define(
            "steps", f"SELECT {', '.join(f'{query} AS {name}' for name, query in kept.items())} FROM {source}"
        )

    def _parts_of(self, use: str) -> Iterator[str]:
        """Yield the queries for the parts of a name: the values, or the numbers of their bins."""
        for name, bins in zip(self.columns.of(use), self.columns.bins_of(use), strict=True):
            kind = self.log.kinds[name]
            value = "NULL" if kind == NOTHING else self.columns.sql(name)
            yield value if bins is None else _bin(_as_number(value, kind), bins)

    def _order(self) -> str:
        """Return how an order is compared: texts are numbers, or times; without an order, rows are in theirs."""
        if not self.has_order:
            return "i"
        if sort_of(self.log.kinds[self.columns.of("order")[0]]) not in ("text", "written"):
            return "o"
        return _DECIMAL if self.log.ask(f"SELECT COUNT({_DECIMAL}) FROM given")[0] else _TIME

    def _walk(self, order: str) -> None:
        """Define ``walked``: the rows with what comes before and after them in their episodes."""
        if order == "i" and not self.log.place:
            rule = "the rows of a table in a database have no order, and first states need one"
            raise InvalidInput(f"from_transitions: {rule}. Name order=..., the number of the step, or no episode.")
        within = f"OVER (PARTITION BY e ORDER BY {order})"
        beside = [f"ROW_NUMBER() {within} AS k", f"{order} AS place", f"LEAD({order}) {within} AS ahead"]
        beside += [f"LAG(d) {within} AS over"] if self.has_done else []
        for s, t in zip(self.parts["state"], self.parts["next_state"], strict=True):
            beside.append(f"LEAD({s}) {within} AS {t}" if self.follows else f"LAG({t}) {within} AS came_{t}")
        self.log.define("walked", f"SELECT *, {', '.join(beside)} FROM given")

    # --- groups ----------------------------------------------------------------------------------------------

    def _group(self, low: float, high: float) -> tuple[float, bool]:
        """Make the table ``grouped``; return how long stretches of rewards are, or 0, and whether rows have a time."""
        adds = any(
            self.log.ask(f"SELECT COUNT(*) FROM (SELECT DISTINCT r FROM ({some}) q WHERE r IS NOT NULL) p")[0]
            > MANY_REWARDS
            for some in (f"SELECT r FROM steps LIMIT {_LOOKED_AT}", "SELECT r FROM steps")
        )
        width = stretch(low, high) if adds else 0.0
        early = self._early()
        keys = ", ".join([*self.keys, *["d"] * self.has_ends])
        value = f"FLOOR(r * {_double(1.0 / width)})" if adds else "r"
        whole = f"FLOOR(r * {_double(scale(low, high))})" if adds else "0"
        upper = f"CAST(FLOOR(w * {_double(1.0 / _HALF)}) AS BIGINT)"
        sums = {"high": upper, "low": f"CAST(w AS BIGINT) - {upper} * {int(_HALF)}"}
        added = ", ".join(f"{f'CAST(SUM({part}) AS BIGINT)' if adds else '0'} AS {name}" for name, part in sums.items())
        first, row = ("MIN(i)", ", i") if self.log.place else ("0", "")
        self.log.fetch(
            "grouped",
            f"SELECT {keys}, r, COUNT(*) AS n, {'COUNT(early)' if early else '0'} AS early, {added}, "
            f"{first} AS first_row FROM (SELECT {keys}, {value} AS r, {whole} AS w, {early or '0'} AS early{row} "
            f"FROM steps) q GROUP BY {keys}, r",
        )
        return width, early is not None

    def _early(self) -> str | None:
        """Return whether a row is in the earlier half, 1 or NULL; None where nobody knows when it came.

        The order says so, if it is a time: the steps of episodes that all begin at one number are none.
        """
        if self.has_order:
            episodes, begin = self.log.ask(
                "SELECT COUNT(*), SUM(CASE WHEN f.o = l.o THEN 1 ELSE 0 END) FROM "
                "(SELECT e, MIN(o) AS o FROM steps GROUP BY e) f, (SELECT MIN(o) AS o FROM steps) l"
            )
            if episodes == 1 or 2 * int(begin or 0) <= episodes:
                return "CASE WHEN o <= (SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY o) FROM steps) THEN 1 END"
        return "CASE WHEN 2 * i < (SELECT COUNT(*) FROM given) THEN 1 END" if self.log.place else None

    def _walked(self, states: Names) -> tuple[Integers, Flaws]:
        """Return how many episodes begin in each state, and what is odd about their rows."""
        pairs = list(zip(self.parts["state"], self.parts["next_state"], strict=True))
        known = " AND ".join(f"came_{t} IS NOT NULL" for _, t in pairs)
        differs = " OR ".join(f"came_{t} <> {s}" for s, t in pairs)
        if WRITTEN in self.log.kinds.values():  # where 2.0 is the number 2 too
            short = "regexp_replace(CAST({} AS VARCHAR), '[.]0$', '')".format
            differs = " OR ".join(f"(came_{t} <> {s} AND {short(f'came_{t}')} <> {short(s)})" for s, t in pairs)
        over = "COALESCE(over, false)" if self.has_done else "false"
        leaves_last = self.follows and not self.columns.ends
        is_dropped = f"ahead IS NULL{' AND NOT d' * self.has_done}" if leaves_last else "false"
        flags = {
            "n": f"k = 1 AND NOT ({is_dropped})",
            "broken": "false" if self.follows else f"{known} AND NOT {over} AND ({differs})",
            "dropped": is_dropped,
            "tied": "place = ahead",
            "no_episode": "e IS NULL",
            "no_order": "place IS NULL" if self.has_order else "false",
        }
        firsts = [f"f{i}" for i in range(len(pairs))]
        inner = [f"CASE WHEN k = 1 THEN {s} END AS {f}" for f, (s, _) in zip(firsts, pairs, strict=True)]
        inner += [f"CASE WHEN {flag} THEN 1 ELSE 0 END AS {name}" for name, flag in flags.items()]
        sums = ", ".join(f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in flags)
        keys = ", ".join(firsts)
        self.log.fetch("walks", f"SELECT {keys}, {sums} FROM (SELECT {', '.join(inner)} FROM walked) q GROUP BY {keys}")
        totals = self.log.rows(f"SELECT {', '.join(f'SUM({name})' for name in flags)} FROM walks")[0]
        total = {name: int(rows or 0) for name, rows in zip(flags, totals, strict=True)}
        for use, rule in (("episode", "is missing"), ("order", _ORDER)):
            if total[f"no_{use}"]:
                row = "i" if self.log.place else "NULL"
                first = self.log.ask(f"SELECT MIN(CASE WHEN {use[0]} IS NULL THEN {row} END) FROM steps")[0]
                self.wrong.append(Wrong(use, rule, total[f"no_{use}"], first))
        if total["tied"] and not self.wrong:
            rule = f"the order {self.columns.of('order')[0]!r} must tell the rows of an episode apart"
            raise InvalidInput(
                f"{self.log.name}: {rule}, and {total['tied']} rows do not. Name the number of the step."
            )
        first = self.log.arrays(
            f"SELECT x.id AS s, w.n AS n FROM walks w JOIN states x ON {_same('x', firsts, 'w')} WHERE w.n > 0"
        )
        return _counts_of(states, first["s"], first["n"]), Flaws(*(total[name] for name in Flaws._fields))

    # --- names -----------------------------------------------------------------------------------------------

    def _names(self, table: str, uses: Sequence[str]) -> Names:
        """Make the table ``states`` or ``actions``, of values as they are written; return the names they stand for."""
        p = [f"p{i}" for i in range(len(self.parts[uses[0]]))]
        each = " UNION ALL ".join(
            f"SELECT {', '.join(f'{part} AS {name}' for part, name in zip(self.parts[use], p, strict=True))}, "
            f"{f'NOT {self.done}' if use == 'next_state' else 'true'} AS needed FROM grouped"
            for use in uses
        )
        self.log.rows(
            f"CREATE TEMP TABLE {table} AS SELECT *, row_number() OVER () - 1 AS id FROM (SELECT {', '.join(p)}, "
            f"bool_or(needed) AS needed FROM ({each}) GROUP BY {', '.join(p)})"
        )
        size = int(self.log.rows(f"SELECT COUNT(*) FROM {table}")[0][0])
        if size > _MOST_STATES:
            rule = f"the log has {size} different {table}, more than {_MOST_STATES}"
            raise InvalidInput(f"{self.log.name}: {rule}. Bin numbers (bins=...), or leave out what names single rows.")
        values = self.log.rows(f"SELECT {', '.join(p)}, needed FROM {table} ORDER BY id")
        declared, bins = self.declared[table == "actions"], self.columns.bins_of(uses[0])
        if declared is None and len(p) == 1 and bins[0] is not None:
            declared = bins[0].labels  # also those that were not seen: all logs with these bins are of one process
        read: list[list[Read]] = []
        for i, columns in enumerate(zip(*(self.columns.of(use) for use in uses if self.columns.of(use)), strict=True)):
            texts = {label[i] if len(p) > 1 else label for label in declared or ()}
            kinds, needed = {self.log.kinds[name] for name in columns}, [value[i] for value in values if value[-1]]
            read.append(_read([value[i] for value in values], kinds, bins[i], needed, texts))
        rows = list(zip(*read, strict=True))
        rules = [next((rule for _, rule in row if rule), "") for row in rows]
        keys = [None if rule else tuple(key for key, _ in row) for row, rule in zip(rows, rules, strict=True)]
        rules = [rule if value[-1] else "" for rule, value in zip(rules, values, strict=True)]
        label = {key: _label(key, bins) for key in keys if key is not None}
        labels = list(declared or ())
        if declared is None:
            needed_keys = {key for key, value in zip(keys, values, strict=True) if key is not None and value[-1]}
            labels = [label[key] for key in sorted(needed_keys)]
        place = {name: i for i, name in enumerate(labels)}
        number = np.array([-1 if key is None else place.get(label[key], -1) for key in keys], dtype=np.int64)
        unknown = f"is not among the {len(labels)} {table} that are declared ({table}=[...] or allowed)"
        for i, value in enumerate(values):
            if value[-1] and number[i] < 0 and not rules[i]:
                rules[i] = unknown
        return Names(labels, number, np.array(rules, dtype=object))

    # --- what is wrong ---------------------------------------------------------------------------------------

    def _check(self, at: dict[str, Any], is_done: NDArray[Any], states: Names, actions: Names) -> None:
        """Note which rows are wrong, by their groups."""
        self._note("reward", "must be a finite number", at, at["no_reward"] > 0)
        self._note("done", "must be true or false, or 1 or 0", at, at["no_done"] > 0)
        s, a = states.number[at["s"]], actions.number[at["a"]]
        if self.allowed is not None:
            self._note("pair", "is not allowed", at, ~self.allowed[s, a] & (s >= 0) & (a >= 0))
        for use, letter in PARTS.items():
            rules = (actions if use == "action" else states).rules[at[letter]]
            rules = np.where(is_done, "", rules) if letter == "t" else rules
            repeated = {wrong.rule for wrong in self.wrong if self.follows and letter == "t"}  # of the next row's state
            for rule in sorted(set(rules) - {""} - repeated):
                self._note(use, rule, at, rules == rule)

    def _note(self, use: str, rule: str, at: dict[str, Any], wrong: NDArray[np.bool_]) -> None:
        if wrong.any():
            self.wrong.append(Wrong(use, rule, int(at["n"][wrong].sum()), int(at["first_row"][wrong].min())))

    def _refuse(self) -> None:
        """Refuse a log with wrong rows: all classes of them in one sentence, each with its first row."""
        if not self.wrong:
            return
        parts, mends = [], ["Mend the rows", "leave them out"]
        for use, rule, rows, first in self.wrong:
            what, _, mend = rule.partition("; ")
            mends += [mend] * bool(mend)
            where = ""
            if self.log.place and first is not None:
                uses = ("state", "action") if use == "pair" else (use,)
                values = [self.log.value(name, first) for each in uses for name in self.columns.of(each)]
                if any(value is not None and value == value for value in values):
                    where = f", got {shown(values[0] if len(values) == 1 else tuple(values))}"
                where += f" in {self.log.place(first)}"
            parts.append(f"{the(use)} {what}{where}{f' ({rows} rows are wrong)' * (rows > 1)}")
        if any(wrong[:2] == ("next_state", "is missing") for wrong in self.wrong) and not self.has_done:
            mends.append("name the column that says where episodes end (done=...)")
        raise InvalidInput(f"{self.log.name}: {'; '.join(parts)}. {', or '.join(dict.fromkeys(mends))}.")


def _counts_of(names: Names, ids: NDArray[Any], rows: NDArray[Any]) -> Integers:
    """Return how many rows each name has, of values by their numbers."""
    number = names.number[ids.astype(np.int64)]
    return np.bincount(number + 1, rows.astype(np.int64), minlength=len(names.labels) + 1).astype(np.int64)[1:]


def _same(one: str, parts: Sequence[str], other: str) -> str:
    """Return the condition that a value of a table of names is that of several parts."""
    return " AND ".join(f"{one}.p{i} IS NOT DISTINCT FROM {other}.{part}" for i, part in enumerate(parts))


def _label(key: Sequence[Any], bins: Sequence[Bins | None]) -> Label:
    """Return the name of several parts, or of one; that of a bin is known by its number."""
    parts = tuple(part if edges is None else edges.labels[part] for part, edges in zip(key, bins, strict=True))
    return parts[0] if len(parts) == 1 else parts


def _read(
    values: Sequence[Any], kinds: set[str], bins: Bins | None, needed: Sequence[Any], declared: set[Label]
) -> list[Read]:
    """Return what the values of a column stand for: numbers of bins, texts, or whole numbers."""
    sorts = set(map(sort_of, kinds))
    if bins is not None:
        return [(value, "must be a finite number, for it has bins" * (value is None)) for value in values]
    if "text" in sorts:
        return [(value, "is missing" * (value is None)) for value in values]
    if "written" in sorts:
        return _read_written(values, needed, declared)
    return [_read_number(value, 2**24 if "FLOAT" in kinds else EXACT) for value in values]


def _read_number(value: Any, most: int) -> Read:
    if value is None or value != value:
        return None, "is missing"
    if isinstance(value, float) and not (value.is_integer() and abs(value) < most):
        return None, f"must be a text or a whole number below 2**{most.bit_length() - 1}; cast all to text, or bin them"
    return int(value), ""


def _read_written(values: Sequence[Any], needed: Sequence[Any], declared: set[Label]) -> list[Read]:
    """Return the names of a text file: whole numbers if all of them are, and texts otherwise."""
    marks, are_texts = _MISSING - declared, any(isinstance(name, str) for name in declared)
    names = [] if declared else [value for value in needed if value is not None and value.strip()]
    texts = [name for name in names if name not in marks and not _is_whole(name)]
    rule = f"is a number, and others such as {shown(texts[0])} are no whole numbers; {_AS_TEXTS}" if texts else ""

    def read(value: Any) -> Read:
        if value is None or not value.strip():
            return None, "is missing"
        if value in marks:
            return None, "is a mark of missing values; declare it if it is a name (states=..., actions=...)"
        if texts and (_is_whole(value) or _NUMBER.fullmatch(value)):
            return None, rule
        return int(value.removesuffix(".0")) if _is_whole(value) and not are_texts else value, ""

    return list(map(read, values))


def _is_whole(value: str) -> bool:
    return bool(WHOLE.fullmatch(value) or _WHOLE_FLOAT.fullmatch(value))


# --- values in queries --------------------------------------------------------------------------------------------


def _finite(value: str) -> str:
    """Return a number, or NULL where it is not finite.

    By arithmetic, which every database has; files of Parquet say how large their numbers are without NaN, and DuckDB
    believes them in comparisons.
    """
    return f"CASE WHEN {value} - {value} = 0 THEN {value} END"


def _as_number(value: str, kind: str) -> str:
    """Return a number, also where it is written as a text; NULL where it is none. DuckDB reads '1_0' as 10."""
    if sort_of(kind) not in ("text", "written"):
        return f"CAST({value} AS DOUBLE)"
    return f"CASE WHEN NOT contains({value}, '_') THEN TRY_CAST({value} AS DOUBLE) END"


def _reward(value: str, kind: str) -> str:
    """Return a reward: a number, or 1 and 0 for what is true and false; NULL where it is neither."""
    if kind == "BOOLEAN":
        return f"CASE WHEN {value} THEN 1.0 WHEN NOT {value} THEN 0.0 END"
    return f"{_as_number(value, kind)} + 0.0"  # -0.0 is the same reward


def _truth(value: str, kind: str) -> str:
    """Return what is true or false, also where it is written as 1 or 0; NULL where it is neither."""
    if kind == "BOOLEAN":
        return value
    if sort_of(kind) in ("text", "written"):
        text = f"lower(CAST({value} AS VARCHAR))"
        return f"CASE WHEN {text} IN ('true', '1', '1.0') THEN true WHEN {text} IN ('false', '0', '0.0') THEN false END"
    return f"CASE WHEN {value} = 1 THEN true WHEN {value} = 0 THEN false END"


def _bin(value: str, bins: Bins) -> str:
    """Return the number of the bin of a value; NULL where it is missing or not finite."""
    steps = " ".join(f"WHEN {value} < {_double(edge)} THEN {i}" for i, edge in enumerate(bins.edges))
    return f"CASE WHEN {value} - {value} = 0 THEN CASE {steps} ELSE {len(bins.edges)} END END"


def _double(value: float) -> str:
    """Return a number for a query, as the float that it is: a plain 0.3 would be a decimal first."""
    return f"CAST('{value!r}' AS DOUBLE)"


# --- stretches of rewards -----------------------------------------------------------------------------------------


def stretch(low: float, high: float) -> float:
    """Return the length of a stretch where rewards lie in a range.

    >>> stretch(0.0, 1.0), stretch(-3.0, 100.0)
    (0.00390625, 0.5)
    """
    mantissa, exponent = math.frexp(high / STRETCHES - low / STRETCHES)
    return math.ldexp(1.0, max(exponent - (mantissa == 0.5), -1000))  # shorter ones are no floats with all bits


def scale(low: float, high: float) -> float:
    """Return what rewards in a range are multiplied with to become whole numbers of few bits: a power of two.

    >>> scale(-3.0, 100.0) == 2.0**53
    True
    """
    largest = max(abs(low), abs(high))
    exponent = math.frexp(largest)[1] if largest else 0
    return math.ldexp(1.0, min(60 - exponent, 1000))


def into_stretches(mean: Floats, where: Floats, width: float) -> Floats:
    """Return means in their stretches: rounding must not put one into the next."""
    last = np.where(np.abs(where) < 2.0**8, where + (1.0 - 2.0**-44), np.nextafter(where + 1.0, -np.inf))
    inside: Floats = np.clip(mean, where * width, last * width)
    return inside
