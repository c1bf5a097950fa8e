"""Steps a second of a collection, one by one and many at once: the table of docs/collect.md.

.venv/bin/python -m benchmarks.collecting
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

import replicable_rl as rr
from benchmarks.timing import Job, in_turns, one_core

ROUNDS = 5
SIZES: dict[str, Any] = {"n_states": 50, "n_actions": 4, "gamma": 0.95, "reward_range": (0.0, 1.0)}
STATES, LENGTH, WIDTH = 50, 40, 64


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    """A walk on a ring, with noise."""
    return (state + action + int(rng.random() < 0.5)) % STATES, float(state == 0)


def step_many(states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """The same walk, many at once."""
    return (states + actions + (rng.random(states.size) < 0.5)) % STATES, (states == 0).astype(float)


class Ring(gymnasium.Env[Any, Any]):
    """The same walk as an environment, whose episodes end after some steps."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Discrete(STATES), Discrete(4)
        self._at = self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._at, self._left = 0, LENGTH
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Walk one step."""
        reward, self._left = float(self._at == 0), self._left - 1
        self._at = (self._at + int(action) + int(self.np_random.random() < 0.5)) % STATES
        return self._at, reward, self._left == 0, False, {}


class Rings(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many such environments as one array."""

    def __init__(self, width: int) -> None:
        self.num_envs = width
        self.single_observation_space, self.single_action_space = Discrete(STATES), Discrete(4)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        self._at, self._left = np.zeros(width, dtype=np.int64), np.full(width, LENGTH)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes."""
        super().reset(seed=seed)
        self._at[:], self._left[:] = 0, LENGTH
        return self._at.copy(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Walk one step, or begin anew where an episode ended."""
        over = self._left == 0
        reward = np.where(over, 0.0, self._at == 0)
        moved = (self._at + actions + (self.np_random.random(self.num_envs) < 0.5)) % STATES
        self._at, self._left = np.where(over, 0, moved), np.where(over, LENGTH, self._left - 1)
        return self._at.copy(), reward, self._left == 0, np.zeros(self.num_envs, dtype=bool), {}


def jobs(steps: int) -> dict[str, list[Job]]:
    """Return what is compared; every time is that of one step."""
    policy, known = [1] * (STATES + 1), {"gamma": 0.95, "reward_range": (0.0, 1.0)}
    synchronous = gymnasium.vector.SyncVectorEnv([Ring] * WIDTH)
    simulators = {"step": rr.Simulator(step, **SIZES), "step_many": rr.Simulator(step, step_many=step_many, **SIZES)}
    environments = {"Env": Ring(), f"SyncVectorEnv of {WIDTH}": synchronous, f"array of {WIDTH}": Rings(WIDTH)}
    collect = partial(rr.collect, budget=steps, sample_seed=1)
    return {
        "simulator": [Job(name, partial(collect, one), factor=1e6 / steps) for name, one in simulators.items()],
        "environment": [
            Job(name, partial(collect, rr.EpisodicEnv(one, **known), policy=policy), factor=1e6 / steps)  # type: ignore[arg-type]  # by name
            for name, one in environments.items()
        ],
    }


def rows(steps: int, rounds: int = ROUNDS) -> Iterator[str]:
    """Yield the rows of the table: microseconds a step, and how many times as fast as the first of its kind."""
    with one_core():
        for what, contenders in jobs(steps).items():
            times = [one.best for one in in_turns("collect", what, contenders, rounds=rounds, unit="µs")]
            for job, time in zip(contenders, times, strict=True):
                yield f"| {what} | {job.by} | {time:.3g} µs | {times[0] / time:.3g}× |"


if __name__ == "__main__":
    print(*rows(40_000), sep="\n")
