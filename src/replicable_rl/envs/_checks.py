"""Checks that several problems share; each refuses with one sentence that names its owner."""

import math

from replicable_rl.errors import check_real

_LARGEST = 1e6  # of a price or a cost: far beyond any use, far below what rounding would spoil


def check_gamma(owner: str, gamma: object) -> float:
    """Return a discount in [0, 1).

    >>> check_gamma("chain-v1", 1.0)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: chain-v1: gamma must be a discount in [0, 1), got 1.0.
    """
    return check_real(owner, "gamma", gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")


def check_probability(owner: str, name: str, value: object) -> float:
    """Return a number in [0, 1]."""
    return check_real(owner, name, value, low=0.0, high=1.0, rule="a number in [0, 1]")


def check_amount(owner: str, name: str, value: object) -> float:
    """Return a price, a cost or another amount: 0 or more."""
    return check_real(owner, name, value, low=0.0, high=_LARGEST, rule=f"a number from 0 to {_LARGEST:.0f}")
