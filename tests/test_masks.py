"""Gymnasium's ``action_mask``: which actions a state has, as an environment says it."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.mdp import uniform_policy
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling.masks import Masks
from tests.test_gymnasium import TAXI

OPTIONS: dict[str, Any] = {"gamma": 0.9, "reward_range": (0.0, 1.0), "version": "1"}
ROW = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]], dtype=np.int8)


class Corridor(gymnasium.Env[Any, Any]):
    """Four places, three actions; what is not allowed pays best, and is never to be tried."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(3)

    def __init__(self, changes: bool = False, tells: bool = True) -> None:
        self.changes, self.tells, self.steps, self.place, self.tried = changes, tells, 0, 0, set[tuple[int, int]]()

    def info(self) -> dict[str, Any]:
        mask = ROW[self.place].copy()
        if self.changes and self.place == 2 and self.steps > 6:
            mask[1] = 0
        return {"action_mask": mask} if self.tells else {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.place, self.info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.tried.add((self.place, int(action)))
        reward = float(not ROW[self.place, action]) or 0.5 * float(self.place == 3)
        self.place, self.steps = int(self.np_random.integers(4)), self.steps + 1
        return self.place, reward, False, self.np_random.random() < 0.1, self.info()


class Asked(Corridor):
    """One that can be asked for the mask of any state, as Taxi."""

    def action_mask(self, state: int) -> Any:
        return ROW[state]


@pytest.mark.parametrize("kind", [Corridor, Asked])
def test_masks_become_the_actions_of_a_state(kind: Any) -> None:
    env = kind()
    problem = rr.EpisodicEnv(env, allowed="action_mask", **OPTIONS)
    assert problem.allowed is not None
    assert problem.allowed.tolist() == [*(ROW == 1).tolist(), [True] * 3]  # after the end, all
    env.tried.clear()
    algorithm = rr.PlugInPolicy(0.1, 0.05, 0.2, budget=2000, horizon=20)
    run = rr.solve(problem, algorithm, shared_seed=1, sample_seed=1)
    assert all(ROW[place, action] for place, action in env.tried)
    assert all(ROW[place, action] for place, action in enumerate(run.policy[:4]))
    freely = rr.solve(rr.EpisodicEnv(kind(), **OPTIONS), algorithm, shared_seed=1, sample_seed=1)
    assert not all(ROW[place, action] for place, action in enumerate(freely.policy[:4]))  # the mask is what decides


def test_the_mask_is_part_of_the_identity() -> None:
    free, masked = rr.EpisodicEnv(Asked(), **OPTIONS), rr.EpisodicEnv(Asked(), allowed="action_mask", **OPTIONS)
    given = rr.EpisodicEnv(Asked(), allowed=ROW, **OPTIONS)
    assert free.allowed is None
    assert "allowed" not in free.spec.params  # as it was recorded before
    assert masked.spec != free.spec
    assert masked.spec == given.spec
    assert rr.EpisodicEnv(Asked(), allowed=np.ones((4, 3)), **OPTIONS).spec == free.spec


def test_parts_of_a_vector_environment() -> None:
    env = gymnasium.vector.SyncVectorEnv([Asked, Asked])
    problem = rr.EpisodicEnv(env, allowed="action_mask", **OPTIONS)
    for part in env.envs:
        cast("Corridor", part.unwrapped).tried.clear()
    seen = problem.play(uniform_policy(problem), 20, 10, sample_stream(1))
    assert problem.allowed is not None
    assert seen.visits.sum() > 0
    assert seen.visits[~problem.allowed.reshape(-1)].sum() == 0.0
    assert problem.masks is not None
    wrong = {"action_mask": np.ones((2, 3), dtype=int), "_action_mask": np.array([False, True])}
    with pytest.raises(
        rr.InvalidInput, match=r"action_mask of state 0 changes: actions \[0, 2\], and then \[0, 1, 2\]"
    ):
        problem.masks.check_many(np.zeros(2, dtype=np.int64), wrong, np.ones(2, dtype=bool))


def test_a_mask_that_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        rr.InvalidInput, match=r"action_mask of state 2 changes: actions \[0, 1, 2\], and then \[0, 2\]"
    ):
        rr.EpisodicEnv(Corridor(changes=True), allowed="action_mask", **OPTIONS)
    env = Asked(changes=True)
    problem = rr.EpisodicEnv(env, allowed="action_mask", **OPTIONS)
    env.steps = 0
    with pytest.raises(rr.InvalidInput, match=r"EpisodicEnv Asked: the action_mask of state 2 changes"):
        problem.play(uniform_policy(problem), 20, 20, sample_stream(1))
    monkeypatch.setattr("replicable_rl.sampling.masks._WALK", 1)
    problem = rr.EpisodicEnv(Corridor(), allowed="action_mask", **OPTIONS)
    with pytest.raises(rr.InvalidInput, match=r"which no walk of 1 steps had found out\. Give allowed as"):
        problem.play(uniform_policy(problem), 20, 20, sample_stream(1))


