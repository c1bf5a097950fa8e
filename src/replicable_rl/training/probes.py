"""Probe sets: the observations on which policies that are functions are compared.

A probe set is an array with a first axis over observations (numbers, vectors, images), or, for environments whose
observations are dictionaries, a dictionary of such arrays, all equally long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import array_digest, json_text
from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Observations = NDArray[Any] | dict[str, NDArray[Any]]


def check_probe(owner: str, probe: Any) -> Observations:
    """Return a probe set in its one form: an array, or a dictionary of arrays; a list of dictionaries is stacked.

    >>> check_probe("audit", [{"image": [[0, 1]], "speed": 0.5}, {"image": [[2, 3]], "speed": 0.1}])["image"].shape
    (2, 1, 2)
    """
    if isinstance(probe, (list, tuple)) and probe and all(isinstance(one, Mapping) for one in probe):
        probe = _stacked_mappings(owner, probe)
    if not isinstance(probe, Mapping):
        return _array(owner, "probe", probe)
    named = {str(name): _array(owner, f"probe[{name!r}]", probe[name]) for name in sorted(probe, key=str)}
    lengths = {name: len(array) for name, array in named.items()}
    if not named or len(set(lengths.values())) > 1 or len(named) < len(probe):
        raise InvalidInput(
            f"{owner}: probe must have, under every name, one entry for each observation, got {lengths or 'no names'}."
        )
    return named


def stacked(observations: Sequence[Any]) -> Observations:
    """Return observations, one after the other, as a probe set."""
    return check_probe("visited_observations", list(observations))


def length(probe: Observations) -> int:
    """Return how many observations there are."""
    return len(next(iter(probe.values()))) if isinstance(probe, dict) else len(probe)


def copied(probe: Observations) -> Observations:
    """Return a copy, for a policy may change what it is given."""
    return {name: array.copy() for name, array in probe.items()} if isinstance(probe, dict) else probe.copy()


def each(probe: Observations) -> Iterator[Any]:
    """Yield the observations one by one."""
    for i in range(length(probe)):
        yield {name: array[i] for name, array in probe.items()} if isinstance(probe, dict) else probe[i]


def first(probe: Observations, n: int) -> Observations:
    """Return the first observations."""
    return {name: array[:n] for name, array in probe.items()} if isinstance(probe, dict) else probe[:n]


def digest(probe: Observations) -> str:
    """Return the digest by which the identity of a run knows what it was asked."""
    if isinstance(probe, dict):
        return array_digest(f"probe {json_text(list(probe))}", *probe.values())
    return array_digest("probe", probe)


def _array(owner: str, name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except Exception:  # rows of several lengths, and whatever somebody's object raises
        array = np.asarray(None)
    if hasattr(value, "mask") or array.dtype.kind not in "iufb" or not array.ndim or not array.size:
        rule = "an array of one observation or more"
        raise InvalidInput(f"{owner}: {name} must be {rule}, got {shown(value)}.")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidInput(f"{owner}: {name} must hold numbers, got NaN.")
    return array


def _stacked_mappings(owner: str, observations: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = set(observations[0])
    for i, one in enumerate(observations):
        if set(one) != names:
            raise InvalidInput(
                f"{owner}: observations must have the same names, got {shown(sorted(map(str, one)))} in number {i} and "
                f"{shown(sorted(map(str, names)))} in number 0."
            )
    return {name: [one[name] for one in observations] for name in names}
