"""How many runs lose at most epsilon, where the problem is known and losses are exact.

A promise has two sides: two runs agree except with probability rho, and each is within epsilon of the best except with
probability delta. An algorithm that always returns the same bad policy keeps the first and breaks the second, so a
verdict looks at both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.agreement import Estimate, every_look
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput
from replicable_rl.planning import gain
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import ALGORITHMS, build
from replicable_rl.runs import Algorithm, PromisedLoss, Run, asks_for_nothing

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How many runs keep the promise about their loss.

    Attributes
    ----------
    epsilon, delta : float
        The loss that is allowed, in values normalised to [0, 1], and the probability with which it may be larger.
    over : {"initial", "worst"}
        Whether the loss is that from the initial distribution, or from the worst state.
    kept, runs : int
        Runs that lose at most epsilon, of how many; one that failed does not.
    share : Estimate
        Their share, with an interval that holds at every look.
    """

    epsilon: float
    delta: float
    over: str
    kept: int
    runs: int
    share: Estimate

    __repr__ = short_repr

    @property
    def met(self) -> bool | None:
        """Whether the runs are as accurate as promised: False if that is refuted, None if more runs must tell."""
        if self.kept == self.runs:
            return True
        if self.share.high < 1.0 - self.delta:
            return False
        return True if float(self.share) >= 1.0 - self.delta else None


def promised_loss(spec: AuditSpec) -> PromisedLoss | None:
    """Return what an audit promises about losses: what was asked for, or what its algorithm says of itself."""
    asked = spec.training
    if asked is not None and asked.epsilon is not None:
        return PromisedLoss(asked.epsilon, asked.delta or 0.0, "worst")
    return loss_of_algorithm(spec)


def loss_of_algorithm(spec: AuditSpec) -> PromisedLoss | None:
    """Return the loss that the algorithm of an audit promises; None where it promises none, or is not at hand."""
    algorithm = _algorithm(spec)
    return None if algorithm is None else algorithm.promised_loss


def told_of_nothing(spec: AuditSpec, mdp: TabularMDP | None, runs: Iterable[Run]) -> str:
    """Say that the loss that is promised, or claimed, is no less than what can be gained; '' where it is, or may be."""
    promised = promised_loss(spec)
    if promised is not None and mdp is not None:
        return f"ε = {promised.epsilon:g} {asks_for_nothing(gain(mdp))}." if promised.epsilon >= gain(mdp) else ""
    gains = [run.claims.gain for run in runs if run.claims.gain is not None]
    return f"A run says: ε {asks_for_nothing(gains[0])}." if gains else ""


def _algorithm(spec: AuditSpec) -> Algorithm | None:
    """Return the algorithm of an audit where it is at hand, or can be built; None otherwise."""
    here = getattr(spec.job, "algorithm", None)
    if isinstance(here, Algorithm):
        return here
    try:
        return build(spec.algorithm) if spec.algorithm.id in ALGORITHMS else None
    except InvalidInput:  # settings that it no longer takes
        return None


def measure_accuracy(
    promised: PromisedLoss, losses: Sequence[float | None], runs_per_seed: int, confidence: float
) -> Accuracy:
    """Return how many runs lose at most epsilon; losses are normalised, None for a run that failed.

    >>> found = measure_accuracy(PromisedLoss(0.1, 0.05, "worst"), [0.0, 0.05, 0.2, None], 2, 0.95)
    >>> found.kept, found.runs, found.met
    (2, 4, None)
    """
    kept: NDArray[np.float64] = np.array([float(loss is not None and loss <= promised.epsilon) for loss in losses])
    unknown = np.array([loss is None for loss in losses])
    per_seed = (one.reshape(-1, runs_per_seed).mean(axis=1) for one in (kept, np.maximum(kept, unknown)))
    share = every_look(next(per_seed), confidence, next(per_seed))
    return Accuracy(promised.epsilon, promised.delta, promised.over, int(kept.sum()), kept.size, share)
