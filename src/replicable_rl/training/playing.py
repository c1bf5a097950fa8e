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
from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, check_integer, check_real, shown
from replicable_rl.problem.environments import first_observation, make_env, take_step, versioned_id
from replicable_rl.runs import ObjectSpec, Run, Setting

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
    gamma : float
        The discount of rewards, 1 for plain sums.

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
    gamma: float = 1.0

    id: ClassVar[str] = "episodes-v1"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        made = _made(owner, self.env, self.env_options)
        made.close()
        normal = {
            "env": versioned_id(self.env, made),
            "env_options": dict(self.env_options or {}) or None,
            "episodes": check_integer(owner, "episodes", self.episodes, low=1, high=10**6),
            "gamma": check_real(owner, "gamma", self.gamma, low=0.0, high=1.0, rule="a discount from 0 to 1"),
        }
        ObjectSpec(owner, dict(self.env_options or {}))  # refuses what no identity can say
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.env, self.episodes, self.gamma))  # options may be lists

    def __call__(self, policy: Any, seed: int) -> NDArray[np.float64]:
        """Return the returns of the episodes of a policy."""
        return self._play(policy, seed, self.episodes)

    def uniform(self, seed: int = 0) -> NDArray[np.float64]:
        """Return the returns of a policy that takes every action alike."""
        return self._play(None, seed, max(_UNIFORM, self.episodes))

    def _play(self, policy: Any, seed: int, episodes: int) -> NDArray[np.float64]:
        owner = type(self).__name__
        seed = check_integer(owner, "seed", seed, low=0, high=MAX_SEED_32)
        earned, weight, done = np.zeros(episodes), 1.0, 0
        for _, reward, ended in _steps(owner, self.env, self.env_options, policy, seed):
            earned[done] += weight * reward
            weight *= self.gamma
            if ended:
                done, weight = done + 1, 1.0
            if done == episodes:
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
    """Collect observations that a policy meets: a probe set for `audit_callable`.

    Choose the policy before the audit, and one that is not among its runs, such as a run with another seed: policies
    should be compared where it matters, and not where one of them happens to go.

    Parameters
    ----------
    env : str
        The id of a Gymnasium environment.
    policy : callable, array, Run or None
        Who plays, as for `EpisodeReturns`; None takes every action alike.
    n : int
        How many different observations; there may be fewer where the environment shows no more.
    seed : int
        Of the environment and of random actions.
    env_options : mapping, optional
        Keywords of ``gymnasium.make``.

    Returns
    -------
    array
        With a first axis over observations.

    Examples
    --------
    >>> visited_observations("CartPole-v1", n=50).shape
    (50, 4)
    >>> sorted(visited_observations("FrozenLake-v1", lambda cell: 1, n=16).tolist())  # down, on ice
    [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]
    """
    owner = "visited_observations"
    n = check_integer(owner, "n", n, low=1, high=10**7)
    seed = check_integer(owner, "seed", seed, low=0, high=MAX_SEED_32)
    distinct: dict[str, Any] = {}
    for step, (observation, _, _) in enumerate(_steps(owner, env, env_options, policy, seed)):
        distinct.setdefault(digest(check_probe(owner, [observation])), observation)
        if len(distinct) == n or step >= _PATIENCE * n:
            break
    return check_probe(owner, list(distinct.values()))


def first_steps(env: str, env_options: Mapping[str, Any] | None, seed: int, steps: int) -> list[str]:
    """Return digests of what an environment shows under a seed, in steps with actions that do not depend on it."""
    shown_steps = _steps("audit_callable", env, env_options, None, seed, actions=0)
    return [
        f"{digest(check_probe('audit_callable', [observation]))} {reward} {ended}"
        for observation, reward, ended in itertools.islice(shown_steps, steps)
    ]


def _steps(
    owner: str,
    env_id: str,
    options: Mapping[str, Any] | None,
    policy: Any,
    seed: int,
    *,
    actions: int | None = None,
) -> Iterator[tuple[Any, float, bool]]:
    """Yield, without end, the observation before a step, its reward, and whether the episode ended with it."""
    env = _made(owner, env_id, options)
    for space in (env.unwrapped.action_space, env.unwrapped.observation_space):
        space.seed(seed)  # for environments that draw from their spaces
    act = _uniform(env, seed if actions is None else actions) if policy is None else acting(owner, env, policy)
    try:
        with lent_generators():
            seed_generators(seed)  # for environments that draw from the global ones
            observation, taken = first_observation(owner, env, seed), 0
            while True:
                before = copy.deepcopy(observation)  # the environment may write the next one into it
                observation, reward, terminated, truncated = take_step(owner, env, act(observation))
                if not math.isfinite(reward):
                    raise InvalidInput(f"{owner}: rewards must be finite numbers, got {reward}.")
                taken += 1
                ended = terminated or truncated or taken >= _LONGEST
                yield before, reward, ended
                if ended:
                    observation, taken = first_observation(owner, env), 0
    finally:
        env.close()


