"""The games of `benchmarks.stable`: how DQN is trained on them, what a policy earns and which states it visits.

FrozenLake and Taxi are played exactly: the distribution over states is followed step by step to the time limit, so
that returns and visits have no noise of their own. CartPole is played from the same starts by every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Policy = Callable[[Any], NDArray[np.int64]]


class Played(NamedTuple):
    """What a policy earned in an episode on average, and where it was: observations, and their shares of all steps."""

    earned: float
    visited: NDArray[Any]
    share: Floats


@dataclass(frozen=True)
class Finite:
    """An environment with a table of outcomes, played exactly."""

    env: str
    limit: int
    outcomes: tuple[NDArray[Any], ...] = field(init=False)  # probability, next state, reward, whether it is the last
    first: Floats = field(init=False)

    def __post_init__(self) -> None:
        env = gymnasium.make(self.env).unwrapped
        table: Any = env.P  # type: ignore[attr-defined]  # as all of Gymnasium's toy texts have it
        S, A = len(table), len(table[0])
        most = max(len(table[s][a]) for s in range(S) for a in range(A))
        found = np.zeros((4, S, A, most))
        for s in range(S):
            for a in range(A):
                for k, outcome in enumerate(table[s][a]):
                    found[:, s, a, k] = outcome
        probability, successor, reward, over = found
        object.__setattr__(self, "outcomes", (probability, successor.astype(np.int64), reward, over))
        object.__setattr__(self, "first", np.asarray(env.initial_state_distrib))  # type: ignore[attr-defined]

    def play(self, policy: Policy | None) -> Played:
        """Follow the distribution over states to the time limit; None is the uniform policy."""
        states = np.arange(self.first.size)
        if policy is None:
            p, successor, reward, over = (one.reshape(states.size, -1) for one in self.outcomes)
            p = p / self.outcomes[0].shape[1]
        else:
            p, successor, reward, over = (one[states, policy(states)] for one in self.outcomes)
        gain, goes_on = (p * reward).sum(axis=1), p * (1.0 - over)
        here: NDArray[Any] = self.first
        visits, earned = np.zeros(states.size), 0.0
        for _ in range(self.limit):
            visits += here
            earned += float(here @ gain)
            here = np.bincount(successor.ravel(), (here[:, None] * goes_on).ravel(), states.size)
        seen = visits > 0.0
        return Played(earned, states[seen], visits[seen] / visits.sum())

    def union(self, one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
        """Return the states that one of two agents visits, each once."""
        return np.union1d(one, two)

    def cells(self, states: NDArray[Any]) -> NDArray[np.int64]:
        """Return the cells of observations: every state is one."""
        return np.asarray(states, dtype=np.int64)

    @property
    def observations(self) -> NDArray[Any]:
        """All states, as the network sees them."""
        return np.eye(self.first.size)


@dataclass(frozen=True)
class Simulated:
    """An environment that is played, from the same starts by every policy."""

    env: str
    limit: int
    episodes: int = 10
    asked: int = 200  # of the observations that were visited

    def play(self, policy: Policy | None) -> Played:
        """Play all episodes side by side; None is the uniform policy."""
        envs = gymnasium.make_vec(self.env, self.episodes, vectorization_mode="vector_entry_point")
        envs.action_space.seed(0)
        seen, _ = envs.reset(seed=0)
        earned, going, visited = 0.0, np.ones(self.episodes, dtype=bool), []
        for _ in range(self.limit):
            visited.append(seen[going])
            seen, reward, terminated, truncated, _ = envs.step(
                envs.action_space.sample() if policy is None else policy(seen)
            )
            earned += float(reward[going].sum())
            going &= ~(terminated | truncated)
            if not going.any():
                break
        envs.close()
        where = np.concatenate(visited)
        where = where[np.linspace(0, len(where) - 1, min(self.asked, len(where))).astype(int)]
        return Played(earned / self.episodes, where, np.full(len(where), 1.0 / len(where)))

    def union(self, one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
        """Return the observations that one of two agents makes."""
        return np.concatenate([one, two])

    def cells(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Return the cells of observations: those of a grid of width 0.1, 64 in each direction."""
        each = np.clip(np.floor(np.asarray(observations) / 0.1) + 32, 0, 63).astype(np.int64)
        cells: NDArray[np.int64] = each @ 64 ** np.arange(each.shape[1])
        return cells


class Game(NamedTuple):
    """A game, how long DQN trains on it with which settings, and which tolerances are tried."""

    rules: Finite | Simulated
    steps: int
    options: dict[str, Any]
    tolerances: Sequence[float]
    returns: tuple[float, float]  # the least and the most that there is
    env_options: Mapping[str, Any] = MappingProxyType({})


def games() -> dict[str, Game]:
    """Return the games by their names."""
    return {
        "FrozenLake": Game(
            Finite("FrozenLake-v1", 100),
            10_000,
            {
                "learning_rate": 2e-3,
                "gamma": 0.99,
                "policy_kwargs": {"net_arch": [32]},
                "buffer_size": 20_000,
                "learning_starts": 1000,
                "train_freq": 8,
                "batch_size": 128,
                "target_update_interval": 250,
                "exploration_fraction": 0.5,
                "exploration_final_eps": 0.2,
            },
            (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
            (0.0, 1.0),
        ),
        "CartPole": Game(
            Simulated("CartPole-v1", 500),
            50_000,
            {
                "learning_rate": 2.3e-3,
                "gamma": 0.99,
                "policy_kwargs": {"net_arch": [256, 256]},
                "buffer_size": 100_000,
                "learning_starts": 1000,
                "train_freq": 256,
                "gradient_steps": 128,
                "batch_size": 64,
                "target_update_interval": 10,
                "exploration_fraction": 0.16,
                "exploration_final_eps": 0.04,
            },
            (0.0, 0.03, 0.1, 0.3, 1.0),
            (0.0, 500.0),
        ),
        "Taxi": Game(
            Finite("Taxi-v4", 200),
            40_000,
            {
                "learning_rate": 3e-3,
                "gamma": 0.95,
                "policy_kwargs": {"net_arch": [128]},
                "buffer_size": 50_000,
                "learning_starts": 1000,
                "train_freq": 4,
                "batch_size": 128,
                "target_update_interval": 200,
                "exploration_fraction": 0.3,
                "exploration_final_eps": 0.3,
            },
            (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
            (-2000.0, 20.0),
            {"max_episode_steps": 50},  # more starts; a return is over 200 steps all the same
        ),
    }
