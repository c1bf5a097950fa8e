"""Tables as people have them: dense arrays in two layouts, scipy.sparse matrices, rewards of several shapes.

    layout   P                                                  R
    "sas"    (S, A, S'): P[s, a, s']                            (S,), (S, A) or (S, A, S')
    "ass"    (A, S, S'): P[a, s, s'], as in pymdptoolbox,       (S,), (S, A), (A, S, S'),
             or one (S, S') matrix for each action              or one (S, S') matrix for each action

Where A = S > 1 an array fits both layouts, and would be read in the wrong one without complaint: its layout must be
named. A list of vectors, which may be one for each state or for each action, is refused there.

Numbers of 32 bits are read as they are. Rounding puts the sum of a row with k of them up to k * 2**-23 beside 1: such a
row is divided by its sum, in 64 bits. Rows of 64-bit numbers must sum to 1 within 1e-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidMDP, check_choice, check_numbers
from replicable_rl.problem.rows import Rows, indptr_of, row_sums

Layout = Literal["sas", "ass"]
LAYOUTS: tuple[Layout, ...] = ("sas", "ass")
_SINGLE = 2.0**-23  # what rounding to 32 bits may do to a number near 1, twice over


class _Found(NamedTuple):
    """What P says: its non-zero entries in any order, and its sizes."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    probability: NDArray[np.float64]
    n_states: int
    n_actions: int
    layout: Layout
    is_single: bool


def dense_rows(P: Any, R: Any, layout: Layout | None) -> tuple[Rows, int]:
    """Return rows and number of actions; rewards of three dimensions are laid out as P is."""
    if layout is not None:
        layout = check_choice("TabularMDP", "layout", layout, LAYOUTS)
    if _are_sparse(P):
        raise InvalidMDP("TabularMDP: P must be dense arrays, got sparse matrices. Use from_sparse.")
    found = _dense(P, layout)
    return _sorted_by_row(found, _rewards(R, found, named=layout is not None))


def sparse_rows(P: Any, R: Any) -> tuple[Rows, int]:
    """Return rows and number of actions of one sparse matrix for each action."""
    if not _are_sparse(P):
        raise InvalidMDP("TabularMDP: P must be a list of sparse (S, S) matrices of numbers, one per action.")
    found = _by_action(P)
    return _sorted_by_row(found, _rewards(R, found, named=False))


def _sorted_by_row(found: _Found, reward: NDArray[np.float64]) -> tuple[Rows, int]:
    row = found.state * found.n_actions + found.action
    if (np.diff(row) < 0).any():
        order = np.argsort(row, kind="stable")
        found = found._replace(successor=found.successor[order], probability=found.probability[order])
        reward = reward[order]
    indptr = indptr_of(row, found.n_states * found.n_actions)
    rows = Rows(indptr, found.successor.astype(np.int32), found.probability, reward)
    return (divided_out(rows) if found.is_single else rows), found.n_actions


def divided_out(rows: Rows) -> Rows:
    """Return rows of 32-bit numbers, those divided by their sums that are off by no more than rounding."""
    length = np.diff(rows.indptr)
    if not rows.probability.size:
        return rows
    with np.errstate(over="ignore", invalid="ignore"):  # what is no probability is refused later
        sums, filled = row_sums(rows), length[length > 0]
        near = np.abs(sums - 1.0) <= filled * _SINGLE
        scale = np.repeat(np.where(near, sums, 1.0), filled)
    return rows._replace(probability=rows.probability / scale)


def is_single(*arrays: Any) -> bool:
    """Whether some of the arrays hold numbers of 32 bits."""
    return any(getattr(array, "dtype", None) == np.float32 for array in arrays)


def _are_sparse(values: Any) -> bool:
    """Whether these are sparse matrices, in a list or in an array of objects."""
    return _is_list(values) and any(hasattr(one, "tocoo") for one in values)


def _is_list(values: Any) -> bool:
    """Whether this is a list, or an array of objects."""
    if isinstance(values, np.ndarray):
        return values.dtype == object and values.ndim == 1
    return isinstance(values, Sequence) and not isinstance(values, (str, bytes))


