"""Episodes of a Minari data set as columns of a log.

An episode that was terminated has ended. One that was truncated just breaks off: its last observation is the next state
of its last step, and it goes on there for all that is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_minari(source: Any) -> bool:
    """Whether a source hands out episodes as a Minari data set does; nothing is imported for it."""
    try:
        return not isinstance(source, type) and callable(getattr(source, "iterate_episodes", None))
    except Exception:  # whatever somebody's object raises
        return False


def columns_of(source: Any) -> dict[str, NDArray[Any]]:
    """Return the steps of all episodes: state, action, reward, next_state, done and episode.

    >>> from types import SimpleNamespace
    >>> walk = SimpleNamespace(
    ...     observations=[0, 1, 2], actions=[1, 1], rewards=[0.0, 1.0], terminations=[False, True]
    ... )
    >>> log = columns_of(SimpleNamespace(iterate_episodes=lambda: [walk]))
    >>> log["state"].tolist(), log["next_state"].tolist(), log["done"].tolist()
    ([0, 1], [1, 2], [False, True])
    """
    parts: dict[str, list[NDArray[Any]]] = {}
    number = -1
    try:
        for number, episode in enumerate(source.iterate_episodes()):
            if len(episode.actions) == 0:  # nothing was done in it
                continue
            for name, values in _steps(number, episode).items():
                parts.setdefault(name, []).append(values)
    except InvalidInput:
        raise
    except Exception as error:  # whatever a data set makes of its files
        raise InvalidInput(f"from_transitions: the episodes cannot be read ({sentence(error, 200)}).") from None
    if not parts:
        said = "has no episodes" if number < 0 else "has no rows: nothing was done in its episodes"
        raise InvalidInput(f"from_transitions: the data set {said}.")
    return {name: np.concatenate(values) for name, values in parts.items()}


def _steps(number: int, episode: Any) -> dict[str, NDArray[Any]]:
    seen, actions = (_discrete(number, name, getattr(episode, name)) for name in ("observations", "actions"))
    rewards, ended = (np.asarray(getattr(episode, name)) for name in ("rewards", "terminations"))
    steps = actions.size
    if seen.size != steps + 1 or rewards.shape != (steps,) or ended.shape != (steps,):
        raise InvalidInput(
            f"from_transitions: episode {number} must have one observation more than actions, rewards and "
            f"terminations, got {seen.size}, {steps}, {rewards.size} and {ended.size}."
        )
    return {
        "state": seen[:-1],
        "action": actions,
        "reward": rewards.astype(np.float64),
        "next_state": seen[1:],
        "done": ended.astype(bool),
        "episode": np.full(steps, number),
    }


def _discrete(number: int, name: str, values: Any) -> NDArray[np.int64]:
    array = np.asarray(values) if not isinstance(values, dict) else np.zeros((0, 0))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(
            f"from_transitions: {name} must be discrete, one whole number a step, got {shown(values)} in episode "
            f"{number}. Make columns of them yourself, with bins=... where they are numbers."
        )
    return array.astype(np.int64)