def _uniform(env: Any, seed: int) -> Callable[[Any], Any]:
    space = env.action_space
    space.seed(derived_seed("uniform", seed) % 2**32)
    return lambda observation: space.sample()


def acting(owner: str, env: Any, policy: Any) -> Callable[[Any], Any]:
    """Return a policy of any form as a function of one observation that an environment takes actions from."""
    from gymnasium.spaces import Box, Discrete

    if isinstance(policy, Run):
        policy = policy.policy
    choose = policy if callable(policy) and not isinstance(policy, np.ndarray) else _of_table(owner, env, policy)
    space = env.action_space
    if isinstance(space, Discrete):
        return lambda observation: _discrete(owner, space, choose(observation))
    if isinstance(space, Box):
        return lambda observation: np.asarray(choose(observation), dtype=space.dtype).reshape(space.shape)
    return choose


def _discrete(owner: str, space: Any, chosen: Any) -> Any:
    """Return an action of a Discrete space; 1.0 and [1] are the action 1, and 0.7 is none."""
    action = np.asarray(chosen)
    if action.size != 1 or action.dtype.kind not in "iufb" or not float(action.item()).is_integer():
        raise InvalidInput(f"{owner}: the policy must choose an action of {shown(space)}, got {shown(chosen)}.")
    return space.start.dtype.type(action.item())


def _of_table(owner: str, env: Any, policy: Any) -> Callable[[Any], Any]:
    from gymnasium.spaces import Discrete

    try:
        table = np.asarray(policy)
    except Exception:  # rows of several lengths, and whatever somebody's object raises
        table = np.asarray(None)
    space = env.observation_space
    values = table.dtype.kind == "f" and table.ndim == 2
    if not values and not (table.dtype.kind in "iu" and table.ndim == 1):
        rule = "a function of an observation, one action for each state, or a table of action values"
        raise InvalidInput(f"{owner}: policy must be {rule}, got {shown(policy)}.")
    if not isinstance(space, Discrete) or len(table) < space.n:
        raise InvalidInput(
            f"{owner}: a table needs a row for every observation of a Discrete space, got {len(table)} rows and "
            f"{shown(space)}."
        )
    lowest = int(env.action_space.start) if isinstance(env.action_space, Discrete) else 0  # of the first column
    actions = lowest + table.argmax(axis=1) if values else table

    def choose(observation: Any) -> Any:
        if observation not in space:  # a number below its first would count from the end
            raise InvalidInput(f"{owner}: observations must lie in {shown(space)}, got {shown(observation)}.")
        return actions[int(observation) - int(space.start)]

    return choose


def _made(owner: str, env: Any, options: Any) -> Any:
    """Make an environment by its id, or say why not."""
    if not isinstance(env, str):
        raise InvalidInput(f"{owner}: env must be the id of a Gymnasium environment, got {shown(env)}.")
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(key, str) for key in options)):
        raise InvalidInput(f"{owner}: env_options must be a mapping from names to values, got {shown(options)}.")
    return make_env(owner, env, dict(options or {}), otherwise=" If it is your own, pass 'module:id'.")


# --- probe sets -----------------------------------------------------------------------------------------------------


def check_probe(owner: str, probe: Any) -> NDArray[Any]:
    """Return a probe set as an array of numbers with a first axis over observations."""
    try:
        array = np.asarray(probe)
    except Exception:  # rows of several lengths, and whatever somebody's object raises
        array = np.asarray(None)
    whole = array.dtype.kind in "iub" or (array.dtype.kind == "f" and not np.isnan(array).any())
    if isinstance(probe, np.ma.MaskedArray) or not whole or not array.ndim or not array.size:
        rule = "an array of one observation or more, of numbers"
        raise InvalidInput(f"{owner}: probe must be {rule}, got {shown(probe)}. Flatten observations that have parts.")
    return array


def digest(probe: NDArray[Any]) -> str:
    """Return the digest by which the identity of a run knows what it was asked."""
    return array_digest("probe", probe)


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
