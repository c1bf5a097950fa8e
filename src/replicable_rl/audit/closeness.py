"""Continuous actions: how far two policies are apart, and how often they are close, beside being identical.

Two policies act on a probe set of observations. Their *distance* on one observation is the largest difference of a
component of the two actions. A pair of runs is *close* where no distance is above the tolerance. Close is not an
equivalence (a may be close to b, and b to c, but not a to c), so there are no classes and no fingerprints of it: it is
reported beside the agreement, which is about identical bits, and never in its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Estimate, every_look, one_look
from replicable_rl.audit.classes import by_seed
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST = 5_000_000  # pairs of runs that are compared


@dataclass(frozen=True, eq=False)
class Closeness:
    """How far the actions of two runs with one shared seed are apart.

    Attributes
    ----------
    tolerance : float
        How far two actions may be apart and still count as close.
    close, pairs : int
        Pairs of runs that are close on every observation, of how many.
    value, every_look : Estimate
        The share of such pairs over shared seeds, for one look and for every look.
    observations : Estimate
        On which share of the observations two runs are close, with its interval for every look.
    mean_distance, largest_distance : float
        Over all observations of all pairs of runs that did not fail.
    """

    tolerance: float
    close: int
    pairs: int
    value: Estimate
    every_look: Estimate
    observations: Estimate
    mean_distance: float
    largest_distance: float

    __repr__ = short_repr


def measure_closeness(
    policies: Mapping[str, NDArray[Any]],
    outputs: Sequence[str | None],
    runs_per_seed: int,
    confidence: float,
    tolerance: float,
) -> Closeness:
    """Compare actions by their distance; ``policies`` are those of every distinct fingerprint, None is a failed run.

    >>> actions = {"a": np.array([[0.0], [1.0]]), "b": np.array([[0.01], [1.3]])}
    >>> found = measure_closeness(actions, ["a", "b", "a", "a"], 2, 0.95, tolerance=0.1)
    >>> found.close, found.pairs, found.largest_distance
    (1, 2, 0.30000000000000004)
    """
    if len({policy.shape for policy in policies.values()}) > 1:
        raise InvalidInput("audit: the runs returned actions of several shapes, so they have no distance.")
    groups = list(by_seed(outputs, runs_per_seed))
    per_pair = runs_per_seed * (runs_per_seed - 1) // 2
    if per_pair * len(groups) > _MOST:
        raise InvalidInput(f"audit: {per_pair * len(groups)} pairs are too many to be compared by distance.")
    close, observations = np.zeros(len(groups)), np.zeros(len(groups))
    total, compared, largest = 0.0, 0, 0.0
    known: dict[tuple[str, str], NDArray[np.float64]] = {}
    for j, group in enumerate(groups):
        for one, two in itertools.combinations(group, 2):
            if one is None or two is None:
                continue
            pair = (min(one, two), max(one, two))
            if pair not in known:
                known[pair] = _distances(policies[one], policies[two])
            apart = known[pair]
            near = apart <= tolerance
            close[j] += near.all()
            observations[j] += near.mean()
            total, compared, largest = total + float(apart.mean()), compared + 1, max(largest, float(apart.max()))
    return Closeness(
        tolerance,
        int(close.sum()),
        per_pair * len(groups),
        one_look(close / per_pair, 0.0, runs_per_seed == 2, confidence),
        every_look(close / per_pair, confidence),
        every_look(observations / per_pair, confidence),
        total / compared if compared else float("nan"),
        largest,
    )


def _distances(one: NDArray[Any], two: NDArray[Any]) -> NDArray[np.float64]:
    """Return the distance on every observation; equal infinite actions have distance 0."""
    first, second = (actions.astype(np.float64).reshape(len(actions), -1) for actions in (one, two))
    with np.errstate(invalid="ignore"):
        apart = np.where(first == second, 0.0, np.abs(first - second))
    return apart.max(axis=1)  # type: ignore[no-any-return]  # numpy does not know its own types
