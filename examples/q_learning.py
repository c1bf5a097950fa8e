"""How replicable is plain Q-learning? An audit of your own training code, on Gymnasium's FrozenLake.

    .venv/bin/python examples/q_learning.py

Twenty times, two runs explore by the same coin flips and meet fresh ice (about 15 seconds on two cores).
Expect nearly optimal returns from every run, and yet a different policy in about every second pair: in
cell (1,2), between two holes, left and right are equally good, and the samples decide.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import gymnasium
import numpy as np

import replicable_rl as rr
from replicable_rl.audit import AuditResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 50_000  # of the environment, in every run
GAMMA = 0.99
EPSILON = 0.5  # how often a random action is taken
FIRST_Q = 0.5  # a little optimism, so that everything is tried


def train(shared_seed: int, sample_seed: int, steps: int = STEPS) -> NDArray[np.float64]:
    """Q-learning: exploration follows the shared seed, the environment the sample seed."""
    coins = np.random.default_rng(shared_seed)  # thrown in advance: step t of either run uses the same ones
    explore, random_action = coins.random(steps) < EPSILON, coins.integers(4, size=steps)
    env = gymnasium.make("FrozenLake-v1")
    state, _ = env.reset(seed=sample_seed)
    # The model that audit() compares with has one state more than the lake: where episodes end. Its
    # row is the last one. Nothing is earned there, nor in the holes and at the goal, so these stay zero.
    q, visits = np.full((17, 4), FIRST_Q), np.zeros((17, 4))
    q[[5, 7, 11, 12, 15, 16]] = 0.0
    for t in range(steps):
        action = int(random_action[t] if explore[t] else q[state].argmax())
        after, reward, terminated, truncated, _ = env.step(action)
        visits[state, action] += 1.0
        step_size = visits[state, action] ** -0.7
        q[state, action] += step_size * (float(reward) + GAMMA * q[after].max() - q[state, action])
        state = env.reset()[0] if terminated or truncated else after
    return q


def audit(shared_seeds: int = 20, steps: int = STEPS, n_jobs: int = 2) -> AuditResult:
    """Run twice under every shared seed; the known model tells what the policies are worth."""
    lake = rr.from_gymnasium("FrozenLake-v1", gamma=GAMMA)
    code = partial(train, steps=steps)
    return rr.audit_callable(code, shared_seeds=shared_seeds, n_jobs=n_jobs, problem=lake, name="q-learning")


def main() -> None:
    """Print what was found."""
    print(audit().text())


if __name__ == "__main__":
    main()
