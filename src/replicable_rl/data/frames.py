"""Data frames and dictionaries of arrays, as the engine reads them: columns of types, and numbers for all else.

Only the columns that are asked for are taken. What an engine would have to guess, such as lists and columns of
Python's objects, Python looks at (:mod:`~replicable_rl.data.coding`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from replicable_rl.data.coding import MISSING, as_numbers, as_rewards, as_truths, coded, homogeneous
from replicable_rl.data.columns import PARTS, Columns, check_header, quoted, truth
from replicable_rl.data.engine import Engine
from replicable_rl.data.forms import CODED
from replicable_rl.data.labels import plain
from replicable_rl.data.local import LocalRows
from replicable_rl.data.viewed import VIEW
from replicable_rl.data.wholes import Declared, declared_kinds
from replicable_rl.errors import InvalidInput, is_masked, shown

_GIVEN = "given"


@dataclass
class FrameRows(LocalRows):
    """The rows of a frame, of which Python has read some columns."""

    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # what these columns hold
    read: Mapping[str, str] = field(default_factory=dict)  # where rewards, ends, episodes and orders are, by use

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The type of every column."""
        return dict.fromkeys(self.values, "DOUBLE") | super().kinds | dict.fromkeys(self.engine.codes, CODED)

    def _value(self, column: str, use: str = "") -> str:
        return quoted(self.read.get(use, column))

    def _done(self, columns: Columns) -> str:
        return truth(self._value("", "done"), "BIGINT") if "done" in self.read else super()._done(columns)

    def _shown(self, columns: Columns, use: str, row: Any, value: Any) -> Any:
        for column in columns.of(use):
            if column in self.values:
                given = self.values[column][row - 1]
                return given.item() if isinstance(given, np.generic) else given
        return value


def read_frame(duck: Engine, source: Any, columns: Columns, declared: Declared = (None, None)) -> LocalRows:
    """Lend the rows of a frame, of an Arrow table or of a dictionary of arrays to an engine."""
    _refuse_streams(source)
    taken = _taken(source, columns)
    if taken is None:
        _register(duck, VIEW, source, source)
        return LocalRows(duck)
    arrays = {name: _array(name, values) for name, values in taken.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) != 1:
        raise InvalidInput(f"from_transitions: the columns must have one length, got {sorted(lengths)}.")
    lists = {name: array for name, array in arrays.items() if isinstance(array, list)}
    for name, values in lists.items():
        found = homogeneous(values)
        arrays[name] = values if found is None else found
    rows = FrameRows(duck, values=lists)
    duck.codes, rows.read, physical = _laid_out(arrays, lists, columns, declared)
    _register(duck, _GIVEN, _together([array for array, _ in physical.values()]), source)
    chosen = ", ".join(
        (f"NULLIF(c{i}, {MISSING})" if is_coded else f"c{i}") + f" AS {quoted(name)}"
        for i, (name, (_, is_coded)) in enumerate(physical.items())
    )
    duck.rows(f"CREATE TEMP VIEW {VIEW} AS SELECT {chosen} FROM {_GIVEN}")
    return rows


_Physical = dict[str, tuple[Any, bool]]  # columns for the engine, and whether -1 stands for what is missing in them


def _laid_out(
    arrays: Mapping[str, Any], lists: Mapping[str, list[Any]], columns: Columns, declared: Declared
) -> tuple[dict[str, tuple[Any, ...]], dict[str, str], _Physical]:
    """Return what numbers of names stand for, by column; where everything else is, by use; and all columns."""
    codes: dict[str, tuple[Any, ...]] = {}
    read: dict[str, str] = {}
    physical: _Physical = {name: (array, False) for name, array in arrays.items() if not isinstance(array, list)}
    asked = declared_kinds(columns, declared)
    for uses in _groups(columns):
        are_lists = any(name in lists for name in uses)
        types = {_type(arrays[name]) for name in uses}
        if None in types or (are_lists and types == {"int64", "float64"}):
            named = {name: _named(arrays, name, use, columns) for name, use in uses.items()}
            found = coded(named, uses, declared=next(asked[name] for name in uses))
            codes |= dict.fromkeys(uses, found.names)
            physical |= {name: (numbers, True) for name, numbers in found.columns.items()}
    for use, column in _others(columns):
        if column not in codes and not isinstance(arrays[column], list):
            continue
        values = _listed(arrays[column])
        name = column if use == "bins" else f"({use}) {column}"
        read |= {} if use == "bins" else {use: name}
        if use == "reward":
            physical[name] = as_rewards(values), False
        elif use == "bins":
            physical[name] = as_numbers(values), False
        elif use == "done":
            physical[name] = as_truths(values), True
        elif use == "order" and all(isinstance(value, (str, bytes)) for value in values if value is not None):
            physical[name] = np.array([None if one is None else plain(one) for one in values], dtype=object), False
        else:
            physical[name] = coded({column: values}, {column: use}, ranked=use == "order").columns[column], True
    return codes, read, physical


