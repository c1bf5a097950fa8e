"""Stable-Baselines3 models as something to audit: training split by where its randomness comes from.

``seed=`` of Stable-Baselines3 seeds everything with one integer, the environment too: two such runs are the same run.
Here training draws from three streams:

- *network*: the initial weights;
- *exploration*: the algorithm's draws while it learns (actions, noise, minibatches);
- *environment*: transitions and first states. These are the data, so they are fresh in every run.

The first two can be taken from the shared seed. The library draws from the global generators of Python, NumPy and
PyTorch and from the action space, so the streams are separated in time: the generators are seeded once before the
network is built and again before learning starts. The environment has a generator of its own; an environment that
ignores the seed of ``reset`` escapes this.

Two runs that share exploration draw the same numbers only until their data differ. Then one number may decide about
another state, or about a minibatch instead of an action.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.metadata
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, check_integer, needs, shown
from replicable_rl.problem.environments import versioned_id
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs import exact_json, put
from replicable_rl.training import playing
from replicable_rl.training.playing import EpisodeReturns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWNER = "StableBaselines3"
_STREAMS = {
    "environment": "the transitions and first states of the environment",
    "network": "the initial weights of the network",
    "exploration": "the algorithm's draws during learning (actions, noise, minibatches)",
}
_SHAREABLE = ("network", "exploration")
_ONE_AT_A_TIME = threading.Lock()  # the generators are global: two threads would draw from one stream


@dataclass(frozen=True)
class StableBaselines3:
    """Training with Stable-Baselines3, as a function of a shared seed and a sample seed.

    Parameters
    ----------
    algorithm : str or type
        ``"DQN"``, ``"PPO"``, ... or a class derived from Stable-Baselines3's ``BaseAlgorithm``.
    env : str
        The id of a Gymnasium environment. Worker processes know your own environments by
        ``"module:id"``.
    total_timesteps : int
        Environment steps, as ``learn`` takes them (some algorithms round up to whole rollouts).
    policy : str
        The policy's name in Stable-Baselines3.
    share : collection of {"network", "exploration"}
        What two runs with one shared seed have in common. ``()``: nothing.
    env_options, algorithm_options : mapping, optional
        Keywords of ``gymnasium.make`` and of the algorithm: numbers, texts, lists and mappings, and also functions and
        classes, such as a schedule for ``learning_rate`` or ``torch.nn.ReLU`` in ``policy_kwargs``.
    device : str
        ``"cpu"``, or a device of PyTorch such as ``"cuda:0"``, where the same seeds need not give the same bits.

    Notes
    -----
    Training runs on the CPU, unless you say otherwise, with one thread, so that the same two seeds give the same bits
    on one machine, and leaves the global generators and PyTorch's number of threads as they were. Within a
    process, runs wait for each other: use processes, not threads, to train in parallel.

    In an environment without randomness all data come from exploration. Sharing it leaves nothing
    fresh, and two runs are one: audit such an environment with ``share=("network",)``.

    A store knows training code by its settings and by the ``version`` that you give to `audit_callable`.

    Examples
    --------
    >>> train = StableBaselines3("DQN", "FrozenLake-v1", 10_000)  # doctest: +SKIP
    >>> policy = train(shared_seed=2023, sample_seed=1)  # doctest: +SKIP
    >>> policy(train.probe()).shape  # one action for each of the 16 cells  # doctest: +SKIP
    (16,)
    """

    algorithm: str | type[Any]
    env: str
    total_timesteps: int
    _: KW_ONLY
    policy: str = "MlpPolicy"
    share: Collection[str] = ("network", "exploration")
    env_options: Mapping[str, Any] | None = None
    algorithm_options: Mapping[str, Any] | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        _algorithm_class(self.algorithm)
        env = playing.environment(_OWNER, self.env, self.env_options)
        env.close()
        steps = check_integer(_OWNER, "total_timesteps", self.total_timesteps, low=1, high=2**53 - 1)
        put(self, env=versioned_id(self.env, env), total_timesteps=steps, share=_check_share(self.share))

    def __call__(self, shared_seed: int, sample_seed: int) -> TrainedPolicy:
        """Train; return the policy as a function of an array of observations."""
        shared = check_integer(_OWNER, "shared_seed", shared_seed, low=0, high=MAX_SEED)
        sample = check_integer(_OWNER, "sample_seed", sample_seed, low=0, high=MAX_SEED)
        seeds = {
            stream: seed_of("shared", stream, shared) if stream in self.share else seed_of("sample", stream, sample)
            for stream in _STREAMS
        }
        with _isolated():
            _seed_generators(seeds["environment"])  # for environments that draw while they are made
            env = playing.environment(_OWNER, self.env, self.env_options)
            try:
                playing.seed_spaces(env, seeds["environment"])
                _seed_generators(seeds["network"])
                model = self._model(env)
                model.env.seed(seeds["environment"])
                model.action_space = copy.deepcopy(model.action_space)  # not the environment's own
                model.action_space.seed(seeds["exploration"])
                _seed_generators(seeds["exploration"])
                model.learn(self.total_timesteps)
            finally:
                env.close()
        return TrainedPolicy(model)

    def _model(self, env: Any) -> Any:
        """Return the untrained model without logs; its weights come from the global generators."""
        algorithm, options = _algorithm_class(self.algorithm), copy.deepcopy(dict(self.algorithm_options or {}))
        try:
            model = algorithm(self.policy, env, seed=None, device=self.device, **options)
        except Exception as error:  # whatever the library raises, its own sentence says why
            raise InvalidInput(
                f"{_OWNER}: {algorithm.__name__} cannot be built for {self.env!r} with these settings "
                f"({type(error).__name__}: {str(error).rstrip('.')})."
            ) from error
        model.set_logger(_library("stable_baselines3.common.logger").Logger(folder=None, output_formats=[]))
        return model

    @property
    def name(self) -> str:
        """What the run record calls this training code, such as ``stable-baselines3/DQN``."""
        return f"stable-baselines3/{_algorithm_class(self.algorithm).__name__}"

    @property
    def params(self) -> dict[str, Json]:
        """Everything but the seeds that determines a run, with the versions of the libraries."""
        libraries = ("gymnasium", "stable-baselines3", "torch")
        return {
            **{field: _as_json(value) for field, value in vars(self).items()},
            "algorithm": _as_json(_algorithm_class(self.algorithm)),
            "versions": {name: importlib.metadata.version(name) for name in libraries},
        }

    @property
    def shared_randomness(self) -> str:
        """What two runs with one shared seed have in common."""
        return " and ".join(_STREAMS[name] for name in self.share) or "nothing (the shared seed is not used)"

    @property
    def fresh_randomness(self) -> str:
        """What is drawn anew in every run."""
        return " and ".join(text for name, text in _STREAMS.items() if name not in self.share)

    def returns(self, episodes: int = 20) -> EpisodeReturns:
        """Return what measures the returns of its policies, for ``evaluate=`` of `audit_callable`."""
        return EpisodeReturns(self.env, episodes, self.env_options)

    def probe(self) -> NDArray[np.int64]:
        """Return all observations of a discrete observation space."""
        env = playing.environment(_OWNER, self.env, self.env_options)
        space = env.observation_space
        env.close()
        if not isinstance(space, _library("gymnasium").spaces.Discrete):
            raise InvalidInput(
                f"{_OWNER}: only a Discrete observation space can be listed, got {shown(space)} of {self.env!r}. "
                "Pass the observations to compare policies on as probe=; visited_observations collects some."
            )
        return np.arange(space.start, space.start + space.n, dtype=np.int64)


@dataclass(frozen=True)
class TrainedPolicy:
    """The deterministic policy of a trained model, as a function of one observation or of an array of them."""

    model: Any

    def __call__(self, observations: Any) -> NDArray[Any]:
        """Return the actions."""
        with _isolated():  # one thread: the last bit of a product may depend on their number
            actions, _ = self.model.predict(np.asarray(observations), deterministic=True)
        return np.asarray(actions)


def seed_of(source: str, stream: str, seed: int) -> int:
    """Return the 32-bit seed of a stream; streams and the two kinds of seed are unrelated.

    >>> seed_of("shared", "network", 7)
    1584544486
    """
    text = f"replicable-rl stable-baselines3 v1\n{source}\n{stream}\n{seed}\n"
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:4], "little")


def _seed_generators(seed: int) -> None:
    """Seed the generators Stable-Baselines3 draws from."""
    playing.seed_generators(seed)
    _library("torch").manual_seed(seed)


@contextmanager
def _isolated() -> Iterator[None]:
    """Lend out the global generators, with one PyTorch thread; put everything back afterwards."""
    torch = _library("torch")
    with _ONE_AT_A_TIME, playing.lent_generators():
        threads, state = torch.get_num_threads(), torch.get_rng_state()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_rng_state(state)
            torch.set_num_threads(threads)


def _library(name: str) -> Any:
    return needs(name, extra="sb3", who=_OWNER)


def _algorithm_class(algorithm: object) -> Any:
    """Return the class, looked up by its name if need be."""
    library = _library("stable_baselines3")
    base = library.common.base_class.BaseAlgorithm
    names = {name: item for name, item in vars(library).items() if isinstance(item, type) and issubclass(item, base)}
    kind = names.get(algorithm) if isinstance(algorithm, str) else algorithm
    if not (isinstance(kind, type) and issubclass(kind, base)):
        rule = f"one of {', '.join(sorted(names))} or a class derived from BaseAlgorithm"
        raise InvalidInput(f"{_OWNER}: algorithm must be {rule}, got {shown(algorithm)}.")
    return kind


def _as_json(value: Any) -> Json:
    """Return what an identity says of an option; of a function or a class its name.

    >>> _as_json({"gamma": 0.9, "policy_kwargs": {"net_arch": (16,)}, "learning_rate": _as_json})["learning_rate"]
    {'named': 'replicable_rl.training.sb3._as_json'}
    """
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(part) for part in value]
    if isinstance(value, (type, FunctionType)):
        return {"named": f"{value.__module__}.{value.__qualname__}"}
    return exact_json(value)


def _check_share(share: object) -> tuple[str, ...]:
    if not isinstance(share, Collection) or isinstance(share, str) or not set(share) <= set(_SHAREABLE):
        raise InvalidInput(
            f"{_OWNER}: share must be a collection of names out of 'network' and 'exploration', got {shown(share)}: "
            "two runs that share their data are one run. Write share=('network',) for one, share=() for none."
        )
    return tuple(name for name in _SHAREABLE if name in share)
