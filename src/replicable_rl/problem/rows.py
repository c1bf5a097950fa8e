"""Outcome form: row (s, a) is a short list of (probability, next state, reward); and the arrays that people have.

Row s*A + a owns the slice ``indptr[row]:indptr[row + 1]`` of three flat arrays, as in a CSR matrix. Every builder ends
in :func:`canonical_rows`, which checks the rows and brings them to one form: outcomes sorted by (next state, reward),
equal outcomes merged, impossible outcomes dropped, and sums off by more than rounding divided out. So one process has
one set of arrays, and one digest, however it was written down. The row of an action that is not allowed in a state is
empty, and no other row is.

    layout   P                                                  R
    "sas"    (S, A, S'): P[s, a, s']                            (S,), (S, A) or (S, A, S')
    "ass"    (A, S, S'): P[a, s, s'], as in pymdptoolbox        (S,), (S, A) or (A, S, S')
    sparse   one (S, S') matrix for each action                 (S,) or (S, A)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_numbers
from replicable_rl.problem.source import Support

SUM_TOLERANCE = 1e-9

Layout = Literal["sas", "ass"]
_KINDS = {"indptr": "iu", "next_state": "iu", "probability": "f", "reward": "fiu"}
_EXACT_TYPES = tuple(map(np.dtype, (np.int64, np.int32, np.float64, np.float64)))
Outcomes = Sequence[Sequence[Sequence[Sequence[float]] | None]]  # by state and action


class Rows(NamedTuple):
    """The four arrays of the outcome form."""

    indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def row(self) -> NDArray[np.int64]:
        """The row s*A + a of every outcome."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def of_row(self, row: int) -> slice:
        """Return the slice of the flat arrays that belongs to a row."""
        return slice(int(self.indptr[row]), int(self.indptr[row + 1]))


def describe_row(row: int, n_actions: int) -> str:
    """Return '(state s, action a)' for a row index."""
    return f"(state {row // n_actions}, action {row % n_actions})"


# --- one form ------------------------------------------------------------------------------------------------------


def canonical_rows(rows: Rows, n_states: int, n_actions: int, support: Support, *, estimated: bool = False) -> Rows:
    """Check the rows and return them in canonical form (see the module); the row of a pair may not be empty.

    Rows of estimates are made by the thousand, and are in that form as a rule: one compiled pass checks them first.
    """
    if estimated and support.whole and are_canonical(rows, n_states, n_actions):
        return rows
    _check_layout(rows, n_states * n_actions)
    rows = rows if support.whole else _restricted(rows, support)
    _check_outcomes(rows, n_states, n_actions, support)
    rows = Rows(*(np.asarray(array, dtype=kind) for array, kind in zip(rows, _EXACT_TYPES, strict=True)))
    rows = rows._replace(reward=rows.reward + 0.0)  # no -0.0
    return _normalised(rows if _is_sorted_and_merged(rows) else _sorted_and_merged(rows))


def are_canonical(rows: Rows, n_states: int, n_actions: int) -> bool:
    """Whether the canonical form has the same bits; False only means that rows need a closer look."""
    from replicable_rl.sampling import _kernels

    sizes = {array.shape for array in rows[1:]}
    if tuple(array.dtype for array in rows) != _EXACT_TYPES or rows.indptr.shape != (n_states * n_actions + 1,):
        return False
    return sizes == {(rows.probability.size,)} and bool(_kernels.are_canonical(*rows, n_states))


def _check_layout(rows: Rows, n_rows: int) -> None:
    indptr, n_outcomes = rows.indptr, rows.probability.size
    for (name, array), kinds in zip(rows._asdict().items(), _KINDS.values(), strict=True):
        if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
            numbers = "integers" if kinds == "iu" else "floats"
            raise InvalidInput(f"TabularMDP: {name} must hold {numbers}, got {array.dtype}.")
        if name != "indptr" and array.shape != (n_outcomes,):
            raise InvalidInput("TabularMDP: next_state, probability and reward must be flat arrays of one length.")
    if indptr.shape != (n_rows + 1,) or indptr[0] != 0 or indptr[-1] != n_outcomes or (np.diff(indptr) < 0).any():
        raise InvalidInput(
            f"TabularMDP: indptr must rise from 0 to the number of outcomes ({n_outcomes}) in S*A + 1 = "
            f"{n_rows + 1} entries, got shape {indptr.shape}."
        )


