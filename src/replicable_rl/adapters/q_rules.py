"""Rules on action values alone: which actions of an observation are good enough to be taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from replicable_rl.errors import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = Callable[[str, int], Floats]  # (label, how many) -> shared numbers of every observation, or of all


class QRule(Protocol):
    """Marks the good actions, of which the first in the shared order is taken.

    A rule may also have ``positive``, true where it cannot do with a tolerance of 0.
    """

    @property
    def id(self) -> str:
        """What it is called."""
        ...

    def good(self, q: Floats, x: float, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which actions are good, (n, A); a function of the values, the tolerance x and shared numbers alone."""
        ...


@dataclass(frozen=True)
class NearlyBest:
    """Actions that are at most x(1+U) worse than the best."""

    id: ClassVar[str] = "tolerance"

    def good(self, q: Floats, x: float, numbers: Numbers) -> NDArray[np.bool_]:
        """Compare the gaps with the tolerance."""
        return gaps_of(q) <= x * (1.0 + numbers("decide/tolerance", 1))


@dataclass(frozen=True)
class BestBin:
    """Actions whose value is in the best bin of width x, on a shared grid for each action."""

    id: ClassVar[str] = "rounded"
    positive: ClassVar[bool] = True

    def good(self, q: Floats, x: float, numbers: Numbers) -> NDArray[np.bool_]:
        """Round every entry to the middle of its bin, which depends on the bin alone, and take the best."""
        offset = numbers("decide/action-offset", q.shape[1])
        middle = (np.floor(q / x - offset) + offset + 0.5) * x
        best: NDArray[np.bool_] = middle == middle.max(axis=1, keepdims=True)
        return best


_OURS: dict[str, QRule] = {one.id: one for one in (NearlyBest(), BestBin())}


def as_q_rule(owner: str, given: Any) -> QRule:
    """Return a rule by its short id, or one of your own as it is.

    >>> as_q_rule("StableDecisions", "rounded"), as_q_rule("StableDecisions", NearlyBest())
    (BestBin(), NearlyBest())
    """
    is_own = isinstance(getattr(given, "id", None), str) and callable(getattr(given, "good", None))
    if is_own and not isinstance(given, type):
        rule: QRule = given
        return rule
    return _OURS[check_choice(owner, "rule", given, _OURS)]


def gaps_of(q: Floats) -> Floats:
    """Return how much worse than the best of its row every entry is."""
    gap: Floats = q.max(axis=1, keepdims=True) - q
    return gap
