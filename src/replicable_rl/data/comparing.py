"""Two logs, or two times of one log: what is compared of them.

Where rewards take few values, an outcome of a pair is a next state with its reward. Where they take many, hardly any
outcome comes twice, and a shift of all rewards would get lost among them. Then three things are compared: the next
states of a pair; its rewards, in about eight parts by size that are about equally likely; and the rewards of each
transition, likewise. The parts go by both samples together, so which row is in which sample has no say in them.

Its earlier and its later half are what is compared of a log over time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.data.homogeneity import homogeneity
from replicable_rl.data.stretches import changes, place
from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from replicable_rl.data.dataset import Dataset

_PARTS = 8  # of rewards, by their size
_FEW = 16  # rewards of a pair: more are compared by their size


class Homogeneity(NamedTuple):
    """What the test found.

    ``p_value`` is the probability of differences like these, or larger ones, between two samples of one process;
    ``state`` and ``action`` are where they differ most, and ``pairs`` is how many pairs could be compared.
    """

    p_value: float
    state: int
    action: int
    pairs: int


class _View(NamedTuple):
    """Outcomes of groups, sorted, and how often each occurs in both samples."""

    group: NDArray[np.int64]  # of every outcome
    pair: NDArray[np.int64]  # of every group
    table: NDArray[np.int64]
    of_pairs: bool  # whether groups are pairs, and no transitions
    parts: int | None


def same_process(one: Dataset, two: Dataset) -> Homogeneity | None:
    """Test whether two logs come from one process; None where they have no pair in common that can be compared.

    Parameters
    ----------
    one, two : Dataset
        Read with the same names, discount and reward range.
    """
    from replicable_rl.data.dataset import Dataset

    for name, data in (("one", one), ("two", two)):
        if not isinstance(data, Dataset):
            raise InvalidInput(f"same_process: {name} must be a Dataset, got {shown(data)}.")
    if one.process != two.process:
        raise InvalidInput(
            "same_process: the logs are of two declared processes. Read both with the same states=..., actions=..., "
            "gamma and reward_range."
        )
    key, reward = np.concatenate([one.key, two.key]), np.concatenate([one.reward, two.reward])
    table = np.zeros((key.size, 2), dtype=np.int64)
    table[: one.key.size, 0], table[one.key.size :, 1] = one.count, two.count
    return compared(one, key, reward, table, max(one.width, two.width))


def change_over_time(data: Dataset) -> Homogeneity | None:
    """Test whether both halves of a log come from one process; None where nobody knows when its rows came."""
    if data.early is None:
        return None
    return compared(data, data.key, data.reward, np.stack([data.early, data.count - data.early], axis=1), data.width)


def compared(
    data: Dataset, key: NDArray[np.int64], reward: NDArray[np.float64], table: NDArray[np.int64], width: float
) -> Homogeneity | None:
    """Return where two samples differ most, corrected for the number of tests; a row of ``table`` has both counts."""
    views = list(_views(key, reward, table, width, data.n_states))
    tests = ((homogeneity(view.group, *view.table.T, parts=view.parts), view) for view in views)
    found = [(test, view) for test, view in tests if test is not None]
    if not found:
        return None
    least, view = min(found, key=lambda one: one[0].p_value)
    pairs = max((test.groups for test, view in found if view.of_pairs), default=0)
    state, action = divmod(int(view.pair[least.group]), data.n_actions)
    return Homogeneity(min(1.0, len(views) * least.p_value), state, action, pairs)


def _views(
    key: NDArray[np.int64], reward: NDArray[np.float64], table: NDArray[np.int64], width: float, n_states: int
) -> Iterator[_View]:
    """Yield what is compared: all outcomes, or next states and rewards apart where rewards take many values."""
    pair, nothing = key // n_states, np.zeros(key.size)
    where = place(reward, width) if width else reward
    if not width and _most_values(pair, reward) <= _FEW:
        yield _view(pair, pair, (key, where), table)
        return
    yield _view(pair, pair, (key, nothing), table)
    if not math.isinf(width):
        yield _view(pair, pair, (pair, where), table, parts=_PARTS)
        yield _view(pair, key, (key, where), table, parts=_PARTS)


def _view(
    pair: NDArray[np.int64],
    group: NDArray[np.int64],
    outcome: tuple[NDArray[np.int64], NDArray[np.float64]],
    table: NDArray[np.int64],
    parts: int | None = None,
) -> _View:
    """Return the rows of a table added up over equal outcomes, and their groups, numbered."""
    order = np.lexsort(outcome[::-1])
    first = np.flatnonzero(_changes(*(one[order] for one in outcome)))
    added = np.add.reduceat(table[order], first, axis=0) if order.size else table
    kept = order[first]
    opens = _changes(group[kept])
    return _View(np.cumsum(opens) - 1, pair[kept[opens]], added.astype(np.int64, copy=False), group is pair, parts)


def _changes(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows of sorted columns differ from the row before.

    >>> _changes(np.array([0, 0, 1]), np.array([0.5, 0.5, 0.5]))
    array([ True, False,  True])
    """
    new = np.zeros(columns[0].size, dtype=np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= changes(column)
    return new


def _most_values(pair: NDArray[np.int64], reward: NDArray[np.float64]) -> int:
    """Return how many different rewards the pair with most has.

    >>> _most_values(np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 1.0, 3.0]))
    2
    """
    order = np.lexsort((reward, pair))
    new = _changes(pair[order], reward[order])
    return int(np.bincount(pair[order][new], minlength=1).max())
