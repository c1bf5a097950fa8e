"""Whole numbers that came as floats.

A column of whole numbers becomes one of floats as soon as one of them is missing: so it is in pandas, and wherever NaN
stands for what is missing. Next states are missing where episodes end, so the state 2 is often 2.0 as a next state.
Floats are therefore whole numbers where whole numbers are beside them, in the other column of states, and where whole
numbers are declared. One that is not whole is refused, with its row. For text files, see
:func:`replicable_rl.data.naming.floats_of_pandas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replicable_rl.data.columns import Columns, is_nan, said, whole
from replicable_rl.data.forms import FLOATS, WHOLE
from replicable_rl.data.labels import EXACT, Label

Declared = tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]  # all states, and all actions, where they are given
_TOGETHER = (("state", "next_state"), ("action",))  # what has names of one kind


def with_whole_floats(columns: Columns, kinds: Mapping[str, str], declared: Declared) -> dict[str, str]:
    """Return the types of columns, in which floats that stand for whole numbers have a type of their own."""
    found, asked = dict(kinds), declared_kinds(columns, declared)
    for uses in _TOGETHER:
        for group in zip(*(columns.of(use) for use in uses), strict=False):
            are_whole = any(kinds.get(column) in WHOLE for column in group)
            if asked.get(group[0]) == "whole" or (asked.get(group[0]) is None and are_whole):
                found |= {one: FLOATS for one in group if kinds.get(one) == "DOUBLE" and one in asked}
    return found


def declared_kinds(columns: Columns, declared: Declared) -> dict[str, str | None]:
    """Return what the declared names of every column of names are; columns with bins have none."""
    found: dict[str, str | None] = {}
    for uses, names in zip(_TOGETHER, declared, strict=True):
        for place, bins in enumerate(columns.bins_of(uses[0])):
            if bins is None:
                kind = declared_kind(part_of(names, place, len(columns.of(uses[0]))) or ())
                found |= {column: kind for use in uses for column in columns.of(use)[place : place + 1]}
    return found


def part_of(names: tuple[Any, ...] | None, place: int, parts: int) -> tuple[Any, ...] | None:
    """Return one part of declared names that have so many parts; None where they have not.

    >>> part_of(((1, "a"), (2, "b")), 1, 2), part_of((1, 2), 0, 1), part_of((1, 2), 0, 2)
    (('a', 'b'), (1, 2), None)
    """
    if names is None or parts == 1:
        return names
    fits = all(isinstance(name, tuple) and len(name) > place for name in names)
    return tuple(name[place] for name in names) if fits else None


def declared_kind(names: Sequence[Any]) -> str | None:
    """Return what declared names are: texts, whole numbers or numbers; None where all names decide.

    >>> declared_kind(["1", "2"]), declared_kind([1, 2]), declared_kind([0.5, 1.0]), declared_kind([True, "x"])
    ('text', 'whole', 'number', None)
    """
    types = {type(name) for name in names}
    return {str: "text", int: "whole", float: "number"}.get(types.pop()) if len(types) == 1 else None


def as_whole(names: Sequence[Label], uses: Iterable[str], declared: str | None) -> list[Label] | None:
    """Return numbers that Python looked at as whole numbers; None where they are not, or stay floats.

    >>> as_whole([1, 2.0], ["state"], None), as_whole([1, 2.5], ["state"], None), as_whole([1, 2.0], ["action"], None)
    ([1, 2], None, None)
    """
    some = declared is None and "action" not in uses and any(isinstance(name, int) for name in names)
    fit = all(isinstance(name, int) or (name.is_integer() and abs(name) < EXACT) for name in names)
    return [int(name) for name in names] if fit and (some or declared == "whole") else None


def not_whole(value: str) -> str:
    """Return the condition that a float is there, and is no whole number."""
    return f"{value} IS NOT NULL AND NOT {is_nan(value)} AND {whole(value)} IS NULL"


def must_be_whole(use: str, value: float, many: int) -> str:
    """Say that a float is no whole number.

    >>> must_be_whole("next_state", 2.5, 1)
    'the next state must be a whole number, as others are, and below 2**53 in size, got 2.5.'
    """
    more = f" ({many} rows are wrong)" if many > 1 else ""
    return f"the {said(use)} must be a whole number, as others are, and below 2**53 in size, got {value!r}{more}."
