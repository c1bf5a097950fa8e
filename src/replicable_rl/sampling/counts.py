"""Counts of outcomes: the sufficient statistic that every sampler returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.errors import SampleSizeTooLarge, check_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_CALLS", "OutcomeCounts", "check_calls"]

MAX_CALLS = 2**63 - 1


@dataclass(frozen=True, eq=False)
class OutcomeCounts:
    """How often each outcome of each pair occurred in ``calls`` calls.

    Row s*A + a owns the slice ``indptr[row]:indptr[row + 1]``; its counts sum to ``calls``
    (the exact process is the probabilities with one call). ``reward`` is the reward of an
    outcome, or the mean reward observed with it.
    """

    indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    reward: NDArray[np.float64]
    count: NDArray[np.int64] | NDArray[np.float64]
    calls: int

    def mean(self, outcome_values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for every row, the empirical mean of a function of the outcome.

        ``outcome_values`` holds the function's value at every outcome, for example
        ``value[counts.next_state]``.
        """
        from replicable_rl.mdp import _kernels

        total = np.empty(self.indptr.size - 1)
        _kernels.row_means(self.indptr, self.count, outcome_values, total)
        return total / float(self.calls)


def check_calls(owner: str, calls: int) -> int:
    """Return ``calls`` if it is a count that 64 bits can hold."""
    if isinstance(calls, int) and calls > MAX_CALLS:
        raise SampleSizeTooLarge(
            f"{owner}: at most 2**63 - 1 = {MAX_CALLS:.3g} calls can be counted, got {calls:.3g}. Pass a smaller calls."
        )
    return check_integer(owner, "calls", calls, low=1, high=MAX_CALLS)
