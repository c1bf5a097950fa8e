"""Lists and columns of Python's objects as arrays of one type, which the engine need not guess.

An engine that is handed objects guesses their type from some of them and converts the others. Here all of them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from replicable_rl.data.labels import EXACT
from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBER, _TEXT = -(2**63), "\ufdd0"  # what stands for a missing number, and a missing text
_OWN = {bool, int, float, str, type(None)}


class Coded(NamedTuple):
    """A column as an array; ``missing`` is what stands for a missing value in a query, "" if none is missing."""

    array: NDArray[Any]
    missing: str = ""


def as_array(values: Sequence[Any]) -> Coded | None:
    """Return values as an array of one of Python's own types; None where they are of several, or of another.

    >>> as_array([1, 2.5, None]).array, as_array([1, True]), as_array([2**64]), as_array([1, None]).missing
    (array([1. , 2.5, nan]), None, None, "CAST('-9223372036854775808' AS BIGINT)")
    """
    if not set(map(type, values)) <= _OWN:
        values = list(map(_own, values))
    kinds = set(map(type, values))
    is_missing = type(None) in kinds
    kinds.discard(type(None))
    if kinds == {int, float} and all(abs(value) < EXACT for value in values if type(value) is int):
        kinds = {float}
    if kinds == {float} or not values:
        return Coded(np.array([np.nan if value is None else value for value in values], dtype=np.float64))
    if kinds == {int} and all(_NUMBER < value < -_NUMBER for value in values if value is not None):
        numbers = [_NUMBER if value is None else value for value in values]
        return Coded(np.array(numbers, dtype=np.int64), f"CAST('{_NUMBER}' AS BIGINT)" if is_missing else "")
    if kinds == {str} and _TEXT not in values:
        texts = [_TEXT if value is None else value for value in values]
        return Coded(np.array(texts, dtype=object), f"'{_TEXT}'" if is_missing else "")
    return Coded(np.array(values, dtype=np.bool_)) if kinds == {bool} and not is_missing else None


def as_ranks(values: Sequence[Any]) -> Coded | None:
    """Return the places of values in their order; None where they have none.

    >>> as_ranks([(2, "b"), None, (1, "a")]).array.tolist()[::2], as_ranks([1, "a"])
    ([1, 0], None)
    """
    values = list(map(_own, values))
    try:
        place = {value: i for i, value in enumerate(sorted({value for value in values if value is not None}))}
    except (TypeError, ValueError):
        return None
    numbers = [_NUMBER if value is None else place[value] for value in values]
    return Coded(np.array(numbers, dtype=np.int64), f"CAST('{_NUMBER}' AS BIGINT)")


def refuse_mixed(use: str, values: Sequence[Any], is_name: bool) -> NoReturn:
    """Refuse values of several types, or of another type than Python's own, with the first row that is wrong."""
    own = list(map(_own, values))
    first = next((type(value) for value in own if value is not None), str)
    kinds = {int, float} if first in (int, float) else {first} & {str} if is_name else {first} & _OWN
    row = next((i for i, value in enumerate(own) if value is not None and type(value) not in kinds), 0)
    rule, cast = ("a text or a whole number, as all others", " Cast all to text.") if is_name else ("a number", "")
    got = shown(values[row])
    raise InvalidInput(f"from_transitions, row {row + 1}: the {use} must be {rule}, got {got}.{cast}")


def _own(value: Any) -> Any:
    """Return a value of numpy or pandas, or a decimal, as one of Python's own."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else np.nan
    return value.item() if isinstance(value, np.generic) else value
