"""What a trained model of Stable-Baselines3 does, as a function of observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.training import sb3_library as library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.training.probes import Observations

_OWNER = library.OWNER


def are_states(space: Any, observations: Any) -> bool:
    """Whether observations lie in a Discrete space; of others the library itself says what does not fit."""
    if not isinstance(space, library.import_library("gymnasium").spaces.Discrete):
        return True
    inside = (observations >= space.start) & (observations < space.start + space.n)
    return observations.dtype.kind in "iu" and bool(inside.all())


@dataclass(frozen=True)
class TrainedPolicy:
    """The deterministic policy of a trained model, as a function of an array of observations."""

    vectorized: ClassVar[bool] = True  # an audit asks it about the whole probe set at once

    model: Any

    def __call__(self, observations: Observations) -> NDArray[Any]:
        """Return the actions, one for each of the observations along the first axis."""
        if isinstance(observations, Mapping):
            array: Any = {name: np.asarray(one) for name, one in observations.items()}
        else:
            array = np.asarray(observations)
        space = self.model.observation_space
        expected = f"{_OWNER}: observations must be an array with a first axis over observations of {shown(space)}"
        try:
            batch = self.model.policy.is_vectorized_observation(array)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            got = f"names {', '.join(array)}" if isinstance(array, dict) else f"one of shape {array.shape}"
            raise InvalidInput(f"{expected}, got {got}.") from error
        if not batch:
            raise InvalidInput(f"{expected}, got a single observation. Pass observations[None].")
        if not are_states(space, array):
            raise InvalidInput(f"{expected}, got other values ({array.dtype}).")
        with library.isolated():  # one thread: the last bit of a product may depend on their number
            actions, _ = self.model.predict(array, deterministic=True)
        return np.asarray(actions)
