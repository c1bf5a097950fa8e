"""Forecasts for algorithms that are no plug-in policies: each resampled log makes a run.

One that draws takes so many rows of every pair, in one batch or in each of T iterations; what it does not take, it
does not see. One that takes the counts of a log as they are gets logs whose numbers of rows vary too. How logs are
drawn again is in :mod:`replicable_rl.diagnose.resampling`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from replicable_rl.diagnose.forecast import Forecast
from replicable_rl.diagnose.resampling import Rows
from replicable_rl.errors import InvalidInput
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.solve.run import prepare

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replicable_rl.audit.agreement import Estimate
    from replicable_rl.data import Dataset
    from replicable_rl.diagnose.forecast import Policies

_SIZES = ("calls", "samples")  # what says how many rows of every pair are drawn


class RunForecast(Forecast):
    """Resampled logs, and the runs of an algorithm on them.

    ``takes`` is how many rows of a pair a run draws; 0 where it takes the log as it is.
    """

    def __init__(self, data: Dataset, algorithm: Any, resamples: int, seed: int) -> None:
        self.data, self.algorithm, self.resamples, self.seed = data, algorithm, resamples, seed
        source, shared = data.replayed(), SharedRandomness(seed)
        prepare(source, algorithm, shared)
        algorithm.solve(source, shared, sample_stream(seed))
        self.takes = source.handed_out
        self._pair = data.key // data.n_states
        self._on_halves = algorithm
        self._prepare()

    @property
    def is_plain(self) -> bool:
        """Whether nothing makes two runs agree: then exact ties may be decided in any way."""
        return getattr(self.algorithm, "rho", None) is None

    def policies(self, what: str, scale: float = 1.0) -> Iterator[Policies]:
        """Yield the policies of runs on resampled logs, as `Forecast` has them; with ``scale`` 1 only."""
        rows = Rows.of(self.data)
        for rng, shared in self.streams(what):
            drawn: tuple[Rows, ...]
            if what == "halves":
                drawn = rows.halves_by_pair(self._pair, rng) if self.takes else rows.halves(rng)
            else:
                other = self._again(rows, rng)
                drawn = *(self._again(rows, rng) for _ in range(2)), *(self._again(other, rng) for _ in range(2))
            algorithm = self._on_halves if what == "halves" else self.algorithm
            yield tuple(_policy(one.dataset(self.data), algorithm, shared, rng) for one in drawn)

    def of_halves(self, confidence: float) -> Estimate | None:
        """Return how often two disjoint halves agree; None where they are too small, and ``about_halves`` says why."""
        why = self._fit_halves()
        if why:
            self.about_halves = why
            return None
        return super().of_halves(confidence)

    def _again(self, rows: Rows, rng: np.random.Generator) -> Rows:
        return rows.again_by_pair(self._pair, rng) if self.takes else rows.again(rng)

    def _fit_halves(self) -> str:
        """Let halves be decided by the algorithm, or by one of half its size; return why neither can be."""
        why, rng = "", sample_stream(self.seed)
        rows = Rows.of(self.data)
        half = (rows.halves_by_pair(self._pair, rng) if self.takes else rows.halves(rng))[0].dataset(self.data)
        for algorithm, said in ((self.algorithm, ""), *self._halved()):
            try:
                _policy(half, algorithm, SharedRandomness(self.seed), rng)
            except InvalidInput as error:
                why = why or str(error)
                continue
            self._on_halves, self.about_halves = algorithm, said
            return ""
        return why

    def _halved(self) -> Iterator[tuple[Any, str]]:
        """Yield the algorithm that draws half as many rows of every pair, and what it is called."""
        for name in _SIZES:
            algorithm, size = self.algorithm, getattr(self.algorithm, name, None)
            if isinstance(size, int) and size > 1 and hasattr(algorithm, "__dataclass_fields__"):
                yield dataclasses.replace(algorithm, **{name: size // 2}), f"{name}={size // 2}"


def _policy(data: Dataset, algorithm: Any, shared: SharedRandomness, rng: np.random.Generator) -> NDArray[np.int64]:
    source = data.replayed()
    prepare(source, algorithm, shared)
    policy: NDArray[np.int64] = algorithm.solve(source, shared, rng).outputs["policy"]
    return policy
