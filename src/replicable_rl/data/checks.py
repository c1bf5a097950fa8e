"""Checks of what a data set is made of, and places of its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_numbers, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def whole(name: str, values: ArrayLike, size: int, below: int | None = None) -> NDArray[np.int64]:
    """Return ``size`` whole numbers that are not negative, and below a bound if there is one."""
    found = _numbers(name, values)
    if found.shape != (size,) or not _are_whole(found):
        raise InvalidInput(
            f"Dataset: {name} must hold {size} whole numbers that are not negative, got {shown(values)}."
        )
    if below is not None and (found >= below).any():
        raise InvalidInput(f"Dataset: {name} must hold places from 0 to {below - 1}, got {shown(values)}.")
    return found.astype(np.int64, copy=False)


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return numbers as an array: floats, or the integers that an engine counted, as they are."""
    counted = type(values) is np.ndarray and values.dtype == np.int64
    return np.asarray(values) if counted else check_numbers("Dataset", name, values)


def _are_whole(found: NDArray[Any]) -> bool:
    if not found.size:
        return True
    fits = bool(found.min() >= 0 and found.max() < 2**53)  # not so where one is no number
    return fits and (found.dtype.kind == "i" or bool((found == np.floor(found)).all()))


def moved_to(place: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return numbers at other places, and 0 at all others.

    >>> moved_to(np.array([2, 0]), np.array([5, 7]), 3).tolist()
    [7, 0, 5]
    """
    moved = np.zeros(size, dtype=np.int64)
    moved[place] = values
    return moved
