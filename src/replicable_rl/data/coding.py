"""Values that Python has to look at, one by one: names become numbers, and the engine counts these.

An engine that is handed Python's objects guesses their type from some of them and converts the others: 2.5 became 2
where the first were whole numbers. Here the type and the value of every object count, and all of them together say
what the names are. Nothing depends on their order.
"""

from __future__ import annotations

import contextlib
import decimal
import numbers
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from replicable_rl.data.columns import infinite, said
from replicable_rl.data.labels import EXACT, Label, a, is_missing_value, known, several, written_key
from replicable_rl.data.naming import decided
from replicable_rl.data.wholes import as_whole
from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

MISSING = -1  # the number of what is missing


class Coded(NamedTuple):
    """Names in their order, and the columns as numbers of them."""

    names: tuple[Label, ...]
    columns: dict[str, NDArray[np.int64]]


class _Found(NamedTuple):
    """A value that was seen: as it is, of which kind, and its one form."""

    value: Any
    kind: str
    name: Label


def homogeneous(values: Sequence[Any]) -> NDArray[Any] | None:
    """Return values of one of Python's own types as an array that holds the same; None where they are something else.

    >>> homogeneous([1, 2.5]), homogeneous([1, True]), homogeneous([2**64])
    (array([1. , 2.5]), None, None)
    """
    kinds = set(map(type, values))
    if kinds == {int, float} and all(abs(value) < EXACT for value in values if type(value) is int):
        kinds = {float}
    types: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64, str: object}
    dtype = types.get(next(iter(kinds), float)) if len(kinds) <= 1 else None
    try:
        if kinds == {str}:
            "".join(set(values)).encode()
        return None if dtype is None else np.array(values, dtype=dtype)
    except (OverflowError, UnicodeEncodeError):
        return None


def as_numbers(values: Iterable[Any]) -> NDArray[np.float64]:
    """Return values as floats; NaN where one is no number.

    >>> as_numbers([1, decimal.Decimal("0.5"), "2.5", True, None, "1_0", "much"])
    array([1. , 0.5, 2.5, 1. , nan, nan, nan])
    """
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    is_text = isinstance(value, str) and value.isascii() and "_" not in value  # Python reads '1_0' as 10
    if not is_text and not isinstance(value, (numbers.Real, decimal.Decimal, np.bool_)):
        return np.nan
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):  # numpy's durations say that they are integers
        return np.nan


def as_rewards(values: Iterable[Any]) -> NDArray[np.float64]:
    """Return values as floats, and 1 and 0 also for the texts "true" and "false"; NaN where one is no number.

    >>> as_rewards([0.5, "2.5", "True", False, "much"])
    array([0.5, 2.5, 1. , 0. , nan])
    """
    texts = {"true": 1.0, "false": 0.0}
    return as_numbers(texts.get(value.lower(), value) if isinstance(value, str) else value for value in values)


def as_truths(values: Iterable[Any]) -> NDArray[np.int64]:
    """Return 1 and 0 for values that are true and false; MISSING where one is neither.

    >>> as_truths([True, 0.0, "true", "1", None, 2]).tolist()
    [1, 0, 1, 1, -1, -1]
    """
    known_texts = {"true": 1, "1": 1, "1.0": 1, "false": 0, "0": 0, "0.0": 0}

    def truth(value: Any) -> int:
        if isinstance(value, str):
            return known_texts.get(value.lower(), MISSING)
        number = _number(value)
        return int(number) if number in (0.0, 1.0) else MISSING

    return np.array([truth(value) for value in values], dtype=np.int64)


def coded(
    columns: Mapping[str, Sequence[Any]],
    uses: Mapping[str, str],
    *,
    ranked: bool = False,
    declared: str | None = None,
) -> Coded:
    """Number the names of several columns together.

    ``uses`` says what each column is for, and ``declared`` what the declared names are, if there are some. Where they
    are ``ranked``, the numbers go by the values themselves, else by their names.

    >>> coded({"x": ["b", None], "y": ["a", "b"]}, {"x": "state", "y": "next_state"})
    Coded(names=('a', 'b'), columns={'x': array([ 1, -1]), 'y': array([0, 1])})
    """
    seen = _Seen(uses)
    for column, values in columns.items():
        seen.look_at(column, values)
    names = seen.names(declared)
    keys = [written_key(name) for name in names]
    distinct = dict(zip(keys, names, strict=True))
    order = _sorted({key: one.value for key, one in zip(keys, seen.found, strict=True)} if ranked else distinct)
    place = {key: i for i, key in enumerate(order)}
    codes = np.array([*(place[key] for key in keys), MISSING], dtype=np.int64)  # the last is that of MISSING
    return Coded(tuple(distinct[key] for key in order), {column: codes[them] for column, them in seen.numbers.items()})


