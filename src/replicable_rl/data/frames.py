"""Data frames and dictionaries of arrays, as the engine reads them: columns of types.

Only the columns that are asked for are taken. What an engine would have to guess, such as lists and columns of
Python's objects, becomes an array first (:mod:`~replicable_rl.data.coding`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from replicable_rl.data.coding import Coded, as_array, as_ranks, refuse_mixed
from replicable_rl.data.columns import PARTS, Columns, check_header, quoted, said
from replicable_rl.data.engine import Engine
from replicable_rl.data.local import LocalRows
from replicable_rl.data.viewed import VIEW
from replicable_rl.errors import InvalidInput, is_masked, shown

_GIVEN = "given"
_NONE = (
    "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table, or a dictionary of "
    "arrays, got {}."
)


def read_frame(duck: Engine, source: Any, columns: Columns) -> LocalRows:
    """Lend the rows of a frame, of an Arrow table or of a dictionary of arrays to an engine."""
    taken = _taken(source, columns)
    if taken is None:
        raise InvalidInput(_NONE.format(shown(source)))
    found = {name: _column(name, values, columns) for name, values in taken.items()}
    lengths = {len(one.array) for one in found.values()}
    if len(lengths) != 1:
        raise InvalidInput(f"from_transitions: the columns must have one length, got {sorted(lengths)}.")
    try:
        duck.connection.register(_GIVEN, _together([one.array for one in found.values()]))
    except Exception:  # whatever an engine makes of somebody's columns
        raise InvalidInput(_NONE.format(shown(source))) from None
    chosen = ", ".join(
        (f"NULLIF(c{i}, {one.missing})" if one.missing else f"c{i}") + f" AS {quoted(name)}"
        for i, (name, one) in enumerate(found.items())
    )
    duck.rows(f"CREATE TEMP VIEW {VIEW} AS SELECT {chosen} FROM {_GIVEN}")
    return LocalRows(duck)


def _taken(source: Any, columns: Columns) -> dict[str, Any] | None:
    """Return the columns of a dictionary or of a frame; None for anything else."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if isinstance(source, Mapping):
        for name in source:
            if not isinstance(name, str):
                raise InvalidInput(
                    f"from_transitions: the columns of a dictionary have texts for names, got {shown(name)}."
                )
        names = list(source)
        take: Any = lambda name: _of_dictionary(name, source[name])  # noqa: E731  # short
    elif pandas is not None and isinstance(source, pandas.DataFrame):
        names = list(source.columns)
        take = lambda name: source.iloc[:, names.index(name)]  # noqa: E731
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


def _of_dictionary(name: str, values: Any) -> Any:
    """Return a column of a dictionary as an array of numpy or a list."""
    found = None
    if not isinstance(values, (str, bytes, Mapping, set, frozenset)) and not is_masked(values):
        try:
            found = np.asarray(values) if hasattr(values, "__array__") else list(values)
        except Exception:  # whatever somebody's object raises
            found = None
    if found is None or getattr(found, "ndim", 1) != 1:
        raise InvalidInput(
            f"from_transitions: column {name!r} must be a list with one entry a row, got {shown(values)}."
        )
    return found


def _column(name: str, values: Any, columns: Columns) -> Coded:
    """Return a column as the engine reads it."""
    kind = type(getattr(values, "dtype", None)).__name__
    is_of_pandas = type(values).__module__.partition(".")[0] == "pandas"
    if is_of_pandas and isinstance(values.dtype, np.dtype):
        values = values.to_numpy()
    elif kind in ("Object", "Int128", "UInt128"):  # of Polars: what Arrow has no type for
        values = values.to_list()
    elif kind == "BooleanDtype":
        values = values.array ^ False  # the bytes are then 0 and 1
    elif kind == "Float16":
        values = values.cast(float)
    elif is_of_pandas and (kind in ("IntervalDtype", "PeriodDtype", "SparseDtype") or _has_codes(values)):
        values = values.tolist()
    if isinstance(values, np.ndarray):
        plain = values.dtype.kind in "iufb" and values.dtype.itemsize <= 8
        if plain or (values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] in ("s", "ms", "us", "ns")):
            if values.dtype == np.bool_:
                return Coded(values.view(np.uint8) != 0)  # engines would read its bytes, and not all are 0 or 1
            return Coded(values.astype(values.dtype.newbyteorder("="), order="C", copy=False))
        values = values.astype(object).tolist()
    return _of_objects(name, values, columns) if isinstance(values, list) else Coded(values)


def _has_codes(series: Any) -> bool:
    """Whether a column of pandas holds categories that are no texts."""
    return type(series.dtype).__name__ == "CategoricalDtype" and series.dtype.categories.inferred_type != "string"


def _of_objects(name: str, values: list[Any], columns: Columns) -> Coded:
    uses = [use for use in columns.uses if name in columns.of(use)]
    names = [use for use in uses if use in PARTS and columns.bins_of(use)[columns.of(use).index(name)] is None]
    if not names:
        values = [int(value) if isinstance(value, bool) else value for value in values]
    found = as_array(values)
    texts = "order" in uses and any(isinstance(value, (str, bytes)) for value in values)  # which sort by letters
    if found is None and set(uses) <= {"episode", "order"} and not texts:
        found = as_ranks(values)
    if found is None:
        refuse_mixed(said(names[0] if names else uses[0]), values, bool(names))
    return found


def _together(columns: list[Any]) -> Any:
    """Return columns as one frame: of arrays where all are arrays, of pandas or Polars, or else of Arrow."""
    named = {f"c{i}": column for i, column in enumerate(columns)}
    kinds = {type(column).__module__.partition(".")[0] for column in columns} - {"numpy"}
    if not kinds:
        return named
    objects = {name for name, column in named.items() if isinstance(column, np.ndarray) and column.dtype == object}
    if kinds == {"pandas"}:
        import pandas as pd

        return pd.DataFrame(
            {
                name: pd.Series(column, dtype=object) if name in objects else getattr(column, "array", column)
                for name, column in named.items()
            },
            copy=False,
        )
    if kinds == {"polars"}:
        import polars as pl

        return pl.DataFrame({name: column.tolist() if name in objects else column for name, column in named.items()})
    import pyarrow as pa

    return pa.table(named)