def _restricted(rows: Rows, support: Support) -> Rows:
    """Return the rows without what was written for pairs that are not allowed."""
    flags, length = support.of_rows, np.diff(rows.indptr)
    kept = np.repeat(flags, length)
    indptr = np.concatenate([[0], np.cumsum(np.where(flags, length, 0))]).astype(np.int64)
    return Rows(indptr, rows.next_state[kept], rows.probability[kept], rows.reward[kept])


def _check_outcomes(rows: Rows, n_states: int, n_actions: int, support: Support) -> None:
    empty = np.flatnonzero((np.diff(rows.indptr) == 0) & support.of_rows)
    if empty.size:
        raise InvalidInput(
            f"TabularMDP: every row needs an outcome, row {describe_row(int(empty[0]), n_actions)} is empty. "
            "Make it a self-loop if nothing happens there, or say with allowed=... that the action cannot be taken."
        )
    nowhere = (rows.next_state < 0) | (rows.next_state >= n_states)
    for bad, values, rule in (
        (~((rows.probability >= 0) & np.isfinite(rows.probability)), rows.probability, "probabilities must be >= 0"),
        (nowhere, rows.next_state, f"next states must lie in 0..{n_states - 1}"),
        (~np.isfinite(rows.reward), rows.reward, "rewards must be finite"),
    ):
        if bad.any():
            k = int(np.argmax(bad))
            row = describe_row(int(rows.row[k]), n_actions)
            raise InvalidInput(f"TabularMDP: {rule}, row {row} has {values[k].item()}.")
    with np.errstate(over="ignore"):  # a sum of inf is refused below
        sums = _row_sums(rows)
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))
    if wrong.size:
        row = describe_row(int(np.flatnonzero(np.diff(rows.indptr))[wrong[0]]), n_actions)
        raise InvalidInput(
            f"TabularMDP: probabilities must sum to 1 within {SUM_TOLERANCE:g}, row {row} sums to "
            f"{sums[wrong[0]]:.12g} ({wrong.size} rows are wrong). Rescale the row or add the missing outcome."
        )


def _row_sums(rows: Rows) -> NDArray[np.float64]:
    """Return the sums of the probabilities of all rows that are not empty."""
    sums: NDArray[np.float64] = np.add.reduceat(rows.probability, _starts(rows))
    return sums


def _starts(rows: Rows) -> NDArray[np.int64]:
    """Return where the rows that are not empty begin."""
    return rows.indptr[:-1][np.diff(rows.indptr) > 0]


def _is_sorted_and_merged(rows: Rows) -> bool:
    """Whether outcomes are possible and strictly increasing in (next state, reward) within every row."""
    step = np.diff(rows.next_state)
    rises = (step > 0) | ((step == 0) & (rows.reward[1:] > rows.reward[:-1]))
    rises[_starts(rows)[1:] - 1] = True  # the last outcome of a row may exceed the first of the next
    return bool((rows.probability > 0).all() and rises.all())


def _sorted_and_merged(rows: Rows) -> Rows:
    possible = rows.probability > 0
    row, successor, reward = rows.row[possible], rows.next_state[possible], rows.reward[possible]
    order = np.lexsort((rows.probability[possible], reward, successor, row))  # sums of equal outcomes need an order too
    row, successor, reward = row[order], successor[order], reward[order]
    new = np.ones(row.size, dtype=bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(successor) != 0) | (reward[1:] != reward[:-1])
    merged = np.add.reduceat(rows.probability[possible][order], np.flatnonzero(new))
    return Rows(indptr_of(row[new], rows.indptr.size - 1), successor[new], merged, reward[new])


def _normalised(rows: Rows) -> Rows:
    """Divide out sums that are off by more than rounding; a second pass changes nothing."""
    sums, lengths = _row_sums(rows), np.diff(rows.indptr)
    lengths = lengths[lengths > 0]
    off = np.abs(sums - 1.0) > np.where(lengths > 1, lengths, 0) * 2.0**-52  # a sure outcome has probability 1 exactly
    if not off.any():
        return rows
    return rows._replace(probability=rows.probability / np.repeat(np.where(off, sums, 1.0), lengths))


