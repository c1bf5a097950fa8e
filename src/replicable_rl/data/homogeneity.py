"""Do two samples come from one process? A test of every pair, and of all pairs together.

For a pair that both samples tried, the outcomes are compared by the chi-square test of homogeneity; outcomes that are
too rare for it are put together. Two p-values are combined: that of the sum over all pairs, which sees small changes
everywhere, and the smallest of a single pair times their number, which sees a large change in one place. Twice the
smaller of them is a p-value, whatever they have to do with each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXPECTED = 5.0  # in each cell, for the chi-square law to hold well enough


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
    from scipy.stats import chi2

    n_pairs = int(pair.max()) + 1 if pair.size else 0
    first, second = (np.bincount(pair, weights=counts, minlength=n_pairs) for counts in (one, two))
    both = (first > 0.0) & (second > 0.0)
    share = np.divide(np.minimum(first, second), first + second, out=np.zeros(n_pairs), where=both)
    # An outcome that is expected less often than that goes to the others of its pair.
    rare = (one + two) * share[pair] < _EXPECTED
    cell = np.where(rare, -1, np.arange(pair.size))
    keys = np.where(cell >= 0, pair * np.int64(pair.size + 1) + cell + 1, pair * np.int64(pair.size + 1))
    unique, inverse = np.unique(keys, return_inverse=True)
    x, y = (np.bincount(inverse, weights=counts, minlength=unique.size) for counts in (one, two))
    of = unique // np.int64(pair.size + 1)
    total = (x + y) * share[of]
    counted = both[of] & ((x + y) > 0.0) & (total >= _EXPECTED)  # the rest of a pair may still be too rare
    a, b, of = x[counted], y[counted], of[counted]
    cells = np.bincount(of, minlength=n_pairs)
    na, nb = (np.bincount(of, weights=counts, minlength=n_pairs) for counts in (a, b))
    compared = (cells >= 2) & (na > 0.0) & (nb > 0.0)
    keep = compared[of]
    a, b, of = a[keep], b[keep], of[keep]
    if not compared.any():
        return None
    # Two samples of different sizes: (sqrt(nb/na) a - sqrt(na/nb) b)^2/(a + b), summed over the outcomes.
    statistic = (np.sqrt(nb[of] / na[of]) * a - np.sqrt(na[of] / nb[of]) * b) ** 2 / (a + b)
    chi = np.bincount(of, weights=statistic, minlength=n_pairs)
    freedom = np.where(compared, cells - 1, 0)
    each = np.where(compared, chi2.sf(chi, np.maximum(freedom, 1)), 1.0)
    worst, pairs = int(np.argmin(each)), int(compared.sum())
    everything = float(chi2.sf(chi.sum(), freedom.sum()))
    return Homogeneity(min(1.0, 2.0 * min(everything, pairs * float(each[worst]))), *divmod(worst, n_actions), pairs)
