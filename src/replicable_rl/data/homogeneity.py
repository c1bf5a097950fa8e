"""Do two samples come from one process? A test of every outcome, and of all pairs together.

Outcomes of a pair that are rare are put together with their neighbours. Two p-values are combined. One is of single
outcomes: given how often an outcome occurred in both samples together, how many of these are in the first is at most as
spread as a binomial number, so its tails are p-values, however unequal the samples; the smallest of them, times their
number, sees a large change in one place. The other is the chi-square test of homogeneity, summed over all pairs, which
sees small changes everywhere. Twice the smaller of both is a p-value, whatever they have to do with each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXPECTED = 5.0  # in each cell of the smaller sample: rarer ones are put together
_MANY = 20.0  # in each cell, for the chi-square law to hold well enough


class Homogeneity(NamedTuple):
    """What the test found.

    ``p_value`` is the probability of differences like these, or larger ones, between two samples of one process;
    ``state`` and ``action`` are where they differ most, and ``pairs`` is how many pairs could be compared.
    """

    p_value: float
    state: int
    action: int
    pairs: int


def homogeneity(
    pair: NDArray[np.int64], one: NDArray[np.int64], two: NDArray[np.int64], n_actions: int
) -> Homogeneity | None:
    """Compare two counts of the same outcomes, which are sorted by pair; None where nothing can be compared."""
    from scipy.stats import binom, chi2

    n_pairs = int(pair.max()) + 1 if pair.size else 0
    x, y, of, usual = _cells(pair, one, two, n_pairs, _EXPECTED)
    if not x.size:
        return None
    # Single outcomes: x of x + y are in the first sample.
    each = np.minimum(1.0, 2.0 * np.minimum(binom.cdf(x, x + y, usual), binom.sf(x - 1.0, x + y, usual)))
    least, place, pairs = float(each.min()) * each.size, int(of[np.argmin(each)]), np.unique(of).size
    # All together: (x - expected)^2/variance, summed over the outcomes.
    x, y, of, usual = _cells(pair, one, two, n_pairs, _MANY)
    chi = float(((x - usual * (x + y)) ** 2 / (usual * (1.0 - usual) * (x + y))).sum())
    everything = float(chi2.sf(chi, x.size - np.unique(of).size)) if x.size else 1.0
    return Homogeneity(min(1.0, 2.0 * min(everything, least)), *divmod(place, n_actions), pairs)


def _cells(
    pair: NDArray[np.int64], one: NDArray[np.int64], two: NDArray[np.int64], n_pairs: int, least: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return both counts of every cell, its pair, and the share of that pair's rows that are in the first sample.

    Cells have ``least`` rows or more, in the smaller sample, if the process is one; pairs with one cell tell nothing.
    """
    first, second = (np.bincount(pair, weights=counts, minlength=n_pairs) for counts in (one, two))
    both = (first > 0.0) & (second > 0.0)
    share = np.divide(np.minimum(first, second), first + second, out=np.zeros(n_pairs), where=both)
    cell = _with_neighbours(pair, (one + two) * share[pair], least)
    x, y = (np.bincount(cell, weights=counts) for counts in (one, two))
    of = np.zeros(x.size, dtype=np.int64)
    of[cell] = pair
    kept = both[of] & ((x + y) * share[of] >= least)  # the last cell of a pair may still be too rare
    kept &= np.bincount(of[kept], minlength=n_pairs)[of] >= 2
    x, y, of = x[kept], y[kept], of[kept]
    nx, ny = (np.bincount(of, weights=counts, minlength=n_pairs) for counts in (x, y))
    return x, y, of, nx[of] / (nx[of] + ny[of])


def _with_neighbours(pair: NDArray[np.int64], expected: NDArray[np.float64], least: float) -> NDArray[np.int64]:
    """Return the cell of every outcome: its own, or one with neighbours of the same pair that are rare too.

    >>> _with_neighbours(np.array([0, 0, 0, 0, 1]), np.array([90.0, 3.0, 2.5, 30.0, 1.0]), 5.0)
    array([0, 2, 2, 1, 3])
    """
    rare = expected < least
    before = np.cumsum(np.where(rare, expected, 0.0)) - np.where(rare, expected, 0.0)
    start = np.concatenate([[True], np.diff(pair) != 0]) if pair.size else np.zeros(0, dtype=bool)
    within = before - before[start][np.cumsum(start) - 1]  # of the rare ones of this pair, those before this one
    # A rare one opens a cell where a multiple of what is enough is passed; others have cells of their own.
    block = np.where(rare, np.floor(within / least), -1.0)
    key = np.stack([pair.astype(np.float64), block, np.where(rare, 0.0, np.arange(pair.size) + 1.0)])
    _, cell = np.unique(key, axis=1, return_inverse=True)
    return np.asarray(cell, dtype=np.int64).reshape(-1)
