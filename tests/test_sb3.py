"""Stable-Baselines3 under two seeds: which stream decides what, the same bits twice, nothing disturbed.

Steps of the environment are recorded by `steps`: what a run explored and what the environment answered
are then visible apart from each other.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import random
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv

import replicable_rl as rr
from replicable_rl.audit import AuditResult
from replicable_rl.canonical import json_digest
from replicable_rl.errors import InvalidInput
from replicable_rl.runs import ObjectSpec
from replicable_rl.training.sb3 import StableBaselines3, TrainedPolicy
from replicable_rl.training.sb3_library import seed_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

sb3: Any = pytest.importorskip("stable_baselines3")
torch: Any = pytest.importorskip("torch")

NEVER = 10**6  # learning_starts: until then DQN acts uniformly at random
LEARNERS: dict[str, dict[str, Any]] = {
    "DQN": {"learning_starts": 100, "policy_kwargs": {"net_arch": [16]}},
    "PPO": {"n_steps": 64, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}},
}


def lake(algorithm: str = "DQN", timesteps: int = 300, **kwargs: Any) -> StableBaselines3:
    kwargs.setdefault("algorithm_options", LEARNERS[algorithm])
    return StableBaselines3(algorithm, "FrozenLake-v1", timesteps, **kwargs)


def untrained(**kwargs: Any) -> StableBaselines3:
    return lake(timesteps=60, algorithm_options={"learning_starts": NEVER, "buffer_size": 100}, **kwargs)


def weights(policy: TrainedPolicy) -> NDArray[np.float32]:
    return np.concatenate([tensor.numpy().ravel() for tensor in policy.model.policy.state_dict().values()])


def same_bits(one: TrainedPolicy, two: TrainedPolicy) -> bool:
    return np.array_equal(weights(one), weights(two))


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the generator that the library uses
    torch.manual_seed(seed)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The (state, action, next state) of every step on the lake from now on."""
    seen: list[tuple[int, int, int]] = []
    step = FrozenLakeEnv.step

    def recorded(self: FrozenLakeEnv, action: int) -> Any:
        before = int(self.s)
        result: Any = step(self, action)  # type: ignore[no-untyped-call]
        seen.append((before, int(action), int(self.s)))
        return result

    monkeypatch.setattr(FrozenLakeEnv, "step", recorded)
    return seen


