"""Data frames, Arrow tables and dictionaries of arrays or lists, as arrays of types that DuckDB need not guess."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import numpy as np

from replicable_rl.errors import InvalidInput, is_masked, shown
from replicable_rl.logs.columns import PARTS, Columns, the
from replicable_rl.logs.process import EXACT

_NUMBER, _TEXT = -(2**63), "\ufdd0"  # what stands for a missing number, and a missing text
_NUMBER_SQL = f"CAST('{_NUMBER}' AS BIGINT)"
Columned = tuple[list[Any], Callable[[int], Any]]


class Coded(NamedTuple):
    """A column as an array; ``missing`` is what stands for a missing value in a query, and "" if none is missing."""

    values: np.ndarray[Any, Any]
    missing: str = ""


def opened_frame(source: Any) -> Columned | None:
    """Return the names of the columns, and what takes one by its place as an array or a list; None for no frame."""
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))  # who has one has both
    if isinstance(source, Mapping):
        names = list(source)
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise InvalidInput(f"from_transitions: columns have texts for names, got {shown(wrong[0])}.")
        return names, lambda i: _of_mapping(names[i], source[names[i]])
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return list(source.columns), lambda i: _of_pandas(source.iloc[:, i])
    if polars is not None and isinstance(source, (polars.DataFrame, polars.LazyFrame)):
        frame = source.lazy().collect()
        return frame.columns, lambda i: _of_polars(frame.to_series(i))
    if arrow is not None and isinstance(source, arrow.Table):
        return source.column_names, lambda i: _of_arrow(source.column(i))
    return None


def _of_mapping(name: str, values: Any) -> Any:
    found = values
    if not isinstance(values, np.ndarray):
        try:
            found = None if isinstance(values, (str, bytes, Mapping, set, frozenset)) else list(values)
        except TypeError:  # it is no sequence
            found = None
    if found is None or is_masked(values) or np.ndim(found if isinstance(found, np.ndarray) else [0]) != 1:
        rule = "must be a list with one entry a row"
        raise InvalidInput(f"from_transitions: column {name!r} {rule}, got {shown(values)}.")
    return found


def _of_pandas(series: Any) -> Any:
    plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufbmM"
    return series.to_numpy() if plain else series.to_numpy(dtype=object, na_value=None).tolist()


def _of_polars(series: Any) -> Any:
    plain = (series.dtype.is_numeric() or series.dtype.is_temporal()) and "128" not in str(series.dtype)
    plain = plain and not series.null_count()
    return series.to_numpy() if plain else series.to_list()


def _of_arrow(column: Any) -> Any:
    kind = str(column.type)
    plain = kind.startswith(("int", "uint", "float", "double", "timestamp", "date")) and not column.null_count
    return column.to_numpy() if plain else column.to_pylist()


def as_coded(name: str, values: Any, columns: Columns, place: Callable[[int], str]) -> Coded:
    """Return a column as an array of one type; what is of several types is refused with its row."""
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        if kind == "b":
            return Coded(np.ascontiguousarray(values).view(np.uint8) != 0)  # not all bytes are 0 or 1
        if kind in "mM":
            return Coded(values.astype(f"{kind}8[us]"))
        if kind in "iuf":
            size = max(min(values.dtype.itemsize, 8), 4 if kind == "f" else 1)
            return Coded(np.ascontiguousarray(values, dtype=f"{kind}{size}"))
        values = values.astype(object).tolist()
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    values = [None if isinstance(value, float) and value != value else value for value in values]
    uses = [use for use in columns.uses if name in columns.of(use)]
    names = [use for use in uses if use in PARTS and name not in columns.bins]
    found = _typed(values, bool(names)) or _coded(values, uses)
    return found or _refuse(names[0] if names else uses[0], values, bool(names), place)


def _typed(values: Sequence[Any], is_name: bool) -> Coded | None:
    """Return values as an array of one of Python's own types; None where they are of several, or of another.

    >>> _typed([1, 2.5, None], False).values, _typed([1, True], True), _typed([2**64], True)
    (array([1. , 2.5, nan]), None, None)
    """
    kinds = set(map(type, values))
    has_none = type(None) in kinds
    kinds.discard(type(None))
    if not is_name and kinds & {bool, Decimal}:
        values = [float(value) if isinstance(value, (bool, Decimal)) else value for value in values]
        kinds = kinds - {bool, Decimal} | {float}
    if kinds <= {float} or (kinds == {int, float} and all(abs(one) < EXACT for one in values if isinstance(one, int))):
        return Coded(np.array([np.nan if value is None else value for value in values], dtype=np.float64))
    if kinds == {int} and all(_NUMBER < value < -_NUMBER for value in values if value is not None):
        numbers = [_NUMBER if value is None else value for value in values]
        return Coded(np.array(numbers, dtype=np.int64), _NUMBER_SQL if has_none else "")
    if kinds == {str} and _TEXT not in values:
        texts = [_TEXT if value is None else value for value in values]
        return Coded(np.array(texts, dtype=object), f"'{_TEXT}'" if has_none else "")
    return Coded(np.array(values, dtype=np.bool_)) if kinds == {bool} and not has_none else None


def _coded(values: Sequence[Any], uses: Sequence[str]) -> Coded | None:
    """Return a number for every value of an episode, or of an order, by its place; None for all else."""
    own = {value for value in values if value is not None} if {"episode", "order"} >= set(uses) else set()
    if "order" in uses and any(isinstance(value, (str, bytes)) for value in own):
        return None
    with contextlib.suppress(TypeError):
        place = {value: i for i, value in enumerate(sorted(own) if "order" in uses else dict.fromkeys(values))}
        numbers = [_NUMBER if value is None else place[value] for value in values]
        return Coded(np.array(numbers, dtype=np.int64), _NUMBER_SQL) if own else None
    return None


def _refuse(use: str, values: Sequence[Any], is_name: bool, place: Callable[[int], str]) -> NoReturn:
    """Refuse values of several types, or of another type than Python's own, with the first row that is wrong."""
    first = next((type(value) for value in values if value is not None), str)
    right = {int, float} if first in (int, float) else {str} & {first} if is_name else {first}
    row = next((i for i, value in enumerate(values) if value is not None and type(value) not in right), 0)
    rule, cast = ("a text or a whole number, as all others", " Cast all to text.") if is_name else ("a number", "")
    got = shown(values[row])
    raise InvalidInput(f"{place(row)}: {the(use)} must be {rule}, got {got}.{cast}")
