"""The per-sample sampler: what the paper describes, at a cost proportional to m.

Kept as the reference for the law of the count sampler, in tests and benchmarks.
"""

from __future__ import annotations

import numpy as np

from replicable_rl.records import ObjectSpec
from replicable_rl.sampling.counts import OutcomeCounts, check_calls
from replicable_rl.sampling.generative import FromTable

__all__ = ["PerSampleSampler"]

_CHUNK = 1 << 20


class PerSampleSampler(FromTable):
    """Draws every successor of every pair one by one, by inversion, and counts them."""

    @property
    def spec(self) -> ObjectSpec:
        """Its own: the same seed draws other counts than the count sampler's."""
        return ObjectSpec("per-sample", {"problem": self._mdp.spec.to_json()})

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls = check_calls("PerSampleSampler", calls)
        rows = self._mdp.rows
        count = np.zeros(rows.probability.size, dtype=np.int64)
        for row in range(rows.indptr.size - 1):
            outcomes = rows.of_row(row)
            cumulative = np.cumsum(rows.probability[outcomes])
            for start in range(0, calls, _CHUNK):
                u = rng.random(min(_CHUNK, calls - start)) * cumulative[-1]
                drawn = np.searchsorted(cumulative, u, side="right")
                count[outcomes] += np.bincount(drawn, minlength=cumulative.size)
        return self._counts(count, calls)
