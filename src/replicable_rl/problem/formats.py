"""Tables as people have them: dense arrays in two layouts, scipy.sparse matrices, columns with a row for each outcome.

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

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, InvalidMDP, check_choice, check_integer, check_numbers, shown
from replicable_rl.problem.rows import Rows, check_size, indptr_of, row_sums
from replicable_rl.sampling.counts import sums

if TYPE_CHECKING:
    from replicable_rl.problem.table import TabularMDP

Layout = Literal["sas", "ass"]
_LAYOUTS: tuple[Layout, ...] = ("sas", "ass")
_SHAPES = {"sas": "(S, A, S)", "ass": "(A, S, S)", None: "(S, A, S) or (A, S, S)"}
_SINGLE = 2.0**-23  # what rounding to 32 bits may do to a number near 1, twice over
_SMALL, _GAPS = 2**24, 1000  # pairs that may be missing in a list: so many, and so many for each row that is there
_COLUMNS = ("state", "action", "next_state", "reward", "probability")
_MOST_ENTRIES = 2**28  # of a dense array that is made: 2 GiB
_MOST_ROWS = 2**31  # of a log that is made


class Dense(NamedTuple):
    """A process as arrays; see :meth:`TabularMDP.to_dense`."""

    P: NDArray[np.float64]
    R: NDArray[np.float64]
    allowed: NDArray[np.bool_]


class _Entries(NamedTuple):
    """The outcomes that a table has, in any order, its sizes, and whether its numbers have 32 bits."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    probability: NDArray[np.float64]
    n_states: int
    n_actions: int
    is_single: bool

    def rows(self, reward: NDArray[np.float64]) -> Rows:
        """Return the outcomes row by row."""
        row = self.state * self.n_actions + self.action
        order = np.argsort(row, kind="stable")
        indptr = indptr_of(row, self.n_states * self.n_actions)
        rows = Rows(indptr, self.successor[order].astype(np.int32), self.probability[order], reward[order])
        return _divided_out(rows) if self.is_single and rows.probability.size else rows


def _divided_out(rows: Rows) -> Rows:
    """Return rows of 32-bit numbers, those divided by their sums that are off by no more than rounding."""
    length = np.diff(rows.indptr)
    with np.errstate(over="ignore", invalid="ignore"):  # what is no probability is refused later
        total, filled = row_sums(rows), length[length > 0]
        near = np.abs(total - 1.0) <= filled * _SINGLE
        scale = np.repeat(np.where(near, total, 1.0), filled)
    return rows._replace(probability=rows.probability / scale)


# --- arrays and matrices -------------------------------------------------------------------------------------------


def dense_rows(P: Any, R: Any, layout: Layout | None) -> tuple[Rows, int]:
    """Return rows and number of actions; rewards of three dimensions are laid out as P is."""
    if layout is not None:
        layout = check_choice("TabularMDP", "layout", layout, _LAYOUTS)
    if _are_sparse(P):
        raise InvalidMDP("TabularMDP: P must be dense arrays, got sparse matrices. Use from_sparse.")
    given = _stacked(P)
    table = _as_floats("P", given)
    fits = [one for one in _LAYOUTS if table.ndim == 3 and table.shape[2] == table.shape[_LAYOUTS.index(one)]]
    if layout is None and len(fits) == 2 and table.shape != (1, 1, 1):  # where both are the same
        raise InvalidMDP(
            f"TabularMDP: P of shape {table.shape} may be (S, A, S) or (A, S, S). Say layout='sas' or layout='ass'."
        )
    if not fits or (layout is not None and layout not in fits):
        other = f" Say layout='{fits[0]}' if it is {fits[0]}." if fits else ""
        raise InvalidMDP(f"TabularMDP: P must have shape {_SHAPES[layout]}, got {table.shape}.{other}")
    chosen = layout or fits[0]
    table = table if chosen == "sas" else table.transpose(1, 0, 2)
    state, action, successor = np.nonzero(table)  # NaN counts as non-zero and is refused later
    is_single = np.asarray(given).dtype == np.float32
    n_states, n_actions, _ = table.shape
    entries = _Entries(state, action, successor, table[state, action, successor], n_states, n_actions, is_single)
    return entries.rows(_rewards(R, entries, chosen, named=layout is not None)), entries.n_actions


def sparse_rows(P: Any, R: Any) -> tuple[Rows, int]:
    """Return rows and number of actions of one sparse matrix for each action."""
    if not (_are_sparse(P) and all(_is_matrix(matrix, P[0].shape[0]) for matrix in P)):
        raise InvalidMDP("TabularMDP: P must be a list of sparse (S, S) matrices of numbers, one per action.")
    import scipy.sparse as sp

    tables = [sp.coo_array(matrix) for matrix in P]
    action = np.repeat(np.arange(len(P)), [table.nnz for table in tables])
    state, successor = (np.concatenate([table.coords[i] for table in tables]).astype(np.int64) for i in (0, 1))
    probability = np.concatenate([table.data for table in tables]).astype(np.float64)
    is_single = any(table.dtype == np.float32 for table in tables)
    entries = _Entries(state, action, successor, probability, P[0].shape[0], len(P), is_single)
    return entries.rows(_rewards(R, entries, "ass", named=False)), entries.n_actions


