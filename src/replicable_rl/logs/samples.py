"""Do two samples come from one process: two logs, or the earlier and the later half of one.

Where rewards take few values, an outcome of a pair is a next state with its reward. Where they take many, hardly any
outcome comes twice, and a shift of all rewards would get lost among them. Then three things are compared: the next
states of a pair; its rewards, in about eight parts by size that are about equally likely; and the rewards of each
transition, likewise. The parts go by both samples together, so which row is in which sample has no say in them.

Outcomes of a pair that are rare are put together with their neighbours. Two p-values are combined. One is of single
outcomes: given how often an outcome occurred in both samples together, how many of these are in the first is at most as
spread as a binomial number, so its tails are p-values, however unequal the samples; the smallest of them, times their
number, sees a large change in one place. The other is the chi-square test of homogeneity, summed over all pairs, which
sees small changes everywhere. Twice the smaller of both is a p-value, whatever they have to do with each other.

Where outcomes are numbers, such as rewards, a third one asks whether those of one sample are larger: Wilcoxon's rank
sums, whose squares are summed over all pairs, too. Ranks have no tails, so that no reward is too large for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

ALARM = 1e-3  # a false alarm about two processes in one log: one in a thousand logs, or less often
_PARTS = 8  # of rewards, by their size
_FEW = 16  # rewards of a pair: more are compared by their size
_EXPECTED = 5.0  # in each cell of the smaller sample: rarer ones are put together
_MANY = 20.0  # in each cell, for the chi-square law to hold well enough
_TAILS = 2000  # cells whose tails are computed: those that deviate most


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

    group: Integers  # of every outcome
    pair: Integers  # of every group
    table: Integers
    of_pairs: bool  # whether groups are pairs, and no transitions
    parts: int | None


def difference_of(
    n_states: int, n_actions: int, key: Integers, reward: Floats, table: Integers, width: float
) -> Homogeneity | None:
    """Return where two samples differ most, corrected for the number of tests; a row of ``table`` has both counts."""
    views = list(_views(key, reward, table, width, n_states))
    tests = ((homogeneity(view.group, *view.table.T, parts=view.parts), view) for view in views)
    found = [(test, view) for test, view in tests if test is not None]
    if not found:
        return None
    least, view = min(found, key=lambda one: one[0].p_value)
    pairs = max((test.groups for test, view in found if view.of_pairs), default=0)
    state, action = divmod(int(view.pair[least.group]), n_actions)
    return Homogeneity(min(1.0, len(views) * least.p_value), state, action, pairs)


def _views(key: Integers, reward: Floats, table: Integers, width: float, n_states: int) -> Iterator[_View]:
    """Yield what is compared: all outcomes, or next states and rewards apart where rewards take many values."""
    pair, nothing = key // n_states, np.zeros(key.size)
    where = np.floor(reward / width) if width and not math.isinf(width) else nothing if width else reward
    if not width and _most_values(pair, reward) <= _FEW:
        yield _view(pair, pair, (key, where), table)
        return
    yield _view(pair, pair, (key, nothing), table)
    if not math.isinf(width):
        yield _view(pair, pair, (pair, where), table, parts=_PARTS)
        yield _view(pair, key, (key, where), table, parts=_PARTS)


def _view(
    pair: Integers, group: Integers, outcome: tuple[Integers, Floats], table: Integers, parts: int | None = None
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
        new[1:] |= column[1:] != column[:-1]
    return new


def _most_values(pair: Integers, reward: Floats) -> int:
    """Return how many different rewards the pair with most has.

    >>> _most_values(np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 1.0, 3.0]))
    2
    """
    order = np.lexsort((reward, pair))
    new = _changes(pair[order], reward[order])
    return int(np.bincount(pair[order][new], minlength=1).max())


class Found(NamedTuple):
    """A p-value, the group with the outcome that differs most, and how many groups could be compared."""

    p_value: float
    group: int
    groups: int


def homogeneity(group: Integers, one: Integers, two: Integers, *, parts: int | None = None) -> Found | None:
    """Compare two counts of the same outcomes; None where nothing can be compared.

    Parameters
    ----------
    group : (K,) integers
        What the outcomes are outcomes of, sorted: pairs, for example. How often each occurs in a sample says nothing.
    one, two : (K,) integers
        How often each outcome occurs in each sample.
    parts : int, optional
        Put neighbours together until a group has about so many cells: for outcomes that are numbers, in order.

    Examples
    --------
    >>> coin = np.array([0, 0])
    >>> homogeneity(coin, np.array([50, 50]), np.array([500, 500])).p_value
    1.0
    >>> homogeneity(coin, np.array([50, 50]), np.array([200, 800])).p_value < 1e-8
    True
    """
    from scipy.stats import binom, chi2

    n_groups = int(group.max()) + 1 if group.size else 0
    x, y, of, usual = _cells(group, one, two, n_groups, _EXPECTED, parts)
    if not x.size:
        return None
    # Single outcomes: x of x + y are in the first sample. Others than those that deviate most can only have larger p.
    groups, cells = np.unique(of).size, x.size
    if cells > _TAILS:
        deviation = np.abs(x - usual * (x + y)) / np.sqrt(usual * (1.0 - usual) * (x + y))
        most = np.argpartition(deviation, cells - _TAILS)[cells - _TAILS :]
        x, y, of, usual = x[most], y[most], of[most], usual[most]
    each = np.minimum(1.0, 2.0 * np.minimum(binom.cdf(x, x + y, usual), binom.sf(x - 1.0, x + y, usual)))
    least, place = float(each.min()) * cells, int(of[np.argmin(each)])
    # All together: (x - expected)^2/variance, summed over the outcomes.
    x, y, of, usual = _cells(group, one, two, n_groups, _MANY, parts)
    # Given both margins the squares of a group of N rows have the mean dof*N/(N-1): over many groups that adds up.
    rows = np.bincount(of, weights=x + y, minlength=n_groups)[of] if x.size else x
    chi = float(((x - usual * (x + y)) ** 2 / (usual * (1.0 - usual) * (x + y)) * (1.0 - 1.0 / rows)).sum())
    everything = float(chi2.sf(chi, x.size - np.unique(of).size)) if x.size else 1.0
    found = [least, everything] if parts is None else [least, everything, _by_rank(group, one, two, n_groups)]
    return Found(min(1.0, len(found) * min(found)), place, groups)


def _by_rank(group: Integers, one: Integers, two: Integers, n_groups: int) -> float:
    """Return the p-value of rank sums: given all numbers of a group, those of the first sample are any of them.

    >>> sizes = np.arange(100)
    >>> _by_rank(np.zeros(100, int), sizes, 99 - sizes, 1) < 1e-9, _by_rank(np.zeros(100, int), sizes, sizes, 1)
    (True, 1.0)
    """
    from scipy.stats import chi2

    squares, apart = _squared_rank_sums(group, one, two, n_groups)
    squares = squares[apart >= _MANY]
    return float(chi2.sf(squares.sum(), squares.size)) if squares.size else 1.0


def _squared_rank_sums(group: Integers, one: Integers, two: Integers, n_groups: int) -> tuple[Floats, Floats]:
    """Return the square of the rank sum of the first sample over its variance, for every group: 1 on average.

    And how many of the smaller sample do not have the number that is the commonest: if they are few, the sum is no
    normal number.
    """
    both = (one + two).astype(np.float64)
    x, y, n = (np.bincount(group, weights=counts, minlength=n_groups) for counts in (one, two, both))
    rank = np.cumsum(both) - both / 2.0 - (np.cumsum(n) - n / 2.0)[group]  # from the middle of the group
    total = np.bincount(group, weights=one * rank, minlength=n_groups)
    spread = np.bincount(group, weights=both * rank * rank, minlength=n_groups)
    variance = x * y / np.maximum(n * (n - 1.0), 1.0) * spread
    largest = np.zeros(n_groups)
    np.maximum.at(largest, group, both)
    apart = np.minimum(x, y) * (1.0 - largest / np.maximum(n, 1.0))
    return np.divide(total**2, variance, out=np.zeros(n_groups), where=variance > 0.0), apart


def _cells(
    group: Integers, one: Integers, two: Integers, n_groups: int, least: float, parts: int | None
) -> tuple[Floats, Floats, Integers, Floats]:
    """Return both counts of every cell, its group, and the share of that group's rows that are in the first sample.

    Cells have ``least`` rows or more, in the smaller sample, if the process is one; groups with one cell tell nothing.
    """
    first, second = (np.bincount(group, weights=counts, minlength=n_groups) for counts in (one, two))
    fewer = np.minimum(first, second)
    share = np.divide(fewer, first + second, out=np.zeros(n_groups), where=fewer > 0.0)
    enough = np.full(n_groups, least) if parts is None else np.maximum(least, fewer / parts)
    cell = _with_neighbours(group, (one + two) * share[group], enough)
    x, y = (np.bincount(cell, weights=counts) for counts in (one, two))
    of = np.zeros(x.size, dtype=np.int64)
    of[cell] = group
    kept = (x + y) * share[of] >= least  # the last cell of a group may still be too rare
    kept &= np.bincount(of[kept], minlength=n_groups)[of] >= 2
    x, y, of = x[kept], y[kept], of[kept]
    nx, ny = (np.bincount(of, weights=counts, minlength=n_groups)[of] for counts in (x, y))
    told = (nx > 0.0) & (ny > 0.0)  # what is left of a group may be of one sample alone
    return x[told], y[told], of[told], nx[told] / (nx + ny)[told]


def _with_neighbours(group: Integers, expected: Floats, enough: Floats) -> Integers:
    """Return the cell of every outcome: its own, or one with neighbours of the same group that are rare too.

    >>> _with_neighbours(np.array([0, 0, 0, 0, 1]), np.array([90.0, 3.0, 2.5, 30.0, 1.0]), np.array([5.0, 5.0]))
    array([2, 0, 0, 3, 1])
    """
    rare = np.flatnonzero(expected < enough[group])
    of, amount = group[rare], expected[rare]
    start = np.concatenate([[True], np.diff(of) != 0]) if rare.size else np.zeros(0, dtype=bool)
    before = np.cumsum(amount) - amount
    within = before - before[start][np.cumsum(start) - 1]  # of the rare ones of this group, those before this one
    # A rare one opens a cell where a multiple of what is enough is passed; others have cells of their own.
    block = np.floor(within / enough[of])
    opens = start.copy()
    opens[1:] |= np.diff(block) != 0.0
    cell = np.full(group.size, -1, dtype=np.int64)
    cell[rare] = np.cumsum(opens) - 1
    alone = cell < 0
    cell[alone] = int(opens.sum()) + np.arange(int(alone.sum()))
    return cell
