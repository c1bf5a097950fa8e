"""From a log to counts of its transitions: one GROUP BY where the rows are, and only its groups are looked at here.

Nothing depends on the order of rows or on threads. Rewards that take few values are counted value by value; where they
take many, those of a stretch (:mod:`~replicable_rl.logs.stretches`) are added up as whole numbers of 2**-k, which is
exact, and not as floats, which is not.

Names are grouped as they are written, and then all different ones of a column say what they are: in a text file whole
numbers if all of them are, and else texts. A row that is wrong makes a group that is wrong, so the checks look at
groups; the first wrong row of every kind is searched for only then, and all kinds are refused together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.logs.columns import PARTS, WRITTEN, double, finite, quoted, reward, sort_of, the, truth
from replicable_rl.logs.dataset import NO_FLAWS, Flaws
from replicable_rl.logs.process import EXACT, WHOLE, Bins, Declared, Label
from replicable_rl.logs.relation import Relation
from replicable_rl.logs.stretches import into_stretches, scale, stretch

MANY_REWARDS = 1000  # different values: more are added up
_LOOKED_AT = 100_000  # rows of a first look at rewards
_MOST_STATES = 2_000_000
_HALF = 2.0**30  # sums of parts of this size fit 64 bits, for 2**32 rows
_WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})\.0")
_NUMBER = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+e)(e?[-+]?[0-9]+)?", re.IGNORECASE)
_MISSING = ("", "NA", "N/A", "NULL", "null", "NaN", "nan")  # in text files
_ORDERS = (  # what texts of an order may be, all of them
    "CASE WHEN NOT contains(o, '_') THEN TRY_CAST(o AS DECIMAL(38, 9)) END",
    "CASE WHEN regexp_matches(o, '^[0-9]{4}[-/]') THEN TRY_CAST(o AS TIMESTAMPTZ) END",
    "CASE WHEN regexp_matches(o, '^[0-9]{1,2}:') THEN TRY_CAST(o AS TIME) END",
)
_MOST_SEARCHED = 10_000  # names that are wrong, among which the first row is searched for


class Bad(NamedTuple):
    """A kind of wrong rows: the use of a column, what is wrong, how many, and the condition that finds them."""

    use: str
    rule: str
    many: int
    condition: str


class Names(NamedTuple):
    """The names of the states or of the actions, in order."""

    labels: list[Label]
    number: NDArray[np.int64]  # of the name that each written value stands for; -1 where it is none
    rules: NDArray[Any]  # which each value breaks, or ""


@dataclass(frozen=True)
class Counted:
    """What a log says: names, and counts of (state, action, next state, reward); -1 is the state after the end."""

    states: list[Label]
    actions: list[Label]
    state: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    reward: NDArray[np.float64]
    count: NDArray[np.int64]
    early: NDArray[np.int64] | None  # of these, in the earlier half of the log
    starts: NDArray[np.int64] | None  # episodes that began in each state
    ended: NDArray[np.int64] | None  # ends for which each state is named as the next one
    lowest: float  # of the rewards
    highest: float
    width: float  # how long the stretches are whose rewards are added up; 0 where each counts by itself
    flaws: Flaws


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
        self.bad: list[Bad] = []
        many = len(self.columns.of("state"))
        self.parts = {use: [f"{PARTS[use]}{i}" for i in range(many)] for use in ("state", "next_state")}
        self.parts["action"] = [f"a{i}" for i in range(len(self.columns.of("action")))]
        self.has_next, self.has_done = (use in self.columns.uses for use in ("next_state", "done"))
        self.has_episodes, self.has_order = (use in self.columns.uses for use in ("episode", "order"))
        self.has_ends, self.follows = self.columns.has_ends, self.columns.follows

    def counted(self) -> Counted:
        """Count the transitions of the log."""
        self._read()
        rows, lowest, highest = self.log.ask("SELECT COUNT(*), MIN(r), MAX(r) FROM steps")
        if not rows:
            raise InvalidInput(f"{self.log.name}: has no rows{' but the last ones of episodes' * self.follows}.")
        low, high = float(lowest or 0.0), float(highest or 0.0)
        width, early = self._group(rows, low, high), "early" if self.is_timed else "0"
        states = self._names("states", ("state", "next_state"))
        actions = self._names("actions", ("action",))
        self.names = {"states": states, "actions": actions}
        joins = [
            f"JOIN {table} {x} ON {_same(x, self.parts[use], 'g')}"
            for x, table, use in (("x", "states", "state"), ("y", "actions", "action"), ("z", "states", "next_state"))
        ]
        found = self.log.arrays(
            f"SELECT x.id AS s, y.id AS a, z.id AS t, {'COALESCE(d, true)' if self.has_ends else 'false'} AS d, "
            f"COALESCE(r, 0.0) AS r, n, {early} AS early, high, low FROM grouped g {' '.join(joins)}"
        )
        at = {name: column.astype(np.int64) for name, column in found.items() if name not in ("d", "r")}
        is_done = found["d"].astype(np.bool_)
        self._blame(at, is_done, low, high)
        starts, flaws = self._walked(states) if self.has_episodes else (None, NO_FLAWS)
        self._refuse()
        ended = np.bincount(
            states.number[at["t"][is_done]] + 1, at["n"][is_done], minlength=len(states.labels) + 1
        ).astype(np.int64)[1:]
        s, a, t = states.number[at["s"]], actions.number[at["a"]], np.where(is_done, -1, states.number[at["t"]])
        r = found["r"].astype(np.float64) + 0.0
        order = np.lexsort((r, t, a, s))  # several values may be one name, and all ends are one next state
        s, a, t, r = s[order], a[order], t[order], r[order]
        new = np.flatnonzero(np.any([np.append(True, one[1:] != one[:-1]) for one in (s, a, t, r)], axis=0))
        s, a, t, r = s[new], a[new], t[new], r[new]
        n, before, upper, lower = (np.add.reduceat(at[name][order], new) for name in ("n", "early", "high", "low"))
        if width:
            total = (upper.astype(object) * int(_HALF) + lower).astype(np.float64)
            r = np.clip(into_stretches(total / n / scale(low, high), r, width), low, high)
        return Counted(
            states.labels, actions.labels, s, a, t, r, n, before if self.is_timed else None, starts,
            ended if self.has_done and self.has_next else None, low, high, width, flaws,
        )  # fmt: skip

    # --- rows ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Define ``steps``: the parts of names, r (reward), d (done), e (episode), o (order), i (number of the row)."""
        columns, kinds = self.columns, self.log.kinds
        queries = {use: list(columns.parts(use, kinds)) for use in PARTS}
        if not self.has_next and not self.follows:  # a list of pairs
            queries["next_state"] = queries["state"]
        chosen = [f"{one} AS {name}" for use in PARTS for one, name in zip(queries[use], self.parts[use], strict=False)]
        kept = [name for use in PARTS for name in self.parts[use]]
        for use, name in ((use, names[0]) for use, names in columns.uses.items() if use not in PARTS):
            value, kind = quoted(name), kinds[name]
            if use in ("reward", "order") and sort_of(kind) == "text" and not self.log.place:
                rule = f"must be a column of numbers{' or times' * (use == 'order')}, got {kind} in {name!r}"
                raise InvalidInput(
                    f"{self.log.name}: {the(use)} {rule}: every database reads texts by rules of its own. Convert it "
                    "there."
                )
            read = {"reward": reward, "done": truth}.get(use)
            query = read(value, kind) if read else finite(value) if sort_of(kind) == "float" else value
            chosen.append(f"{query} AS {use[0]}")
            kept.append(use[0])
        if "r" not in kept:
            chosen.append("0.0 AS r")
            kept.append("r")
        kept += ["i"] if self.log.place else []
        self.log.read("given", ", ".join(chosen))
        order = self._order_of_texts() if self.has_order else "o"
        if self.has_episodes:
            self._walk(order if self.has_order else "i")
        if self.follows:
            last = "ahead IS NULL"
            over = {True: f"d OR {last}", False: last}[self.has_done] if columns.ends else "d"
            where = "" if columns.ends else f"WHERE NOT ({last}) OR {'COALESCE(d, true)' if self.has_done else 'false'}"
            kept = [name for name in kept if name != "d"] + ([f"{over} AS d"] if self.has_ends else [])
            source = f"walked {where}"
        else:
            kept, source = [f"{order} AS o" if name == "o" else name for name in kept], "given"
        kept = [f"{finite('r')} AS r" if name == "r" else name for name in kept]
        self.log.define("steps", f"SELECT {', '.join(kept)} FROM {source}")

    def _order_of_texts(self) -> str:
        """Return how an order is compared: texts are numbers or times, all of them."""
        if sort_of(self.log.kinds[self.columns.of("order")[0]]) not in ("text", "written"):
            return "o"
        many = self.log.ask(f"SELECT COUNT(o), {', '.join(f'COUNT({query})' for query in _ORDERS)} FROM given")
        best = int(np.argmax(many[1:]))
        if many[best + 1] < many[0]:
            rule = "must be a number in all rows, or in all a time written like 2024-01-31 09:59"
            wrong = f"i IN (SELECT i FROM given WHERE o IS NOT NULL AND ({_ORDERS[best]}) IS NULL)"
            self.bad.append(Bad("order", rule, many[0] - many[best + 1], wrong))
        return _ORDERS[best]

    def _walk(self, order: str) -> None:
        """Define ``walked``: the rows with what comes before and after them in their episodes."""
        if not self.has_order and not self.log.place:
            raise InvalidInput(
                "from_transitions: the rows of a table in a database have no order, and first states need one. Name "
                'the column that numbers the steps of an episode (order="step"), or leave episode out.'
            )
        within = f"OVER (PARTITION BY e ORDER BY {order})"
        beside = [f"ROW_NUMBER() {within} AS k", f"{order} AS place", f"LEAD({order}) {within} AS ahead"]
        if self.has_done:
            beside.append(f"LAG(d) {within} AS over")
        pairs = zip(self.parts["state"], self.parts["next_state"], strict=True)
        for s, t in pairs:
            beside.append(f"LEAD({s}) {within} AS {t}" if self.follows else f"LAG({t}) {within} AS came_{t}")
        self.log.define("walked", f"SELECT *, {', '.join(beside)} FROM given")

    # --- groups ----------------------------------------------------------------------------------------------

    def _group(self, rows: int, low: float, high: float) -> float:
        """Make the table ``grouped``; return how long the stretches are into which rewards are put, or 0."""
        first = f"SELECT r FROM steps LIMIT {_LOOKED_AT}"
        adds = any(
            self.log.ask(f"SELECT COUNT(*) FROM (SELECT DISTINCT r FROM ({some}) q WHERE r IS NOT NULL) p")[0]
            > MANY_REWARDS
            for some in (first, "SELECT r FROM steps")
        )
        width = stretch(low, high) if adds else 0.0
        early = self._early(rows)
        self.is_timed = early is not None
        keys = [name for use in PARTS for name in self.parts[use]] + ["d"] * self.has_ends
        value = f"FLOOR(r * {double(1.0 / width)})" if adds else "r"
        whole = f"FLOOR(r * {double(scale(low, high))})" if adds else "0"
        inner = f"SELECT {', '.join(keys)}, {value} AS r, {whole} AS w, {early or '0'} AS early FROM steps"
        upper = f"CAST(FLOOR(w * {double(1.0 / _HALF)}) AS BIGINT)"
        sums = {"high": upper, "low": f"CAST(w AS BIGINT) - {upper} * {int(_HALF)}"}
        added = ", ".join(f"{f'CAST(SUM({one}) AS BIGINT)' if adds else '0'} AS {name}" for name, one in sums.items())
        both = f"COUNT(*) AS n, {'COUNT(early)' if early else '0'} AS early, {added}"
        keys.append("r")
        self.log.fetch("grouped", f"SELECT {', '.join(keys)}, {both} FROM ({inner}) q GROUP BY {', '.join(keys)}")
        return width

    def _early(self, rows: int) -> str | None:
        """Return whether a row is in the earlier half, 1 or NULL; None where nobody knows when it came.

        The order says so, if it is a time: the steps of episodes that all begin at one number are none.
        """
        if self.has_order:
            episodes, begin = self.log.ask(
                "SELECT COUNT(*), SUM(CASE WHEN f.o = l.o THEN 1 ELSE 0 END) FROM "
                "(SELECT e, MIN(o) AS o FROM steps GROUP BY e) f, (SELECT MIN(o) AS o FROM steps) l"
            )
            if episodes == 1 or 2 * int(begin or 0) <= episodes:
                middle = "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY o) FROM steps"
                return f"CASE WHEN o <= ({middle}) THEN 1 END"
        if not self.log.place:
            return None
        total = self.log.ask("SELECT COUNT(*) FROM given")[0] if self.follows else rows
        return f"CASE WHEN 2 * i < {total} THEN 1 END"

    def _walked(self, states: Names) -> tuple[NDArray[np.int64], Flaws]:
        """Return how many episodes begin in each state, and what is odd about their rows."""
        pairs = list(zip(self.parts["state"], self.parts["next_state"], strict=True))
        known = " AND ".join(f"came_{t} IS NOT NULL" for _, t in pairs)
        differs = " OR ".join(f"came_{t} <> {s}" for s, t in pairs)
        if WRITTEN in self.log.kinds.values():  # where 2.0 is the number 2 too
            short = "regexp_replace(CAST({} AS VARCHAR), '[.]0$', '')".format
            differs = " OR ".join(f"(came_{t} <> {s} AND {short(f'came_{t}')} <> {short(s)})" for s, t in pairs)
        over = "COALESCE(over, false)" if self.has_done else "false"
        is_last = f"ahead IS NULL{' AND NOT d' * self.has_done}"
        is_dropped = is_last if self.follows and not self.columns.ends else "false"
        flags = {
            "n": f"k = 1 AND NOT ({is_dropped})",
            "broken": "false" if self.follows else f"{known} AND NOT {over} AND ({differs})",
            "cut": is_last if self.has_done and not self.follows else "false",
            "after": over,
            "dropped": is_dropped,
            "tied": "place = ahead",
            "no_episode": "e IS NULL",
            "no_order": "o IS NULL" if self.has_order else "false",
        }
        firsts = [f"f{i}" for i in range(len(pairs))]
        inner = [f"CASE WHEN k = 1 THEN {s} END AS {f}" for f, (s, _) in zip(firsts, pairs, strict=True)]
        inner += [f"CASE WHEN {flag} THEN 1 ELSE 0 END AS {name}" for name, flag in flags.items()]
        sums = ", ".join(f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in flags)
        self.log.fetch(
            "walks",
            f"SELECT {', '.join(firsts)}, {sums} FROM (SELECT {', '.join(inner)} FROM walked) q "
            f"GROUP BY {', '.join(firsts)}",
        )
        every = self.log.rows(f"SELECT {', '.join(f'SUM({name})' for name in flags)} FROM walks")[0]
        found = {name: int(many or 0) for name, many in zip(flags, every, strict=True)}
        self.bad += [
            Bad(use, "is missing", many, f"{use[0]} IS NULL")
            for use in ("episode", "order")
            if (many := found[f"no_{use}"])
        ]
        if found["tied"] and not self.bad:
            raise InvalidInput(
                f"{self.log.name}: the order {self.columns.of('order')[0]!r} must tell the rows of an episode apart, "
                f"and {found['tied']} have the place of another one. Name a column that numbers the steps."
            )
        first = self.log.arrays(
            f"SELECT x.id AS s, w.n AS n FROM walks w JOIN states x ON {_same('x', firsts, 'w')} WHERE w.n > 0"
        )
        number = states.number[first["s"].astype(np.int64)]
        starts = np.bincount(number + 1, first["n"].astype(np.int64), minlength=len(states.labels) + 1)
        return starts.astype(np.int64)[1:], Flaws(*(found[name] for name in Flaws._fields))

    # --- names -----------------------------------------------------------------------------------------------

    def _names(self, table: str, uses: Sequence[str]) -> Names:
        """Make the table ``states`` or ``actions``, of values as they are written; return the names they stand for."""
        p = [f"p{i}" for i in range(len(self.parts[uses[0]]))]
        each = [
            f"SELECT {', '.join(f'{part} AS {one}' for part, one in zip(self.parts[use], p, strict=True))}, "
            f"{'COALESCE(NOT d, true)' if use == 'next_state' and self.has_ends else 'true'} AS needed FROM grouped"
            for use in uses
        ]
        self.log.rows(
            f"CREATE TEMP TABLE {table} AS SELECT *, row_number() OVER () - 1 AS id FROM (SELECT {', '.join(p)}, "
            f"bool_or(needed) AS needed FROM ({' UNION ALL '.join(each)}) GROUP BY {', '.join(p)})"
        )
        many = int(self.log.rows(f"SELECT COUNT(*) FROM {table}")[0][0])
        if many > _MOST_STATES:
            raise InvalidInput(
                f"{self.log.name}: the log has {many} different {table}, more than {_MOST_STATES}. Number fewer of "
                "them: bin numeric columns (bins=...), or leave out columns that name single rows."
            )
        values = self.log.rows(f"SELECT {', '.join(p)}, needed FROM {table} ORDER BY id")
        sorts = [
            {sort_of(kind): kind for kind in (self.log.kinds[name] for name in names)}
            for names in zip(*(self.columns.of(use) for use in uses if self.columns.of(use)), strict=True)
        ]
        declared, bins = self.declared[table == "actions"], self.columns.bins_of(uses[0])
        if declared is None and len(p) == 1 and bins[0] is not None:
            declared = bins[0].labels  # also those that were not seen: all logs with these bins are of one process
        readers = []
        for i, (kinds, edges) in enumerate(zip(sorts, bins, strict=True)):
            given = {label[i] if len(p) > 1 else label for label in declared or ()}
            readers.append(_reader(kinds, edges, [value[i] for value in values if value[-1]], given))
        keys: list[Any] = []
        rules: list[str] = []
        for *parts, needed in values:
            read = [reader(part) for reader, part in zip(readers, parts, strict=True)]
            rule = next((one for one in read if isinstance(one, str)), "")
            keys.append(None if rule else tuple(read))
            rules.append(rule if needed else "")
        labels = list(declared or ())
        if declared is None:
            needed_keys = {key for key, value in zip(keys, values, strict=True) if key is not None and value[-1]}
            labels = [_label(key) for key in sorted(needed_keys)]
        place = {label: i for i, label in enumerate(labels)}
        number = np.array([-1 if key is None else place.get(_label(key), -1) for key in keys], dtype=np.int64)
        for i, value in enumerate(values):
            if value[-1] and number[i] < 0 and not rules[i]:
                rules[i] = f"is not among the {len(labels)} {table} that are declared ({table}=[...] or allowed)"
        return Names(labels, number, np.array(rules, dtype=object))

    # --- what is wrong ---------------------------------------------------------------------------------------

    def _blame(self, at: dict[str, Any], is_done: NDArray[Any], low: float, high: float) -> None:
        """Note which rows are wrong, by their groups."""
        for use, wrong in (("reward", "r IS NULL"), ("done", "d IS NULL")):
            if use in self.columns.uses and (use != "done" or self.has_done):
                many = int(self.log.rows(f"SELECT COALESCE(SUM(n), 0) FROM grouped WHERE {wrong}")[0][0])
                rule = "must be a finite number" if use == "reward" else "must be true or false, or 1 or 0"
                self.bad += [Bad(use, rule, many, wrong)] if many else []
        states, actions = self.names["states"].number[at["s"]], self.names["actions"].number[at["a"]]
        if self.allowed is not None:
            wrong_pair = ~self.allowed[states, actions] & (states >= 0) & (actions >= 0)
            if wrong_pair.any():
                first = int(np.argmax(wrong_pair))
                both = [self._is_one_of(use, [int(at[use[0]][first])]) for use in ("state", "action")]
                self.bad.append(Bad("pair", "is not allowed", int(at["n"][wrong_pair].sum()), " AND ".join(both)))
        for use, letter in PARTS.items():
            table = "actions" if use == "action" else "states"
            rules = self.names[table].rules[at[letter]]
            rules = np.where(is_done, "", rules) if letter == "t" else rules
            known = {bad.rule for bad in self.bad} if self.follows else set()  # the state of the next row is blamed
            for rule in sorted(set(rules) - {""} - (known if letter == "t" else set())):
                ids = np.unique(at[letter][rules == rule])[:_MOST_SEARCHED].tolist()
                wrong = f"{self._is_one_of(use, ids)}{' AND NOT d' * (letter == 't' and self.has_ends)}"
                self.bad.append(Bad(use, rule, int(at["n"][rules == rule].sum()), wrong))
        if self.bounds is not None and (low < self.bounds[0] or high > self.bounds[1]):
            wrong = f"r < {double(self.bounds[0])} OR r > {double(self.bounds[1])}"
            rule = f"is outside reward_range [{self.bounds[0]:g}, {self.bounds[1]:g}] (all go from {low:g} to {high:g})"
            self.bad.append(Bad("reward", rule, self.log.ask(f"SELECT COUNT(*) FROM steps WHERE {wrong}")[0], wrong))

    def _refuse(self) -> None:
        """Refuse a log with wrong rows: all kinds of them in one sentence, each with its first row."""
        if not self.bad:
            return
        said: list[str] = []
        file = ""
        for bad in self.bad:
            where, got = self.log.name, ""
            if self.log.place and (row := self._first(bad.condition)) is not None:
                uses = ("state", "action") if bad.use == "pair" else (bad.use,)
                values = [self.log.value(name, row) for use in uses for name in self.columns.of(use)]
                shows = [value for value in values if value is not None and value == value and str(value).strip()]
                where = self.log.place(row)
                got = f", got {shown(values[0] if len(values) == 1 else tuple(values))}" if shows else ""
            if where.rpartition(", ")[0] == file:  # it is named once
                where = where.rpartition(", ")[2]
            else:
                file = where.rpartition(", ")[0]
            more = f" ({bad.many} rows are wrong)" if bad.many > 1 else ""
            said.append(f"{where}: {the(bad.use)} {bad.rule}{got}{more}")
        mends = ["Mend the rows or leave them out" if len(said) > 1 else "Mend the row or leave it out"]
        mends += dict.fromkeys(mend for bad in self.bad for rule, mend in _MENDS.items() if rule in bad.rule)
        if any(bad[:2] == ("next_state", "is missing") for bad in self.bad) and not self.has_done:
            mends.append("name the column that says where episodes end (done=...)")
        raise InvalidInput(f"{'; '.join(said)}. {', or '.join(mends)}.")

    def _first(self, condition: str) -> int | None:
        # DuckDB takes it from files of Parquet how large their numbers are, and these do not tell of NaN.
        self.log.rows("SET disabled_optimizers = 'filter_pushdown,statistics_propagation,join_filter_pushdown'")
        row = self.log.ask(f"SELECT MIN(i) FROM steps WHERE {condition}")[0]
        return None if row is None else int(row)

    def _is_one_of(self, use: str, ids: Sequence[int]) -> str:
        """Return the condition that the name in a row is one of those with some numbers."""
        table = "actions" if use == "action" else "states"
        same = _same("x", self.parts[use], "steps")
        return f"EXISTS (SELECT 1 FROM {table} x WHERE x.id IN ({', '.join(map(str, ids))}) AND {same})"