def _named(arrays: Mapping[str, Any], name: str, use: str, columns: Columns) -> list[Any]:
    """Return the names in a column; what comes after the end need not be one."""
    values = _listed(arrays[name])
    if use != "next_state" or columns.done is None:
        return values
    ends = as_truths(_listed(arrays[columns.done])).tolist()
    return [None if end == 1 else value for value, end in zip(values, ends, strict=True)]


def _type(array: Any) -> str | None:
    return None if isinstance(array, list) else str(getattr(array, "dtype", getattr(array, "type", "")))


def _groups(columns: Columns) -> list[dict[str, str]]:
    """Return the columns of names that are numbered together, with their uses: those of states and of next states."""
    groups: list[dict[str, str]] = []
    for uses in (("state", "next_state"), ("action",)):
        for place, bins in enumerate(columns.bins_of(uses[0])):
            if bins is None:
                group: dict[str, str] = {}
                for use in uses:
                    group |= {name: use for name in columns.of(use)[place : place + 1] if name not in group}
                for other in [one for one in groups if not one.keys().isdisjoint(group)]:
                    groups.remove(other)
                    group |= other
                groups.append(group)
    return groups


def _others(columns: Columns) -> list[tuple[str, str]]:
    """Return the columns that hold no names, with their uses."""
    binned = [
        ("bins", column)
        for use in PARTS
        for column, bins in zip(columns.of(use), columns.bins_of(use), strict=False)
        if bins is not None
    ]
    return binned + [(use, column) for use in columns.uses if use not in PARTS for column in columns.of(use)]


# --- columns of whatever somebody has -------------------------------------------------------------------


def _refuse_streams(source: Any) -> None:
    """Refuse what can be read only once, and what belongs to a connection of DuckDB: a log is read more than once."""
    module, kind = type(source).__module__.partition(".")[0].lstrip("_"), type(source).__name__
    if (module, kind) == ("pyarrow", "RecordBatchReader"):
        raise InvalidInput(
            "from_transitions: source is a reader of Arrow, which can be read only once. Hand over its table: "
            "reader.read_all()."
        )
    if kind == "DuckDBPyRelation":
        raise InvalidInput(
            "from_transitions: source is a relation of DuckDB, which only its own connection can read. Hand over its "
            "table: relation.to_arrow_table()."
        )


