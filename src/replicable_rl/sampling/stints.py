"""Stints: steps of an environment in a row, episode after episode, and every one of them is counted.

A stint begins with a seeded reset and is cut off at its end, as by a time limit: the transitions are real, what would
have followed is not known. So it is a function of the policy and the generator, whatever was played before. Vector
environments reset their parts in three ways, and a step that only resets is never taken for a transition:

    NextStep    after the end the next step resets, whatever the action; what it returns is no transition
    SameStep    the step that ends an episode resets too; where it really led is in ``final_obs``
    Disabled    nothing resets by itself: those that ended are reset here
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.sampling.stepping import cumulated, environment_seed
from replicable_rl.sampling.vectors import autoreset_mode, before_autoreset

_PAUSE = 0.2  # seconds
_MODES = ("NextStep", "SameStep", "Disabled")

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.sampling.stepping import EpisodicEnv

    Steps = tuple[NDArray[np.int64], NDArray[np.float64]]


class Stint:
    """What a stint has seen so far; it is whole at any moment, also where the stint is interrupted.

    Parameters
    ----------
    env : EpisodicEnv
        What is stepped.
    pause : callable, optional
        Called between two steps, several times a second.
    """

    def __init__(self, env: EpisodicEnv, pause: Callable[[], None] | None = None) -> None:
        self._env, self._pause, self._next = env, pause, time.monotonic() + _PAUSE
        self._seen: list[Any] = []  # keys and rewards, of a step in one piece
        self._first: list[Any] = []
        self.steps = 0

    def play(self, policy: NDArray[np.float64], length: int, most: int, rng: np.random.Generator) -> None:
        """Make ``length`` steps, side by side where the environment is a vector of many, and at most ``most`` in all.

        ``policy`` holds the probabilities of actions, (S, A).
        """
        choice = cumulated(policy)
        if not self._env.is_vector:
            self._alone(choice, min(length, most), rng)
        else:
            self._side_by_side(choice, length, most, rng)

    def seen(self) -> Steps:
        """Return the key (s*A + a)*S + s' and the reward of every step."""
        seen = list(self._seen)
        if not seen:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        if not self._env.is_vector:
            keys, rewards = zip(*seen, strict=True)
            return np.array(keys, dtype=np.int64), np.array(rewards, dtype=np.float64)
        return np.concatenate([key for key, _ in seen]), np.concatenate([reward for _, reward in seen])

    def starts(self) -> NDArray[np.int64]:
        """Return how many episodes began in each state."""
        first = np.concatenate([np.atleast_1d(one) for one in self._first] or [np.zeros(0, dtype=np.int64)])
        return np.bincount(first.astype(np.int64), minlength=self._env.n_states)

    def _alone(self, choice: NDArray[np.float64], length: int, rng: np.random.Generator) -> None:
        model, env = self._env, self._env.env
        end, last_action, (low, high) = model.n_states - 1, model.n_actions - 1, model.reward_range
        state = self._begun(model.state_of(*env.reset(seed=environment_seed(rng))))
        for left in range(length - 1, -1, -1):
            self._rest()
            action = min(int(np.searchsorted(choice[state], rng.random(), side="right")), last_action)
            observation, reward, terminated, truncated, info = env.step(action + model.first_action)
            successor = end if terminated else model.state_of(observation, info)
            if not low <= (worth := _number(model, reward)) <= high:
                raise _outside(model, worth)
            self._seen.append(((state * model.n_actions + action) * model.n_states + successor, worth))
            self.steps += 1
            state = successor
            if left and (terminated or truncated):
                state = self._begun(model.state_of(*env.reset()))

    def _side_by_side(self, choice: NDArray[np.float64], length: int, most: int, rng: np.random.Generator) -> None:
        model, env = self._env, self._env.env
        mode, width, (low, high) = autoreset_mode(env), model.width, model.reward_range
        if mode not in _MODES:
            raise InvalidInput(f"{model}: metadata['autoreset_mode'] must be one of Gymnasium's, got {shown(mode)}.")
        everybody = np.ones(width, dtype=bool)
        observation, info = env.reset(seed=environment_seed(rng, env.num_envs))
        state = self._begun(model.states_of(observation, everybody, info))
        resets = ~everybody  # whose next step is no step
        while length > 0 and most - self.steps >= width:
            length -= 1
            self._rest()
            action = np.minimum((rng.random((width, 1)) >= choice[state]).sum(axis=1), model.n_actions - 1)
            observation, reward, terminated, truncated, info = env.step(action + model.first_action)
            done = (np.asarray(terminated, dtype=bool) | np.asarray(truncated, dtype=bool)) & ~resets
            arrived = before_autoreset(observation, info, done)
            over = np.asarray(terminated, dtype=bool)
            cut = done & ~over
            if mode == "SameStep" and cut.any() and (hidden := cut & ~_told(info, width)).any():
                raise InvalidInput(
                    f"{model}: an environment that resets within a step must say in final_obs where an episode was cut "
                    f"off, and part {int(np.argmax(hidden))} does not."
                )
            successor = np.where(over, model.n_states - 1, model.states_of(arrived, ~resets & ~over))
            model.check_masks(successor, info, ~resets & ~done)
            key, worth = (state * model.n_actions + action) * model.n_states + successor, _numbers(model, reward)
            if (bad := ~((worth >= low) & (worth <= high)) & ~resets).any():
                raise _outside(model, float(worth[np.argmax(bad)]))
            self._seen.append((key[~resets], worth[~resets]))
            self.steps += int((~resets).sum())
            state = np.where(done, 0, successor)
            begins, resets = (resets, done) if mode == "NextStep" else (done, resets)
            if begins.any() and length > 0:
                if mode == "Disabled":
                    observation, _ = env.reset(options={"reset_mask": begins.copy()})
                first = model.states_of(observation, begins)
                state = np.where(begins, first, state)
                self._begun(first[begins])

    def _rest(self) -> None:
        if self._pause is not None and time.monotonic() >= self._next:
            self._pause()
            self._next = time.monotonic() + _PAUSE

    def _begun(self, state: Any) -> Any:
        self._first.append(state)
        return state


def _told(info: dict[str, Any], width: int) -> NDArray[np.bool_]:
    """Return whose last observation was told."""
    told = info.get("final_obs")
    return np.array([told is not None and told[i] is not None for i in range(width)], dtype=bool)


def _number(model: EpisodicEnv, reward: Any) -> float:
    try:
        return float(reward)
    except (TypeError, ValueError):
        raise InvalidInput(f"{model}: a reward must be a number, got {shown(reward)}.") from None


def _numbers(model: EpisodicEnv, reward: Any) -> NDArray[np.float64]:
    try:
        worth = np.array(reward, dtype=np.float64)
    except (TypeError, ValueError):
        worth = np.zeros(0)
    if worth.shape != (model.width,):
        raise InvalidInput(f"{model}: a step must return {model.width} rewards, got {shown(reward)}.")
    return worth


def _outside(model: EpisodicEnv, reward: float) -> InvalidInput:
    low, high = model.reward_range
    return InvalidInput(
        f"{model}: rewards must lie in reward_range [{low:g}, {high:g}], got {reward:g}. Widen reward_range."
    )
