"""Code that is stepped: Gymnasium environments, also as tables where their ``P`` is known, and simulators.

``P[s][a]`` lists (probability, next state, reward, terminated). An episode that terminates earns nothing more, so all
``terminated`` outcomes lead to one extra state, which absorbs and pays 0; episodes that are stepped stay in it for the
rest of their H steps. Time limits and other wrappers are no part of ``P``. ``truncated`` only ends the observation: the
transition is real and is counted, what would have followed is not.

A `Simulator` steps a function of a state and an action, and any pair as often as one likes.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from replicable_rl.errors import InvalidInput, check_flag, check_integer, check_numbers, did_you_mean, needs, shown
from replicable_rl.problem.source import BUDGET, Episodic, Generative, Stepped, check_gamma
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import report, track
from replicable_rl.runs import ObjectSpec
from replicable_rl.sampling import (
    DRAWS,
    EpisodeCounts,
    OutcomeCounts,
    Tally,
    Trust,
    check_calls,
    check_horizon,
    episode_counts,
    merge_tallies,
    tally_of,
)
from replicable_rl.theory import MAX_CALLS

if TYPE_CHECKING:
    from gymnasium import Env
    from numpy.typing import ArrayLike, NDArray

_OWNER = "from_gymnasium"
_BATCH = 1000  # episodes between two flushes of what was seen
_CHUNK = 1 << 16  # samples asked of `step_many` at a time


# --- tables --------------------------------------------------------------------------------------------------------


def from_gymnasium(env: str | Env[Any, Any], *, gamma: float = 0.99, **make_kwargs: Any) -> TabularMDP:
    """Convert a Gymnasium environment whose ``P`` is known: an environment, or an id with keywords to make it.

    The table is named by the id and the keywords where Gymnasium ships the environment and these are plain numbers and
    strings, otherwise by its content.

    Examples
    --------
    >>> lake = from_gymnasium("FrozenLake-v1", gamma=0.95, is_slippery=False)
    >>> lake
    TabularMDP(S=17, A=4, outcomes=68, gamma=0.95)
    >>> lake.spec.text
    'gymnasium/FrozenLake-v1:gamma=0.95,is_slippery=False'
    >>> from_gymnasium("FrozenLak-v1")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: from_gymnasium: no environment is registered as 'FrozenLak-v1'. Did you mean
    'FrozenLake-v1'?
    """
    gamma = check_gamma(_OWNER, gamma)
    if not isinstance(env, str):
        return _convert(_made_by_hand(_OWNER, env, make_kwargs), gamma)
    with contextlib.closing(make_env(_OWNER, env, make_kwargs)) as own:
        mdp, name = _convert(own, gamma), versioned_id(env, own)
        plain = is_gymnasiums(own.spec)  # what an id of somebody's own stands for may change
    plain = plain and all(isinstance(value, (str, int, float, bool)) for value in make_kwargs.values())
    return mdp.with_source(ObjectSpec(f"gymnasium/{name}", {"gamma": gamma, **make_kwargs})) if plain else mdp


def is_gymnasiums(recipe: Any) -> bool:
    """Whether Gymnasium ships the environment of a recipe, as it is."""
    return str(recipe.entry_point).startswith("gymnasium.envs.") and not recipe.additional_wrappers


def registered_envs() -> Collection[str]:
    """Return the ids that Gymnasium has registered; none where Gymnasium is not installed."""
    try:
        return tuple(importlib.import_module("gymnasium").registry)
    except ImportError:
        return ()


def make_env(owner: str, env_id: str, make_kwargs: Mapping[str, Any], *, otherwise: str = "") -> Env[Any, Any]:
    """Make an environment without warnings, or say why not; ``otherwise`` is the advice where no id is similar."""
    gymnasium = needs("gymnasium", extra="gym", who=owner)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env: Env[Any, Any] = gymnasium.make(env_id, **make_kwargs)
    except gymnasium.error.UnregisteredEnv:
        hint = did_you_mean(env_id, gymnasium.registry) or otherwise
        raise InvalidInput(f"{owner}: no environment is registered as {env_id!r}.{hint}") from None
    except Exception as error:  # whatever an environment raises, its own sentence says why
        reason = f"{type(error).__name__}: {str(error).rstrip('.')}"
        raise InvalidInput(f"{owner}: {env_id!r} cannot be made ({reason}).") from error
    return env


def _made_by_hand(owner: str, env: object, make_kwargs: Mapping[str, Any]) -> Env[Any, Any]:
    """Return an environment that somebody made."""
    gymnasium = needs("gymnasium", extra="gym", who=owner)
    if not isinstance(env, gymnasium.Env) or make_kwargs:
        raise InvalidInput(f"{owner}: env must be an id, or a gymnasium.Env without keywords, got {shown(env)}.")
    return cast("Env[Any, Any]", env)


def versioned_id(env_id: str, env: Env[Any, Any]) -> str:
    """Return the id with the version of the environment: 'FrozenLake' is 'FrozenLake-v1'."""
    module, colon, _ = env_id.rpartition(":")
    return env_id if env.spec is None else f"{module}{colon}{env.spec.id}"


def _convert(env: Env[Any, Any], gamma: float) -> TabularMDP:
    from gymnasium.spaces import Discrete

    bare: Any = env.unwrapped
    name, sizes = type(bare).__name__, []
    extra = {**vars(type(bare)), **vars(bare)}  # beside the interface of Gymnasium
    for kind, space in (("observation_space", bare.observation_space), ("action_space", bare.action_space)):
        if not (isinstance(space, Discrete) and space.start == 0):
            raise InvalidInput(f"{_OWNER}: {name} must have a discrete {kind} that starts at 0, got {shown(space)}.")
        sizes.append(int(space.n))
    if extra.get("P") is None:
        raise InvalidInput(f"{_OWNER}: {name} has no table of transitions 'P'. Step it, with EpisodicEnv.")
    if extra.get("fickle_passenger"):
        raise InvalidInput(f"{_OWNER}: {name}.P leaves out the fickle passenger. Set fickle_passenger=False.")
    (n_states, n_actions), outcomes, ends = sizes, [], False
    for s in range(n_states):
        rows = []
        for a in range(n_actions):
            try:
                possible = [(p, t, r, as_truth(end)) for p, t, r, end in extra["P"][s][a] if p != 0.0]
            except (LookupError, TypeError, ValueError):
                form = "a list of (probability, next state, reward, terminated)"
                raise InvalidInput(f"{_OWNER}: {name}.P[{s}][{a}] must be {form}.") from None
            ends = ends or any(end for *_, end in possible)
            rows.append([(p, n_states if end else t, r) for p, t, r, end in possible])
        outcomes.append(rows)
    initial = extra.get("initial_state_distrib", np.full(n_states, 1.0 / n_states))
    if ends:
        outcomes.append([[(1.0, n_states, 0.0)]] * n_actions)
        initial = np.append(initial, 0.0)
    return TabularMDP.from_outcomes(outcomes, gamma=gamma, initial=initial)


# --- episodes ------------------------------------------------------------------------------------------------------


class EpisodicEnv(Stepped, Episodic):
    """A Gymnasium environment with discrete observations and actions, played in episodes.

    ``env`` is an id or an environment. An id is made with the keywords, which must be plain values, and without its
    time limit, for the horizon of the episodes is the algorithm's. Gymnasium has no ``gamma``; ``reward_range`` are the
    bounds that every reward is promised to obey, 0 between them, the reward after the end. A store knows an environment
    of your own by its ``version`` alone: give one, and change it whenever the code does; Gymnasium's own need none.
    ``budget`` is the most steps that one run may take, and ``allowed`` are (S, A) truth values: which actions each
    observation has.

    Examples
    --------
    >>> from replicable_rl.randomness import sample_stream
    >>> lake = EpisodicEnv("FrozenLake-v1", gamma=0.95, reward_range=(0.0, 1.0))
    >>> lake.n_states, lake.n_actions
    (17, 4)
    >>> lake.play([0] * 17, episodes=10, horizon=5, rng=sample_stream(1)).visits.sum()
    np.float64(50.0)
    """

    def __init__(
        self,
        env: Any,
        *,
        gamma: float,
        reward_range: tuple[float, float],
        version: str | None = None,
        budget: int = BUDGET,
        allowed: ArrayLike | None = None,
        **make_kwargs: Any,
    ) -> None:
        Discrete = needs("gymnasium", extra="gym", who="EpisodicEnv").spaces.Discrete
        if "max_episode_steps" in make_kwargs:
            raise InvalidInput("EpisodicEnv: an id is made without a time limit. Make the environment to keep one.")
        if isinstance(env, str):
            self.env = make_env("EpisodicEnv", env, {"max_episode_steps": -1, **make_kwargs})
        else:
            self.env = _made_by_hand("EpisodicEnv", env, make_kwargs)
        observations, actions = self.env.observation_space, self.env.action_space
        if not (isinstance(observations, Discrete) and isinstance(actions, Discrete)):
            rule = "observations and actions must be Discrete spaces"
            raise InvalidInput(f"EpisodicEnv: {rule}, got {observations} and {actions}. Number them with a wrapper.")
        sizes = int(observations.n), int(actions.n), gamma, reward_range
        super().__init__(*sizes, ends=True, allowed=allowed, version=version, budget=budget)
        recipe, bare = self.env.spec, self.env.unwrapped
        self.name = type(bare).__name__ if recipe is None else str(recipe.id)
        params: dict[str, Any] = {"gamma": gamma, "reward_range": list(reward_range)}
        self._is_gymnasiums_own = False
        if recipe is not None and isinstance(env, str):
            params |= recipe.kwargs
            random = None in make_kwargs.values()  # FrozenLake makes a map at random where it gets None
            self._is_gymnasiums_own = type(self) is EpisodicEnv and is_gymnasiums(recipe) and not random
        self.code = () if self._is_gymnasiums_own else (bare,)
        self.first_state, self.first_action = int(observations.start), int(actions.start)
        self._spec = ObjectSpec(f"episodes/{self.name}", params | self.known_by)

    @property
    def spec(self) -> ObjectSpec:
        """The id of the environment; one made by hand is known by its class and its version."""
        return self._spec

    @property
    def identity(self) -> str | None:
        """What a store must be told before it can tell this problem from another one; None if nothing is missing."""
        return None if self._is_gymnasiums_own else super().identity

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        episodes = check_integer("EpisodicEnv", "episodes", episodes, low=1, high=MAX_CALLS)
        weights, horizon = self.support.probabilities("EpisodicEnv", policy), check_horizon(horizon)
        starts = np.zeros(self.n_states, dtype=np.int64)
        played = merge_tallies(self._batches(weights, episodes, horizon, rng, starts), self.reward_range)
        state = played[0] // (self.n_actions * self.n_states)
        steps = int(played[1][state < self.n_states - 1].sum())  # those after the end are not played
        return episode_counts(self, played, episodes, steps, starts)

    def _batches(
        self, weights: NDArray[np.float64], episodes: int, horizon: int, rng: np.random.Generator, starts: NDArray[Any]
    ) -> Iterator[Tally]:
        """Play on, and yield what was seen now and then; ``starts`` counts along."""
        seed: int | None = int(rng.integers(2**63)) >> 31  # 32 bits: some environments take no more
        choice, end, left_over = np.cumsum(weights, axis=1), self.n_states - 1, 0
        choice[choice == choice[:, -1:]] = 1.0  # rounding must not let an action come after those that may be
        low, high = self.reward_range
        keys: list[int] = []
        rewards: list[float] = []
        for episode in track(range(episodes), "episodes"):
            observation, _ = self.env.reset(seed=seed)
            state = self.state_of(observation)
            seed = None  # later resets go on with the environment's own stream
            starts[state] += 1
            for remaining in range(horizon - 1, -1, -1):
                action = min(int(np.searchsorted(choice[state], rng.random(), side="right")), self.n_actions - 1)
                observation, reward, terminated, truncated = take_step(self, self.env, action + self.first_action)
                successor = end if terminated else self.state_of(observation)
                if not low <= reward <= high:
                    raise InvalidInput(f"{self}: rewards must lie in reward_range [{low:g}, {high:g}], got {reward:g}.")
                keys.append((state * self.n_actions + action) * self.n_states + successor)
                rewards.append(reward)
                state = successor
                left_over += remaining if terminated else 0
                if terminated or truncated:
                    break
            if (episode + 1) % _BATCH == 0 or episode + 1 == episodes:
                yield tally_of(np.array(keys, dtype=np.int64), np.array(rewards), self.reward_range)
                keys, rewards = [], []
        if left_over:  # the rest of the episodes that ended early, spent in the extra state without reward
            spent = rng.multinomial(left_over, weights[end])
            actions = np.flatnonzero(spent)
            key = (end * self.n_actions + actions) * self.n_states + end
            yield tally_of(key, np.zeros(key.size), self.reward_range, spent[actions])

    def state_of(self, observation: Any) -> int:
        """Return the state that an observation is."""
        try:
            state = operator.index(observation) - self.first_state
        except TypeError:
            state = -1
        if not 0 <= state < self.n_states - 1:  # the last state is ours
            rule = f"observations must lie in the space, {self.first_state} to {self.first_state + self.n_states - 2}"
            raise InvalidInput(f"{self}: {rule}, got {shown(observation)}.")
        return state


def take_step(owner: object, env: Any, action: Any) -> tuple[Any, float, bool, bool]:
    """Return what a Gymnasium environment answers to an action, without ``info``; refuse an answer of another form."""
    answer = env.step(action)
    try:
        observation, reward, terminated, truncated, _ = answer
        return observation, float(reward), as_truth(terminated), as_truth(truncated)
    except (TypeError, ValueError):
        form = "(observation, reward, terminated, truncated, info)"
        raise InvalidInput(f"{owner}: step must return {form}, got {shown(answer)}.") from None


def as_truth(value: Any) -> bool:
    """Return what is True or False, also as 1 or 0.

    >>> as_truth(np.True_), as_truth(0)
    (True, False)
    """
    if value not in (True, False):
        raise TypeError
    return bool(value)


# --- simulators ----------------------------------------------------------------------------------------------------


class Simulator(Stepped, Generative):
    """A simulator ``step(state, action, rng) -> (next state, reward)`` as a problem.

    Its cost is that of the steps: m calls take m steps for every pair. Rewards are learned from the samples, so they
    may depend on the next state or be random, as long as they stay in ``reward_range``.

    ``step_many(states, actions, rng)`` does it for arrays of one length; where it is given, nothing is stepped one by
    one. Where a problem ``ends``, a third value, ``done``, is returned: what is done leads to one more state, the last
    one, in which nothing is earned. It is not stepped, and ``n_states``, ``initial`` and ``allowed`` do not count it.
    ``initial`` is the distribution of the first state, where it is known, and ``allowed`` are (S, A) truth values:
    which actions each state has; no other pair is stepped. A store knows code by its ``version`` alone: give one, and
    change it whenever the code changes. ``name`` is what the run record calls it, and ``budget`` are the most steps
    that one run may take.

    Examples
    --------
    >>> def coin(state, action, rng):
    ...     return int(rng.random() < 0.5), float(state)
    >>> problem = Simulator(coin, n_states=2, n_actions=1, gamma=0.9, reward_range=(0.0, 1.0))
    >>> problem.draw(100, np.random.default_rng(0)).count.sum()
    np.int64(200)

    Many steps at once:

    >>> def coins(states, actions, rng):
    ...     return rng.integers(0, 2, size=states.size), states.astype(float)
    >>> sizes = dict(n_states=2, n_actions=1, gamma=0.9, reward_range=(0.0, 1.0))
    >>> Simulator(coin, step_many=coins, **sizes).draw(100, np.random.default_rng(0)).count.sum()
    np.int64(200)
    """

    trust = Trust((DRAWS,))

    def __init__(
        self,
        step: Callable[[Any, Any, np.random.Generator], tuple[Any, ...]],
        *,
        n_states: int,
        n_actions: int,
        gamma: float,
        reward_range: tuple[float, float],
        initial: ArrayLike | None = None,
        step_many: Callable[[Any, Any, np.random.Generator], tuple[Any, ...]] | None = None,
        ends: bool = False,
        name: str | None = None,
        version: str | None = None,
        budget: int = BUDGET,
        allowed: ArrayLike | None = None,
    ) -> None:
        for name_of, function in (("step", step), ("step_many", step_many)):
            if not callable(function) and (function is not None or name_of == "step"):
                raise InvalidInput(f"Simulator: {name_of} must be callable, got {shown(function)}.")
        self.step, self.step_many = step, step_many
        self.code = (step,) if step_many is None else (step, step_many)
        named = step if isinstance(step, (FunctionType, MethodType)) else type(step)
        self.name = name or named.__qualname__
        sizes = n_states, n_actions, gamma, reward_range
        self.ends = check_flag("Simulator", "ends", ends)
        super().__init__(*sizes, ends=self.ends, initial=initial, allowed=allowed, version=version, budget=budget)
        self._rows = np.flatnonzero(self.support.mask[: self.stepped_states])  # the pairs that are stepped

    @property
    def spec(self) -> ObjectSpec:
        """A simulator is known by its name, version and sizes; its runs cannot be rebuilt from a record."""
        sizes = {"n_states": self.n_states, "n_actions": self.n_actions, "gamma": self.gamma}
        kind = ({"many": True} if self.step_many else {}) | ({"ends": True} if self.ends else {})
        start = {} if self.initial is None else {"initial": self.initial.tolist()}
        params = {"name": self.name, **sizes, "reward_range": self.reward_range, **kind, **start, **self.known_by}
        return ObjectSpec("simulator", params)

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls, n_rows = check_calls("Simulator", calls), self.n_states * self.n_actions
        # An outcome is a (row, next state); with it go its count and the sums of its rewards, above the lowest.
        key, count, excess, squares = merge_tallies(self._batches(calls, rng), self.reward_range)
        row = key // self.n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))]).astype(np.int64)
        reward = np.clip(self.reward_range[0] + excess / count, *self.reward_range)
        successor = (key % self.n_states).astype(np.int32)
        return OutcomeCounts(indptr, successor, reward, count, calls, squares=squares, trust=self.trust)

    def _batches(self, calls: int, rng: np.random.Generator) -> Iterator[Tally]:
        total = self._rows.size * calls
        for start in range(0, total, _CHUNK):
            row = self._rows[np.arange(start, min(start + _CHUNK, total), dtype=np.int64) // calls]
            successor, reward = self._step(row // self.n_actions, row % self.n_actions, rng)
            yield tally_of(row * self.n_states + successor, reward, self.reward_range)
            if total > _CHUNK:
                report("samples", min(start + _CHUNK, total), total)
        if self.ends:  # what comes after the end is known: nothing, for ever
            row = np.arange(self.stepped_states * self.n_actions, self.n_states * self.n_actions, dtype=np.int64)
            yield tally_of(row * self.n_states + self.n_states - 1, np.zeros(row.size), self.reward_range, calls)

    def _step(
        self, state: NDArray[np.int64], action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Step once from every state, and return next states and rewards; after the end comes the last state."""
        form = ("next state", "reward", "done")[: 2 + self.ends]
        if self.step_many is not None:
            function, answers = "step_many", [self.step_many(state.copy(), action.copy(), rng)]  # may write there
        else:
            pairs = zip(state.tolist(), action.tolist(), strict=True)
            function, answers = "step", [self.step(s, a, rng) for s, a in pairs]
        for answer in answers:
            if not isinstance(answer, (tuple, list)) or len(answer) != len(form):
                raise InvalidInput(f"{self}: {function} must return ({', '.join(form)}), got {shown(answer)}.")
        columns = answers[0] if self.step_many is not None else zip(*answers, strict=True)
        arrays = []
        for name, column in zip(form, columns, strict=True):
            arrays.append(check_numbers(str(self), f"the {name} of {function}", column))
            if arrays[-1].shape != state.shape:  # what follows would read beyond it
                raise InvalidInput(
                    f"{self}: the {name} of {function} must be {state.size} numbers, got {shown(column)}."
                )
        successor, reward, *done = arrays
        (low, high), last = self.reward_range, self.stepped_states - 1
        over = done[0] != 0.0 if done else np.zeros(state.shape, dtype=np.bool_)
        inside = (successor >= 0) & (successor <= last) & (successor == np.floor(successor)) | over
        for good, values, rule in (
            (inside, successor, f"next states must lie in 0..{last}"),
            ((reward >= low) & (reward <= high), reward, f"rewards must lie in reward_range [{low:g}, {high:g}]"),
        ):
            if not good.all():
                i = int(np.argmin(good))
                raise InvalidInput(f"{self}: {rule}, got {values[i]:g} from state {state[i]}, action {action[i]}.")
        return np.where(over, self.n_states - 1, successor).astype(np.int64), reward
