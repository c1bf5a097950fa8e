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
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput
from replicable_rl.planning.exact import gain
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import ALGORITHMS, make_algorithm
from replicable_rl.runs import EMPTY, Algorithm, AuditSpec, Run
from replicable_rl.wording import number

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Promised:
    """The loss that is promised: at most ``epsilon``, over first states or from the worst, except with ``delta``."""

    epsilon: float
    delta: float
    over: str


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


def promised_loss(spec: AuditSpec) -> Promised | None:
    """Return what an audit promises about losses: what was asked for, or what its algorithm says of itself."""
    asked = spec.training
    if asked is not None and asked.epsilon is not None:
        return Promised(asked.epsilon, asked.delta or 0.0, "worst")
    algorithm, over = _algorithm(spec), loss_over(spec)
    epsilon, delta = (getattr(algorithm, name, None) for name in ("epsilon", "delta"))
    if over is None or not isinstance(epsilon, (int, float)):
        return None
    return Promised(float(epsilon), float(delta) if isinstance(delta, (int, float)) else 0.0, over)


def asks_for_nothing(spec: AuditSpec, mdp: TabularMDP | None, runs: Iterable[Run]) -> str:
    """Say that the loss that is promised, or claimed, is no less than what can be gained; '' where it is, or may be."""
    promised = promised_loss(spec)
    if promised is not None and mdp is not None:
        return f"ε = {promised.epsilon:g} {EMPTY}{number(gain(mdp), 3)}." if promised.epsilon >= gain(mdp) else ""
    said = (part for run in runs for part in (str(run.claims.accuracy), *str(run.status).split("; ")) if EMPTY in part)
    return next((f"A run says: {part.rstrip('.')}." for part in said), "")


def loss_over(spec: AuditSpec) -> str | None:
    """Return which losses the algorithm of an audit bounds: the "initial" ones or the "worst"; None: neither."""
    algorithm = _algorithm(spec)
    return None if algorithm is None else algorithm.loss_over


def _algorithm(spec: AuditSpec) -> Algorithm | None:
    """Return the algorithm of an audit where it is at hand, or can be built; None otherwise."""
    here = getattr(spec.job, "algorithm", None)
    if isinstance(here, Algorithm):
        return here
    try:
        return make_algorithm(spec.algorithm.id, **spec.algorithm.params) if spec.algorithm.id in ALGORITHMS else None
    except InvalidInput:  # settings that it no longer takes
        return None


def measure_accuracy(
    promised: Promised, losses: Sequence[float | None], runs_per_seed: int, confidence: float
) -> Accuracy:
    """Return how many runs lose at most epsilon; losses are normalised, None for a run that failed.

    >>> found = measure_accuracy(Promised(0.1, 0.05, "worst"), [0.0, 0.05, 0.2, None], 2, 0.95)
    >>> found.kept, found.runs, found.met
    (2, 4, None)
    """
    kept: NDArray[np.float64] = np.array([float(loss is not None and loss <= promised.epsilon) for loss in losses])
    unknown = np.array([loss is None for loss in losses])
    per_seed = (one.reshape(-1, runs_per_seed).mean(axis=1) for one in (kept, np.maximum(kept, unknown)))
    share = every_look(next(per_seed), confidence, next(per_seed))
    return Accuracy(promised.epsilon, promised.delta, promised.over, int(kept.sum()), kept.size, share)
