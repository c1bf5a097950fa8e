"""Time MBQVI of rlberry-scool; run by the interpreter that has it, which has no replicable_rl.

python mbqvi.py problem.npz "[10, 100]" rounds
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np


def main() -> None:
    from rlberry.envs.finite_mdp import FiniteMDP
    from rlberry_scool.agents.mbqvi import MBQVIAgent

    problem, samples, rounds = np.load(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    environment, gamma = FiniteMDP(problem["R"], problem["P"]), float(problem["gamma"])
    times: list[list[float]] = [[] for _ in samples]
    for _ in range(rounds):
        for number, taken in zip(samples, times, strict=True):
            agent = MBQVIAgent(environment, n_samples=number, gamma=gamma, epsilon=1e-6)
            started = time.perf_counter()
            agent.fit()
            taken.append(time.perf_counter() - started)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
