"""Pairs of a log with few rows are taken for the worst, in all logs alike; and a log serves `PlugInPolicy` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.logs import Dataset
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules.model import threshold
from tests.statistics import sampled_log

pytestmark = pytest.mark.usefixtures("one_database")

DECIDE = rr.PlugInPolicy(0.05, 0.05, 0.2)


@dataclass(frozen=True)
class Own(rr.Algorithm):
    """Somebody's own algorithm."""

    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.Run.of({"policy": [0] * source.n_states})


def thin(rows: dict[tuple[int, int], int], seed: int = 1) -> Dataset:
    """Return a log of RiverSwim in which some pairs have fewer than a hundred rows."""
    log = sampled_log(rr.make("riverswim-v1"), 100, seed)
    kept = np.ones(log["state"].size, dtype=bool)
    for (s, a), many in rows.items():
        kept[np.flatnonzero((log["state"] == s) & (log["action"] == a))[many:]] = False
    log = {name: column[kept] for name, column in log.items()}
    return rr.from_transitions(log, gamma=0.9, reward_range=(0.0, 1.0), states=range(6), actions=range(2))


@pytest.mark.parametrize(
    "algorithm",
    [
        rr.ApproximateMDP(0.1, 0.1, calls=1),
        rr.ReplicableApproximateMDP(0.3, 0.05, 0.2, calls=1, tolerance=0.2),
        rr.PhasedVI(0.1, 0.1, calls=1, iterations=1),
        rr.ReplicablePhasedVI(0.1, 0.01, 0.2, calls=1, iterations=1, tolerance=0.1),
        rr.RMax(0.1, 0.1, 5),
        rr.PlugInPolicy(0.1, 0.1, 0.2, horizon=5, budget=100),
        Own(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_log_is_refused_to_all_other_algorithms(algorithm: Any) -> None:
    data = thin({})
    asked: list[Any] = [
        lambda: rr.solve(data, algorithm, shared_seed=1),
        lambda: rr.diagnose(data, algorithm),
        lambda: rr.audit({"one": data, "two": thin({}, seed=2)}, algorithm),
        *([lambda: rr.plan(data, algorithm)] if hasattr(algorithm, "plan") else []),
    ]
    for ask in asked:
        with pytest.raises(rr.InvalidInput, match="PlugInPolicy"):
            ask()


def test_the_threshold_stays_within_its_bounds() -> None:
    for middle in (1.0, 2.0, 7.0, 50.0, 1e6):
        visits = np.full(9, middle)
        most = threshold(visits, None)
        assert 1.0 <= most <= max(1.0, middle / 2.0)
        drawn = [threshold(visits, SharedRandomness(seed)) for seed in range(50)]
        assert min(drawn) >= 1.0
        assert max(drawn) <= most


def test_two_logs_take_the_same_pairs_for_the_worst() -> None:
    one, two = thin({(4, 0): 5}), thin({(4, 0): 7}, seed=2)
    unlike = 0
    for seed in range(100):
        pair = [str(rr.solve(data, DECIDE, shared_seed=seed).status) for data in (one, two)]
        unlike += len({"taken for the worst: 0 in 4" in said for said in pair}) > 1
    assert unlike <= 32  # the threshold is from 5 to 7 with probability (log 7 - log 5)/log 10 = 0.146: alpha = 1e-6


def test_ends_and_actions_that_are_not_allowed_are_not_few() -> None:
    log = sampled_log(rr.make("riverswim-v1"), 50, 1)
    kept = ~((log["state"] == 0) & (log["action"] == 1)) & ~((log["state"] == 1) & (log["action"] == 1))
    log = {name: column[kept] for name, column in log.items()}
    log["done"] = log["next_state"] == 5
    allowed = np.ones((6, 2), dtype=bool)
    allowed[0, 1] = False
    names: dict[str, Any] = {"states": range(6), "actions": range(2), "allowed": allowed, "done": "done"}
    run = rr.solve(rr.from_transitions(log, gamma=0.9, **names), DECIDE, shared_seed=1)
    assert "1 pair of 13" in str(run.status)
    assert "taken for the worst: 1 in 1" in str(run.status)
    assert run.policy[0] == 0


def test_a_policy_from_the_whole_log_takes_all_rows() -> None:
    data = thin({(5, 1): 2})
    run = rr.solve(data, DECIDE, shared_seed=1)
    assert run.samples == data.rows == 1102