_MENDS = {
    "below 2**": "cast all to text, or bin them (bins=...)",
    "others are": "write all alike, or declare all names as texts (states=..., actions=...)",
    "is no text": "declare all names as texts (states=..., actions=...)",
    "is a mark": "declare it (states=..., actions=...) if it is a name",
    "outside reward_range": "widen reward_range",
}


def _label(key: Sequence[tuple[Any, Label]]) -> Label:
    """Return the name of several parts, or of one."""
    return key[0][1] if len(key) == 1 else tuple(label for _, label in key)


def _same(one: str, parts: Sequence[str], other: str) -> str:
    """Return the condition that a value of a table of names is that of several parts."""
    return " AND ".join(f"{one}.p{i} IS NOT DISTINCT FROM {other}.{part}" for i, part in enumerate(parts))


def _reader(
    kinds: dict[str, str], bins: Bins | None, values: Sequence[Any], declared: set[Label]
) -> Callable[[Any], tuple[Any, Label] | str]:
    """Return what reads the values of a column: a name with what it is sorted by, or the rule that a value breaks."""
    if bins is not None:
        names = bins.labels
        return lambda value: "must be a finite number, for it has bins" if value is None else (value, names[value])
    if "text" in kinds:
        return lambda value: "is missing" if value is None else (value, value)
    if "written" in kinds:
        return _reader_of_written(values, declared)
    most = 2**24 if "FLOAT" in kinds.values() else EXACT

    def read(value: Any) -> tuple[Any, Label] | str:
        if value is None or value != value:
            return "is missing"
        if isinstance(value, float) and not (value.is_integer() and abs(value) < most):
            return f"must be a text or a whole number below 2**{most.bit_length() - 1}"
        return int(value), int(value)

    return read


def _is_whole(value: str) -> bool:
    return bool(WHOLE.fullmatch(value) or _WHOLE_FLOAT.fullmatch(value))


def _reader_of_written(values: Sequence[Any], declared: set[Label]) -> Callable[[Any], tuple[Any, Label] | str]:
    """Return what reads the names of a text file: whole numbers if all of them are, and else texts."""
    marks = {mark for mark in _MISSING if mark not in declared}
    texts = any(isinstance(name, str) for name in declared)
    some = [value for value in values if value is not None and value.strip() and value not in marks]
    whole = sum(map(_is_whole, some))
    others = sum(not _is_whole(value) and _NUMBER.fullmatch(value) is None for value in some)

    def read(value: Any) -> tuple[Any, Label] | str:
        if value is None or not value.strip() or value in marks:
            return "is missing" if value is None or not value.strip() else "is a mark of missing values"
        if texts:
            return value, value
        is_whole = _is_whole(value)
        if not is_whole and _NUMBER.fullmatch(value):
            return "is no text and no whole number"
        if is_whole != (bool(declared) or others <= whole):
            return f"is a {'whole number, and others are texts' if is_whole else 'text, and others are whole numbers'}"
        name = int(value.removesuffix(".0")) if is_whole else value
        return name, name

    return read
