"""Processes as columns with a row for each outcome."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidMDP, shown
from replicable_rl.problem.arrays import as_floats, divided_out, is_single
from replicable_rl.problem.rows import Rows, check_size, indptr_of

_SMALL, _GAPS = 2**24, 1000  # pairs that may be missing: so many, and so many for each row that is there
COLUMNS = ("state", "action", "next_state", "reward", "probability")


class Listed(NamedTuple):
    """What a list says: rows, number of actions, and which pairs there are."""

    rows: Rows
    n_actions: int
    allowed: NDArray[np.bool_]


class _Outcomes(NamedTuple):
    """One entry for each outcome."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    next_state: NDArray[np.int64]
    reward: NDArray[np.float64]
    probability: NDArray[np.float64]


def rows_from_transitions(table: Any, n_states: int | None, n_actions: int | None) -> Listed:
    """Return what columns of outcomes say; pairs without a row are not allowed."""
    given = [_column(table, name) for name in COLUMNS]
    state, action, successor = (_whole(name, column) for name, column in zip(COLUMNS, given[:3], strict=False))
    reward, probability = (as_floats(name, column) for name, column in zip(COLUMNS[3:], given[3:], strict=True))
    outcomes = _Outcomes(state, action, successor, reward, probability)
    shapes = {column.shape for column in outcomes}
    if len(shapes) > 1 or state.ndim != 1 or state.size == 0:
        said = ", ".join(map(str, sorted(shapes)))
        raise InvalidMDP(f"TabularMDP: transitions must be columns of one length, and have rows, got shapes {said}.")
    S = int(max(state.max(), successor.max())) + 1 if n_states is None else n_states
    A = int(action.max()) + 1 if n_actions is None else n_actions
    return _listed(outcomes, S, A, is_single(np.asarray(given[4])))


def _column(table: Any, name: str) -> Any:
    try:
        return table[name]
    except Exception:  # whatever somebody's frame raises
        raise InvalidMDP(
            f"TabularMDP: transitions must have the columns {', '.join(COLUMNS)}, got {shown(table)} without {name}."
        ) from None


def _listed(outcomes: _Outcomes, S: int, A: int, single: bool) -> Listed:
    """Return outcomes as rows; what has none is not allowed."""
    check_size(S, A)
    if _SMALL + _GAPS * outcomes.state.size < S * A:  # before anything so large is made
        raise InvalidMDP(
            f"TabularMDP: {outcomes.state.size} rows are listed for {S} states and {A} actions. Number both from 0 "
            "on, without gaps."
        )
    for name, size in (("state", S), ("action", A), ("next_state", S)):
        _check_below(name, getattr(outcomes, name), size)
    allowed = np.zeros((S, A), dtype=np.bool_)
    allowed[outcomes.state, outcomes.action] = True
    row = outcomes.state * A + outcomes.action
    order = np.argsort(row, kind="stable")
    successor = outcomes.next_state[order].astype(np.int32)
    rows = Rows(indptr_of(row, S * A), successor, outcomes.probability[order], outcomes.reward[order])
    return Listed(divided_out(rows) if single else rows, A, allowed)


def _whole(name: str, values: Any) -> NDArray[np.int64]:
    """Return places: whole numbers of 0 or more."""
    floats = as_floats(name, values)
    if not ((floats >= 0.0) & (floats < 2.0**31) & (floats == np.floor(floats))).all():
        raise InvalidMDP(f"TabularMDP: {name} must hold whole numbers from 0 on, got {shown(values)}.")
    return floats.astype(np.int64)


def _check_below(name: str, places: NDArray[np.int64], size: int) -> None:
    if places.size and places.max() >= size:
        raise InvalidMDP(f"TabularMDP: {name} must lie in 0..{size - 1}, got {places.max()}.")
