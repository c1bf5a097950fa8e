r"""rSTAT: round empirical means to bins whose grid is shifted by a shared offset (``thm:rep-sq``).

    k = floor((v - off)/beta)          answer = middle of [off + k beta, off + (k+1) beta] within [0, 1]

The answer is computed from the integer k alone, so two means in one bin get the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput, check_in_open_interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.theory.rstat import Form

__all__ = ["RoundedMeans", "rstat"]


class RoundedMeans(NamedTuple):
    """The answers, and the integer bins they stand for."""

    answer: NDArray[np.float64]
    bin: NDArray[np.int64]


def rstat(means: ArrayLike, offset: ArrayLike, width: float, *, form: Form = "midpoint") -> RoundedMeans:
    """Round means in [0, 1] to the bins of width ``width``.

    ``offset`` holds uniform numbers in [0, 1), one per mean or one for all; the grid is
    shifted by ``offset * width``. In the ``"zero-preserving"`` form the bin that contains
    0 answers 0.

    >>> rstat([0.32, 0.38, 0.51], offset=0.5, width=0.2)
    RoundedMeans(answer=array([0.4, 0.4, 0.6]), bin=array([1, 1, 2]))
    >>> rstat([0.02, 0.32], offset=0.5, width=0.2, form="zero-preserving").answer
    array([0. , 0.4])
    """
    width = check_in_open_interval("rstat", "width", width, 0.0, np.inf)
    v = np.clip(np.asarray(means, dtype=np.float64), 0.0, 1.0)  # a mean of numbers in [0, 1], up to rounding
    if np.isnan(v).any():
        raise InvalidInput("rstat: a mean is NaN.")
    shift = width * np.asarray(offset, dtype=np.float64)
    k = np.floor((v - shift) / width)
    low = np.clip(shift + k * width, 0.0, 1.0)
    high = np.clip(shift + (k + 1.0) * width, 0.0, 1.0)
    answer = low + (high - low) / 2.0
    if form == "zero-preserving":
        answer = np.where(low == 0.0, 0.0, answer)
    elif form != "midpoint":
        raise InvalidInput(f"rstat: form must be 'midpoint' or 'zero-preserving', got {form!r}.")
    return RoundedMeans(answer, k.astype(np.int64))
