"""Outcome form: row (s, a) is a short list of (probability, next state, reward).

Row s*A + a owns the slice ``indptr[row]:indptr[row + 1]`` of three flat arrays, as in a
CSR matrix. Every builder ends in :func:`canonical_rows`, which checks the rows and brings
them to one form: outcomes sorted by (next state, reward), equal ones merged, impossible
ones dropped, and sums off by more than rounding divided out. So one process has one set
of arrays, and one digest, however it was written down.

The row of an action that is not allowed in a state is empty, and no other row is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, InvalidMDP, check_numbers, is_masked, shown
from replicable_rl.problem.support import Support

SUM_TOLERANCE = 1e-9
_MAX_STATES = 2**31 - 1  # next states are 32-bit integers
_MAX_ROWS = 2**40


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


Outcomes = Sequence[Sequence[Sequence[Sequence[float]] | None]]  # by state and action


def rows_from_outcomes(outcomes: Outcomes) -> tuple[Rows, int]:
    """Return rows and number of actions from ``outcomes[s][a] = [(probability, next state, reward), ...]``.

    None instead of a list is an action that is not allowed there; its row is empty.
    """
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
                f"and {n_actions} in state 0. Write None for an action that is not allowed."
            )
        for a, given in enumerate(actions):
            row = () if given is None else given
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


def canonical_rows(rows: Rows, n_states: int, n_actions: int, support: Support, *, likely: bool = False) -> Rows:
    """Check the rows and return them in canonical form (see the module); the row of a pair may not be empty.

    Where rows are ``likely`` to be in it already, as those of estimates, which are made by the thousand, one compiled
    pass looks first.
    """
    if likely and support.whole:
        from replicable_rl.problem._in_order import are_in_order

        if are_in_order(rows, n_states, n_actions):
            return rows
    _check_layout(rows, n_states, n_actions)
    rows = rows if support.whole else _without(rows, support)
    _check_filled(rows, n_actions, support)
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


def _without(rows: Rows, support: Support) -> Rows:
    """Return the rows without what was written for pairs that are not allowed."""
    flags, length = support.of_rows, np.diff(rows.indptr)
    kept = np.repeat(flags, length)
    if kept.all():
        return rows
    indptr = np.concatenate([[0], np.cumsum(np.where(flags, length, 0))]).astype(np.int64)
    return Rows(indptr, rows.next_state[kept], rows.probability[kept], rows.reward[kept])


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


def _check_filled(rows: Rows, n_actions: int, support: Support) -> None:
    empty = np.flatnonzero((np.diff(rows.indptr) == 0) & support.of_rows)
    if empty.size:
        raise InvalidMDP(
            f"TabularMDP: every row needs an outcome, row {describe_row(int(empty[0]), n_actions)} is empty. "
            "Make it a self-loop if nothing happens there, or say with allowed=... that the action cannot be taken."
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
            value = values[first].item()
            remedy = " Say with allowed=... that the action cannot be taken." if value == -np.inf else ""
            raise InvalidMDP(f"TabularMDP: {rule}, row {describe_row(row, n_actions)} has {value}.{remedy}")
    with np.errstate(over="ignore"):  # a sum of inf is refused below
        sums = row_sums(rows)
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))
    if wrong.size:
        row = int(np.flatnonzero(np.diff(rows.indptr))[wrong[0]])
        more = f" ({wrong.size} rows are wrong)" if wrong.size > 1 else ""
        raise InvalidMDP(
            f"TabularMDP: probabilities must sum to 1 within {SUM_TOLERANCE:g}, row {describe_row(row, n_actions)} "
            f"sums to {sums[wrong[0]]:.12g}{more}. Rescale the row or add the missing outcome."
        )


def row_sums(rows: Rows) -> NDArray[np.float64]:
    """Return the sums of the probabilities of all rows that are not empty."""
    sums: NDArray[np.float64] = np.add.reduceat(rows.probability, _starts(rows))
    return sums


def _starts(rows: Rows) -> NDArray[np.int64]:
    """Return where the rows that are not empty begin."""
    is_filled = np.diff(rows.indptr) > 0
    return rows.indptr[:-1] if is_filled.all() else rows.indptr[:-1][is_filled]


def _is_sorted_and_merged(rows: Rows) -> bool:
    """Whether outcomes are possible and strictly increasing in (next state, reward) within every row."""
    if not (rows.probability > 0).all():
        return False
    step = np.diff(rows.next_state)
    rises = (step > 0) | ((step == 0) & (rows.reward[1:] > rows.reward[:-1]))
    rises[_starts(rows)[1:] - 1] = True  # the last outcome of a row may exceed the first of the next
    return bool(rises.all())


def _sorted_and_merged(rows: Rows) -> Rows:
    n_rows = rows.indptr.size - 1
    possible = rows.probability > 0
    row = rows.row[possible]
    successor, reward = rows.next_state[possible], rows.reward[possible]
    order = np.lexsort((rows.probability[possible], reward, successor, row))  # sums of equal outcomes need an order too
    row, successor, reward = row[order], successor[order], reward[order]
    first = np.ones(row.size, dtype=bool)
    first[1:] = (np.diff(row) != 0) | (np.diff(successor) != 0) | (reward[1:] != reward[:-1])
    merged = np.add.reduceat(rows.probability[possible][order], np.flatnonzero(first))
    return Rows(indptr_of(row[first], n_rows), successor[first], merged, reward[first])


def _normalised(rows: Rows) -> Rows:
    """Divide out sums that are off by more than rounding; a second pass changes nothing."""
    sums, lengths = row_sums(rows), np.diff(rows.indptr)
    lengths = lengths if sums.size == lengths.size else lengths[lengths > 0]
    off = np.abs(sums - 1.0) > np.where(lengths > 1, lengths, 0) * 2.0**-52  # a sure outcome has probability 1 exactly
    if not off.any():
        return rows
    scale = np.repeat(np.where(off, sums, 1.0), lengths)
    return rows._replace(probability=rows.probability / scale)


def indptr_of(row: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return where the rows begin, from the row of every outcome."""
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
