"""The limits of this machine: nanoseconds per random number, and memory bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dev.benchmarks import kernels
from dev.benchmarks.timing import Job, Measurement, all_cores, in_turns, pinned_threads

WORD, TRAFFIC = "a random 64-bit word", "memory bandwidth"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 10
    words: int = 1_000_000
    megabytes: int = 400


FULL, QUICK = Sizes(), Sizes(rounds=2, words=10_000, megabytes=4)


def measure(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a random word by several generators, and of a byte moved on one core and on all."""
    out, state = np.empty(sizes.words, dtype=np.uint64), np.arange(1, 5, dtype=np.uint64)
    generators = {"numpy PCG64": np.random.PCG64, "numpy SFC64": np.random.SFC64, "numpy Philox": np.random.Philox}
    jobs = [Job("xoshiro256++, compiled", partial(kernels.fill, state, out), factor=1.0 / sizes.words)]
    jobs += [
        Job(name, partial(kind(1).random_raw, sizes.words), factor=1.0 / sizes.words)
        for name, kind in generators.items()
    ]
    yield from in_turns("limits", WORD, jobs, rounds=sizes.rounds)
    yield from _traffic(sizes)


def _traffic(sizes: Sizes) -> Iterator[Measurement]:
    jobs = []
    for name, kernel, arrays in (("copy", np.copyto, 2), ("triad", kernels.triad, 3)):
        length = sizes.megabytes * 1_000_000 // (8 * arrays)
        vectors = [np.ones(length) for _ in range(arrays)]
        for cores in sorted({1, all_cores()}):
            call = partial(_in_parts, kernel, vectors, cores)
            jobs.append(Job(name, call, {"cores": cores}, 1.0 / (8 * arrays * length)))
    yield from in_turns("limits", TRAFFIC, jobs, rounds=sizes.rounds, unit="s/B")


def _in_parts(kernel: Callable[..., None], vectors: Sequence[NDArray[np.float64]], cores: int) -> None:
    """Call a kernel on as many parts of the vectors as there are cores, each on a thread."""
    parts = zip(*(np.array_split(vector, cores) for vector in vectors), strict=True)
    with pinned_threads(cores) as pool:
        for part in [pool.submit(kernel, *part) for part in parts]:
            part.result()
