"""Runs with identical outputs, and what their policies are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.display import short_repr
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.problem.table import TabularMDP


@dataclass(frozen=True)
class OutputClass:
    """Runs with identical outputs: the fingerprint, how many runs, under how many shared seeds."""

    fingerprint: str
    runs: int
    shared_seeds: int

    __repr__ = short_repr


@dataclass(frozen=True)
class PolicyValue:
    """What a distinct policy is worth, exactly, where the model is known.

    ``expected_return`` is from the problem's first states and ``loss`` what it lacks to the best;
    both are known to ``error``. ``worst_loss`` is the largest loss over first states, in values
    normalised to [0, 1], which is what a theorem's epsilon bounds; it is known to ``normalised_error``.
    """

    fingerprint: str
    runs: int
    expected_return: float
    loss: float
    worst_loss: float
    error: float
    normalised_error: float

    __repr__ = short_repr


def by_seed(outputs: Sequence[str | None], runs_per_seed: int) -> Iterator[tuple[str | None, ...]]:
    """Yield the outputs of every shared seed; to keep them all would take long where there are very many.

    >>> list(by_seed(["a", "a", "b", None], 2))
    [('a', 'a'), ('b', None)]
    """
    return zip(*[iter(outputs)] * runs_per_seed, strict=True)


def classes_of(outputs: Sequence[str | None], runs_per_seed: int) -> tuple[OutputClass, ...]:
    """Return the classes of identical outputs, largest first."""
    sizes: Counter[str | None] = Counter()
    seeds: Counter[str | None] = Counter()
    for group, times in Counter(by_seed(outputs, runs_per_seed)).items():  # most seeds are like many others
        for output, size in Counter(group).items():
            sizes[output] += times * size
            seeds[output] += times
    found = [OutputClass(name, size, seeds[name]) for name, size in sizes.items() if name is not None]
    return tuple(sorted(found, key=lambda one: (-one.runs, one.fingerprint)))


def sizes_of(outputs: Sequence[str | None], spec: AuditSpec) -> dict[int, tuple[int, ...]]:
    """Return, for every shared seed, the sizes of its classes, largest first; a failed run is its own class."""
    sizes = {}
    for seed, group in zip(spec.seeds, by_seed(outputs, spec.runs_per_seed), strict=True):
        counted = Counter(group)
        failed = counted.pop(None, 0)
        sizes[seed] = tuple(sorted([*counted.values(), *[1] * failed], reverse=True))
    return sizes


def actions_of(policies: Mapping[str, Any], prints: Sequence[str | None], state: int) -> dict[Any, int]:
    """Return which actions runs take in a state, and how many runs take each, most common first."""
    seen: Counter[Any] = Counter()
    for fingerprint, runs in Counter(prints).items():
        if fingerprint is not None:
            action = policies[fingerprint][state]
            seen[tuple(action.tolist()) if action.ndim else action.item()] += runs
    return dict(sorted(seen.items(), key=lambda pair: (-pair[1], pair[0])))


def policy_values(
    mdp: TabularMDP, classes: Sequence[OutputClass], policies: Mapping[str, Any], span: float
) -> tuple[PolicyValue, ...]:
    """Return what each class of policies is worth; losses are normalised by ``span``."""
    best, found = optimal_values(mdp), []
    for one in classes:
        worth = evaluate_policy(mdp, policies[one.fingerprint])
        lacking = np.maximum(best.value - worth.value, 0.0)
        loss, worst = float(mdp.initial @ lacking), float(lacking.max()) / span
        error = best.error + worth.error
        worth_return = worth.expected_return
        found.append(PolicyValue(one.fingerprint, one.runs, worth_return, loss, worst, error, error / span))
    return tuple(found)
