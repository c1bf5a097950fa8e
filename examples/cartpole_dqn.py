"""DQN in one file, in the style of CleanRL, with the two seeds that an audit needs.

    replicable-rl audit examples/cartpole_dqn.py:train --evaluate CartPole-v1 \
        --probe examples/cartpole_dqn.py:probe --shared-seeds 10

What makes it auditable is the signature ``train(shared_seed, sample_seed)`` and who draws from which seed: the initial
weights, the coin flips and the minibatches follow the shared seed, and the poles follow the sample seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from replicable_rl.training import visited_observations

STEPS = 8_000
BUFFER, BATCH, TRAIN_EVERY, TARGET_EVERY, STARTS = 8_000, 64, 4, 250, 500
GAMMA, LEARNING_RATE, LAST_EPSILON = 0.99, 1e-3, 0.05


def network() -> Any:
    """Return a small Q-network."""
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def train(shared_seed: int, sample_seed: int, steps: int = STEPS) -> Callable[[Any], int]:
    """Train once; return the greedy policy as a function of an observation."""
    torch.set_num_threads(1)
    torch.manual_seed(shared_seed)
    coins = np.random.default_rng(shared_seed)
    q, target = network(), network()
    target.load_state_dict(q.state_dict())
    adam = torch.optim.Adam(q.parameters(), lr=LEARNING_RATE)
    kept = {
        name: np.zeros((BUFFER, width), np.float32) for name, width in {"s": 4, "a": 1, "r": 1, "t": 4, "e": 1}.items()
    }
    env = gym.make("CartPole-v1")
    state, _ = env.reset(seed=sample_seed)  # the data: everything else follows the shared seed

    for step in range(steps):
        epsilon = max(LAST_EPSILON, 1.0 - 2.0 * step / steps)
        action = int(coins.integers(2)) if coins.random() < epsilon else greedy(q, state)
        after, reward, terminated, truncated, _ = env.step(action)
        for name, value in {"s": state, "a": action, "r": float(reward), "t": after, "e": terminated}.items():
            kept[name][step % BUFFER] = value
        state = env.reset()[0] if terminated or truncated else after
        if step >= STARTS and step % TRAIN_EVERY == 0:
            chosen = coins.integers(min(step + 1, BUFFER), size=BATCH)
            s, a, r, t, e = (torch.as_tensor(kept[name][chosen]) for name in "sarte")
            with torch.no_grad():
                goal = r + GAMMA * target(t).max(dim=1, keepdim=True).values * (1.0 - e)
            loss = nn.functional.mse_loss(q(s).gather(1, a.long()), goal)
            adam.zero_grad()
            loss.backward()
            adam.step()
        if step % TARGET_EVERY == 0:
            target.load_state_dict(q.state_dict())
    return lambda observation: greedy(q, observation)


def greedy(q: Any, observation: Any) -> int:
    """Return the action with the larger value."""
    with torch.no_grad():
        return int(q(torch.as_tensor(np.asarray(observation), dtype=torch.float32)).argmax())


def probe() -> Any:
    """Return observations to compare policies on: those that a run with other seeds meets."""
    return visited_observations("CartPole-v1", train(1, 1), n=200, seed=1)