class Short(Corridor):
    """It stops in place 3, where nobody acts: its mask is empty."""

    def info(self) -> dict[str, Any]:
        return {"action_mask": ROW[self.place] * (self.place < 3)}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place += 1
        return self.place, 1.0, False, self.place == 3, self.info()


class ShortAsked(Short):
    """The same, and it can be asked."""

    def action_mask(self, state: int) -> Any:
        return ROW[state] * (state < 3)


@pytest.mark.parametrize(("kind", "walk"), [(Short, 20), (Short, 3), (ShortAsked, 20)])
def test_where_nobody_acts_all_is_allowed(kind: Any, walk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicable_rl.sampling.masks._WALK", walk)  # one of 3 steps does not reach the place
    problem = rr.EpisodicEnv(kind(), allowed="action_mask", **OPTIONS)
    assert problem.allowed is not None
    assert problem.allowed.tolist() == [*(ROW[:3] == 1).tolist(), [True] * 3, [True] * 3]
    assert problem.play(uniform_policy(problem), 20, 10, sample_stream(1)).visits.sum() > 0
    assert problem.masks is not None
    if walk > 3:
        with pytest.raises(rr.InvalidInput, match=r"of state 3 changes: actions \[\], and then \[0\]"):
            problem.masks.check(3, {"action_mask": ROW[3]})


def test_an_empty_mask_in_the_middle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([True] + [False] * 50)  # the first episode stops there, the second does not
    monkeypatch.setattr(Short, "step", lambda self, action: _moved(self, next(ends)))
    with pytest.raises(rr.InvalidInput, match="of state 3 allows no action, and nothing is over"):
        rr.EpisodicEnv(Short(), allowed="action_mask", **OPTIONS)


def _moved(env: Short, over: bool) -> tuple[int, float, bool, bool, dict[str, Any]]:
    env.place = 3
    return env.place, 1.0, False, over, env.info()


@pytest.mark.parametrize("told", [None, "no", [1, 0], [1, 0, 2], [[1, 0, 1]], [0.5, 1, 1]])
def test_what_is_no_mask_is_refused(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "action_mask", lambda self, state: told)
    with pytest.raises(rr.InvalidInput, match="action_mask must hold 0 or 1 for each of the 3 actions, got"):
        rr.EpisodicEnv(Asked(), allowed="action_mask", **OPTIONS)


def test_wrong_values() -> None:
    for allowed, said in (
        ("mask", "allowed must be an"),
        (ROW[:2], r"shape \(S, A\) = \(4, 3\)"),
        (ROW * 0, "needs an action"),
    ):
        with pytest.raises(rr.InvalidInput, match=said):
            rr.EpisodicEnv(Corridor(), allowed=allowed, **OPTIONS)
    with pytest.raises(
        rr.InvalidInput, match=r"tells info\['action_mask'\], and this one does not\. Leave allowed out"
    ):
        rr.EpisodicEnv(Corridor(tells=False), allowed="action_mask", **OPTIONS)


def test_taxi_says_which_actions_do_something() -> None:
    taxi = rr.EpisodicEnv(TAXI, gamma=0.9, reward_range=(-10.0, 20.0), allowed="action_mask")
    assert taxi.allowed is not None
    assert int(taxi.allowed[:500].sum()) == sum(int(taxi.env.unwrapped.action_mask(s).sum()) for s in range(500))
    assert isinstance(taxi.masks, Masks)
