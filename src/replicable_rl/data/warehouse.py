"""Rows in a database or a warehouse, through Ibis: the engine there groups them, and only groups come back.

A table of SQL has no order, so episodes need a column that orders their steps, and only if that is a time somebody
knows when rows came.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from replicable_rl.data.columns import (
    NUMBERS,
    PARTS,
    Columns,
    family,
    must_be_whole,
    not_whole,
    packed,
    truth,
    typed,
)
from replicable_rl.data.counting import MANY_REWARDS, EpisodeFlaws, Facts
from replicable_rl.data.viewed import complained
from replicable_rl.errors import InvalidInput
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    from replicable_rl.data.bins import Bins
    from replicable_rl.data.engine import Engine

_LARGEST = 1.7976931348623157e308  # what is above it is infinite; so is, in a comparison, what is no number
_NO_ORDER = ("VARCHAR", "INTERVAL")  # every database sorts texts by rules of its own
_STORED = {"BOOLEAN": "integer", "DECIMAL": "real", "DOUBLE": "real", "VARCHAR": "text"}  # in SQLite
_HALF = 2.0**30  # sums of parts of this size fit 64 bits, for 2**32 rows


class WarehouseRows:
    """The rows of a table of Ibis.

    Parameters
    ----------
    engine : Engine
        Into which the groups come.
    table : ibis.Table
        The log.
    """

    def __init__(self, engine: Engine, table: Any) -> None:
        self.engine, self.table = engine, table

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The type of every column, as DuckDB calls it."""
        import pyarrow as pa

        found: dict[str, str] = {}
        with self._in_one_sentence():
            for name, kind in self.table.schema().items():
                try:
                    empty = pa.table({"x": pa.array([], kind.to_pyarrow())})
                    self.engine.connection.register("empty", empty)
                except Exception:  # a type that only this database has; it matters where the column is used
                    found[name] = str(kind)
                    continue
                found[name] = family(str(self.engine.rows("DESCRIBE SELECT x FROM empty")[0][1]))
            return found

    def facts(self, columns: Columns) -> Facts:
        """Look at the rewards, before the rows are grouped."""
        if columns.episode is not None and columns.order is None:
            raise InvalidInput(
                "from_transitions: the rows of a table in a database have no order, and first states need one. Name "
                'the column that numbers the steps of an episode (order="step"), or leave episode out.'
            )
        if self.kinds[columns.reward].split("(")[0] not in (*NUMBERS, "BOOLEAN"):
            raise InvalidInput(
                f"from_transitions: the reward must be a column of numbers, got {self.table[columns.reward].type()} in "
                f"{columns.reward!r}. Convert it in the database, and look at what is no number there."
            )
        if columns.order is not None and self.kinds[columns.order] in _NO_ORDER:
            raise InvalidInput(
                f"from_transitions: the order must be a column of numbers or times, got "
                f"{self.table[columns.order].type()} in {columns.order!r}. Convert it in the database."
            )
        self._refuse_strays(columns)
        rewards = self._reward(columns)
        is_finite = (rewards.abs() <= _LARGEST).fill_null(False)
        wrong = {"reward": ~is_finite} | {
            use: _is_missing(self.table[columns.of(use)[0]]) for use in ("episode", "order") if columns.of(use)
        }
        with self._in_one_sentence():
            counts = {use: condition.ifelse(1, 0).sum() for use, condition in wrong.items()}
            finite = is_finite.ifelse(rewards, None)
            bounds = {"lowest": finite.min(), "highest": finite.max()}
            asked = self.table.aggregate(rows=self.table.count(), **bounds, **counts)
            (found,) = asked.to_pyarrow().to_pylist()
            different = self.table.select(r=rewards).distinct().limit(MANY_REWARDS + 1).count()
            distinct = int(different.to_pyarrow().as_py())
        wrong_rows = {use: int(found[use] or 0) for use in wrong}
        lowest, highest = (float(found[name] or 0.0) for name in ("lowest", "highest"))
        return Facts(int(found["rows"]), wrong_rows, lowest, highest, distinct > MANY_REWARDS)

    def group(self, columns: Columns, facts: Facts) -> bool:
        """Make the table ``grouped``; return whether it is known which rows are in the earlier half of the log."""
        with self._in_one_sentence():
            early = self._early(columns)
            rewards = self._reward(columns)
            keys = self._parts(columns)
            if columns.done is not None:
                keys["d"] = self.table[columns.done]
            sums: dict[str, Any] = {"n": lambda rows: rows.count()}
            beside = {} if early is None else {"before": early}
            if early is not None:
                sums["early"] = lambda rows: rows.before.ifelse(1, 0).sum()
            if facts.adds:
                high, low = _halves(rewards, facts.scale)
                keys["r"] = (rewards * (1.0 / facts.width)).floor()
                selected = self.table.select(**keys, **beside, high=high, low=low)
                sums |= {name: lambda rows, name=name: rows[name].sum() for name in ("high", "low")}
            else:
                selected = self.table.select(**keys, **beside, r=rewards)
                keys["r"] = rewards
            self._fetch(selected.group_by(list(keys)).aggregate(**sums))
        names = self._typed(columns)
        value = "CAST(r AS DOUBLE)"
        total = f"CAST(high AS HUGEINT) * {int(_HALF)} + CAST(low AS HUGEINT)" if facts.adds else "0"
        half = "0 AS early" if early is None else "early"
        self.engine.rows(
            f"CREATE TEMP TABLE grouped AS SELECT {names}, {self._ended(columns)} AS d, {value} AS r, n, {half}, "
            f"{total} AS total FROM fetched"
        )
        return early is not None

    def first(self, columns: Columns) -> EpisodeFlaws:
        """Make the table ``firsts``; return what is wrong with episodes."""
        import ibis

        with self._in_one_sentence():
            parts = self._parts(columns)
            s, t = ([name for name in parts if name[0] == letter] for letter in "st")
            over = ibis.literal(True) if columns.done is None else self._over(columns.done)
            steps = self.table.select(**parts, e=self.table[columns.episode], o=self.table[columns.order], over=over)
            within = ibis.window(group_by=steps.e, order_by=steps.o)
            came = {f"came_{name}": steps[name].lag().over(within) for name in (*t, "o", "over")}
            came["after"] = steps.o.lead().over(within)  # no place is missing, so only the last row has none after it
            steps = steps.mutate(place=ibis.row_number().over(within), **came)
            known, differs = ibis.literal(True), ibis.literal(False)
            for one, two in zip(t, s, strict=True):
                known &= steps[f"came_{one}"].notnull()
                differs |= steps[f"came_{one}"] != steps[two]
            cut = steps.after.isnull() & ~steps.over
            ended = steps.came_over.fill_null(False) & ibis.literal(columns.done is not None)
            wrong = {"broken": known & ~ended & differs, "tied": steps.came_o == steps.o, "cut": cut, "after": ended}
            asked = {name: condition.fill_null(False).ifelse(1, 0).sum() for name, condition in wrong.items()}
            (found,) = steps.aggregate(**asked).to_pyarrow().to_pylist()
            self._fetch(steps.filter(steps.place == 0).group_by(s).aggregate(n=lambda rows: rows.count()))
        self.engine.rows(
            f"CREATE TEMP TABLE firsts AS SELECT {packed(s)} AS s, n FROM "
            f"(SELECT {self._typed(columns, ('state',))}, n FROM fetched)"
        )
        return EpisodeFlaws(**{name: int(many or 0) for name, many in found.items()})

    def complaint(self, columns: Columns, use: str, many: int) -> str:
        """Say what is missing, or is not what it must be; rows of a database have no numbers."""
        names = ", ".join(map(repr, columns.of(use)))
        for place, bins in enumerate(columns.bins_of(use) if use in PARTS else ()):
            if self.kinds[columns.of(use)[place]] == "DOUBLE" and bins is None:
                part = f"{PARTS[use]}{place}"
                counts = f"NOT {self._ended(columns)}" if use == "next_state" else "true"
                ((value,),) = self.engine.rows(f"SELECT MIN({part}) FROM fetched WHERE {counts} AND {not_whole(part)}")
                if value is not None:
                    return f"{self.engine.name}: {must_be_whole(use, value)}"
        return f"{self.engine.name}: {complained(use, None, many)} Mend what {names} holds, or leave the rows out."

    def where_label(self, columns: Columns, kind: str, label: Any) -> str:
        """Return the log; rows of a database have no numbers."""
        return self.engine.name

    def where_pair(self, columns: Columns, state: Any, action: Any) -> str:
        """Return the log; rows of a database have no numbers."""
        return self.engine.name

    def rewards_outside(self, columns: Columns, low: float, high: float) -> tuple[int, str]:
        """Return how many rewards are outside a range; rows of a database have no numbers."""
        rewards = self._reward(columns)
        with self._in_one_sentence():
            outside = self.table.select(r=rewards).filter((rewards < low) | (rewards > high))
            return int(outside.count().to_pyarrow().as_py()), self.engine.name

    def _refuse_strays(self, columns: Columns) -> None:
        """Refuse what SQLite keeps in columns of other types: it reads a text as 0, 2.5 as 2, and times as texts."""
        with self._in_one_sentence():
            if self.table.get_backend().name != "sqlite":
                return
        for name in columns.asked:
            column, kind = self.table[name], self.kinds[name].split("(")[0]
            stored = ["null", _STORED.get(kind, ""), "integer" if kind in NUMBERS else ""]
            strays = ~column.typeof().isin(stored) | (~column.cast("int64").isin([0, 1]) & (kind == "BOOLEAN"))
            if self.table.filter(strays).count().to_pyarrow().as_py():
                raise InvalidInput(
                    f"from_transitions: {name!r} is a column of {column.type()}, and SQLite keeps other values in it. "
                    "Convert them in the database."
                )

    # --- expressions ----------------------------------------------------------------------------

    def _reward(self, columns: Columns) -> Any:
        with self._in_one_sentence():
            return self.table[columns.reward].cast("float64")

    def _early(self, columns: Columns) -> Any:
        """Return whether a row is in the earlier half, by the order; None where that does not say when a row came.

        The steps of episodes that all begin at one number do not.
        """
        import ibis

        if columns.order is None:
            return None
        steps = self.table.select(e=self.table[columns.episode], o=self.table[columns.order])
        firsts = steps.group_by("e").aggregate(o=steps.o.min())
        begin = (firsts.o == firsts.o.min().as_scalar()).ifelse(1, 0).sum()
        (found,) = firsts.aggregate(episodes=firsts.count(), begin=begin).to_pyarrow().to_pylist()
        if found["episodes"] > 1 and 2 * int(found["begin"]) > found["episodes"]:
            return None
        halves = steps.mutate(half=ibis.ntile(2).over(order_by=steps.o))  # rows of one time may be in both
        end = halves.filter(halves.half == 0).o.max().to_pyarrow().as_py()
        order = self.table[columns.order]
        return order <= ibis.literal(end, order.type())

    def _over(self, done: str) -> Any:
        """Return whether an episode ended with a step; that it is true or false, or 1 or 0, is known by now."""
        column, kind = self.table[done], self.kinds[done]
        if kind == "BOOLEAN":
            return column
        return column.lower().isin(["true", "1", "1.0"]) if kind == "VARCHAR" else column == 1

    def _ended(self, columns: Columns) -> str:
        """Return whether a group that came back ended its episode."""
        kinds = {str(name): family(str(kind)) for name, kind, *_ in self.engine.rows("DESCRIBE fetched")}
        return "false" if columns.done is None else truth("d", kinds["d"])

    def _parts(self, columns: Columns) -> dict[str, Any]:
        return {
            f"{letter}{place}": self.table[column] if bins is None else _binned(self.table[column], bins)
            for use, letter in PARTS.items()
            for place, (column, bins) in enumerate(zip(columns.of(use), columns.bins_of(use), strict=True))
        }

    def _typed(self, columns: Columns, uses: tuple[str, ...] = tuple(PARTS)) -> str:
        """Return the parts as they come back, in the types that DuckDB would have read."""
        found = []
        for use in uses:
            for place, (column, bins) in enumerate(zip(columns.of(use), columns.bins_of(use), strict=True)):
                part, kind = f"{PARTS[use]}{place}", self.kinds[column] if bins is None else "INTEGER"
                found.append(f"{typed(part, kind)} AS {part}")
        return ", ".join(found)

    def _fetch(self, groups: Any) -> None:
        """Let the database count; its answer is the view ``fetched``."""
        self.engine.connection.register("fetched", groups.to_pyarrow())

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        """Refuse what the database refuses."""
        try:
            yield
        except InvalidInput:
            raise
        except Exception as error:  # every database has errors of its own
            raise InvalidInput(
                f"from_transitions: the engine of the table refuses ({_without_query(error)})."
            ) from None


