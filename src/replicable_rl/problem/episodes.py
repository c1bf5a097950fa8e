"""Episodes by stepping a Gymnasium environment, behind the same interface as a table.

Its table of probabilities is not used and need not exist. `terminated` absorbs: the transition leads to one
extra state, in which the episode stays for the rest of its H steps without reward, exactly as
:func:`replicable_rl.from_gymnasium` builds it into a table. `truncated` only ends the observation: the
transition is real and is counted, what would have followed is not.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import array_digest, canonical_json
from replicable_rl.errors import InvalidInput, check_integer, did_you_mean, shown
from replicable_rl.problem._shipped_checks import first_observation, take_step
from replicable_rl.problem.source import BUDGET, Episodic, Stepped
from replicable_rl.problem.support import Support
from replicable_rl.progress import track
from replicable_rl.runs import ObjectSpec
from replicable_rl.sampling.counts import EpisodeCounts, Tally, check_horizon, episode_counts, merge_tallies, tally_of
from replicable_rl.theory import MAX_CALLS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_BATCH = 1000  # episodes between two flushes of what was seen
_ACTION_MASK = "action_mask"


def environment_seed(rng: np.random.Generator) -> int:
    """Draw the seed of an environment: 32 bits, for many take no more.

    >>> environment_seed(np.random.default_rng(1))
    2198257139
    """
    return int(rng.integers(2**63)) >> 31


def cumulated(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of probabilities up to each action; rounding must not let one come after those that may be."""
    choice = np.cumsum(weights, axis=1)
    return np.where(choice == choice[:, -1:], 1.0, choice)


