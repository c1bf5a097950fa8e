"""Stable-Baselines3 models as something to audit: training split by where its randomness comes from.

``seed=`` of Stable-Baselines3 seeds everything with one integer, the environment too. Two such runs
are the same run, which says nothing about replicability. Here training draws from three streams:

- *network*: the initial weights;
- *exploration*: the algorithm's draws while it learns (actions, noise, minibatches);
- *environment*: transitions and first states. These are the data, so they are fresh in every run.

The first two can be taken from the shared seed. The library draws all it draws itself from the
global generators of Python, NumPy and PyTorch and from the action space, so the streams are
separated in time: the generators are seeded once before the network is built and again before
learning starts, and the environment has a generator of its own. (``seed=None`` makes
Stable-Baselines3 seed nothing itself, and the first reset of ``learn`` takes the seed given to the
vectorised environment.) An environment that ignores the seed of ``reset`` escapes this: one that
draws from NumPy's global generator draws from the exploration stream, and one that asks the
operating system for entropy does not give the same run twice.

The streams are *not* addressed as :class:`~replicable_rl.randomness.SharedRandomness` is. Two runs
that share exploration draw the same numbers only until their data differ, after which one number
may decide about another state, or about a minibatch instead of an action.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import inspect
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import Json, canonical_json
from replicable_rl.errors import InvalidInput, check_integer, did_you_mean, shown
from replicable_rl.problem.environments import make_env, versioned_id
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs import ObjectSpec
from replicable_rl.training import playing
from replicable_rl.training.playing import EpisodeReturns, first_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWNER = "StableBaselines3"
STREAMS = ("network", "exploration", "environment")
_MEANING = {
    "environment": "the transitions and first states of the environment",
    "network": "the initial weights of the network",
    "exploration": "the algorithm's draws during learning (actions, noise, minibatches)",
}
_SHAREABLE = ("network", "exploration")
_FIRST_STEPS = 200  # of the environment, which are compared under two sample seeds
_RESERVED = ("policy", "env", "seed", "device", "tensorboard_log", "_init_setup_model")
_NOT_FOR_ACTING = ("env", "replay_buffer", "rollout_buffer", "_last_obs", "_last_original_obs", "ep_info_buffer")
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
    n_envs : int
        Copies of the environment that are stepped in turn; each has a seed of its own.
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
    n_envs: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        algorithm = _algorithm_class(self.algorithm)
        options = {name: _checked(name, vars(self)[name]) for name in ("env_options", "algorithm_options")}
        _check_names(algorithm, options["algorithm_options"])
        if not isinstance(self.env, str):
            raise InvalidInput(
                f"{_OWNER}: env must be the id of an environment, because every run makes its own, got "
                f"{shown(self.env)}. Register the environment and pass its id."
            )
        env = _environment(self.env, options["env_options"])
        env.close()
        if not isinstance(self.policy, str) or self.policy not in algorithm.policy_aliases:
            aliases = ", ".join(sorted(algorithm.policy_aliases))
            raise InvalidInput(f"{_OWNER}: policy must be one of {aliases}, got {shown(self.policy)}.")
        if not isinstance(self.device, str) or self.device == "auto":
            raise InvalidInput(f"{_OWNER}: device must be a name such as 'cpu' or 'cuda:0', got {shown(self.device)}.")
        exported = vars(_library("stable_baselines3")).get(algorithm.__name__) is algorithm
        normal = {
            "algorithm": algorithm.__name__ if exported else algorithm,
            "env": versioned_id(self.env, env),
            "total_timesteps": check_integer(_OWNER, "total_timesteps", self.total_timesteps, low=1, high=2**53 - 1),
            "share": _check_share(self.share),
            "n_envs": check_integer(_OWNER, "n_envs", self.n_envs, low=1, high=1000),
        }
        for name, value in (normal | options).items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.algorithm, self.env, self.total_timesteps))  # options may be lists

    def __call__(self, shared_seed: int, sample_seed: int) -> TrainedPolicy:
        """Train; return the policy as a function of an array of observations."""
        shared = check_integer(_OWNER, "shared_seed", shared_seed, low=0, high=MAX_SEED)
        sample = check_integer(_OWNER, "sample_seed", sample_seed, low=0, high=MAX_SEED)
        seeds = self._stream_seeds(shared, sample)
        with _isolated():
            _seed_generators(seeds["environment"])  # for environments that draw while they are made
            envs = [_environment(self.env, self.env_options) for _ in range(self.n_envs)]
            try:
                for i, env in enumerate(envs):
                    for space in (env.unwrapped.action_space, env.unwrapped.observation_space):
                        space.seed((seeds["environment"] + i) % 2**32)  # for environments that draw from their spaces
                _seed_generators(seeds["network"])
                model = self._model(envs)
                model.env.seed(min(seeds["environment"], 2**32 - self.n_envs))  # the i-th gets this plus i
                model.action_space = copy.deepcopy(model.action_space)  # not the environment's own
                model.action_space.seed(seeds["exploration"])
                _seed_generators(seeds["exploration"])
                model.learn(self.total_timesteps)
            finally:
                for env in envs:
                    env.close()
        for name in vars(model).keys() & set(_NOT_FOR_ACTING):  # they can be large
            vars(model)[name] = None
        return TrainedPolicy(model)

    def _stream_seeds(self, shared: int, sample: int) -> dict[str, int]:
        """Return the seed of each stream: from the shared seed if it is one of ``share``, else from the sample seed."""
        return {
            stream: seed_of("shared", stream, shared) if stream in self.share else seed_of("sample", stream, sample)
            for stream in STREAMS
        }

    def _model(self, envs: list[Any]) -> Any:
        """Return the untrained model without logs; its weights come from the global generators."""
        algorithm, options = _algorithm_class(self.algorithm), copy.deepcopy(self.algorithm_options)
        try:
            env = envs[0]
            if len(envs) > 1:  # with monitors, as the library makes them
                monitor = _library("stable_baselines3.common.monitor").Monitor
                vectors = _library("stable_baselines3.common.vec_env")
                env = vectors.DummyVecEnv([functools.partial(monitor, env) for env in envs])
            model = algorithm(self.policy, env, seed=None, device=self.device, **options or {})
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
    def code(self) -> tuple[Any, ...]:
        """What somebody wrote himself: the algorithm, and functions and classes among its options."""
        own = [value for value in (self.algorithm_options or {}).values() if isinstance(value, (type, FunctionType))]
        return (*(() if isinstance(self.algorithm, str) else (self.algorithm,)), *own)

    @property
    def params(self) -> dict[str, Json]:
        """Everything but the seeds that determines a run, with the versions of the libraries."""
        algorithm = _algorithm_class(self.algorithm)
        packages = {"stable_baselines3", "torch", "gymnasium", algorithm.__module__.partition(".")[0]}
        versions = {name: vars(sys.modules[name]).get("__version__") for name in sorted(packages & set(sys.modules))}
        return {
            "env": self.env,
            "total_timesteps": self.total_timesteps,
            "share": list(self.share),
            "policy": self.policy,
            "algorithm": f"{algorithm.__module__}.{algorithm.__qualname__}",
            "algorithm_options": as_json(self.algorithm_options),
            "env_options": as_json(self.env_options),
            "n_envs": self.n_envs,
            "device": self.device,
            "versions": {name: str(version) for name, version in versions.items() if version is not None},
        }

    @property
    def shared_randomness(self) -> str:
        """What two runs with one shared seed have in common."""
        if not self.share:
            return "nothing (the shared seed is not used)"
        texts = " and ".join(_MEANING[name] for name in self.share)
        if "exploration" not in self.share:
            return texts
        return f"{texts}; one stream of numbers, which means the same choices only until the runs' data differ"

    @property
    def fresh_randomness(self) -> str:
        """What is drawn anew in every run."""
        return " and ".join(text for name, text in _MEANING.items() if name not in self.share)

    def returns(self, episodes: int = 20) -> EpisodeReturns:
        """Return what measures the returns of its policies, for ``evaluate=`` of `audit_callable`."""
        return EpisodeReturns(self.env, episodes, self.env_options)

    def repeats(self, first: int, second: int) -> str:
        """Say that nothing is fresh, if all else is shared and two sample seeds make the environment do the same."""
        if self.share != _SHAREABLE:
            return ""
        seeds = (self._stream_seeds(0, sample)["environment"] for sample in (first, second))
        steps = [first_steps(self.env, self.env_options, seed, _FIRST_STEPS) for seed in seeds]
        same = f"the environment repeats itself: two sample seeds gave the same {_FIRST_STEPS} first steps"
        return same if steps[0] == steps[1] else ""

    def probe(self) -> NDArray[np.int64]:
        """Return all observations of a discrete observation space."""
        env = _environment(self.env, self.env_options)
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
        array = np.asarray(observations)
        space = self.model.observation_space
        if isinstance(space, _library("gymnasium").spaces.Discrete):
            whole = array.dtype.kind in "iu" and bool(((array >= space.start) & (array < space.start + space.n)).all())
            if not whole:  # the library would take the numbers for others
                raise InvalidInput(f"{_OWNER}: observations must lie in {shown(space)}, got {shown(observations)}.")
        try:
            with _isolated():  # one thread: the last bit of a product may depend on their number
                actions, _ = self.model.predict(array, deterministic=True)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise InvalidInput(
                f"{_OWNER}: observations must be of {shown(space)}, got {shown(observations)}."
            ) from error
        return np.asarray(actions)


def seed_of(source: str, stream: str, seed: int) -> int:
    """Return the 32-bit seed of a stream; streams and the two kinds of seed are unrelated.

    >>> seed_of("shared", "network", 7)
    1584544486
    """
    text = f"replicable-rl stable-baselines3 v1\n{source}\n{stream}\n{seed}\n"
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:4], "little")


def _seed_generators(seed: int) -> None:
    """Seed the generators Stable-Baselines3 draws from; those of GPUs too, where there are any."""
    playing.seed_generators(seed)
    torch = _library("torch")
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def _isolated() -> Iterator[None]:
    """Lend out the global generators, with one PyTorch thread; put everything back afterwards."""
    torch = _library("torch")
    with _ONE_AT_A_TIME, playing.lent_generators():
        threads, state = torch.get_num_threads(), torch.get_rng_state()
        on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_rng_state(state)
            if on_gpus:
                torch.cuda.set_rng_state_all(on_gpus)
            torch.set_num_threads(threads)


# --- checks -------------------------------------------------------------------------------------------------------


def _library(name: str) -> Any:
    """Return a module, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidInput(
            f"{_OWNER}: {name} cannot be imported ({error}). Run pip install 'replicable-rl[sb3]'."
        ) from error


