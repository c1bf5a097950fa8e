"""How vector environments of Gymnasium reset those of their parts that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def autoreset_mode(env: Any) -> str:
    """Return how a vector environment resets those of its parts that ended: NextStep, SameStep or Disabled."""
    mode = getattr(env, "metadata", {}).get("autoreset_mode")
    return "NextStep" if mode is None else str(getattr(mode, "value", mode))


def before_autoreset(observation: Any, info: dict[str, Any], done: NDArray[np.bool_]) -> NDArray[Any]:
    """Return what was really observed: an environment that resets within a step hides it in ``info``."""
    arrived = np.array(observation)
    if "final_obs" in info:
        for i in np.flatnonzero(done):
            if info["final_obs"][i] is not None:
                arrived[i] = int(info["final_obs"][i])
    return arrived