def _rewards(R: Any, entries: _Entries, layout: Layout, *, named: bool) -> NDArray[np.float64]:
    """Return the reward of every outcome."""
    S, A = entries.n_states, entries.n_actions
    if _are_sparse(R):
        return _sparse_rewards(R, entries)
    if layout == "ass" and S == A > 1 and _is_list(R) and any(np.ndim(x) == 1 for x in R if isinstance(x, np.ndarray)):
        raise InvalidMDP(
            f"TabularMDP: R is a list of {len(R)} vectors, one for each state or one for each action. Give an (S, A) "
            "array, R[s, a]."
        )
    rewards = _as_floats("R", _stacked(R))
    if rewards.shape == (S,):
        return rewards[entries.state]
    if rewards.shape == (S, A):
        return rewards[entries.state, entries.action]
    if rewards.shape != ((S, A, S) if layout == "sas" else (A, S, S)):
        raise InvalidMDP(
            f"TabularMDP: R must have shape (S,), (S, A) = ({S}, {A}) or {_SHAPES[layout]}, got {rewards.shape}."
        )
    if not named and S == A > 1:
        raise InvalidMDP(
            f"TabularMDP: R of shape {rewards.shape} may be (S, A, S) or (A, S, S). Give R of shape (S, A), or one "
            "sparse (S, S) matrix for each action, as P has."
        )
    rewards = rewards if layout == "sas" else rewards.transpose(1, 0, 2)
    return rewards[entries.state, entries.action, entries.successor]


def _sparse_rewards(R: Any, entries: _Entries) -> NDArray[np.float64]:
    """Return the rewards of one sparse (S, S) matrix per action, whose missing entries are rewards of 0."""
    import scipy.sparse as sp

    if len(R) != entries.n_actions or not all(_is_matrix(matrix, entries.n_states) for matrix in R):
        raise InvalidMDP("TabularMDP: R must hold one sparse (S, S) matrix of numbers per action, shaped like P.")
    reward = np.empty(entries.action.size)
    for action, matrix in enumerate(R):
        of = np.flatnonzero(entries.action == action)
        if of.size:
            reward[of] = np.asarray(sp.csr_array(matrix)[entries.state[of], entries.successor[of]]).reshape(-1)
    return reward


def _stacked(values: Any) -> Any:
    """Return a list of matrices, or an array of objects that are matrices, as one array where their shapes allow it."""
    parts = list(values) if _is_list(values) else []
    if not parts or not all(isinstance(one, np.ndarray) and not np.ma.isMaskedArray(one) for one in parts):
        return values
    return np.stack(list(map(np.asarray, parts))) if len({one.shape for one in parts}) == 1 else values


def _is_list(values: Any) -> bool:
    """Whether this is a list, or an array of objects."""
    if isinstance(values, np.ndarray):
        return values.dtype == object and values.ndim == 1
    return isinstance(values, Sequence) and not isinstance(values, (str, bytes))


