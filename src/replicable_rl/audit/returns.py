"""What the runs of training code earn: the return of every run, and their mean, with intervals.

A training function says what a run is worth through ``evaluate=``: one number, or the returns of several episodes. They
are kept in the run's history, so that a store has them too.

Returns have no bounds that anybody knows, so the intervals here are Student's t. They are *approximate*: they hold for
normal means, and nearly for the means of many episodes. Runs of one shared seed are not independent, so the interval
of the mean rests on the shared seeds, each of which counts once, by the mean of its runs. Where there is one shared
seed only, it rests on its runs, and is about this seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.evidence import Training
from replicable_rl.display import described
from replicable_rl.runs import Run
from replicable_rl.wording import number, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

RETURNS = "measured return"  # of a run's history: the returns of its episodes

_ROUNDED = 1e-12


@dataclass(frozen=True, eq=False)
class Returns:
    """The returns of the runs of an audit, as they were measured.

    Attributes
    ----------
    mean : Estimate
        Over all runs, with an approximate interval (Student's t over the shared seeds).
    per_run : tuple of Estimate or None
        Of every run, in the order of ``result.runs``; None for one that failed. The interval is over its episodes;
        where it has one episode only, nothing is known of its error and the ends are infinite.
    per_seed : (J,) floats
        The mean under every shared seed; NaN where all of its runs failed.
    episodes : int
        How many returns were measured in all.
    uniform : Estimate or None
        What the uniform policy earns, where that is known.
    """

    mean: Estimate
    per_run: tuple[Estimate | None, ...]
    per_seed: NDArray[np.float64]
    episodes: int
    uniform: Estimate | None = None

    def __repr__(self) -> str:
        low, high = number(self.mean.low), number(self.mean.high)
        runs = plural(sum(one is not None for one in self.per_run), "run")
        beside = "" if self.uniform is None else f"; uniform policy {number(float(self.uniform))}"
        mean = f"mean {number(float(self.mean))} ({low} to {high})"
        return described(self, f"{mean}, {runs}, {plural(self.episodes, 'episode')}{beside}")

    @property
    def lowest(self) -> float:
        """The lowest return of a run."""
        return min(float(one) for one in self.per_run if one is not None)

    @property
    def highest(self) -> float:
        """The highest return of a run."""
        return max(float(one) for one in self.per_run if one is not None)

    @property
    def beat_uniform(self) -> bool | None:
        """Whether the mean is shown to be above what the uniform policy earns; None where that is not known."""
        if self.uniform is None:
            return None
        mean, uniform = float(self.mean), float(self.uniform)
        half = math.hypot(mean - self.mean.low, self.uniform.high - uniform)
        rounding = _ROUNDED * max(abs(mean), abs(uniform))  # a mean of equal returns need not be that return
        return bool(mean - uniform > half + rounding)


def measure_returns(
    runs: Sequence[Run], runs_per_seed: int, confidence: float, asked: Training | None
) -> Returns | None:
    """Return what the runs earned; None where nobody measured it.

    >>> runs = [Run.of({"policy": [0]}, history={RETURNS: [x, x + 1.0]}) for x in (1.0, 2.0, 3.0, 4.0)]
    >>> found = measure_returns(runs, 2, 0.95, None)
    >>> float(found.mean), found.per_seed.tolist(), found.episodes
    (3.0, [2.0, 4.0], 8)
    """
    episodes = [np.asarray(run.history[RETURNS]) if RETURNS in run.history else None for run in runs]
    if not any(one is not None for one in episodes):
        return None
    means = np.array([np.nan if one is None else one.mean() for one in episodes])
    groups = means.reshape(-1, runs_per_seed)
    per_seed = np.full(len(groups), np.nan)
    some = ~np.isnan(groups).all(axis=1)
    per_seed[some] = np.nanmean(groups[some], axis=1)
    independent = per_seed[some] if len(groups) > 1 else means[~np.isnan(means)]
    return Returns(
        mean_with_interval(independent, confidence),
        tuple(None if one is None else mean_with_interval(one, confidence) for one in episodes),
        per_seed,
        sum(one.size for one in episodes if one is not None),
        _uniform(asked, confidence),
    )


def mean_with_interval(values: NDArray[np.float64], confidence: float) -> Estimate:
    """Return the mean of independent values with Student's interval, which is approximate; infinite for one value.

    >>> print(mean_with_interval(np.array([1.0, 2.0, 3.0]), 0.95))
    2.000 (-0.484–4.484)
    """
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.inf
    half = error * _quantile(values.size - 1, confidence) if values.size > 1 else math.inf
    return Estimate(mean, mean - half, mean + half)


def _uniform(asked: Training | None, confidence: float) -> Estimate | None:
    if asked is None or asked.uniform is None:
        return None
    half = (asked.uniform_error or 0.0) * _quantile(10**9, confidence)  # of very many episodes
    return Estimate(asked.uniform, asked.uniform - half, asked.uniform + half)


def _quantile(degrees: int, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1.0 - (1.0 - confidence) / 2.0))
