"""The examples, at a small size: what they show is there, and the seeds do what the text says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from examples import q_learning, sb3

import replicable_rl as rr
from replicable_rl.training import EpisodeReturns, visited_observations

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 4_000  # of Q-learning
SMALL = {"dqn": 1_050, "ppo": 500}  # a few updates of the network


# --- Q-learning ------------------------------------------------------------------------------


def test_q_learning_gives_values_and_policies_and_what_they_are_worth() -> None:
    result = q_learning.audit(shared_seeds=6, steps=STEPS, n_jobs=1)
    assert result.levels == ("value", "policy")
    assert result.agreement("value").same == 0  # no two runs saw the same ice
    found = result.agreement("policy")
    assert 0.0 <= found.low <= found.estimate <= found.high < 1.0
    assert found.pairs == 6
    assert result.states.per_state.shape == (17,)
    assert result.states.per_state[[5, 7, 11, 12, 15, 16]].tolist() == [1.0] * 6  # nothing is decided there
    assert result.policies is not None
    assert all(0.0 <= policy.loss <= 0.542 + policy.error for policy in result.policies)
    assert f"q-learning:steps={STEPS}" in str(result)


def test_both_seeds_of_q_learning_matter_and_the_same_seeds_give_the_same_bits() -> None:
    tables = [q_learning.train(*seeds, STEPS) for seeds in [(7, 1), (7, 1), (7, 2), (8, 1)]]
    assert np.array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[0], tables[2])
    assert not np.array_equal(tables[0], tables[3])


# --- Stable-Baselines3 -----------------------------------------------------------------------


@pytest.fixture
def make() -> Callable[..., rr.StableBaselines3]:
    """Make ``dqn`` or ``ppo`` of the example, small."""
    pytest.importorskip("stable_baselines3")

    def small(name: str, steps: int | None = None, **kwargs: Any) -> rr.StableBaselines3:
        train: rr.StableBaselines3 = getattr(sb3, name)(steps or SMALL[name], **kwargs)
        return train

    return small


def test_the_audit_compares_what_the_policy_does_in_the_cells(make: Callable[..., rr.StableBaselines3]) -> None:
    train = make("ppo")
    result = sb3.audit(train, shared_seeds=1, n_jobs=1, episodes=2)
    for run in result.runs:
        assert run.sample_seed is not None
        assert np.array_equal(run.policy, train(run.shared_seed, run.sample_seed)(np.array(sb3.CELLS)))


# --- DQN in one file ---------------------------------------------------------------------------


def test_the_script_in_the_style_of_cleanrl_has_two_seeds() -> None:
    from examples import cartpole_dqn  # and not above: it loads PyTorch

    def acts(shared_seed: int, sample_seed: int) -> list[int]:
        policy = cartpole_dqn.train(shared_seed, sample_seed, steps=520)
        return [policy(one) for one in probe]

    probe = visited_observations("CartPole-v1", n=60)
    assert acts(1, 1) == acts(1, 1)
    result = rr.audit_callable(
        lambda shared, sample: cartpole_dqn.train(shared, sample, steps=520),
        shared_seeds=2,
        probe=probe,
        evaluate=EpisodeReturns("CartPole-v1", episodes=2),
    )
    assert result.returns is not None
    assert min(mean for mean in result.returns.per_run if mean is not None) >= 5.0


# --- the notebook ------------------------------------------------------------------------------


def test_the_notebook_shows_what_rounding_changes() -> None:
    pytest.importorskip("marimo")
    from examples import two_runs

    _, found = two_runs.app.run()
    assert found["agreement"]["replicable"] > 0.9 > 0.5 > found["agreement"]["plain"]