def _are_sparse(values: Any) -> bool:
    """Whether there are sparse matrices in a list or in an array of objects; whoever has one has imported scipy's."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and _is_list(values) and any(map(scipy.issparse, values))


def _is_matrix(matrix: Any, n_states: int) -> bool:
    import scipy.sparse as sp

    return bool(sp.issparse(matrix)) and matrix.shape == (n_states, n_states) and matrix.dtype.kind in "fiub"


def _as_floats(name: str, values: Any) -> NDArray[np.float64]:
    """Return numbers as 64-bit floats."""
    return check_numbers("TabularMDP", name, values, refusal=InvalidMDP)


# --- columns -------------------------------------------------------------------------------------------------------


def listed_rows(table: Any, n_states: int | None, n_actions: int | None) -> tuple[Rows, int, NDArray[np.bool_]]:
    """Return rows, number of actions, and which pairs there are: those that have a row in the columns."""
    given = [_column(table, name) for name in _COLUMNS]
    places = [_whole(name, column) for name, column in zip(_COLUMNS[:3], given[:3], strict=True)]
    reward, probability = (_as_floats(name, column) for name, column in zip(_COLUMNS[3:], given[3:], strict=True))
    state, action, successor = places
    shapes = {column.shape for column in (*places, reward, probability)}
    if len(shapes) > 1 or state.ndim != 1 or state.size == 0:
        said = ", ".join(map(str, sorted(shapes)))
        raise InvalidMDP(f"TabularMDP: transitions must be columns of one length, and have rows, got shapes {said}.")
    S = int(max(state.max(), successor.max())) + 1 if n_states is None else n_states
    A = int(action.max()) + 1 if n_actions is None else n_actions
    check_size(S, A)
    if _SMALL + _GAPS * state.size < S * A:  # before anything so large is made
        raise InvalidMDP(
            f"TabularMDP: {state.size} rows are listed for {S} states and {A} actions. Number both from 0 on, without "
            "gaps."
        )
    for name, column, size in zip(_COLUMNS, places, (S, A, S), strict=False):
        if column.max() >= size:
            raise InvalidMDP(f"TabularMDP: {name} must lie in 0..{size - 1}, got {column.max()}.")
    allowed = np.zeros((S, A), dtype=np.bool_)
    allowed[state, action] = True
    is_single = np.asarray(given[4]).dtype == np.float32
    return _Entries(state, action, successor, probability, S, A, is_single).rows(reward), A, allowed


def _column(table: Any, name: str) -> Any:
    try:
        return table[name]
    except Exception:  # whatever somebody's frame raises
        raise InvalidMDP(
            f"TabularMDP: transitions must have the columns {', '.join(_COLUMNS)}, got {shown(table)} without {name}."
        ) from None


def _whole(name: str, values: Any) -> NDArray[np.int64]:
    """Return places: whole numbers of 0 or more."""
    floats = _as_floats(name, values)
    if not ((floats >= 0.0) & (floats < 2.0**31) & (floats == np.floor(floats))).all():
        raise InvalidMDP(f"TabularMDP: {name} must hold whole numbers from 0 on, got {shown(values)}.")
    return floats.astype(np.int64)


# --- and back ------------------------------------------------------------------------------------------------------


def to_dense(mdp: TabularMDP, layout: Layout) -> Dense:
    """Return P and R as arrays, and which actions are allowed."""
    layout = check_choice("TabularMDP.to_dense", "layout", layout, _LAYOUTS)
    S, A, rows = mdp.n_states, mdp.n_actions, mdp.rows
    if S * A * S > _MOST_ENTRIES:
        raise InvalidInput(
            f"TabularMDP.to_dense: P would have {S * A * S:.3g} entries, more than {_MOST_ENTRIES:.3g}. Use "
            "to_transitions."
        )
    place, size = rows.row * S + rows.next_state, S * A * S
    P, R = sums(place, rows.probability, size), mdp.known_rewards
    if R is None:  # the mean over the outcomes of a transition; of one alone it is the reward itself, to the last bit
        alone = np.bincount(place, minlength=size)[place] == 1
        total = sums(place, np.where(alone, 0.0, rows.probability * rows.reward), size)
        mean = np.divide(total, P, out=np.zeros(size), where=P > 0.0)
        mean[place[alone]] = rows.reward[alone]
        R = mean.reshape(S, A, S)
    P = P.reshape(S, A, S)
    R = np.where(mdp.allowed if R.ndim == 2 else mdp.allowed[:, :, None], R, -np.inf)
    if layout == "ass":
        P, R = (np.ascontiguousarray(x.transpose(1, 0, 2)) if x.ndim == 3 else x for x in (P, R))
    return Dense(P, R, mdp.allowed.copy())


def to_transitions(mdp: TabularMDP, samples: int | None, seed: int | None) -> dict[str, NDArray[Any]]:
    """Return columns: of all outcomes, or of a log with so many samples of every pair."""
    rows = mdp.rows
    outcome = np.arange(rows.probability.size) if samples is None else _drawn(mdp, samples, seed)
    if samples is None and seed is not None:
        raise InvalidInput("TabularMDP.to_transitions: seed is for a log. Give samples=..., or leave seed out.")
    row = rows.row[outcome]
    columns: dict[str, NDArray[Any]] = {"state": row // mdp.n_actions, "action": row % mdp.n_actions}
    successor, reward = {"next_state": rows.next_state[outcome].astype(np.int64)}, {"reward": rows.reward[outcome]}
    if samples is not None:
        return columns | reward | successor
    return columns | successor | reward | {"probability": rows.probability.copy()}


def _drawn(mdp: TabularMDP, samples: int, seed: int | None) -> NDArray[np.int64]:
    """Return outcomes in random order, so many of every pair."""
    owner, rows, pairs = "TabularMDP.to_transitions", mdp.rows, np.flatnonzero(mdp.allowed)
    samples = check_integer(owner, "samples", samples, low=1, high=_MOST_ROWS // pairs.size)
    rng = np.random.Generator(np.random.PCG64DXSM(check_integer(owner, "seed", seed, low=0, high=2**64 - 1)))
    count = np.zeros(rows.probability.size, dtype=np.int64)
    for pair in pairs.tolist():
        share = rows.probability[rows.of_row(pair)]
        count[rows.of_row(pair)] = rng.multinomial(samples, share / share.sum())
    return rng.permutation(np.repeat(np.arange(count.size), count))
