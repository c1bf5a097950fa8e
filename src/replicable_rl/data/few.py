"""Pairs with little data: a threshold below which a pair counts as the worst there is, in all logs alike.

A pair that one log saw twice and another one never would be worth something in one and the worst in the other. Below a
threshold both take it for the worst; it is random, so that few counts are close to it. It goes up to 10, or to the root
of what the middle pair has: with more data it grows, or two large logs would differ in the pairs that hardly ever
occur, and it grows slowly, so that in the end every pair counts. It is never above half of the middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.wording import number, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness

_FEW = 10.0  # samples of a pair: with more, it counts, where there are not very many of the others
_MOST_NAMED = 5  # pairs


def largest_threshold(visits: NDArray[np.float64]) -> float:
    """Return the largest number of samples that a pair may be asked for to count.

    >>> largest_threshold(np.array([0.0, 100.0, 100.0])), largest_threshold(np.array([3.0, 3.0]))
    (10.0, 1.5)
    """
    tried = visits[visits > 0.0]
    middle = float(np.median(tried)) if tried.size else 1.0
    return max(min(max(_FEW, math.sqrt(middle)), middle / 2.0), 1.0)


def threshold(visits: NDArray[np.float64], shared: SharedRandomness | None) -> float:
    """Return how many samples a pair needs to count: a shared random number from 1 to the largest threshold.

    Without shared numbers it is the largest threshold.
    """
    u = 1.0 if shared is None else float(shared.uniform("decide/few", shape=1)[0])
    return float(largest_threshold(visits) ** u)


def taken_for_the_worst(pairs: Sequence[int], of: int, fewest: float, named: Callable[[int], str] | None = None) -> str:
    """Say which pairs have too few samples.

    >>> taken_for_the_worst([3], 8, 2.71, "go in state {}".format)
    '1 pair of 8 with fewer than 2.71 rows, taken for the worst: go in state 3'
    """
    many = f"{plural(len(pairs), 'pair')} of {of}"
    if named is None:
        return f"{many} never tried, taken for the worst"
    few = f"fewer than {number(fewest, 3)} rows" if fewest > 1.0 else "no rows"
    return f"{many} with {few}, taken for the worst: {_names(pairs, named)}"


def taken_all_the_same(pairs: Sequence[int], named: Callable[[int], str]) -> list[str]:
    """Say where a pair with too few samples is taken: within the loss that is allowed, or for want of others.

    >>> taken_all_the_same([3], "go in state {}".format)
    ['taken all the same: go in state 3']
    """
    return [f"taken all the same: {_names(pairs, named)}"] if pairs else []


def _names(pairs: Sequence[int], named: Callable[[int], str]) -> str:
    names = [named(pair) for pair in pairs[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(pairs) - len(names)} more" if len(pairs) > len(names) else "")
