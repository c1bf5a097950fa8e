"""The limit of this machine: nanoseconds per random number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dev.benchmarks import kernels
from dev.benchmarks.timing import Job, Measurement, in_turns

WORD = "a random 64-bit word"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 10
    words: int = 1_000_000


FULL, QUICK = Sizes(), Sizes(rounds=2, words=10_000)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a random word by several generators."""
    out, state = np.empty(sizes.words, dtype=np.uint64), np.arange(1, 5, dtype=np.uint64)
    generators = {"numpy PCG64": np.random.PCG64, "numpy SFC64": np.random.SFC64, "numpy Philox": np.random.Philox}
    jobs = [Job("xoshiro256++, compiled", partial(kernels.fill, state, out), factor=1.0 / sizes.words)]
    jobs += [
        Job(name, partial(kind(1).random_raw, sizes.words), factor=1.0 / sizes.words)
        for name, kind in generators.items()
    ]
    yield from in_turns("limits", WORD, jobs, rounds=sizes.rounds)