def indptr_of(row: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return where the rows begin, from the row of every outcome."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))]).astype(np.int64)


# --- what people have ----------------------------------------------------------------------------------------------


def outcome_rows(outcomes: Outcomes) -> tuple[Rows, int]:
    """Return rows and number of actions from ``outcomes[s][a] = [(probability, next state, reward), ...]``.

    None instead of a list is an action that is not allowed there; its row is empty.
    """
    flat: list[Sequence[float]] = []
    ends, form = [0], "outcomes must be lists: outcomes[s][a] = [(probability, next state, reward), ...]"
    try:
        n_states, lengths = len(outcomes), {len(actions) for actions in outcomes}
        for row in (row for actions in outcomes for row in actions):
            flat.extend(() if row is None else row)
            ends.append(len(flat))
    except TypeError:
        raise InvalidInput(f"TabularMDP: {form}.") from None
    if len(lengths) > 1:
        raise InvalidInput(
            f"TabularMDP: every state must have the same number of actions, got {min(lengths)} and {max(lengths)}. "
            "Write None for an action that is not allowed."
        )
    n_actions, indptr, table = max(lengths, default=0), np.array(ends), _floats("outcomes", flat)
    if table.shape != (len(flat), 3) and flat:
        raise InvalidInput(f"TabularMDP: {form}.")
    probability, successor, reward = table.reshape(-1, 3).T.copy()
    bad = ~((successor >= 0) & (successor < n_states) & (successor == np.floor(successor)))
    if bad.any():
        k = int(np.argmax(bad))
        name = describe_row(int(np.searchsorted(indptr, k, side="right")) - 1, n_actions)
        raise InvalidInput(f"TabularMDP: next states must lie in 0..{n_states - 1}, row {name} has {flat[k][1]}.")
    return Rows(indptr, successor.astype(np.int32), probability, reward), n_actions


def dense_rows(P: Any, R: Any, layout: Layout | None) -> tuple[Rows, int]:
    """Return rows and number of actions; rewards of three dimensions are laid out as P is."""
    table, rewards = _floats("P", P), _floats("R", R)
    fits = [name for name, axis in (("sas", 0), ("ass", 1)) if table.ndim == 3 and table.shape[axis] == table.shape[2]]
    if layout is None and (len(fits) == 1 or table.shape == (1, 1, 1)):
        layout = "sas" if "sas" in fits else "ass"
    if layout not in fits:
        raise InvalidInput(
            f"TabularMDP: P must be (S, A, S), layout='sas', or (A, S, S), layout='ass'; got {layout=} and shape "
            f"{table.shape}. Name the layout where both fit."
        )
    if layout == "ass":
        table, rewards = (x.transpose(1, 0, 2) if x.ndim == 3 else x for x in (table, rewards))
    n_states, n_actions, _ = table.shape
    state, action, successor = np.nonzero(table)  # NaN counts as non-zero and is refused later
    if rewards.shape != table.shape:
        rewards = _by_pair(rewards, n_states, n_actions)[:, :, None]
    reward = np.broadcast_to(rewards, table.shape)[state, action, successor]
    indptr = indptr_of(state * n_actions + action, n_states * n_actions)
    return Rows(indptr, successor.astype(np.int32), table[state, action, successor], reward), n_actions


def sparse_rows(P: Any, R: Any) -> tuple[Rows, int]:
    """Return rows and number of actions of one sparse matrix for each action."""
    import scipy.sparse

    are_sparse = isinstance(P, (list, tuple)) and len(P) > 0 and all(map(scipy.sparse.issparse, P))
    if not are_sparse or {matrix.shape for matrix in P} != {(P[0].shape[0],) * 2}:
        raise InvalidInput("TabularMDP: P must be a list of sparse (S, S) matrices, one for each action.")
    tables = [scipy.sparse.coo_array(matrix) for matrix in P]
    n_states, n_actions = tables[0].shape[0], len(tables)
    action = np.repeat(np.arange(n_actions), [table.nnz for table in tables])
    state, successor = (np.concatenate([table.coords[i] for table in tables]).astype(np.int64) for i in (0, 1))
    probability = _floats("P", np.concatenate([table.data for table in tables]))
    reward = _by_pair(_floats("R", R), n_states, n_actions)[state, action]
    row = state * n_actions + action
    order, indptr = np.argsort(row, kind="stable"), indptr_of(row, n_states * n_actions)
    return Rows(indptr, successor[order].astype(np.int32), probability[order], reward[order]), n_actions


def _by_pair(rewards: NDArray[np.float64], n_states: int, n_actions: int) -> NDArray[np.float64]:
    """Return the (S, A) rewards that are given by state or by pair."""
    if rewards.shape == (n_states,):
        return np.repeat(rewards[:, None], n_actions, axis=1)
    if rewards.shape != (n_states, n_actions):
        raise InvalidInput(
            f"TabularMDP: R must have shape (S,), (S, A) = ({n_states}, {n_actions}) or that of P, got {rewards.shape}."
        )
    return rewards


def _floats(name: str, values: Any) -> NDArray[np.float64]:
    return check_numbers("TabularMDP", name, values)