def _environment(env_id: str, options: Mapping[str, Any] | None) -> Any:
    """Make an environment by its id; it may do with its options what it likes."""
    return make_env(
        _OWNER, env_id, copy.deepcopy(dict(options or {})), otherwise=" If it is your own, pass 'module:id'."
    )


def _algorithm_class(algorithm: object) -> Any:
    """Return the class, looked up by its name if need be."""
    library = _library("stable_baselines3")
    base = library.common.base_class.BaseAlgorithm
    if isinstance(algorithm, type) and issubclass(algorithm, base):
        return algorithm
    names = {name: item for name, item in vars(library).items() if isinstance(item, type) and issubclass(item, base)}
    if isinstance(algorithm, str) and algorithm in names:
        return names[algorithm]
    hint = did_you_mean(algorithm.upper(), names) if isinstance(algorithm, str) else ""
    raise InvalidInput(
        f"{_OWNER}: algorithm must be one of {', '.join(sorted(names))} or a class derived from BaseAlgorithm, "
        f"got {shown(algorithm)}.{hint}"
    )


def as_json(value: Any) -> Any:
    """Return what an identity says of an option; of a function or a class its name.

    >>> as_json({"gamma": 0.9, "policy_kwargs": {"net_arch": (16,)}, "learning_rate": as_json})["learning_rate"]
    {'named': 'replicable_rl.training.sb3.as_json'}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(part) for part in value]
    return {"named": f"{value.__module__}.{value.__qualname__}"} if isinstance(value, (type, FunctionType)) else value


def _checked(name: str, options: object) -> dict[str, Any]:
    """Return a copy of options whose names are texts and whose values an identity can say."""
    if not (options is None or (isinstance(options, Mapping) and all(isinstance(key, str) for key in options))):
        raise InvalidInput(f"{_OWNER}: {name} must be a mapping from names to values, got {shown(options)}.")
    try:
        canonical_json(ObjectSpec(name, as_json(options or {})).to_json())
    except InvalidInput as error:
        raise InvalidInput(
            f"{_OWNER}: {name} are part of the run's identity and must be JSON values, functions or classes "
            f"({str(error).rstrip('.')}). Put other settings into a subclass or an environment of your own."
        ) from error
    return copy.deepcopy(dict(options or {}))


def _check_share(share: object) -> tuple[str, ...]:
    if not isinstance(share, Collection) or isinstance(share, str) or not set(share) <= set(_SHAREABLE):
        raise InvalidInput(
            f"{_OWNER}: share must be a collection of names out of 'network' and 'exploration', got {shown(share)}: "
            "two runs that share their data are one run. Write share=('network',) for one, share=() for none."
        )
    return tuple(name for name in _SHAREABLE if name in share)


def _check_names(algorithm: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that the algorithm does not take, and those that are set here."""
    parameters = inspect.signature(algorithm).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in options:
        if name in _RESERVED or (name not in parameters and not open_ended):
            names = [parameter for parameter in parameters if parameter not in _RESERVED]
            raise InvalidInput(
                f"{_OWNER}: {algorithm.__name__} takes no {name!r} in algorithm_options.{did_you_mean(name, names)} "
                "policy, env and device are arguments of their own, seeds come with every run, and nothing is logged."
            )
