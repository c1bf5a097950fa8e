"""Checks of what a data set is made of, and places of its names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.errors import InvalidInput, check_numbers, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def whole(name: str, values: ArrayLike, size: int, below: int | None = None) -> NDArray[np.int64]:
    """Return ``size`` whole numbers that are not negative, and below a bound if there is one."""
    floats = check_numbers("Dataset", name, values)
    if floats.shape != (size,) or not ((floats >= 0.0) & (floats < 2.0**53) & (floats == np.floor(floats))).all():
        raise InvalidInput(
            f"Dataset: {name} must hold {size} whole numbers that are not negative, got {shown(values)}."
        )
    if below is not None and (floats >= below).any():
        raise InvalidInput(f"Dataset: {name} must hold places from 0 to {below - 1}, got {shown(values)}.")
    return floats.astype(np.int64)


def check_blocks(blocks: ArrayLike, count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each outcome occurs in each block of a log: together not more often than in all."""
    floats = check_numbers("Dataset", "blocks", blocks)
    if floats.ndim != 2 or floats.shape[0] != count.size:
        raise InvalidInput(
            f"Dataset: blocks must have a row for each of the {count.size} outcomes, got {shown(blocks)}."
        )
    found = whole("blocks", floats.reshape(-1), floats.size).reshape(floats.shape)
    if (found.sum(axis=1) > count).any():
        raise InvalidInput("Dataset: the blocks of an outcome must not add up to more than its count.")
    return found


def moved_to(place: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return numbers at other places, and 0 at all others.

    >>> moved_to(np.array([2, 0]), np.array([5, 7]), 3).tolist()
    [7, 0, 5]
    """
    moved = np.zeros(size, dtype=np.int64)
    moved[place] = values
    return moved