def _taken(source: Any, columns: Columns) -> dict[str, Any] | None:
    """Return the columns of a dictionary or of a frame of pandas or Polars; None for what the engine reads itself."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if isinstance(source, Mapping):
        for name in source:
            if not isinstance(name, str):
                raise InvalidInput(
                    f"from_transitions: the columns of a dictionary have texts for names, got {shown(name)}."
                )
        names = list(source)
        take: Any = source.__getitem__
    elif pandas is not None and isinstance(source, pandas.DataFrame):
        names = list(source.columns)
        take = lambda name: source.iloc[:, names.index(name)]  # noqa: E731  # short
    elif polars is not None and isinstance(source, (polars.DataFrame, polars.LazyFrame)):
        source = source.lazy().collect()
        names, take = source.columns, source.get_column
    elif all(hasattr(type(source), name) for name in ("column_names", "column")):  # an Arrow table
        names = list(source.column_names)
        take = lambda name: source.column(names.index(name))  # noqa: E731
    else:
        return None
    check_header("from_transitions", columns, names)
    return {name: take(name) for name in columns.asked}


def _array(name: str, values: Any) -> Any:
    """Return a column as the engine reads it; as a list, where Python has to look at every value."""
    kind = type(values).__module__.partition(".")[0]
    try:
        if kind == "pandas":
            return _of_pandas(name, values)
        if kind == "polars":
            return _of_polars(name, values)
        if kind == "pyarrow":
            return values.combine_chunks() if hasattr(values, "combine_chunks") else values
        array = values
        if hasattr(values, "__array__"):
            array = np.asarray(values)
        elif isinstance(values, (str, bytes, Mapping, set, frozenset)):
            array = None
        else:
            array = list(values)
    except InvalidInput:
        raise
    except Exception:  # whatever somebody's object raises
        array = None
    if array is None or is_masked(values) or getattr(array, "ndim", 1) != 1:
        raise InvalidInput(
            f"from_transitions: column {name!r} must be a list with one entry a row, got {shown(values)}."
        )
    return _of_numpy(name, array) if isinstance(array, np.ndarray) else array


def _of_numpy(name: str, array: np.ndarray[Any, Any]) -> Any:
    kind = array.dtype.kind
    if kind in "SOT" or (kind == "f" and array.dtype.itemsize > 8) or array.dtype.str.endswith("M8[D]"):
        return array.tolist() if kind in "MSOT" else list(array)
    if kind in "mM":
        return _in_microseconds(name, array)
    if kind not in "biufU":
        raise InvalidInput(
            f"from_transitions: column {name!r} must hold texts, numbers, truth values, dates or times, got "
            f"{array.dtype}."
        )
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=False)  # as the engine reads it


def _in_microseconds(name: str, array: np.ndarray[Any, Any]) -> Any:
    """Return times and durations in the unit of the engine, or as a list where it has none for them."""
    if np.datetime_data(array.dtype)[0] in ("W", "M", "Y", "generic"):
        return list(array)
    found = array.astype(f"{array.dtype.kind}8[us]")
    if ((found != array) & ~np.isnat(array)).any():
        raise InvalidInput(
            f"from_transitions: column {name!r} must hold times in whole microseconds. Round them, or convert them to "
            "texts."
        )
    return found


def _of_pandas(name: str, series: Any) -> Any:
    """Return a column of pandas: what it has no type for, or types of its own, is a list."""
    import pandas as pd

    series = pd.Series(series)
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _of_numpy(name, series.to_numpy())
    kind = type(dtype).__name__
    if kind == "CategoricalDtype" and dtype.categories.inferred_type not in ("string", "integer", "floating"):
        return series.tolist()
    if kind == "DatetimeTZDtype" and _in_microseconds(name, series.dt.tz_convert(None).to_numpy()) is not None:
        return series
    return series.tolist() if kind in ("IntervalDtype", "PeriodDtype", "SparseDtype") else series


def _of_polars(name: str, series: Any) -> Any:
    """Return a column of Polars: what Arrow has no type for is a list."""
    kind = type(series.dtype).__name__
    if kind in ("Object", "Int128", "UInt128"):
        return series.to_list()
    if kind == "Float16":
        return series.cast(float)
    if kind == "Duration":
        return _of_numpy(name, series.to_numpy())
    return series


def _listed(values: Any) -> list[Any]:
    if isinstance(values, list):
        return values
    method = next(name for name in ("to_pylist", "tolist", "to_list") if hasattr(values, name))
    return list(getattr(values, method)())


def _together(columns: Sequence[Any]) -> Any:
    """Return columns as one frame: of arrays where all are arrays, of pandas or Polars, or else of Arrow."""
    named = {f"c{i}": column for i, column in enumerate(columns)}
    kinds = {type(column).__module__.partition(".")[0] for column in columns} - {"numpy"}
    if not kinds:
        return named
    if kinds == {"pandas"}:
        import pandas as pd

        texts = {name: pd.Series(column, dtype=object) for name, column in named.items() if _type(column) == "object"}
        plain = {name: getattr(column, "array", column) for name, column in named.items()}
        return pd.DataFrame(plain | texts, copy=False)
    named = {name: column.tolist() if _type(column) == "object" else column for name, column in named.items()}
    if kinds == {"polars"}:
        import polars as pl

        return pl.DataFrame(named)
    import pyarrow as pa

    table = pa.table(
        {name: column.to_arrow() if hasattr(column, "to_arrow") else column for name, column in named.items()}
    )
    halves = [(i, field.name) for i, field in enumerate(table.schema) if field.type == pa.float16()]
    for i, name in halves:  # which the engine has no type for
        table = table.set_column(i, name, table.column(i).cast(pa.float32()))
    return table


def _register(duck: Engine, name: str, columns: Any, source: Any) -> None:
    try:
        duck.connection.register(name, columns)
    except Exception:  # whatever an engine makes of somebody's object
        raise InvalidInput(
            "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table, or a "
            f"dictionary of arrays, got {shown(source)}."
        ) from None
