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
import inspect
import sys
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, check_integer, did_you_mean, shown
from replicable_rl.randomness import MAX_SEED
from replicable_rl.training import sb3_library as library
from replicable_rl.training import sb3_options
from replicable_rl.training.content import data_digest
from replicable_rl.training.playing import EpisodeReturns, first_steps, visited_observations
from replicable_rl.training.sb3_policy import TrainedPolicy as TrainedPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.training.probes import Observations

_OWNER = library.OWNER
_MEANING = {
    "environment": "the transitions and first states of the environment",
    "network": "the initial weights of the network",
    "exploration": "the algorithm's draws during learning (actions, noise, minibatches)",
}
_SHAREABLE = ("network", "exploration")
_FIRST_STEPS = 200  # of the environment, which are compared under two sample seeds
_REPEATS = "nothing, for the environment repeats itself: two sample seeds gave the same {} first steps"
_RESERVED = ("policy", "env", "seed", "device", "tensorboard_log", "_init_setup_model")


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
    callback : BaseCallback, list of BaseCallback, or callable, optional
        As ``learn`` takes it. Every run gets a copy, as it is now.

    Notes
    -----
    Training runs on the CPU, unless you say otherwise, with one thread, so that the same two seeds give the same bits
    on one machine, and leaves the global generators and PyTorch's number of threads as they were. Within a
    process, runs wait for each other: use processes, not threads, to train in parallel.

    In an environment without randomness all data come from exploration. Sharing it leaves nothing
    fresh, and two runs are one: audit such an environment with ``share=("network",)``.

    A store knows training code by its settings and by the ``version`` that you give to `audit_callable`. A callback
    that draws random numbers takes them from
    exploration.

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
    callback: Any = None

    def __post_init__(self) -> None:
        algorithm = library.algorithm_class(self.algorithm)
        env_options = sb3_options.checked_options(_OWNER, "env_options", self.env_options)
        algorithm_options = sb3_options.checked_options(_OWNER, "algorithm_options", self.algorithm_options)
        _check_names(algorithm, algorithm_options)
        normal = {
            "algorithm": library.exported_name(algorithm) or algorithm,
            "env": library.env_id_with_version(self.env, env_options),
            "total_timesteps": check_integer(_OWNER, "total_timesteps", self.total_timesteps, low=1, high=2**53 - 1),
            "policy": _check_policy(algorithm, self.policy),
            "share": _check_share(self.share),
            "env_options": env_options,
            "algorithm_options": algorithm_options,
            "n_envs": check_integer(_OWNER, "n_envs", self.n_envs, low=1, high=1000),
            "device": library.check_device(self.device),
            "callback": sb3_options.checked_callback(_OWNER, library.callback_class(), self.callback),
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.algorithm, self.env, self.total_timesteps))  # options may be lists

    def __call__(self, shared_seed: int, sample_seed: int) -> TrainedPolicy:
        """Train; return the policy as a function of an array of observations."""
        shared = check_integer(_OWNER, "shared_seed", shared_seed, low=0, high=MAX_SEED)
        sample = check_integer(_OWNER, "sample_seed", sample_seed, low=0, high=MAX_SEED)
        seeds = library.stream_seeds(self.share, shared, sample)
        algorithm = library.algorithm_class(self.algorithm)
        with library.isolated():
            library.seed_generators(seeds["environment"])  # for environments that draw while they are made
            envs = [library.make_environment(self.env, self.env_options) for _ in range(self.n_envs)]
            try:
                for i, env in enumerate(envs):
                    for space in (env.unwrapped.action_space, env.unwrapped.observation_space):
                        space.seed((seeds["environment"] + i) % 2**32)  # for environments that draw from their spaces
                library.seed_generators(seeds["network"])
                model = library.build_model(algorithm, self.policy, envs, self.algorithm_options, self.device)
                model.env.seed(min(seeds["environment"], 2**32 - self.n_envs))  # the i-th gets this plus i
                model.action_space = copy.deepcopy(model.action_space)  # not the environment's own
                model.action_space.seed(seeds["exploration"])
                library.seed_generators(seeds["exploration"])
                model.learn(self.total_timesteps, callback=sb3_options.fresh_callback(self.callback))
            finally:
                for env in envs:
                    env.close()
        return TrainedPolicy(library.without_data(model))

    @property
    def name(self) -> str:
        """What the run record calls this training code, such as ``stable-baselines3/DQN``."""
        return f"stable-baselines3/{library.algorithm_class(self.algorithm).__name__}"

    @property
    def code(self) -> tuple[Any, ...]:
        """What somebody wrote himself: the algorithm, options, callbacks."""
        own = sb3_options.own_code([self.algorithm_options, self.env_options])
        return *(() if isinstance(self.algorithm, str) else (self.algorithm,)), *self._callbacks, *own

    @property
    def _callbacks(self) -> tuple[Any, ...]:
        return self.callback if isinstance(self.callback, tuple) else () if self.callback is None else (self.callback,)

    @property
    def params(self) -> dict[str, Json]:
        """Everything but the seeds that determines a run, with the versions of the libraries."""
        algorithm = library.algorithm_class(self.algorithm)
        packages = {"stable_baselines3", "torch", "gymnasium", algorithm.__module__.partition(".")[0]}
        versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in sorted(packages)}
        return {
            "env": self.env,
            "total_timesteps": self.total_timesteps,
            "share": list(self.share),
            "policy": self.policy,
            "algorithm": f"{algorithm.__module__}.{algorithm.__qualname__}",
            "algorithm_options": sb3_options.said(self.algorithm_options),
            "env_options": sb3_options.said(self.env_options),
            "n_envs": self.n_envs,
            "device": self.device,
            "callback": [getattr(one, "__qualname__", type(one).__qualname__) for one in self._callbacks],
            "versions": {name: str(version) for name, version in versions.items() if version is not None},
        }

    @property
    def shared_randomness(self) -> str:
        """What two runs with one shared seed have in common."""
        if not self.share:
            return "nothing (the shared seed is not used)"
        listed = " and ".join(_MEANING[name] for name in self.share)
        if "exploration" not in self.share:
            return listed
        stream = "one stream of numbers, which means the same choices only until the runs' data differ"
        return f"{listed.removesuffix(')')}; {stream})"

    @property
    def fresh_randomness(self) -> str:
        """What is drawn anew in every run."""
        *most, last = (text for name, text in _MEANING.items() if name not in self.share)
        return f"{', '.join(most)}, and {last}" if most else last

    def returns(self, episodes: int = 20) -> EpisodeReturns:
        """Return what measures the returns of its policies, for ``evaluate=`` of `audit_callable`."""
        return EpisodeReturns(self.env, episodes, self.env_options)

    def visited(self, policy: Any = None, *, n: int = 200, seed: int = 0) -> Observations:
        """Collect observations of its environment for a probe set, as `visited_observations` does."""
        return visited_observations(self.env, policy, n=n, seed=seed, env_options=self.env_options)

    def repeats(self, one: int, two: int) -> str:
        """Say that nothing is fresh, if all else is shared and two sample seeds make the environment do the same."""
        if self.share != _SHAREABLE:
            return ""
        seeds = (library.stream_seeds(self.share, 0, sample)["environment"] for sample in (one, two))
        shown = [data_digest(first_steps(self.env, self.env_options, seed, _FIRST_STEPS)) for seed in seeds]
        return _REPEATS.format(_FIRST_STEPS) if shown[0] == shown[1] else ""

    def probe(self) -> NDArray[np.int64]:
        """Return all observations of a discrete observation space."""
        env = library.make_environment(self.env, self.env_options)
        space = env.observation_space
        env.close()
        if not isinstance(space, library.import_library("gymnasium").spaces.Discrete):
            raise InvalidInput(
                f"{_OWNER}: only a Discrete observation space can be listed, got {shown(space)} of {self.env!r}. "
                "Pass the observations to compare policies on as probe=; .visited() collects some."
            )
        return np.arange(space.start, space.start + space.n, dtype=np.int64)


