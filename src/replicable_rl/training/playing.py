"""Playing a policy in a Gymnasium environment: what it earns, and which observations it meets.

Functions are compared on a *probe set*: an array with a first axis over observations (numbers, vectors, images).
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.audit.evidence import derived_seed
from replicable_rl.errors import InvalidInput, check_integer, shown, whole_number
from replicable_rl.problem.environments import make_env, take_step, versioned_id
from replicable_rl.runs import Run, Setting, put

if TYPE_CHECKING:
    from numpy.typing import NDArray


MAX_SEED_32 = 2**32 - 1  # what NumPy's old generators, PyTorch and many environments take
_LONGEST = 10_000  # steps of an episode that nothing else ends
_PATIENCE = 50  # steps for every observation that is asked for
_UNIFORM = 200  # episodes of the uniform policy


@dataclass(frozen=True)
class EpisodeReturns(Setting):
    """Measure what a policy earns, by playing episodes: for ``evaluate=`` of `audit_callable`.

    Parameters
    ----------
    env : str
        The id of a Gymnasium environment.
    episodes : int
        How many to play after every run.
    env_options : mapping, optional
        Keywords of ``gymnasium.make``.

    Notes
    -----
    A policy is a function of one observation, what `StableBaselines3` trained, a list of actions (one for each state of
    a Discrete space), a table of action values, or a `Run`.

    Examples
    --------
    >>> play = EpisodeReturns("FrozenLake-v1", episodes=3, env_options={"is_slippery": False})
    >>> [float(x) for x in play([2, 2, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0], seed=1)]  # straight to the goal
    [1.0, 1.0, 1.0]
    >>> bool(play.uniform().mean() < 0.1)
    True
    """

    env: str
    episodes: int = 20
    env_options: Mapping[str, Any] | None = None

    id: ClassVar[str] = "episodes-v1"

    def __post_init__(self) -> None:
        env = environment("EpisodeReturns", self.env, self.env_options)
        env.close()
        episodes = check_integer("EpisodeReturns", "episodes", self.episodes, low=1, high=10**6)
        put(self, env=versioned_id(self.env, env), episodes=episodes)

    def __call__(self, policy: Any, seed: int) -> NDArray[np.float64]:
        """Return the returns of the episodes of a policy."""
        return self._play(policy, seed, self.episodes)

    def uniform(self) -> NDArray[np.float64]:
        """Return the returns of a policy that takes every action alike."""
        return self._play(None, 0, max(_UNIFORM, self.episodes))

    def _play(self, policy: Any, seed: int, episodes: int) -> NDArray[np.float64]:
        earned, episode = np.zeros(episodes), 0
        for _, reward, ended in _steps("EpisodeReturns", self.env, self.env_options, policy, seed):
            earned[episode] += reward
            episode += ended
            if episode == episodes:
                break
        return earned


def visited_observations(
    env: str,
    policy: Any = None,
    *,
    n: int = 200,
    seed: int = 0,
    env_options: Mapping[str, Any] | None = None,
) -> NDArray[Any]:
    """Collect ``n`` different observations that a policy meets: a probe set for `audit_callable`.

    Choose the policy before the audit, and one that is not among its runs, such as a run with another seed: policies
    should be compared where it matters, and not where one of them happens to go. The policy is as for `EpisodeReturns`;
    None takes every action alike. There are fewer than ``n`` where the environment shows no more.

    Examples
    --------
    >>> visited_observations("CartPole-v1", n=50).shape
    (50, 4)
    >>> sorted(visited_observations("FrozenLake-v1", lambda cell: 1, n=16).tolist())  # down, on ice
    [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]
    """
    n = check_integer("visited_observations", "n", n, low=1, high=10**7)
    steps = _steps("visited_observations", env, env_options, policy, seed)
    distinct: dict[bytes, Any] = {}
    for observation, _, _ in itertools.islice(steps, _PATIENCE * n):
        distinct.setdefault(np.asarray(observation).tobytes(), observation)
        if len(distinct) == n:
            break
    return check_probe("visited_observations", list(distinct.values()))


def _steps(
    owner: str, env_id: str, options: Mapping[str, Any] | None, policy: Any, seed: int
) -> Iterator[tuple[Any, float, bool]]:
    """Yield, without end, the observation before a step, its reward, and whether the episode ended with it."""
    seed = check_integer(owner, "seed", seed, low=0, high=MAX_SEED_32)
    env = environment(owner, env_id, options)
    seed_spaces(env, seed)
    act = _uniform(env, seed) if policy is None else _acting(owner, env, policy)
    try:
        with lent_generators():
            seed_generators(seed)  # for environments that draw from the global ones
            (observation, _), steps = env.reset(seed=seed), 0
            while True:
                before = copy.deepcopy(observation)  # the environment may write the next one into it
                observation, reward, terminated, truncated = take_step(owner, env, act(observation))
                if not math.isfinite(reward):
                    raise InvalidInput(f"{owner}: rewards must be finite numbers, got {reward}.")
                steps += 1
                ended = terminated or truncated or steps >= _LONGEST
                yield before, reward, ended
                if ended:
                    (observation, _), steps = env.reset(), 0
    finally:
        env.close()


def _uniform(env: Any, seed: int) -> Callable[[Any], Any]:
    space = env.action_space
    space.seed(derived_seed("uniform", seed) % 2**32)
    return lambda observation: space.sample()


def _acting(owner: str, env: Any, policy: Any) -> Callable[[Any], Any]:
    """Return a policy of any form as a function of one observation that an environment takes actions from."""
    from gymnasium.spaces import Box, Discrete

    if isinstance(policy, Run):
        policy = policy.policy
    choose, space = policy if callable(policy) else _of_table(owner, env, policy), env.action_space

    def discrete(observation: Any) -> Any:
        """Return an action of a Discrete space; 1.0 and [1] are the action 1, and 0.7 is none."""
        chosen = np.asarray(choose(observation))
        action = whole_number(chosen.item()) if chosen.size == 1 else None
        if action is None:
            raise InvalidInput(f"{owner}: the policy must choose an action of {shown(space)}, got {shown(chosen)}.")
        return space.start.dtype.type(action)

    if isinstance(space, Box):
        return lambda observation: np.asarray(choose(observation), dtype=space.dtype).reshape(space.shape)
    return discrete if isinstance(space, Discrete) else choose


def _of_table(owner: str, env: Any, policy: Any) -> Callable[[Any], Any]:
    from gymnasium.spaces import Discrete

    table, space = np.asarray(policy), env.observation_space
    if table.ndim not in (1, 2) or not isinstance(space, Discrete) or len(table) < space.n:
        rule = "a function of an observation, or a table with a row for every state of a Discrete space"
        raise InvalidInput(f"{owner}: policy must be {rule}, got {shown(policy)} for {shown(space)}.")
    actions = table.argmax(axis=1) if table.ndim == 2 else table
    return lambda observation: actions[observation - space.start]


def environment(owner: str, env: Any, options: Any) -> Any:
    """Make an environment by its id, or say why not; it may do with its options what it likes."""
    if not isinstance(env, str) or not isinstance(options or {}, Mapping):
        rule = "env must be the id of a Gymnasium environment, and env_options a mapping"
        raise InvalidInput(f"{owner}: {rule}, got {shown(env)} and {shown(options)}.")
    return make_env(owner, env, copy.deepcopy(dict(options or {})), otherwise=" If it is your own, pass 'module:id'.")


def seed_spaces(env: Any, seed: int) -> None:
    """Seed the spaces of an environment, which some environments draw from."""
    for space in (env.unwrapped.action_space, env.unwrapped.observation_space):
        space.seed(seed)


def check_probe(owner: str, probe: Any) -> NDArray[Any]:
    """Return a probe set as an array of numbers with a first axis over observations."""
    try:
        array = np.asarray(probe)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "iubf" or not array.ndim or not array.size or np.isnan(array).any():
        rule = "an array of one observation or more, of numbers"
        raise InvalidInput(f"{owner}: probe must be {rule}, got {shown(probe)}. Flatten observations that have parts.")
    return array


# --- generators of other people's code ------------------------------------------------------------------------------


@contextmanager
def lent_generators() -> Iterator[None]:
    """Put the global generators back, after the block, to where they were."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002  # what is put back is the legacy state
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002  # as above


def seed_generators(seed: int) -> None:
    """Seed the global generators; call it inside `lent_generators`."""
    random.seed(seed)
    np.random.set_state(np.random.RandomState(seed).get_state())  # noqa: NPY002  # the only seed of the legacy state
