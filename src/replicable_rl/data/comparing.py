"""Two logs, or two times of one log: what is compared of them.

Where rewards take few values, an outcome of a pair is a next state with its reward. Where they take many, hardly any
outcome comes twice, and a shift of all rewards would get lost among them. Then three things are compared: the next
states of a pair; its rewards, in about eight parts by size that are about equally likely; and the rewards of each
transition, likewise. The parts go by both samples together, so which row is in which sample has no say in them.

A change of a log over time is looked for in blocks: its rows in their order, cut into eight of about one size. Every
run of blocks is compared with all the others, so a change at some time is seen, and also a disturbance that passes.

Three questions or one, about 28 runs of blocks or one pair of logs: the smallest p-value times their number is one.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.data.homogeneity import homogeneity
from replicable_rl.data.nearness import snapped
from replicable_rl.data.stretches import changes, place
from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from replicable_rl.data.dataset import Dataset
    from replicable_rl.data.homogeneity import Found

BLOCKS = 8  # of a log, in time
_PARTS = 8  # of rewards, by their size
_CLEAR = 1e-3  # p-values below it say that two samples differ
_FEW = 16  # rewards of a pair: more are compared by their size


class Homogeneity(NamedTuple):
    """What the test found.

    ``p_value`` is the probability of differences like these, or larger ones, between two samples of one process;
    ``state`` and ``action`` are where they differ most, and ``pairs`` is how many pairs could be compared. Where the
    samples differ in nothing but tiny differences of rewards, ``apart`` is how large these are, as a share of the
    largest reward; else 0.
    """

    p_value: float
    state: int
    action: int
    pairs: int
    apart: float = 0.0


class Change(NamedTuple):
    """Whether a log looks like one process over time.

    As `Homogeneity`. The part of the log that differs most from the rest goes from ``begin`` to ``end``, as shares of
    its rows.
    """

    p_value: float
    state: int
    action: int
    pairs: int
    begin: float
    end: float
    apart: float = 0.0


class _View(NamedTuple):
    """Outcomes of groups, sorted, and how often each occurs in each block."""

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
    found = _smallest(one, key, reward, table, max(one.width, two.width), [(0, 1)])
    return None if found is None else Homogeneity(*found[:4], found.apart)


def change_over_time(data: Dataset) -> Change | None:
    """Test whether a log looks like one process over time; None where nobody knows when its rows came."""
    if data.blocks is None or data.blocks.shape[1] < 2:
        return None
    # The last block is in none of them: a run that ends with the log is what another one is compared with.
    runs = list(itertools.combinations(range(data.blocks.shape[1]), 2))
    return _smallest(data, data.key, data.reward, data.blocks, data.width, runs)


def _smallest(
    data: Dataset,
    key: NDArray[np.int64],
    reward: NDArray[np.float64],
    table: NDArray[np.int64],
    width: float,
    runs: Sequence[tuple[int, int]],
) -> Change | None:
    """Return where runs of blocks differ most from the other blocks, and whether only tiny parts of rewards do."""

    def with_rewards(reward: NDArray[np.float64]) -> Change | None:
        return _tested(list(_views(key, reward, table, width, data.n_states)), runs, table.shape[1], data.n_actions)

    found = with_rewards(reward)
    near = snapped(reward) if found is not None and found.p_value < _CLEAR else None
    if found is None or near is None:
        return found
    rest = with_rewards(near.reward)
    return found if rest is not None and rest.p_value < _CLEAR else found._replace(apart=near.apart)


def _tested(views: Sequence[_View], runs: Sequence[tuple[int, int]], blocks: int, n_actions: int) -> Change | None:
    """Return where runs of blocks differ most from the other blocks, corrected for the number of tests."""
    found: list[tuple[Found, _View, tuple[int, int]]] = []
    for view in views:
        up_to = np.concatenate([np.zeros((len(view.table), 1), np.int64), np.cumsum(view.table, axis=1)], axis=1)
        for i, j in runs:
            here = up_to[:, j] - up_to[:, i]
            test = homogeneity(view.group, here, up_to[:, -1] - here, parts=view.parts)
            found += [(test, view, (i, j))] if test is not None else []
    if not found:
        return None
    least, view, (i, j) = min(found, key=lambda one: one[0].p_value)
    p_value = min(1.0, len(views) * len(runs) * least.p_value)
    pairs = max((test.groups for test, view, _ in found if view.of_pairs), default=0)
    return Change(p_value, *divmod(int(view.pair[least.group]), n_actions), pairs, i / blocks, j / blocks)


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
