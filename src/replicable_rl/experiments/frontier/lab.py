"""A lab that uses published cuts: its audit asks whether two labs that follow the same publication decide alike.

What is shared is the publication, so the shared seed says which one: the publisher's own sample follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit.evidence import derived_seed
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.rules import Cuts, PublishedCuts
from replicable_rl.runs import Algorithm, Run

FOLLOWED = "as_published"  # of a run's history: 1 where its policy is the publisher's own
_LAST: dict[str, tuple[Any, Cuts]] = {}  # one publication, which saves a pair half of its time


@dataclass(frozen=True)
class SecondLab(Algorithm):
    """Publish on the sample that the shared seed stands for, then decide by these cuts on fresh samples.

    Parameters
    ----------
    epsilon, delta, rho : float
        As for `PlugInPolicy`.
    samples : int
        Samples of every pair, of the publisher and of this lab each; a run counts its own.
    """

    epsilon: float
    delta: float
    rho: float
    samples: int

    id: ClassVar[str] = "frontier-second-lab-v1"
    version: ClassVar[str] = "3"  # no id of the registry, so that it travels to workers as it is

    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Return the run of this lab; its history says whether the publisher decided the same."""
        cuts = self._published(source, shared.seed)
        run = self._by(rule=PublishedCuts(cuts)).solve(source, shared, rng)
        same = np.array_equal(run.policy, cuts.policy)
        return run.but(history={FOLLOWED: np.array([float(same)])})

    def publication(self, source: Any, shared_seed: int) -> Cuts:
        """Return what the publisher of this shared seed published."""
        return self._by().publish(source, sample_stream(derived_seed("publisher", shared_seed)))

    def _published(self, source: Any, shared_seed: int) -> Cuts:
        """Publish once for the labs of one shared seed, which mostly run one after the other."""
        key, last = (type(source), source.spec, self, shared_seed), _LAST.get("publication")
        if last is None or last[0] != key:
            last = _LAST["publication"] = key, self.publication(source, shared_seed)
        return last[1]

    def _by(self, **rule: Any) -> PlugInPolicy:
        return PlugInPolicy(self.epsilon, self.delta, self.rho, samples=self.samples, **rule)
