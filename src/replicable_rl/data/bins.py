"""Numeric columns as states: bins with declared edges.

A bin is half open, [10, 20): a value on an edge belongs to the bin above it. The two end bins are open, so every number
has a bin. Edges are declared, never taken from the data: edges at the quantiles of a log would differ from log to log,
and two logs of one process would be samples of two problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from replicable_rl.canonical import Json
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_integer, check_numbers, shown

_MOST = 1000  # edges of a column: every one is a comparison for every row


@dataclass(frozen=True)
class Bins:
    """Bins of a numeric column, for ``from_transitions(..., bins={"temperature": rr.Bins([10, 20, 30])})``.

    Parameters
    ----------
    edges : list of floats
        Where one bin ends and the next begins, in increasing order. What is below the first and above the last has a
        bin of its own.

    Examples
    --------
    >>> Bins([10, 20, 30]).labels
    ('below 10', '[10, 20)', '[20, 30)', '30 or more')
    """

    edges: Sequence[float]  # a tuple, whatever it was given as

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if isinstance(self.edges, (str, bytes)):
            raise InvalidInput(f"Bins: edges must be a list of numbers, got {shown(self.edges)}.")
        edges = check_numbers("Bins", "edges", self.edges)
        rising = edges.ndim == 1 and edges.size and np.isfinite(edges).all() and (edges[1:] > edges[:-1]).all()
        if not rising or edges.size > _MOST:
            raise InvalidInput(
                f"Bins: edges must be 1 to {_MOST} finite numbers in increasing order, got {shown(self.edges)}."
            )
        object.__setattr__(self, "edges", tuple((edges + 0.0).tolist()))  # no -0.0, which is the same edge

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the bins, which become the names of states."""
        names = [repr(edge).removesuffix(".0") for edge in self.edges]
        inner = [f"[{one}, {two})" for one, two in pairwise(names)]
        return (f"below {names[0]}", *inner, f"{names[-1]} or more")


class Binned(NamedTuple):
    """Which part of a state or an action is binned, and where the edges are; part of the identity of a process."""

    use: str  # "state" or "action"
    place: int
    edges: tuple[float, ...]


def check_bins(bins: Any, state: tuple[str, ...], action: tuple[str, ...]) -> dict[str, Bins]:
    """Return the bins of columns; each must be a column of the states or of the actions."""
    if bins is None:
        return {}
    if not isinstance(bins, Mapping):
        raise InvalidInput(
            f'from_transitions: bins must say which column has which, {{"temperature": Bins([10, 20])}}, got '
            f"{shown(bins)}."
        )
    for column, given in bins.items():
        if not isinstance(given, Bins):
            raise InvalidInput(
                f"from_transitions: the bins of {shown(column)} must be Bins([...]) with edges of your own, got "
                f"{shown(given)}. Edges from the data would make every log another problem."
            )
        if column not in (*state, *action):
            raise InvalidInput(
                f"from_transitions: bins must name a column of the states or the actions, got {shown(column)}. Next "
                "states have the bins of the states."
            )
    return dict(bins)


def bins_to_json(bins: tuple[Binned, ...]) -> list[Json]:
    """Return what is binned as JSON."""
    return [[one.use, one.place, list(one.edges)] for one in bins]


def check_binned(data: Any) -> tuple[Binned, ...]:
    """Return what a file says about bins."""
    found = []
    for use, place, edges in data:
        if use not in ("state", "action"):
            raise InvalidInput(f"Dataset: bins must be those of a state or an action, got {shown(use)}")
        place = check_integer("Dataset", "bins", place, low=0, high=2**31)
        found.append(Binned(use, place, tuple(Bins(tuple(map(float, edges))).edges)))
    return tuple(found)
