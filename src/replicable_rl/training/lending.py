"""The global generators of Python and numpy: nothing here draws from them, but other people's code does.

Such code is lent a seeded state, and the caller's own is put back afterwards.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def lent_generators() -> Iterator[None]:
    """Put the global generators back, after the block, to where they were."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002  # what is put back is the legacy state
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002  # as above


def seed_generators(seed: int) -> None:
    """Seed the global generators; call it inside `lent_generators`."""
    random.seed(seed)
    np.random.set_state(np.random.RandomState(seed).get_state())  # noqa: NPY002  # the only seed of the legacy state
