"""Where policies differ: agreement state by state, or observation by observation of a probe set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Estimate, action_agreement
from replicable_rl.audit.classes import by_seed
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StateAgreement:
    """Pairwise agreement of the action in every state.

    Attributes
    ----------
    per_state : (S,) floats
        In which share of the pairs of runs with one shared seed the action of a state is the same.
    overall : Estimate
        Its mean over states: how often two runs act alike in a state drawn at random, with its interval for one look.
    every_look : Estimate
        The same with the interval that holds however often more shared seeds are added.
    differing : (k,) integers
        The states in which some pair of runs differs, least agreement first.
    """

    per_state: NDArray[np.float64]
    overall: Estimate
    every_look: Estimate
    differing: NDArray[np.int64]

    __repr__ = short_repr


def measure_states(
    policies: Mapping[str, NDArray[Any]], outputs: Sequence[str | None], runs_per_seed: int, confidence: float
) -> StateAgreement:
    """Compare policies state by state; ``policies`` holds the actions of every distinct fingerprint.

    A failed run (None) agrees with nothing in any state.
    """
    # Seeds whose runs fell into the same classes agree in the same states: each kind is compared once.
    groups = Counter(by_seed(outputs, runs_per_seed))
    kinds = {group: tuple(sorted(Counter(filter(None, group)).items())) for group in groups}
    if len({policy.shape for policy in policies.values()}) > 1:
        raise InvalidInput("audit: the runs returned policies of several shapes, so their states cannot be compared.")
    pairs = runs_per_seed * (runs_per_seed - 1) / 2
    total = np.zeros(len(next(iter(policies.values()))))
    share: dict[object, float] = {}
    times: Counter[object] = Counter()
    for group, seeds in groups.items():
        times[kinds[group]] += seeds
    for kind in dict.fromkeys(kinds.values()):
        agreement = _same_action([(policies[policy], size) for policy, size in kind], total.size) / pairs
        share[kind] = float(agreement.mean())
        total += times[kind] * agreement
    per_state = total / groups.total()
    differing = np.flatnonzero(per_state < 1.0)
    per_seed = np.array([share[kinds[group]] for group in by_seed(outputs, runs_per_seed)])
    least_first = differing[np.argsort(per_state[differing], kind="stable")]
    return StateAgreement(per_state, *action_agreement(per_seed, confidence), least_first)


def _same_action(classes: Sequence[tuple[NDArray[Any], int]], n_states: int) -> NDArray[np.float64]:
    """Return, for every state, how many pairs of runs take the same action; classes are (policy, runs)."""
    same = np.zeros(n_states)
    sizes = np.array([size for _, size in classes], dtype=np.float64)
    actions = np.stack([policy.reshape(n_states, -1) for policy, _ in classes]) if classes else np.empty((0, 0, 0))
    for i, size in enumerate(sizes):
        alike = (actions[:i] == actions[i]).all(axis=2)
        same += size * (size - 1.0) / 2.0 + size * (sizes[:i] @ alike)
    return same