class EpisodicEnv(Stepped, Episodic):
    """A Gymnasium environment with discrete observations and actions, played in episodes.

    Parameters
    ----------
    env : str, gymnasium.Env, or a callable that makes one
        An id is made without its time limit, for the horizon of the episodes is the algorithm's.
    gamma : float
        Discount; Gymnasium has none.
    reward_range : (low, high)
        Bounds every reward is promised to obey; 0, the reward after the end, must lie between them.
    version : str, optional
        A store knows an environment of your own by its version alone: give one, and change it whenever the code does.
        Gymnasium's own, made by their ids, need none.
    budget : int
        The most steps that one run may take; more is refused before it starts.
    allowed : "action_mask" or (S, A) truth values, optional
        Which actions each observation has; all when not given. "action_mask": those that the environment's own
        ``action_mask(state)`` says, as Taxi's.
    make_kwargs
        For ``gymnasium.make`` when an id is given.

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
        self.env = _make(env, make_kwargs)
        observations, actions = _spaces(self.env)
        sizes = int(observations.n) + 1, int(actions.n), gamma, reward_range
        super().__init__(*sizes, version=version, budget=budget)
        if not self.reward_range[0] <= 0.0 <= self.reward_range[1]:
            raise InvalidInput(
                f"EpisodicEnv: reward_range must contain 0, the reward after the end, got {reward_range}."
            )
        self.name = _name_of(self.env)
        made = dict(self.env.spec.kwargs) if isinstance(env, str) else {}  # with what the id was registered with
        self._params = {"gamma": gamma, "reward_range": list(reward_range), **made}
        self._is_gymnasiums_own = isinstance(env, str) and _is_gymnasiums_own(self.env, self._params)
        self.code = () if self._is_gymnasiums_own else (_bare(self.env),)
        self.first_state, self.first_action = int(observations.start), int(actions.start)
        if isinstance(allowed, str) and allowed == _ACTION_MASK:
            allowed = self._own_masks()
        self.support = Support.of("EpisodicEnv", allowed, self.n_states - 1, self.n_actions).with_the_end()

    @property
    def spec(self) -> ObjectSpec:
        """The id of the environment; one made by hand is known by its class and its version."""
        known = {} if self.version is None else {"version": self.version}
        params = {name: value if _is_plain(value) else _shown(value) for name, value in self._params.items()}
        mask = self.support.given
        some = {} if mask is None else {"allowed": array_digest("allowed", mask.astype(np.int64))}
        return ObjectSpec(f"episodes/{self.name}", params | some | known)

    def _own_masks(self) -> NDArray[Any]:
        """Return what the environment says of every state; all actions, where it says that there is none to take."""
        ask = getattr(_bare(self.env), _ACTION_MASK, None)
        if not callable(ask):
            raise InvalidInput(
                f"{self}: allowed='{_ACTION_MASK}' needs an environment with the method {_ACTION_MASK}(state). Give "
                "allowed as an (S, A) table of True and False."
            )
        told = np.array([ask(state + self.first_state) for state in range(self.n_states - 1)])
        return np.where(told.any(axis=1, keepdims=True), told, 1) if told.ndim == 2 else told

    @property
    def identity(self) -> str | None:
        """What a store must be told before it can tell this problem from another one; None if nothing is missing."""
        return None if self._is_gymnasiums_own else super().identity

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        episodes = check_integer("EpisodicEnv", "episodes", episodes, low=1, high=MAX_CALLS)
        horizon = check_horizon(horizon)
        remedy = "Pass fewer episodes, raise budget, or use from_gymnasium where the table is known."
        self.refuse_beyond_budget(episodes * horizon, remedy)
        weights = self.support.probabilities("EpisodicEnv", policy)
        seen = _Seen(self.n_states)
        played = merge_tallies(self._batches(cumulated(weights), episodes, horizon, rng, seen), self.reward_range)
        if seen.absorbed:
            played = merge_tallies(iter([played, self._after_the_end(weights, seen, rng)]), self.reward_range)
        return episode_counts(self, played, episodes, seen.steps, seen.starts)

    def _batches(
        self, choice: NDArray[np.float64], episodes: int, horizon: int, rng: np.random.Generator, seen: _Seen
    ) -> Iterator[Tally]:
        seed: int | None = environment_seed(rng)
        keys: list[int] = []
        rewards: list[float] = []
        for episode in track(range(episodes), "episodes"):
            state = self.state_of(first_observation(self, self.env, seed))
            seed = None  # later resets go on with the environment's own stream
            seen.starts[state] += 1
            for left in range(horizon - 1, -1, -1):
                action = min(int(np.searchsorted(choice[state], rng.random(), side="right")), self.n_actions - 1)
                observation, reward, terminated, truncated = take_step(self, self.env, action + self.first_action)
                successor = self.n_states - 1 if terminated else self.state_of(observation)
                keys.append((state * self.n_actions + action) * self.n_states + successor)
                rewards.append(reward)
                state = successor
                if terminated:
                    seen.absorbed += left
                if terminated or truncated:
                    break
            if (episode + 1) % _BATCH == 0 or episode + 1 == episodes:
                yield self._tally(np.array(keys), np.array(rewards), seen)
                keys, rewards = [], []

    def _tally(self, key: NDArray[np.int64], reward: NDArray[np.float64], seen: _Seen) -> Tally:
        low, high = self.reward_range
        bad = ~((reward >= low) & (reward <= high))
        if bad.any():
            raise InvalidInput(
                f"{self}: rewards must lie in reward_range [{low:g}, {high:g}], got "
                f"{reward[np.argmax(bad)]:g}. Widen reward_range."
            )
        seen.steps += key.size
        return tally_of(key.astype(np.int64), reward, self.reward_range)

    def state_of(self, observation: Any) -> int:
        """Return the state that an observation is."""
        try:
            state = operator.index(observation) - self.first_state
        except TypeError:
            raise self._outside(observation) from None
        if not 0 <= state < self.n_states - 1:  # the last state is ours
            raise self._outside(observation)
        return state

    def _outside(self, observation: Any) -> InvalidInput:
        last = self.first_state + self.n_states - 2
        return InvalidInput(
            f"{self}: observations must lie in the observation space, {self.first_state} to {last}, got "
            f"{shown(observation)}."
        )

    def _after_the_end(self, weights: NDArray[np.float64], seen: _Seen, rng: np.random.Generator) -> Tally:
        """The rest of the episodes that ended early, spent in the extra state without reward."""
        end = self.n_states - 1
        spent = rng.multinomial(seen.absorbed, weights[end])
        actions = np.flatnonzero(spent)
        key = (end * self.n_actions + actions) * self.n_states + end
        return tally_of(key, np.zeros(key.size), self.reward_range, spent[actions])


class _Seen:
    """Running totals of one call of `play`: first states, steps taken, and steps left over when episodes ended."""

    def __init__(self, n_states: int) -> None:
        self.starts = np.zeros(n_states, dtype=np.int64)
        self.steps = 0
        self.absorbed = 0


def _make(env: Any, make_kwargs: dict[str, Any]) -> Any:
    import gymnasium

    if isinstance(env, str):
        if "max_episode_steps" in make_kwargs:
            raise InvalidInput("EpisodicEnv: an id is made without a time limit. Make the environment to keep one.")
        try:
            return gymnasium.make(env, max_episode_steps=-1, **make_kwargs)
        except Exception as error:  # whatever an environment raises, its own sentence says why
            hint = did_you_mean(env, gymnasium.registry) if isinstance(error, gymnasium.error.Error) else ""
            raise InvalidInput(
                f"EpisodicEnv: Gymnasium cannot make {env!r} ({str(error).rstrip('.')}).{hint}"
            ) from None
    if make_kwargs:
        raise InvalidInput(f"EpisodicEnv: {next(iter(make_kwargs))} goes with an id, not with an environment.")
    return env() if callable(env) and (isinstance(env, type) or not hasattr(env, "step")) else env


def _name_of(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None else type(_bare(env)).__name__


def _bare(env: Any) -> Any:
    """Return the environment inside its wrappers."""
    return getattr(env, "unwrapped", env)


def _is_gymnasiums_own(env: Any, params: dict[str, Any]) -> bool:
    """Return whether the id stands for code of Gymnasium, and the parameters can be written down."""
    entry = getattr(env.spec, "entry_point", None)
    wrapped = getattr(env.spec, "additional_wrappers", ())
    ours = isinstance(entry, str) and entry.startswith("gymnasium.envs.") and not wrapped
    return ours and all(map(_is_plain, params.values()))


def _is_plain(value: object) -> bool:
    """Return whether JSON can say a parameter exactly."""
    try:
        canonical_json(ObjectSpec("env", {"value": value}).to_json())
    except InvalidInput:
        return False
    return True


def _shown(value: object) -> str:
    """Show a parameter that JSON cannot say, without the address that it has in this process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _spaces(env: Any) -> tuple[Any, Any]:
    from gymnasium.spaces import Discrete

    spaces = tuple(getattr(env, name, None) for name in ("observation_space", "action_space"))
    if not all(isinstance(space, Discrete) for space in spaces):
        raise InvalidInput(
            f"EpisodicEnv: observations and actions must be Discrete spaces, got {spaces[0]} and {spaces[1]}. "
            "Number the observations with a wrapper first."
        )
    return spaces[0], spaces[1]
