"""Outcome form: row (s, a) is a short list of (probability, next state, reward).

Row s*A + a owns the slice ``indptr[row]:indptr[row + 1]`` of three flat arrays, as in a
CSR matrix. Every builder ends in :func:`canonical_rows`, which checks the rows and brings
them to one form: outcomes sorted by (next state, reward), equal ones merged, impossible
ones dropped, and sums off by more than rounding divided out. So one process has one set
of arrays, and one digest, however it was written down.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.errors import InvalidInput, InvalidMDP, check_numbers, is_masked, shown

SUM_TOLERANCE = 1e-9
_MAX_STATES = 2**31 - 1  # next states are 32-bit integers
_MAX_ROWS = 2**40


class Rows(NamedTuple):
    """The four arrays of the outcome form."""

    indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]

    def of_row(self, row: int) -> slice:
        """Return the slice of the flat arrays that belongs to a row."""
        return slice(int(self.indptr[row]), int(self.indptr[row + 1]))


def rows_from_dense(P: ArrayLike, R: ArrayLike) -> tuple[Rows, int]:
    """Return rows and number of actions from P (S, A, S) and R (S, A) or (S, A, S)."""
    transitions = _as_floats("P", P)
    rewards = _as_floats("R", R)
    if transitions.ndim != 3 or transitions.shape[0] != transitions.shape[2]:
        raise InvalidMDP(f"TabularMDP: P must have shape (S, A, S), got {transitions.shape}.")
    n_states, n_actions, _ = transitions.shape
    _check_reward_shape(rewards.shape, n_states, n_actions)
    state, action, successor = np.nonzero(transitions)  # NaN counts as non-zero and is refused below
    indptr = _indptr(state * n_actions + action, n_states * n_actions)
    reward = rewards[state, action] if rewards.ndim == 2 else rewards[state, action, successor]
    return Rows(indptr, successor.astype(np.int32), transitions[state, action, successor], reward), n_actions


def rows_from_sparse(P: Sequence[Any], R: Any) -> tuple[Rows, int]:
    """Return rows and number of actions from one sparse (S, S) matrix per action.

    ``R`` is an (S, A) array, or one sparse (S, S) matrix per action whose missing
    entries are rewards of 0.
    """
    import scipy.sparse as sp

    n_actions = len(P) if isinstance(P, Sequence) else 0
    n_states = getattr(P[0], "shape", (0,))[0] if n_actions else 0
    if (
        n_states == 0
        or not all(map(sp.issparse, P))
        or any(matrix.shape != (n_states, n_states) or matrix.dtype.kind not in "fiub" for matrix in P)
    ):
        raise InvalidMDP("TabularMDP: P must be a list of sparse (S, S) matrices of numbers, one per action.")
    tables = [sp.coo_array(matrix) for matrix in P]
    action = np.repeat(np.arange(n_actions), [table.nnz for table in tables])
    state = np.concatenate([table.coords[0] for table in tables])
    successor = np.concatenate([table.coords[1] for table in tables])
    probability = np.concatenate([table.data for table in tables]).astype(np.float64)
    if isinstance(R, Sequence) and len(R) > 0 and all(sp.issparse(matrix) for matrix in R):
        if len(R) != n_actions or any(matrix.shape != (n_states, n_states) for matrix in R):
            raise InvalidMDP("TabularMDP: R must hold one sparse (S, S) matrix per action, shaped like P.")
        lookup = [sp.csr_array(matrix) for matrix in R]
        values = [
            np.asarray(m[t.coords[0], t.coords[1]]).reshape(-1) if t.nnz else np.empty(0)
            for m, t in zip(lookup, tables, strict=True)
        ]
        reward = np.concatenate(values).astype(np.float64)
    else:
        rewards = _as_floats("R", R)
        _check_reward_shape(rewards.shape, n_states, n_actions)
        reward = rewards[state, action] if rewards.ndim == 2 else rewards[state, action, successor]
    row = state.astype(np.int64) * n_actions + action
    order = np.argsort(row, kind="stable")
    indptr = _indptr(row, n_states * n_actions)
    return Rows(indptr, successor[order].astype(np.int32), probability[order], reward[order]), n_actions


def rows_from_outcomes(outcomes: Sequence[Sequence[Sequence[Sequence[float]]]]) -> tuple[Rows, int]:
    """Return rows and number of actions from ``outcomes[s][a] = [(probability, next state, reward), ...]``."""
    if not (_is_list(outcomes) and all(map(_is_list, outcomes))):
        raise InvalidMDP(
            "TabularMDP: outcomes must be lists, outcomes[s][a] = [(probability, next state, reward), ...]."
        )
    n_states = len(outcomes)
    n_actions = len(outcomes[0]) if n_states else 0
    flat: list[Sequence[float]] = []
    lengths: list[int] = []
    for s, actions in enumerate(outcomes):
        if len(actions) != n_actions:
            raise InvalidMDP(
                f"TabularMDP: every state must have the same number of actions, got {len(actions)} in state {s} "
                f"and {n_actions} in state 0. Give a forbidden action the outcomes of an allowed one."
            )
        for a, row in enumerate(actions):
            if not (_is_list(row) and all(_is_list(outcome) and len(outcome) == 3 for outcome in row)):
                raise _no_outcome(s, a)
            flat.extend(row)
            lengths.append(len(row))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    try:
        table = check_numbers("TabularMDP", "outcomes", flat).reshape(-1, 3)
    except (InvalidInput, ValueError):
        first = next(k for k, outcome in enumerate(flat) if not _are_numbers(outcome))
        raise _no_outcome(*divmod(_row_of(indptr, first), n_actions)) from None
    successor = table[:, 1]
    bad = ~((successor >= 0) & (successor < n_states) & (successor == np.floor(successor)))
    if bad.any():
        first = int(np.argmax(bad))
        row_name = describe_row(_row_of(indptr, first), n_actions)
        raise InvalidMDP(f"TabularMDP: next states must lie in 0..{n_states - 1}, row {row_name} has {flat[first][1]}.")
    return Rows(indptr, successor.astype(np.int32), table[:, 0].copy(), table[:, 2].copy()), n_actions


def check_size(n_states: int, n_actions: int) -> None:
    """Refuse a process without states, or with more than can be stored."""
    if not (1 <= n_states <= _MAX_STATES and n_actions >= 1 and n_states * n_actions <= _MAX_ROWS):
        raise InvalidMDP(
            f"TabularMDP: needs 1 to {_MAX_STATES} states and at least 1 action, got {n_states} states and "
            f"{shown(n_actions)} actions."
        )


def canonical_rows(rows: Rows, n_states: int, n_actions: int) -> Rows:
    """Check the rows and return them in canonical form (see the module)."""
    _check_layout(rows, n_states, n_actions)
    _check_outcomes(rows, n_states, n_actions)
    rows = Rows(
        rows.indptr.astype(np.int64, copy=False),
        rows.next_state.astype(np.int32, copy=False),
        rows.probability.astype(np.float64, copy=False),
        rows.reward.astype(np.float64, copy=False) + 0.0,
    )
    if not _is_sorted_and_merged(rows):
        rows = _sorted_and_merged(rows)
    return _normalised(rows)


def describe_row(row: int, n_actions: int) -> str:
    """Return '(state s, action a)' for a row index."""
    return f"(state {row // n_actions}, action {row % n_actions})"


def _check_layout(rows: Rows, n_states: int, n_actions: int) -> None:
    indptr, n_rows, n_outcomes = rows.indptr, n_states * n_actions, rows.probability.size
    for (name, array), kind in zip(rows._asdict().items(), ("iu", "iu", "f", "fiu"), strict=True):
        if array.dtype.kind not in kind or array.dtype.itemsize > 8:
            raise InvalidMDP(
                f"TabularMDP: {name} must hold {'integers' if kind == 'iu' else 'floats'}, got {array.dtype}."
            )
    if any(array.shape != (n_outcomes,) for array in rows[1:]):
        raise InvalidMDP("TabularMDP: next_state, probability and reward must be flat arrays of one length.")
    if indptr.shape != (n_rows + 1,) or indptr[0] != 0 or indptr[-1] != n_outcomes or (np.diff(indptr) < 0).any():
        raise InvalidMDP(
            f"TabularMDP: indptr must rise from 0 to the number of outcomes ({n_outcomes}) in S*A + 1 = "
            f"{n_rows + 1} entries, got shape {indptr.shape}."
        )
    empty = np.flatnonzero(np.diff(indptr) == 0)
    if empty.size:
        raise InvalidMDP(
            f"TabularMDP: every row needs an outcome, row {describe_row(int(empty[0]), n_actions)} is empty. "
            "Make it a self-loop if nothing happens there."
        )


def _check_outcomes(rows: Rows, n_states: int, n_actions: int) -> None:
    checks = (
        (~((rows.probability >= 0) & np.isfinite(rows.probability)), rows.probability, "probabilities must be >= 0"),
        (
            (rows.next_state < 0) | (rows.next_state >= n_states),
            rows.next_state,
            f"next states must lie in 0..{n_states - 1}",
        ),
        (~np.isfinite(rows.reward), rows.reward, "rewards must be finite"),
    )
    for bad, values, rule in checks:
        if bad.any():
            first = int(np.argmax(bad))
            row = _row_of(rows.indptr, first)
            raise InvalidMDP(f"TabularMDP: {rule}, row {describe_row(row, n_actions)} has {values[first].item()}.")
    with np.errstate(over="ignore"):  # a sum of inf is refused below
        sums = np.add.reduceat(rows.probability, rows.indptr[:-1])
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))
    if wrong.size:
        row = int(wrong[0])
        more = f" ({wrong.size} rows are wrong)" if wrong.size > 1 else ""
        raise InvalidMDP(
            f"TabularMDP: probabilities must sum to 1 within {SUM_TOLERANCE:g}, row {describe_row(row, n_actions)} "
            f"sums to {sums[row]:.12g}{more}. Rescale the row or add the missing outcome."
        )


def _is_sorted_and_merged(rows: Rows) -> bool:
    """Whether outcomes are possible and strictly increasing in (next state, reward) within every row."""
    if not (rows.probability > 0).all():
        return False
    step = np.diff(rows.next_state)
    rises = (step > 0) | ((step == 0) & (rows.reward[1:] > rows.reward[:-1]))
    rises[rows.indptr[1:-1] - 1] = True  # the last outcome of a row may exceed the first of the next
    return bool(rises.all())


def _sorted_and_merged(rows: Rows) -> Rows:
    n_rows = rows.indptr.size - 1
    possible = rows.probability > 0
    row = np.repeat(np.arange(n_rows), np.diff(rows.indptr))[possible]
    successor, reward = rows.next_state[possible], rows.reward[possible]
    order = np.lexsort((rows.probability[possible], reward, successor, row))  # sums of equal outcomes need an order too
    row, successor, reward = row[order], successor[order], reward[order]
    first = np.ones(row.size, dtype=bool)
    first[1:] = (np.diff(row) != 0) | (np.diff(successor) != 0) | (reward[1:] != reward[:-1])
    merged = np.add.reduceat(rows.probability[possible][order], np.flatnonzero(first))
    return Rows(_indptr(row[first], n_rows), successor[first], merged, reward[first])


def _normalised(rows: Rows) -> Rows:
    """Divide out sums that are off by more than rounding; a second pass changes nothing."""
    lengths = np.diff(rows.indptr)
    sums = np.add.reduceat(rows.probability, rows.indptr[:-1])
    off = np.abs(sums - 1.0) > np.where(lengths > 1, lengths, 0) * 2.0**-52  # a sure outcome has probability 1 exactly
    if not off.any():
        return rows
    scale = np.repeat(np.where(off, sums, 1.0), lengths)
    return rows._replace(probability=rows.probability / scale)


def _indptr(row: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    counts = np.bincount(row, minlength=n_rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _row_of(indptr: NDArray[np.int64], outcome: int) -> int:
    return int(np.searchsorted(indptr, outcome, side="right")) - 1


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and not is_masked(value)
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _are_numbers(outcome: Sequence[float]) -> bool:
    try:
        return check_numbers("TabularMDP", "outcomes", outcome).shape == (3,)
    except InvalidInput:
        return False


def _no_outcome(state: int, action: int) -> InvalidMDP:
    return InvalidMDP(
        f"TabularMDP: an outcome is (probability, next state, reward); row (state {state}, action {action}) "
        "holds something else."
    )


def _check_reward_shape(shape: tuple[int, ...], n_states: int, n_actions: int) -> None:
    if shape not in ((n_states, n_actions), (n_states, n_actions, n_states)):
        raise InvalidMDP(f"TabularMDP: R must have shape (S, A) = ({n_states}, {n_actions}) or (S, A, S), got {shape}.")


def _as_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    return check_numbers("TabularMDP", name, values, refusal=InvalidMDP)