def _without_query(error: Exception) -> str:
    """Return what a database says, without the query that it quotes.

    >>> _without_query(ValueError("no such column: x LINE 1: SELECT x FROM log"))
    'no such column: x'
    """
    said = re.split(r"\bLINE \d+:|\[SQL\b|\bSELECT\b|\bWITH\b", str(error))[0]
    return sentence(said, 200) or type(error).__name__


def _binned(column: Any, bins: Bins) -> Any:
    """Return the number of the bin of a value; missing where it is missing or no number."""
    import ibis

    value = column.cast("float64")
    below = [(value < edge, i) for i, edge in enumerate(bins.edges)]
    return ibis.cases((_is_missing(column), ibis.null("int64")), *below, else_=len(bins.edges))


def _is_missing(column: Any) -> Any:
    """Return whether a value is missing, or NaN; a database without a test for that, such as SQLite, holds none."""
    import ibis

    may_be_nan = column.type().is_floating() and column.get_backend().has_operation(ibis.expr.operations.IsNan)
    return column.isnull() | column.isnan() if may_be_nan else column.isnull()


def _halves(rewards: Any, scale: float) -> tuple[Any, Any]:
    """Return rewards as whole numbers, in two parts whose sums fit 64 bits on every engine."""
    whole = (rewards * scale).floor().cast("int64")
    high = (whole.cast("float64") * (1.0 / _HALF)).floor().cast("int64")  # exact: ``whole`` came from a float
    return high, whole - high * int(_HALF)