def one_run(train: StableBaselines3, shared: int, sample: int, steps: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Return the columns state, action, next state of one run."""
    steps.clear()
    train(shared, sample)
    return np.array(steps).T


# --- the same seeds, the same bits -----------------------------------------------------------


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_the_same_seeds_give_the_same_bits_whatever_ran_before(algorithm: str) -> None:
    train = lake(algorithm)
    probe = train.probe()
    first = train(7, 1)
    other = train(7, 2)
    seed_all(5)
    again = train(7, 1)
    assert same_bits(first, again)
    assert np.array_equal(first(probe), again(probe))
    assert not same_bits(first, other)
    assert not same_bits(first, train(8, 1))


def test_another_process_and_other_threads_give_the_same_bits() -> None:
    train = lake()
    here = [train(7, sample) for sample in (1, 2)]
    with ThreadPoolExecutor(2) as threads:  # they take turns
        assert all(map(same_bits, here, threads.map(train, (7, 7), (1, 2))))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert same_bits(here[1], processes.submit(train, 7, 2).result())


# --- which stream decides what ---------------------------------------------------------------


@pytest.mark.parametrize("algorithm", LEARNERS)
@pytest.mark.parametrize("share", [(), ("network",), ("exploration",), ("network", "exploration")])
def test_initial_weights_are_equal_exactly_when_the_network_is_shared(algorithm: str, share: tuple[str, ...]) -> None:
    options = (
        {"learning_starts": NEVER} if algorithm == "DQN" else {"n_steps": 8, "batch_size": 8, "learning_rate": 0.0}
    )
    train = lake(algorithm, 8, share=share, algorithm_options=options)
    one, two = train(7, 1), train(7, 2)
    assert same_bits(one, two) == ("network" in share)
    assert np.array_equal(one(train.probe()), two(train.probe())) == ("network" in share)


def test_shared_exploration_meets_fresh_transitions(steps: list[tuple[int, int, int]]) -> None:
    train = untrained()
    one, two = one_run(train, 7, 1, steps), one_run(train, 7, 2, steps)
    assert np.array_equal(one[1], two[1])  # uniform actions do not look at the state
    assert not np.array_equal(one[2], two[2])
    other = one_run(train, 8, 1, steps)
    assert not np.array_equal(one[1], other[1])


def test_fresh_exploration_differs(steps: list[tuple[int, int, int]]) -> None:
    train = untrained(share=("network",))
    one, two = one_run(train, 7, 1, steps), one_run(train, 7, 2, steps)
    assert not np.array_equal(one[1], two[1])
    other = one_run(train, 8, 1, steps)  # another network that never acts: the run is the sample seed's
    assert np.array_equal(one, other)


def test_the_first_reset_takes_the_seed_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []
    reset = FrozenLakeEnv.reset

    def recorded(self: FrozenLakeEnv, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen.append(seed)
        return reset(self, seed=seed, options=options)

    monkeypatch.setattr(FrozenLakeEnv, "reset", recorded)
    untrained()(7, 2**64 - 1)
    assert seen[0] == seed_of("sample", "environment", 2**64 - 1)
    assert len(seen) > 1
    assert set(seen[1:]) == {None}  # later episodes go on with the same generator


def test_runs_that_share_everything_part_when_their_data_do(steps: list[tuple[int, int, int]]) -> None:
    train = lake("PPO", 64)
    one, two = one_run(train, 7, 1, steps), one_run(train, 7, 2, steps)
    parted = int(np.argmax((one != two).any(axis=0)))
    assert np.array_equal(one[:2, : parted + 1], two[:2, : parted + 1])  # up to here the same states, the same actions
    assert one[2, parted] != two[2, parted]  # and then the ice decides otherwise


def test_nothing_shared_means_that_the_shared_seed_is_not_used() -> None:
    train = lake(share=())
    assert same_bits(train(7, 1), train(8, 1))
    assert not same_bits(train(7, 1), train(7, 2))


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_without_any_randomness_in_the_environment_sharing_everything_is_one_run(algorithm: str) -> None:
    def two_runs(*share: str) -> list[TrainedPolicy]:
        train = lake(algorithm, share=share, env_options={"is_slippery": False})
        return [train(7, sample) for sample in (1, 2)]

    assert same_bits(*two_runs("network", "exploration"))
    assert not same_bits(*two_runs("network"))


def test_streams_and_kinds_of_seed_are_unrelated_and_pinned() -> None:
    words = {
        seed_of(source, stream, seed)
        for source in ("shared", "sample")
        for stream in ("network", "exploration", "environment")
        for seed in (0, 1, 2**32, 2**64 - 1)
    }
    assert len(words) == 24
    assert all(0 <= word < 2**32 for word in words)
    assert seed_of("shared", "network", 7) == 1584544486


class Dice(gymnasium.Env[int, int]):
    """What is thrown does not depend on actions: first by the action space, as some environments do, then as usual."""

    thrown: ClassVar[list[int]] = []

    def __init__(self, **_: Any) -> None:
        self.observation_space = gymnasium.spaces.Discrete(6)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(6)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.thrown.append(int(self.action_space.sample()))
        return self.thrown[-1], {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.thrown.append(int(self.np_random.integers(6)))
        return self.thrown[-1], float(action), self.thrown[-1] == 0, False, {}


@pytest.mark.parametrize("share", [("exploration",), ("network", "exploration")])
def test_the_environment_follows_the_sample_seed_alone(share: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Dice-v0", gymnasium.envs.registration.EnvSpec("Dice-v0", Dice))
    train = StableBaselines3("DQN", "Dice-v0", 60, share=share, algorithm_options={"learning_starts": NEVER})
    runs = []
    for shared, sample in [(7, 1), (7, 1), (8, 1), (7, 2)]:
        Dice.thrown.clear()
        train(shared, sample)
        runs.append(list(Dice.thrown))
    assert runs[0] == runs[1] == runs[2] != runs[3]


# --- the caller is not disturbed -------------------------------------------------------------


def global_state() -> tuple[Any, ...]:
    numpy_state = np.random.get_state(legacy=True)  # noqa: NPY002
    return (
        random.getstate(),
        [np.asarray(part).tolist() for part in numpy_state],
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
    )


def test_generators_threads_and_disk_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seed_all(99)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = global_state()
        train = lake()
        assert global_state() == before
        train(7, 1)(train.probe())
        assert global_state() == before
    finally:
        torch.set_num_threads(threads)
    assert list(tmp_path.iterdir()) == []  # Stable-Baselines3 makes a folder for logs unless it is given a logger


def test_a_run_that_fails_puts_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    train = lake()
    seed_all(99)

    def broken(self: FrozenLakeEnv, action: int) -> Any:
        raise RuntimeError("the ice broke")

    with monkeypatch.context() as patch:
        patch.setattr(FrozenLakeEnv, "step", broken)
        patch.setattr(FrozenLakeEnv, "close", lambda self: closed.append(self))
        before = global_state()
        with pytest.raises(RuntimeError, match="the ice broke"):
            train(7, 1)
        assert global_state() == before
    assert len(closed) == 1
    train(7, 1)  # and the next run may start


# --- the policy that comes back --------------------------------------------------------------


def test_a_policy_is_small_and_survives_pickling() -> None:
    train = lake()
    policy = train(7, 1)
    assert policy.vectorized  # so that an audit asks once, not once for every observation
    actions = policy(train.probe())
    assert actions.shape == (16,)
    assert actions.dtype.kind == "i"
    data = pickle.dumps(policy)
    assert len(data) < 10**6  # no buffer, no environment
    assert np.array_equal(pickle.loads(data)(train.probe()), actions)  # noqa: S301  # our own bytes
    assert np.array_equal(policy([3, 3]), actions[[3, 3]])  # type: ignore[arg-type]


def test_observations_and_actions_may_be_vectors() -> None:
    options = {"learning_starts": NEVER, "policy_kwargs": {"net_arch": [8]}}
    train = StableBaselines3("TD3", "Pendulum-v1", 20, algorithm_options=options)
    policy = train(7, 1)
    probe = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]], dtype=np.float32)
    actions = policy(probe)
    assert actions.shape == (2, 1)
    assert np.array_equal(actions, train(7, 2)(probe))
    with pytest.raises(InvalidInput, match=r"of Box.*got a single observation\. Pass observations\[None\]"):
        policy(probe[0])
    with pytest.raises(InvalidInput, match=r"of Box.*got one of shape \(2, 2\)"):
        policy(probe[:, :2])
    with pytest.raises(InvalidInput, match=r"only a Discrete observation space can be listed, got Box.* as probe="):
        train.probe()


class Contrary(sb3.DQN):  # type: ignore[misc]
    """A class of one's own, with an action rule of its own."""

    def predict(self, observation: Any, *args: Any, **kwargs: Any) -> Any:
        actions, state = super().predict(observation, *args, **kwargs)
        return 3 - actions, state


def test_a_class_of_ones_own_acts_by_its_own_rule() -> None:
    options = {"learning_starts": NEVER}
    usual = StableBaselines3(sb3.DQN, "FrozenLake-v1", 10, algorithm_options=options)
    contrary = StableBaselines3(Contrary, "FrozenLake-v1", 10, algorithm_options=options)
    probe = usual.probe()
    assert np.array_equal(contrary(7, 1)(probe), 3 - usual(7, 1)(probe))
    assert contrary.name == "stable-baselines3/Contrary"
    assert contrary.params["algorithm"] == f"{__name__}.Contrary"


def test_what_a_model_does_to_its_options_stays_with_the_model() -> None:
    options = {"policy_kwargs": {"net_arch": [8]}}
    train = StableBaselines3("A2C", "FrozenLake-v1", 10, algorithm_options=options)
    before = train.params
    train(7, 1)  # A2C adds its optimiser to the policy_kwargs it is given
    assert train.params == before


# --- identity --------------------------------------------------------------------------------


def test_the_identity_says_what_determines_a_run() -> None:
    train = lake(env_options={"is_slippery": False}, share=("exploration",))
    assert train.name == "stable-baselines3/DQN"
    assert train.params == {
        "algorithm": "stable_baselines3.dqn.dqn.DQN",
        "policy": "MlpPolicy",
        "algorithm_options": LEARNERS["DQN"],
        "env": "FrozenLake-v1",
        "env_options": {"is_slippery": False},
        "total_timesteps": 300,
        "share": ["exploration"],
        "n_envs": 1,
        "device": "cpu",
        "callback": [],
        "versions": {
            "gymnasium": gymnasium.__version__,
            "stable_baselines3": sb3.__version__,
            "torch": str(torch.__version__),
        },
    }
    assert json.loads(json.dumps(train.params)) == train.params
    assert json_digest(train.params) != json_digest(lake().params)


def test_one_training_code_has_one_identity() -> None:
    one = StableBaselines3("DQN", "FrozenLake-v1", 50, share=("exploration", "network"))
    two = StableBaselines3(sb3.DQN, "FrozenLake", 50, env_options={}, algorithm_options={})
    assert one == two
    assert hash(one) == hash(two)
    assert one.params == two.params
    assert repr(one).startswith("StableBaselines3(algorithm='DQN', env='FrozenLake-v1', total_timesteps=50")
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301  # our own bytes


def test_a_store_knows_training_code_by_its_settings_and_its_version(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    train = StableBaselines3("DQN", "FrozenLake-v1", 10, algorithm_options={"learning_starts": NEVER})
    with pytest.raises(InvalidInput, match=f"audit_callable: {train.name} is code of your own, .* version='1'"):
        rr.audit_callable(train, shared_seeds=1, store=store)
    one, again = (rr.audit_callable(train, shared_seeds=1, store=store, version="1") for _ in range(2))
    assert one.algorithm == ObjectSpec("stable-baselines3/DQN", train.params | {"version": "1", **_probe(one)})
    assert again.seconds == one.seconds  # found, not trained again
    assert (one.spec.shared, one.spec.fresh) == (train.shared_randomness, train.fresh_randomness)


def _probe(result: AuditResult) -> dict[str, Any]:
    return {"probe": result.algorithm.params["probe"]}


def test_the_probe_lists_the_observations() -> None:
    assert lake().probe().tolist() == list(range(16))
    assert lake(env_options={"map_name": "8x8"}).probe().size == 64


def test_phrases_say_what_is_shared_and_what_is_fresh() -> None:
    both, network, exploration, nothing = (
        lake(share=share) for share in (("network", "exploration"), ["network"], {"exploration"}, ())
    )
    data = "the transitions and first states of the environment"
    weights = "the initial weights of the network"
    draws = "the algorithm's draws during learning (actions, noise, minibatches"
    only_until = "one stream of numbers, which means the same choices only until the runs' data differ"
    assert both.shared_randomness == f"{weights} and {draws}; {only_until})"
    assert both.fresh_randomness == data
    assert network.shared_randomness == weights
    assert network.fresh_randomness == f"{data}, and {draws})"
    assert exploration.shared_randomness == f"{draws}; {only_until})"
    assert exploration.fresh_randomness == f"{data}, and {weights}"
    assert nothing.shared_randomness == "nothing (the shared seed is not used)"
    assert nothing.fresh_randomness == f"{data}, {weights}, and {draws})"


# --- copies, callbacks, schedules, devices -----------------------------------------------------


class Counting(sb3.common.callbacks.BaseCallback):  # type: ignore[misc]
    """Counts the steps of all runs, and those of its own."""

    all_runs: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__()
        self.own = 0

    def _on_step(self) -> bool:
        self.own += 1
        return self.own < 40

    def _on_training_end(self) -> None:
        self.all_runs.append(self.own)


def test_copies_of_the_environment_have_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    reset = FrozenLakeEnv.reset

    def recorded(self: FrozenLakeEnv, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen.extend([] if seed is None else [seed])
        return reset(self, seed=seed, options=options)

    monkeypatch.setattr(FrozenLakeEnv, "reset", recorded)
    train = untrained(n_envs=3)
    one = train(7, 1)
    first = seed_of("sample", "environment", 1)
    assert seen == [first, first + 1, first + 2]
    assert same_bits(one, train(7, 1))
    assert train.params["n_envs"] == 3


def test_every_run_gets_its_own_copy_of_a_callback() -> None:
    Counting.all_runs.clear()
    given = Counting()
    train = untrained(callback=given)
    train(7, 1)
    train(7, 2)
    assert Counting.all_runs == [40, 40]  # it ended both runs, and began each at 0
    assert given.own == 0
    assert untrained(callback=[given, given])(7, 1).model.num_timesteps == 40
    called: list[int] = []

    def until_five(local: Any, world: Any) -> bool:
        called.append(1)
        return len(called) < 5

    untrained(callback=until_five)(7, 1)
    assert len(called) == 5
    assert train.params["callback"] == ["Counting"]


def test_a_schedule_is_known_by_its_settings_and_a_function_by_its_name(tmp_path: Path) -> None:
    linear, usual = sb3.common.utils.LinearSchedule(0.01, 0.001, 0.5), LEARNERS["DQN"]
    theirs = lake(timesteps=120, algorithm_options=usual | {"learning_rate": linear})
    own = lake(timesteps=120, algorithm_options=usual | {"learning_rate": lambda left: 0.01 * left})
    assert theirs.params["algorithm_options"]["learning_rate"] == {
        "object": "stable_baselines3.common.utils.LinearSchedule",
        "start": 0.01,
        "end": 0.001,
        "end_fraction": 0.5,
    }
    assert not same_bits(theirs(7, 1), own(7, 1))
    store = tmp_path / "runs.sqlite"
    rr.audit_callable(own, shared_seeds=1, store=store, version="1")
    changed = lake(timesteps=120, algorithm_options=usual | {"learning_rate": lambda left: 0.02 * left})
    with pytest.warns(UserWarning, match="The source of stable-baselines3/DQN"):
        rr.audit_callable(changed, shared_seeds=1, store=store, version="1")


# --- what was learned, and from what -----------------------------------------------------------


def test_an_environment_that_repeats_itself_is_warned_of() -> None:
    def audit(*share: str, **options: Any) -> AuditResult:
        return rr.audit_callable(untrained(share=share, **options), shared_seeds=2)

    still = {"env_options": {"is_slippery": False}}
    (first, *_) = audit("network", "exploration", **still).warnings
    assert first.startswith("Nothing was fresh, for the environment repeats itself: two sample seeds gave the same 200")
    assert not audit("network", **still).unsampled  # exploration is fresh
    assert not audit("network", "exploration").unsampled


def test_returns_come_with_the_uniform_policy_to_compare_with(tmp_path: Path) -> None:
    train = untrained()
    options: dict[str, Any] = {"shared_seeds": 2, "evaluate": train.returns(3), "version": "1"}
    options |= {"store": tmp_path / "runs.sqlite"}
    result = rr.audit_callable(train, **options)
    assert result.returns is not None
    assert result.returns.episodes == 12
    assert any("uniform policy" in warning for warning in result.warnings)  # it never learned
    assert rr.audit_callable(train, **options).seconds == result.seconds
    assert result.algorithm.params["evaluate"]["episodes"] == 3


class Room(gymnasium.Env[Any, Any]):
    """Observations are dictionaries with an image."""

    def __init__(self, **_: Any) -> None:
        boxes: dict[str, Any] = {
            "image": gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8),
            "speed": gymnasium.spaces.Box(-9, 9, (1,)),
        }
        self.observation_space = gymnasium.spaces.Dict(boxes)
        self.action_space = gymnasium.spaces.Discrete(2)

    def _seen(self) -> dict[str, Any]:
        image = self.np_random.integers(0, 256, (36, 36, 1)).astype(np.uint8)
        return {"image": image, "speed": self.np_random.normal(size=1).astype(np.float32)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._seen(), float(action), bool(self.np_random.random() < 0.2), False, {}


def test_dictionaries_and_images_are_observations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Room-v0", gymnasium.envs.registration.EnvSpec("Room-v0", Room))
    options = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    train = StableBaselines3("PPO", "Room-v0", 16, policy="MultiInputPolicy", algorithm_options=options)
    probe = train.visited(n=6)
    assert isinstance(probe, dict)
    assert probe["image"].shape == (6, 36, 36, 1)
    assert probe["image"].dtype == np.uint8
    result = rr.audit_callable(train, shared_seeds=1, probe=probe, evaluate=train.returns(2))
    assert result.runs[0].policy.shape == (6,)
    assert result.returns is not None
    with pytest.raises(InvalidInput, match="observations must be an array"):
        train(7, 1)(np.zeros((2, 3)))


# --- bad input -------------------------------------------------------------------------------


def build(algorithm: Any = "DQN", env: Any = "FrozenLake-v1", steps: Any = 10, **kwargs: Any) -> StableBaselines3:
    return StableBaselines3(algorithm, env, steps, **kwargs)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: build("DQM"), r"algorithm must be one of A2C, .* got 'DQM'\. Did you mean 'DQN'\?"),
        (lambda: build("ppo"), r"got 'ppo'\. Did you mean 'PPO'\?"),
        (lambda: build("HerReplayBuffer"), r"got 'HerReplayBuffer'"),
        (lambda: build(dict), r"a class derived from BaseAlgorithm, got <class 'dict'>"),
        (lambda: build(env="FrozenLak-v1"), r"registered as 'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"),
        (lambda: build(env="zzzzzz-v0"), r"registered as 'zzzzzz-v0'\. If it is your own, pass 'module:id'"),
        (lambda: build(env="no_such_module:Foo-v0"), r"cannot be made .*no_such_module"),
        (lambda: build(env=FrozenLakeEnv()), r"env must be the id of an environment, .* Register"),
        (lambda: build(env_options={"map_name": "9x9"}), r"cannot be made \(KeyError: '9x9'\)"),
        (lambda: build(env_options={"colour": 3}), r"cannot be made \(TypeError: .*colour"),
        (lambda: build(env_options=[3]), r"env_options must be a mapping from names to values, got \[3\]"),
        (lambda: build(env_options={3: 4}), r"env_options must be a mapping from names to values"),
        (lambda: build(steps=0), r"total_timesteps must be an integer from 1 .* got 0"),
        (lambda: build(steps=1.5), r"total_timesteps must be an integer"),
        (lambda: build(policy="MlpPolice"), r"policy of DQN must be one of .* Did you mean 'MlpPolicy'\?"),
        (lambda: build(policy=sb3.dqn.MlpPolicy), r"policy of DQN must be one of"),
        (lambda: build(share="network"), r"share must be a collection .* Write share=\('network',\)"),
        (lambda: build(share=("network", "replay")), r"share must be a collection .* got \('network', 'replay'\)"),
        (lambda: build(share=("environment",)), r"must not contain 'environment', because two runs with the same data"),
        (lambda: build(share=None), r"share must be a collection .* got None"),
        (lambda: build(algorithm_options={"seed": 3}), r"must not contain 'seed'\. .* seeds come with every run"),
        (lambda: build(algorithm_options={"device": "cuda"}), r"must not contain 'device'\. .* so is device"),
        (lambda: build(device="auto"), r"device must be a name such as 'cpu' or 'cuda:0', got 'auto'"),
        (lambda: build(device="tpu"), r"device 'tpu' cannot be used here .* Pass 'cpu'"),
        (lambda: build(device=None), r"device must be a name"),
        (lambda: build(n_envs=0), r"n_envs must be an integer from 1 to 1000, got 0"),
        (lambda: build(callback=3), r"callback must be a BaseCallback .*, got 3"),
        (lambda: build(callback=[]), r"callback must be a BaseCallback .*, got \[\]"),
        (lambda: build(callback=sb3.common.callbacks.EvalCallback), r"callback must be a BaseCallback"),
        (lambda: build(algorithm_options={"gama": 0.9}), r"DQN has no option 'gama'\. Did you mean 'gamma'\?"),
        (lambda: build(algorithm_options={"learning_rate": object()}), r"must be JSON values, functions .* a subclass"),
        (lambda: build(algorithm_options={"gamma": float("nan")}), r"algorithm_options .* must be JSON values"),
        (lambda: build()(-1, 0), r"shared_seed must be an integer from 0 to 18446744073709551615, got -1"),
        (lambda: build()(0, 2**64), r"sample_seed must be an integer"),
        (lambda: build("SAC")(0, 0), r"SAC cannot be built for 'FrozenLake-v1' with these settings \(AssertionError: "),
        (lambda: build(algorithm_options={"train_freq": [1, "day"]})(0, 0), r"DQN cannot be built .*train_freq"),
    ],
)
def test_bad_input_is_one_clear_sentence(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=f"^StableBaselines3: .*{sentence}"):
        make()


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(InvalidInput, match=r"stable_baselines3 cannot be imported .* pip install stable-baselines3"):
        build()
