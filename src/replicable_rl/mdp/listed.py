"""Processes as lists of what there is: QuantEcon's ``DiscreteDP``, and columns with a row for each outcome."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidMDP, shown
from replicable_rl.mdp.arrays import as_floats, divided_out, is_single, rows_from_arrays
from replicable_rl.mdp.rows import Rows, check_size, indptr_of

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


def rows_from_quantecon(ddp: Any) -> Listed:
    """Return what a ``DiscreteDP`` says, in either of its forms; the reward -inf is an action that is not allowed."""
    if any(not hasattr(ddp, name) for name in ("R", "Q", "beta")) or isinstance(ddp, type):
        raise InvalidMDP(f"TabularMDP: from_quantecon needs a DiscreteDP, with R, Q and beta, got {shown(ddp)}.")
    R = as_floats("R", ddp.R)
    if getattr(ddp, "s_indices", None) is not None:
        return _pairs(ddp, R)
    if R.ndim != 2:
        raise InvalidMDP(f"TabularMDP: R of a DiscreteDP in product form must have shape (S, A), got {R.shape}.")
    is_real = ~np.isneginf(R)
    return Listed(*rows_from_arrays(ddp.Q, np.where(is_real, R, 0.0), "sas"), is_real)


def _pairs(ddp: Any, R: NDArray[np.float64]) -> Listed:
    """Read the form that lists state-action pairs: R (L,), Q (L, S) dense or sparse, s_indices and a_indices (L,)."""
    import scipy.sparse as sp

    state, action = _whole("s_indices", ddp.s_indices), _whole("a_indices", getattr(ddp, "a_indices", None))
    Q: Any = ddp.Q if sp.issparse(ddp.Q) else as_floats("Q", ddp.Q)
    if Q.ndim != 2 or not R.size or not R.shape == state.shape == action.shape == Q.shape[:1]:
        raise InvalidMDP(
            "TabularMDP: R, Q, s_indices and a_indices of a DiscreteDP must have one row for each pair, got shapes "
            f"{R.shape}, {Q.shape}, {state.shape} and {action.shape}."
        )
    sizes = int(Q.shape[1]), int(action.max()) + 1
    _check_below("s_indices", state, sizes[0])
    if np.unique(state * sizes[1] + action).size < state.size:
        raise InvalidMDP("TabularMDP: a DiscreteDP must list every pair of a state and an action once.")
    listed, is_real = sp.coo_array(Q), ~np.isneginf(R)
    kept = is_real[listed.coords[0]]
    pair, successor = listed.coords[0][kept], listed.coords[1][kept].astype(np.int64)
    probability = listed.data[kept].astype(np.float64)
    outcomes = _Outcomes(state[pair], action[pair], successor, R[pair], probability)
    return _listed(outcomes, sizes, (state[is_real], action[is_real]), is_single(ddp.Q))


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
    return _listed(outcomes, (S, A), (state, action), is_single(np.asarray(given[4])))


def _column(table: Any, name: str) -> Any:
    try:
        return table[name]
    except Exception:  # whatever somebody's frame raises
        raise InvalidMDP(
            f"TabularMDP: transitions must have the columns {', '.join(COLUMNS)}, got {shown(table)} without {name}."
        ) from None


def _listed(
    outcomes: _Outcomes, sizes: tuple[int, int], pairs: tuple[NDArray[np.int64], NDArray[np.int64]], single: bool
) -> Listed:
    """Return outcomes as rows; ``pairs`` are the states and actions that are allowed."""
    S, A = sizes
    check_size(S, A)
    if _SMALL + _GAPS * pairs[0].size < S * A:  # before anything so large is made
        raise InvalidMDP(
            f"TabularMDP: {pairs[0].size} rows are listed for {S} states and {A} actions. Number states and actions "
            "from 0 on, without gaps."
        )
    for name, size in (("state", S), ("action", A), ("next_state", S)):
        _check_below(name, getattr(outcomes, name), size)
    allowed = np.zeros((S, A), dtype=np.bool_)
    allowed[pairs] = True
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
