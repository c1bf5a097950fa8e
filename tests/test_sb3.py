"""Stable-Baselines3: the same seeds give the same bits, and each stream of randomness decides what it should."""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.training.sb3 import StableBaselines3, TrainedPolicy, seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

sb3: Any = pytest.importorskip("stable_baselines3")
torch: Any = pytest.importorskip("torch")

NEVER = 10**6  # learning_starts: until then DQN acts uniformly at random
LEARNERS: dict[str, dict[str, Any]] = {
    "DQN": {"learning_starts": 100, "policy_kwargs": {"net_arch": [16]}},
    "PPO": {"n_steps": 64, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}},
}


def lake(algorithm: str = "DQN", timesteps: int = 300, **options: Any) -> StableBaselines3:
    options.setdefault("algorithm_options", LEARNERS[algorithm])
    return StableBaselines3(algorithm, "FrozenLake-v1", timesteps, **options)


def untrained(**options: Any) -> StableBaselines3:
    return lake(timesteps=60, algorithm_options={"learning_starts": NEVER, "buffer_size": 100}, **options)


def weights(policy: TrainedPolicy) -> NDArray[np.float32]:
    return np.concatenate([tensor.numpy().ravel() for tensor in policy.model.policy.state_dict().values()])


def same_bits(first: TrainedPolicy, second: TrainedPolicy) -> bool:
    return np.array_equal(weights(first), weights(second))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The (state, action, next state) of every step on the lake from now on."""
    taken: list[tuple[int, int, int]] = []
    step = FrozenLakeEnv.step

    def recorded(self: FrozenLakeEnv, action: int) -> Any:
        before = int(self.s)
        result: Any = step(self, action)  # type: ignore[no-untyped-call]
        taken.append((before, int(action), int(self.s)))
        return result

    monkeypatch.setattr(FrozenLakeEnv, "step", recorded)
    return taken


def columns(train: StableBaselines3, shared: int, sample: int, steps: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Return the columns state, action, next state of one run."""
    steps.clear()
    train(shared, sample)
    return np.array(steps).T


# --- the same seeds, the same bits --------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_the_same_seeds_give_the_same_bits_whatever_ran_before(algorithm: str) -> None:
    train = lake(algorithm)
    first = train(7, 1)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002  # the generator that the library uses
    torch.manual_seed(5)
    other, again = train(7, 2), train(7, 1)
    assert same_bits(first, again)
    assert np.array_equal(first(train.probe()), again(train.probe()))
    assert not same_bits(first, other)
    assert not same_bits(first, train(8, 1))


def test_another_process_and_other_threads_give_the_same_bits() -> None:
    train = lake()
    here = [train(7, sample) for sample in (1, 2)]
    with ThreadPoolExecutor(2) as threads:  # they take turns
        assert all(map(same_bits, here, threads.map(train, (7, 7), (1, 2))))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert same_bits(here[1], processes.submit(train, 7, 2).result())


def test_generators_and_threads_are_left_alone_even_by_a_run_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> tuple[Any, ...]:
        legacy: Any = np.random.get_state()  # noqa: NPY002
        return random.getstate(), legacy[1].tolist(), torch.get_rng_state().tolist(), torch.get_num_threads()

    before = state()
    train = untrained()
    train(7, 1)
    assert state() == before
    monkeypatch.setattr(sb3.DQN, "learn", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(7, 1)
    assert state() == before


# --- which stream decides what ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", LEARNERS)
@pytest.mark.parametrize("share", [(), ("network",), ("exploration",), ("network", "exploration")])
def test_initial_weights_are_equal_exactly_when_the_network_is_shared(algorithm: str, share: tuple[str, ...]) -> None:
    never: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "learning_rate": 0.0}
    train = lake(
        algorithm, 8, share=share, algorithm_options={"learning_starts": NEVER} if algorithm == "DQN" else never
    )
    first, second = train(7, 1), train(7, 2)
    assert same_bits(first, second) == ("network" in share)


def test_exploration_is_shared_or_fresh(steps: list[tuple[int, int, int]]) -> None:
    train = untrained()
    first, second, other = (columns(train, *seeds, steps) for seeds in ((7, 1), (7, 2), (8, 1)))
    assert np.array_equal(first[1], second[1])  # uniform actions do not look at the state
    assert not np.array_equal(first[2], second[2])
    assert not np.array_equal(first[1], other[1])
    fresh = untrained(share=("network",))
    first, second, other = (columns(fresh, *seeds, steps) for seeds in ((7, 1), (7, 2), (8, 1)))
    assert not np.array_equal(first[1], second[1])
    assert np.array_equal(first, other)  # another network that never acts: the run is the sample seed's