class _Seen:
    """The different values of some columns, and the columns as numbers of them, in the order in which they came."""

    def __init__(self, uses: Mapping[str, str]) -> None:
        self.uses, self.found = uses, list[_Found]()
        self.numbers: dict[str, NDArray[np.int64]] = {}
        self._tables: dict[type, dict[Any, int]] = {type(None): {None: MISSING}}
        self._column = ""  # that is looked at

    def look_at(self, column: str, values: Sequence[Any]) -> None:
        """Number the values of a column."""
        self._column = column
        self.numbers[column] = np.fromiter(self._each(values), np.int64, len(values))

    def _each(self, values: Sequence[Any]) -> Iterator[int]:
        tables = self._tables
        for row, value in enumerate(values, start=1):
            try:
                number = tables[type(value)][value]  # most were seen before
            except (KeyError, TypeError):
                number = self._number(row, value)
            yield number

    def _number(self, row: int, value: Any) -> int:
        """Return the number of a value that was not seen before, or is told apart by more than its type and itself."""
        key = _key(value)
        table = self._tables.setdefault(type(value), {})
        with contextlib.suppress(TypeError):  # what has no hash is no name
            if key in table:
                return table[key]
        if is_missing_value(value):
            return MISSING
        if isinstance(value, (float, np.floating)) and np.isinf(value):
            raise InvalidInput(infinite(f"from_transitions, row {row}", self.uses[self._column], value))
        try:
            kind, name = known(value)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(":", f", row {row}:", 1)) from None
        table[key] = len(self.found)
        self.found.append(_Found(value, kind, name))
        return table[key]

    def names(self, declared: str | None = None) -> list[Label]:
        """Return the names of all values; refuse them where they are of several kinds."""
        kind = self._one_kind([one.kind for one in self.found])
        names = [one.name for one in self.found]
        if kind == "number":
            return as_whole(names, self.uses.values(), declared) or self._floated(names)
        if kind == "tuple":  # every place in it by itself
            places = [[name[i] if i < len(name) else None for name in names] for i in range(max(map(len, names)))]
            for i, parts in enumerate(places):
                kinds = [None if part is None else known(part)[0] for part in parts]
                if self._one_kind(kinds, f" in place {i + 1}") == "number":
                    places[i] = self._floated(parts)
            return [tuple(places[i][j] for i in range(len(name))) for j, name in enumerate(names)]
        return names

    def _one_kind(self, kinds: Sequence[str | None], where: str = "") -> str:
        """Return of which kind the values are, by that of each; refuse them where these are several."""
        every = np.concatenate(list(self.numbers.values()))
        rows = np.bincount(every[every >= 0], minlength=len(kinds))
        many = Counter[str]()
        for kind, its in zip(kinds, rows.tolist(), strict=True):
            many.update({} if kind is None else {kind: its})
        kind, wrong = decided(many) if many else ("text", None)
        if wrong is not None:
            what = (f"has {a(wrong)}{where}", f"others have {several(kind)} there")
            what = what if where else (f"is {a(wrong)}", f"others are {several(kind)}")
            self._refuse([one == wrong for one in kinds], [one == kind for one in kinds], *what)
        return kind

    def _floated(self, names: Sequence[Label]) -> list[Label]:
        """Return whole numbers as the numbers that they are among others."""
        large = [isinstance(name, int) and abs(name) >= EXACT for name in names]
        if any(large):
            self._refuse(
                large, [isinstance(name, float) for name in names], "is too large for a float", "others are floats"
            )
        return [name if name is None else float(name) for name in names]

    def _refuse(self, wrong: Sequence[bool], right: Sequence[bool], what: str, others: str) -> NoReturn:
        """Refuse names of several kinds, with the first row that has a wrong one."""
        is_wrong = np.array([*wrong, False])
        held = {column: np.append(is_wrong[them], True) for column, them in self.numbers.items()}
        column = min(held, key=lambda name: int(np.argmax(held[name])))
        row = int(np.argmax(held[column]))
        value = self.found[int(self.numbers[column][row])].value
        others_are = [one for one, is_right in zip(self.found, right, strict=True) if is_right]
        example = min(others_are, key=lambda one: written_key(one.name)).value
        raise InvalidInput(
            f"from_transitions, row {row + 1}: the {said(self.uses[column])} {shown(value)} {what}, and {others}, "
            f"such as {shown(example)}. Convert all of them to one type, such as texts."
        )


def _key(value: Any) -> Any:
    """Return what tells values of one type apart.

    Equal tuples may hold 1 and True, and 1 and 1.0 are equal decimals.
    """
    if isinstance(value, np.ndarray):
        value = tuple(value) if value.ndim else (value[()],)
    if isinstance(value, (tuple, list)):
        return tuple((type(one), _key(one)) for one in value)
    return str(value) if isinstance(value, decimal.Decimal) else value


def _sorted(names: Mapping[str, Label]) -> list[str]:
    try:
        return sorted(names, key=names.__getitem__)
    except (TypeError, ValueError):  # tuples of tuples of several kinds, and arrays
        return sorted(names)
