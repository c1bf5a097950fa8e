"""Environments in which some actions are not allowed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import replicable_rl as rr

OPTIONS: dict[str, Any] = {"gamma": 0.9, "reward_range": (0.0, 1.0), "version": "1"}
ROW = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]], dtype=np.int8)


class Corridor(gymnasium.Env[Any, Any]):
    """Four places, three actions; what is not allowed pays best, and is never to be tried."""

    observation_space, action_space = gymnasium.spaces.Discrete(4, start=5), gymnasium.spaces.Discrete(3)

    def __init__(self) -> None:
        self.place, self.tried = 0, set[tuple[int, int]]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return 5 + self.place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.tried.add((self.place, int(action)))
        reward = float(not ROW[self.place, action]) or 0.5 * float(self.place == 3)
        self.place = int(self.np_random.integers(4))
        return 5 + self.place, reward, False, self.np_random.random() < 0.1, {}


def test_masks_become_the_actions_of_a_state() -> None:
    env = Corridor()
    problem = rr.EpisodicEnv(env, allowed=ROW, **OPTIONS)
    assert problem.allowed.tolist() == [*(ROW == 1).tolist(), [True] * 3]  # after the end, all
    algorithm = rr.PlugInPolicy(0.1, 0.05, 0.2, budget=2000, horizon=20)
    run = rr.solve(problem, algorithm, shared_seed=1, sample_seed=1)
    assert all(ROW[place, action] for place, action in env.tried)
    assert all(ROW[place, action] for place, action in enumerate(run.policy[:4]))
    freely = rr.solve(rr.EpisodicEnv(Corridor(), **OPTIONS), algorithm, shared_seed=1, sample_seed=1)
    assert not all(ROW[place, action] for place, action in enumerate(freely.policy[:4]))  # the mask is what decides


def test_the_mask_is_part_of_the_identity() -> None:
    free, masked = rr.EpisodicEnv(Corridor(), **OPTIONS), rr.EpisodicEnv(Corridor(), allowed=ROW, **OPTIONS)
    assert free.support.whole
    assert "allowed" not in free.spec.params  # as it was recorded before
    assert masked.spec != free.spec
    assert rr.EpisodicEnv(Corridor(), allowed=np.ones((4, 3)), **OPTIONS).spec == free.spec


@pytest.mark.parametrize("allowed", ["mask", ROW[:2], ROW * 0])
def test_wrong_values(allowed: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="allowed"):
        rr.EpisodicEnv(Corridor(), allowed=allowed, **OPTIONS)