def test_runs_that_share_everything_part_when_their_data_do(steps: list[tuple[int, int, int]]) -> None:
    train = lake("PPO", 64)
    first, second = (columns(train, 7, sample, steps) for sample in (1, 2))
    parted = int(np.argmax((first != second).any(axis=0)))
    assert np.array_equal(first[:2, : parted + 1], second[:2, : parted + 1])  # the same states, the same actions
    assert first[2, parted] != second[2, parted]  # and then the ice decides otherwise


def test_the_environment_takes_its_seed_from_the_sample_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int | None] = []
    reset = FrozenLakeEnv.reset

    def recorded(self: FrozenLakeEnv, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seeds.append(seed)
        return reset(self, seed=seed, options=options)

    monkeypatch.setattr(FrozenLakeEnv, "reset", recorded)
    untrained()(7, 2**64 - 1)
    first = seed_of("sample", "environment", 2**64 - 1)
    assert {first} <= set(seeds) <= {first, None}  # later episodes go on with the environment's generator
    assert seed_of("shared", "network", 7) == 1584544486


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_without_any_randomness_in_the_environment_sharing_everything_is_one_run(algorithm: str) -> None:
    def two_runs(*share: str) -> list[TrainedPolicy]:
        train = lake(algorithm, share=share, env_options={"is_slippery": False})
        return [train(7, sample) for sample in (1, 2)]

    assert same_bits(*two_runs("network", "exploration"))
    assert not same_bits(*two_runs("network"))
    train = lake(share=())
    assert same_bits(train(7, 1), train(8, 1))


def test_an_audit_says_what_is_shared_and_what_is_fresh() -> None:
    evidence = rr.audit_callable(untrained(share=("network",)), shared_seeds=2).evidence
    assert "initial weights" in evidence.shared
    assert "transitions" in evidence.fresh
    assert "draws during learning" in evidence.fresh


# --- identity, returns, observations ------------------------------------------------------------------------------


def schedule(progress: float) -> float:
    return 0.001 * progress


def test_the_identity_says_what_determines_a_run(tmp_path: Path) -> None:
    train = lake("PPO", 64, algorithm_options=LEARNERS["PPO"] | {"learning_rate": schedule})
    assert train.params["env"] == "FrozenLake-v1"
    assert train.params["algorithm_options"]["learning_rate"] == {"named": "tests.test_sb3.schedule"}
    assert train.params["versions"]["torch"] == torch.__version__
    assert train.params != lake("PPO", 65).params
    assert train.name == "stable-baselines3/PPO"
    with pytest.raises(InvalidInput, match="version='1'"):
        rr.audit_callable(train, shared_seeds=2, store=tmp_path / "runs.sqlite")


def test_returns_come_with_the_uniform_policy_to_compare_with() -> None:
    train = untrained()
    result = rr.audit_callable(train, shared_seeds=2, evaluate=train.returns(episodes=3))
    assert result.returns is not None
    assert (len(result.returns.per_run), result.returns.uniform is None) == (4, False)
    assert train.probe().tolist() == list(range(16))


def test_observations_and_actions_may_be_vectors() -> None:
    train = StableBaselines3("SAC", "Pendulum-v1", 20, algorithm_options={"learning_starts": NEVER, "buffer_size": 50})
    probe = rr.training.visited_observations("Pendulum-v1", n=7)
    policy = train(7, 1)
    assert policy(probe).shape == (7, 1)
    assert policy(probe[0]).shape == (1,)
    with pytest.raises(InvalidInput, match="probe="):
        train.probe()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StableBaselines3("DQM", "FrozenLake-v1", 10), "DQN"),
        (lambda: StableBaselines3("DQN", "FrozenLak-v1", 10), "FrozenLake-v1"),
        (lambda: StableBaselines3("DQN", gymnasium.make("FrozenLake-v1"), 10), "env must be the id"),  # type: ignore[arg-type]
        (lambda: lake(timesteps=0), "total_timesteps"),
        (lambda: lake(policy="MlpPolice")(1, 2), "cannot be built .*MlpPolice"),
        (lambda: lake(share=("environment",)), "share must be"),
        (lambda: lake(share="network"), "share must be"),
        (lambda: lake(algorithm_options={"gama": 0.9})(1, 2), "cannot be built .*'gama'"),
        (lambda: lake(algorithm_options={"seed": 1})(1, 2), "cannot be built .*'seed'"),
        (lambda: lake(algorithm_options={"gamma": object()}).params, "JSON"),
        (lambda: lake(algorithm_options={"policy_kwargs": 3})(1, 2), "cannot be built"),
        (lambda: lake()(-1, 2), "shared_seed"),
    ],
)
def test_bad_input_is_one_clear_sentence(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(InvalidInput, match="pip install"):
        StableBaselines3("DQN", "FrozenLake-v1", 10)
