"""How replicable are DQN and PPO of Stable-Baselines3? An audit of both on Gymnasium's FrozenLake.

    .venv/bin/python -m pip install -e '.[sb3]'
    .venv/bin/python examples/sb3.py

Ten times, two runs share the initial weights and the stream of exploration, and meet fresh ice (about two
minutes on two free cores). Policies are compared in the cells in which an action is taken. Expect DQN to
find mostly good policies that are seldom the same in all cells, and PPO, which has not finished learning
after so few steps, to differ in about half of them. The tables say what was shared and what was fresh;
``share=("network",)`` and ``share=()`` share less.
"""

# Not called stable_baselines3.py: as a program, that file would hide the library of the same name.
from __future__ import annotations

from collections.abc import Collection
from typing import Any

import replicable_rl as rr
from replicable_rl.audit import AuditResult

CELLS = [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]  # neither holes nor the goal
EVERYTHING = ("network", "exploration")
DQN: dict[str, Any] = {
    "learning_rate": 2e-3,
    "gamma": 0.99,
    "policy_kwargs": {"net_arch": [32]},
    "buffer_size": 10_000,
    "learning_starts": 1000,
    "train_freq": 8,
    "batch_size": 256,
    "target_update_interval": 250,
    "exploration_fraction": 0.5,
    "exploration_final_eps": 0.2,
}
PPO: dict[str, Any] = {
    "learning_rate": 5e-3,
    "gamma": 0.99,
    "policy_kwargs": {"net_arch": [32]},
    "n_steps": 250,
    "batch_size": 250,
    "gae_lambda": 0.8,
}


def dqn(steps: int = 10_000, share: Collection[str] = EVERYTHING) -> rr.StableBaselines3:
    """DQN with a small network."""
    return rr.StableBaselines3("DQN", "FrozenLake-v1", steps, share=share, algorithm_options=DQN)


def ppo(steps: int = 10_000, share: Collection[str] = EVERYTHING) -> rr.StableBaselines3:
    """PPO with a small network."""
    return rr.StableBaselines3("PPO", "FrozenLake-v1", steps, share=share, algorithm_options=PPO)


def audit(train: rr.StableBaselines3, shared_seeds: int = 10, n_jobs: int = 2, episodes: int = 50) -> AuditResult:
    """Train twice under every shared seed, compare what the policies do in the cells, and play episodes of each."""
    evaluate = train.returns(episodes=episodes)
    return rr.audit_callable(train, shared_seeds=shared_seeds, n_jobs=n_jobs, probe=CELLS, evaluate=evaluate)


def main() -> None:
    """Print what was found of either algorithm."""
    for train in (dqn(), ppo()):
        print(audit(train).text(), end="\n\n")


if __name__ == "__main__":
    main()