# --- checks ----------------------------------------------------------------------------------


def _check_share(share: object) -> tuple[str, ...]:
    names = list(share) if isinstance(share, Collection) and not isinstance(share, str) else None
    if names is not None and "environment" in names:
        raise InvalidInput(
            f"{_OWNER}: share must not contain 'environment', because two runs with the same data are one run. "
            "Leave it out."
        )
    if names is None or not all(name in _SHAREABLE for name in names):
        raise InvalidInput(
            f"{_OWNER}: share must be a collection of names out of 'network' and 'exploration', got {shown(share)}. "
            "Write share=('network',) for one, share=() for none."
        )
    return tuple(name for name in _SHAREABLE if name in names)


def _check_policy(algorithm: Any, policy: object) -> str:
    known = algorithm.policy_aliases
    if isinstance(policy, str) and policy in known:
        return policy
    hint = did_you_mean(policy, known) if isinstance(policy, str) else ""
    raise InvalidInput(
        f"{_OWNER}: policy of {algorithm.__name__} must be one of {', '.join(sorted(known))}, "
        f"got {shown(policy)}.{hint}"
    )


def _check_names(algorithm: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that the algorithm does not take, and those that are set here."""
    parameters = inspect.signature(algorithm).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in options:
        if name in _RESERVED:
            raise InvalidInput(
                f"{_OWNER}: algorithm_options must not contain {name!r}. policy and env are arguments of their own, "
                "so is device; seeds come with every run, and training keeps no logs."
            )
        if name not in parameters and not open_ended:
            known = [parameter for parameter in parameters if parameter not in _RESERVED]
            raise InvalidInput(f"{_OWNER}: {algorithm.__name__} has no option {name!r}.{did_you_mean(name, known)}")
