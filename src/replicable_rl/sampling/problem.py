"""What every problem tells an algorithm, however it is sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replicable_rl.records import ObjectSpec

__all__ = ["Problem"]


@runtime_checkable
class Problem(Protocol):
    """Sizes, discount, rewards and identity of a problem.

    ``known_rewards`` is the (S, A) table of rewards where each pair has one known reward, and None where
    rewards must be learned from the samples.
    """

    @property
    def n_states(self) -> int: ...  # noqa: D102
    @property
    def n_actions(self) -> int: ...  # noqa: D102
    @property
    def gamma(self) -> float: ...  # noqa: D102
    @property
    def reward_range(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def known_rewards(self) -> NDArray[np.float64] | None: ...  # noqa: D102
    @property
    def spec(self) -> ObjectSpec: ...  # noqa: D102