def _dense(P: Any, layout: Layout | None) -> _Found:
    table = as_floats("P", _stacked(P))
    fits: list[Layout] = [
        one for one in LAYOUTS if table.ndim == 3 and table.shape[2] == table.shape[LAYOUTS.index(one)]
    ]
    if layout is None and len(fits) == 2 and table.shape != (1, 1, 1):  # where both are the same
        raise InvalidMDP(
            f"TabularMDP: P of shape {table.shape} may be (S, A, S) or (A, S, S). Say layout='sas' or layout='ass'."
        )
    if not fits or (layout is not None and layout not in fits):
        wanted = {"sas": "(S, A, S)", "ass": "(A, S, S)", None: "(S, A, S) or (A, S, S)"}[layout]
        other = f" Say layout='{fits[0]}' if it is {fits[0]}." if fits and layout is not None else ""
        raise InvalidMDP(f"TabularMDP: P must have shape {wanted}, got {table.shape}.{other}")
    chosen: Layout = layout or fits[0]
    table = table if chosen == "sas" else table.transpose(1, 0, 2)
    state, action, successor = np.nonzero(table)  # NaN counts as non-zero and is refused later
    probability = table[state, action, successor]
    n_states, n_actions, _ = table.shape
    return _Found(state, action, successor, probability, n_states, n_actions, chosen, is_single(_stacked(P)))


def _stacked(values: Any) -> Any:
    """Return a list of matrices, or an array of objects that are matrices, as one array where their shapes allow it."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        values = list(values)
    if not isinstance(values, (list, tuple)) or not all(type(one) is np.ndarray for one in values):
        return values
    return np.stack(values) if len({one.shape for one in values}) == 1 else values


def _by_action(P: Any) -> _Found:
    import scipy.sparse as sp

    n_actions, n_states = len(P), getattr(P[0], "shape", (0,))[0]
    if n_states == 0 or not all(_is_matrix(matrix, n_states) for matrix in P):
        raise InvalidMDP("TabularMDP: P must be a list of sparse (S, S) matrices of numbers, one per action.")
    tables = [sp.coo_array(matrix) for matrix in P]
    action = np.repeat(np.arange(n_actions), [table.nnz for table in tables])
    state, successor = (np.concatenate([table.coords[i] for table in tables]).astype(np.int64) for i in (0, 1))
    probability = np.concatenate([table.data for table in tables]).astype(np.float64)
    return _Found(state, action, successor, probability, n_states, n_actions, "ass", is_single(*P))


def _is_matrix(matrix: Any, n_states: int) -> bool:
    import scipy.sparse as sp

    shape, kind = getattr(matrix, "shape", None), getattr(getattr(matrix, "dtype", None), "kind", "")
    return bool(sp.issparse(matrix)) and shape == (n_states, n_states) and kind in tuple("fiub")


def _rewards(R: Any, found: _Found, *, named: bool) -> NDArray[np.float64]:
    """Return the reward of every outcome."""
    S, A, layout = found.n_states, found.n_actions, found.layout
    if _are_sparse(R):
        return _sparse_rewards(R, found)
    if layout == "ass" and S == A > 1 and _are_vectors(R):  # P goes by actions, and R may do so too
        raise InvalidMDP(
            f"TabularMDP: R is a list of {len(R)} vectors, one for each state or one for each action. Give an (S, A) "
            "array, R[s, a]."
        )
    rewards = as_floats("R", _stacked(R))
    whole, index = (
        ((S, A, S), (found.state, found.action)) if layout == "sas" else ((A, S, S), (found.action, found.state))
    )
    if rewards.shape == (S,):
        return rewards[found.state]
    if rewards.shape == (S, A):
        return rewards[found.state, found.action]
    if rewards.shape == whole:
        if not named and S == A > 1:
            raise InvalidMDP(
                f"TabularMDP: R of shape {rewards.shape} may be (S, A, S) or (A, S, S). Give R of shape (S, A), or one "
                "sparse (S, S) matrix for each action, as P has."
            )
        return rewards[(*index, found.successor)]
    name = "(S, A, S)" if layout == "sas" else "(A, S, S)"
    raise InvalidMDP(f"TabularMDP: R must have shape (S,), (S, A) = ({S}, {A}) or {name}, got {rewards.shape}.")


def _are_vectors(values: Any) -> bool:
    """Whether this is a list of arrays of one dimension; lists of numbers in a list are how people write an array."""
    return _is_list(values) and any(getattr(one, "ndim", None) == 1 for one in values)


def _sparse_rewards(R: Any, found: _Found) -> NDArray[np.float64]:
    """Return the rewards of one sparse (S, S) matrix per action, whose missing entries are rewards of 0."""
    import scipy.sparse as sp

    if len(R) != found.n_actions or not all(_is_matrix(matrix, found.n_states) for matrix in R):
        raise InvalidMDP("TabularMDP: R must hold one sparse (S, S) matrix of numbers per action, shaped like P.")
    reward = np.empty(found.action.size)
    for action, matrix in enumerate(R):
        of = np.flatnonzero(found.action == action)
        if of.size:
            reward[of] = np.asarray(sp.csr_array(matrix)[found.state[of], found.successor[of]]).reshape(-1)
    return reward


def as_floats(name: str, values: Any) -> NDArray[np.float64]:
    """Return numbers as 64-bit floats."""
    return check_numbers("TabularMDP", name, values, refusal=InvalidMDP)
