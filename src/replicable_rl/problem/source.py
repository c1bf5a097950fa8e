"""Sources: problems that samples can be had from, by type, and the one place where a stranger's becomes one of ours.

    Generative    draw(calls, rng): fresh successors of every pair       tables, simulators
    Episodic      play(policy, episodes, horizon, rng): fresh episodes   tables, environments
    Recorded      counts: one batch of samples, from a log

Every proof is about the samples that were asked for. Our own sources return those; what somebody's own returns is
looked at before it counts.

`Support` says which pairs of a state and an action there are. A policy takes no other; it is one action for each state,
or an (S, A) table of probabilities. A pair that is not allowed has no outcomes: its row is empty. Whoever computes
values gives it the value -inf, which no maximum takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, check_integer, check_numbers, check_real, shown
from replicable_rl.runs import OURS, provider
from replicable_rl.sampling import DRAWS, STARTS, STATED, EpisodeCounts, OutcomeCounts, Trust, sums
from replicable_rl.wording import Displayed, described

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.runs import ObjectSpec

BUDGET = 10**9  # steps of one run, where nobody says otherwise: more would hardly end
_ROUNDING = 1e-9  # of sums of floats, relative


@dataclass(frozen=True, eq=False)
class Support:
    """The pairs that there are: ``mask`` is an (S, A) table, True where an action is allowed.

    >>> some = Support.of("TabularMDP", [[True, False], [True, True]], 2, 2)
    >>> some.pairs, some.whole, some.uniform().tolist()
    (3, False, [[1.0, 0.0], [0.5, 0.5]])
    >>> some.settle(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, -inf], [3.0, 4.0]]
    >>> Support.of("TabularMDP", [[1, 0], [0, 0]], 2, 2)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: TabularMDP: every state needs an action that is allowed, state 1 has none.
    """

    mask: NDArray[np.bool_]

    @staticmethod
    def of(owner: str, allowed: ArrayLike | None, n_states: int, n_actions: int) -> Support:
        """Return the support that a table of truth values, or of 0 and 1, states; None: every action in every state."""
        shape = n_states, n_actions
        if allowed is None:
            return Support(np.broadcast_to(np.True_, shape))
        flags = check_numbers(owner, "allowed", allowed)
        if flags.shape != shape or not np.isin(flags, (0, 1)).all():
            rule = f"an (S, A) = {shape} table of True and False"
            raise InvalidInput(f"{owner}: allowed must be {rule}, got {shown(allowed)}.")
        mask = flags != 0
        if not mask.any(axis=1).all():
            state = int(np.argmin(mask.any(axis=1)))
            raise InvalidInput(f"{owner}: every state needs an action that is allowed, state {state} has none.")
        mask.setflags(write=False)
        return Support(mask)

    @cached_property
    def pairs(self) -> int:
        """How many pairs there are: N = S*A where every action is allowed."""
        return int(np.count_nonzero(self.mask))

    @property
    def whole(self) -> bool:
        """Whether every action is allowed in every state."""
        return self.pairs == self.mask.size

    @property
    def given(self) -> NDArray[np.bool_] | None:
        """The mask as people give it: None where every action is allowed."""
        return None if self.whole else self.mask

    @cached_property
    def of_rows(self) -> NDArray[np.bool_]:
        """Whether row s*A + a is that of a pair."""
        return self.mask.reshape(-1)

    def settle(self, table: NDArray[np.float64], worth: float = -np.inf) -> NDArray[np.float64]:
        """Return a table, one number for each s and a, with -inf or another number where there is no pair."""
        return table if self.whole else np.where(self.mask.reshape(table.shape), table, worth)

    def first(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first action of every state, in an order of the actions."""
        actions: NDArray[np.int64] = order[self.mask[:, order].argmax(axis=1)]
        return actions

    def uniform(self) -> NDArray[np.float64]:
        """Return the (S, A) probabilities of the policy that takes every action alike."""
        uniform: NDArray[np.float64] = self.mask / self.mask.sum(axis=1, keepdims=True)
        return uniform

    def random(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return one of the actions of every state, by numbers in [0, 1)."""
        place = np.floor(u * self.mask.sum(axis=1)).astype(np.int64)
        actions: NDArray[np.int64] = (np.cumsum(self.mask, axis=1) > place[:, None]).argmax(axis=1)
        return actions

    def refuse_others(self, owner: str, policy: NDArray[Any]) -> None:
        """Refuse a policy that takes an action where it is not allowed."""
        if self.whole:
            return
        taken = policy != 0.0 if policy.ndim == 2 else np.arange(self.mask.shape[1]) == policy[:, None]
        wrong = np.argwhere(taken & ~self.mask)
        if wrong.size:
            state, action = wrong[0].tolist()
            may = ", ".join(map(str, np.flatnonzero(self.mask[state]).tolist()[:20]))
            what = f"the policy takes action {action} in state {state}, where it is not allowed"
            raise InvalidInput(f"{owner}: {what}. Allowed: {may}.")

    def actions(self, owner: str, policy: ArrayLike) -> NDArray[np.int64] | None:
        """Return a policy that holds one action for each state; None for a table, whose shape is right."""
        shape, numbers = self.mask.shape, check_numbers(owner, "policy", policy)
        if numbers.shape == shape:
            return None
        table = np.asarray(policy)
        if table.shape != shape[:1]:
            raise InvalidInput(f"{owner}: policy must have shape (S,) or (S, A) = {shape}, got {table.shape}.")
        if table.dtype.kind not in "iu" or not ((numbers >= 0) & (numbers < shape[1])).all():
            raise InvalidInput(f"{owner}: the actions of a policy must be integers in 0..{shape[1] - 1}.")
        self.refuse_others(owner, table)
        return table.astype(np.int64, copy=False)

    def probabilities(self, owner: str, policy: ArrayLike) -> NDArray[np.float64]:
        """Return a policy of either form as an (S, A) table of probabilities."""
        actions = self.actions(owner, policy)
        if actions is not None:
            weights = np.zeros(self.mask.shape)
            weights[np.arange(actions.size), actions] = 1.0
            return weights
        weights = check_numbers(owner, "policy", policy)
        if not ((weights >= 0) & (weights <= 2)).all() or not (np.abs(weights.sum(axis=1) - 1.0) <= 1e-9).all():
            raise InvalidInput(f"{owner}: the action probabilities of every state must be >= 0 and sum to 1.")
        self.refuse_others(owner, weights)
        normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return normalised


class Source(ABC):
    """What is to be solved; base of everything that can be sampled.

    It has S states, A actions and a discount in [0, 1); every reward is promised to lie in ``reward_range``, (low,
    high). ``initial`` is the (S,) distribution of the first state and ``known_rewards`` the (S, A) table of rewards,
    where they are known. ``allowed`` are (S, A) truth values: which actions each state has; it becomes ``support``.
    """

    n_states: int
    n_actions: int
    gamma: float
    reward_range: tuple[float, float]
    support: Support
    initial: NDArray[np.float64] | None = None
    known_rewards: NDArray[np.float64] | None = None
    trust: Trust = STATED
    budget: int | None = None  # the most steps of one run
    code: tuple[Any, ...] = ()  # somebody's own functions and objects that are stepped

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        gamma: float,
        reward_range: object,
        *,
        initial: ArrayLike | None = None,
        known_rewards: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
    ) -> None:
        owner = self.owner
        self.n_states, self.n_actions = check_sizes(owner, n_states, n_actions)
        self.gamma = check_gamma(owner, gamma)
        self.reward_range = low, high = check_range(owner, reward_range)
        self.support = Support.of(owner, allowed, self.n_states, self.n_actions)
        self.initial = None if initial is None else check_initial(owner, initial, self.n_states)
        if known_rewards is not None:
            table = check_numbers(owner, "known_rewards", known_rewards)
            if table.shape != self.support.mask.shape or not ((table >= low) & (table <= high)).all():
                raise InvalidInput(f"{owner}: known_rewards must be (S, A) and lie in [{low:g}, {high:g}].")
            self.known_rewards = table

    @property
    @abstractmethod
    def spec(self) -> ObjectSpec:
        """The identity: what it is called, and what tells it from others; a store asks for a version among these."""

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which actions each state has, (S, A)."""
        return self.support.mask

    @property
    def owner(self) -> str:
        """Who is named in sentences."""
        return type(self).__name__

    @property
    def identity(self) -> str | None:
        """What a store must be told before it can tell this source from another one; None if nothing is missing."""
        remedy = "Give version='1', which stands in its spec, and change it whenever the code changes; or use no store."
        return None if self.spec.params.get("version", "") else f"{self.owner} is code of your own. {remedy}"

    def affords(self, steps: int) -> bool:
        """Whether a run may take so many steps."""
        return self.budget is None or steps <= self.budget


class Generative(Source):
    """A source whose every pair can be sampled: what phased value iteration needs."""

    @abstractmethod
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""


class Episodic(Source):
    """A source that is played in episodes: what R-max needs."""

    @abstractmethod
    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""


class Recorded(Source):
    """A source of one batch of samples, which were recorded: what `PlugInPolicy` can decide from, and nothing else."""

    trust = Trust((DRAWS,))

    @property
    @abstractmethod
    def counts(self) -> EpisodeCounts:
        """What was recorded."""

    @abstractmethod
    def pair_names(self, pair: int) -> str:
        """Return what a pair is called, by its number s*A + a."""


class Stepped(Source, Displayed):
    """What sources that step somebody's own code have in common: a name, a version, a budget of steps, and an end.

    Where it ``ends``, one more state comes after the end, in which nothing is earned and every action is the same;
    ``n_states``, ``initial`` and ``allowed`` do not count it.
    """

    name: str
    budget: int

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        gamma: float,
        reward_range: tuple[float, float],
        *,
        ends: bool,
        initial: ArrayLike | None = None,
        allowed: ArrayLike | None,
        version: str | None,
        budget: int,
    ) -> None:
        super().__init__(n_states, n_actions, gamma, reward_range, initial=initial, allowed=allowed)
        owner, self.stepped_states = self.owner, self.n_states
        if ends:
            if not self.reward_range[0] <= 0.0 <= self.reward_range[1]:
                raise InvalidInput(f"{owner}: reward_range must contain 0, which follows the end, got {reward_range}.")
            self.n_states, _ = check_sizes(owner, self.n_states + 1, n_actions)
            self.initial = None if self.initial is None else np.append(self.initial, 0.0)
            self.support = Support(np.concatenate([self.support.mask, np.full((1, self.n_actions), np.True_)]))
        self.budget = check_integer(owner, "budget", budget, low=1, high=2**63 - 1)
        if version is not None and not (isinstance(version, str) and version):
            raise InvalidInput(f"{owner}: version must be a text such as '1', got {shown(version)}.")
        self.version = version

    @property
    def known_by(self) -> dict[str, Any]:
        """What the identity says where it is given: the version, and the mask."""
        mask, version = self.support.given, {} if self.version is None else {"version": self.version}
        return version if mask is None else version | {"allowed": array_digest("allowed", mask.astype(np.int64))}

    def __repr__(self) -> str:
        return described(self, f"{self.name}: S={self.n_states}, A={self.n_actions}, gamma={self.gamma:g}")

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.name}"


# --- what a stranger brings --------------------------------------------------------------------------------------


class Wrapped(Source):
    """What says of itself what another source says."""

    def __init__(self, own: Any) -> None:
        self.own = own
        sizes = own.n_states, own.n_actions, own.gamma, own.reward_range
        super().__init__(*sizes, initial=own.initial, known_rewards=own.known_rewards, allowed=own.support.mask)
        self.trust, self.budget, self.code = own.trust, own.budget, own.code

    @property
    def spec(self) -> ObjectSpec:
        """The identity that the source inside says."""
        spec: ObjectSpec = self.own.spec
        return spec


class Foreign(Wrapped):
    """Somebody's own source, which has its answers looked at."""

    def __init__(self, own: Any) -> None:
        super().__init__(own)
        conditions = (DRAWS, STARTS) if isinstance(own, Episodic) else (DRAWS,)
        self.trust = Trust(conditions, estimated=own.trust.estimated)

    @property
    def owner(self) -> str:
        """The class of the source itself."""
        return type(self.own).__name__

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw fresh successors of every pair, and see that they are as many as were asked for."""
        counts: OutcomeCounts = self.own.draw(calls, rng)
        check_drawn(self, counts, calls)
        return replace(counts, trust=self.trust)

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play fresh episodes, and see that they are as many as were asked for, and none is longer."""
        seen: EpisodeCounts = self.own.play(policy, episodes, horizon, rng)
        check_played(self, seen, episodes, horizon)
        return replace(seen, trust=self.trust)


class _Drawn(Foreign, Generative):
    pass


class _Played(Foreign, Episodic):
    pass


class _Both(Foreign, Generative, Episodic):
    pass


def as_source(problem: object) -> Source:
    """Return what an algorithm samples from: a source of ours as it is, a stranger's behind one that looks at it.

    >>> import replicable_rl as rr
    >>> as_source(rr.make("chain-v1")).trust.conditions  # none: the numbers of the table are the law
    ()
    >>> def step(state, action, rng):
    ...     return state, rng.random()
    >>> coin = rr.Simulator(step, n_states=1, n_actions=2, gamma=0.9, reward_range=(0.0, 1.0))
    >>> print(*as_source(coin).trust.conditions)
    the source's draws are independent and of one law for each pair, with rewards in the declared range
    >>> as_source("chain-v1")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: problem must be a TabularMDP, a Simulator, an EpisodicEnv or a source of your
    own, made from Generative or Episodic; got str. Use replicable_rl.make(...) to turn an id into a problem.
    """
    if not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        kinds = "a TabularMDP, a Simulator, an EpisodicEnv or a source of your own, made from Generative or Episodic"
        raise InvalidInput(f"problem must be {kinds}; got {type(problem).__name__}.{hint}")
    if isinstance(problem, Recorded) or provider(problem) == OURS:
        return problem
    draws, plays = isinstance(problem, Generative), isinstance(problem, Episodic)
    return (_Both if draws and plays else _Drawn if draws else _Played if plays else Foreign)(problem)


def check_drawn(source: Foreign, counts: OutcomeCounts, calls: int) -> None:
    """Refuse counts that are not those of ``calls`` successors of every pair."""
    n_rows, A = source.n_states * source.n_actions, source.n_actions
    if not isinstance(counts, OutcomeCounts) or counts.calls != calls:
        raise InvalidInput(f"{source.owner}: draw must return OutcomeCounts of {calls} calls, got {shown(counts)}.")
    ends = counts.indptr
    if ends.shape != (n_rows + 1,) or ends.dtype.kind != "i" or ends[0] != 0 or (np.diff(ends) < 0).any():
        rule = f"rise from 0 and have S*A + 1 = {n_rows + 1} integers"
        raise InvalidInput(f"{source.owner}: the indptr of draw must {rule}, got {shown(ends)}.")
    _check_outcomes(source, "draw", int(ends[-1]), counts.row, counts.next_state, counts.count, counts.reward)
    total = sums(counts.row, counts.count.astype(np.float64), n_rows)
    expected = source.support.settle(np.full(n_rows, float(calls)), 0.0)
    bad = np.abs(total - expected) > (_ROUNDING * calls if calls > 2**53 else 0.0)  # up to there, sums are exact
    if bad.any():
        row = int(np.argmax(bad))
        pair = f"{expected[row]:.17g} successors of state {row // A}, action {row % A}"
        raise InvalidInput(f"{source.owner}: draw must return {pair}, got {total[row]:.17g}. Count each call once.")


def check_played(source: Foreign, seen: EpisodeCounts, episodes: int, horizon: int) -> None:
    """Refuse counts that are not those of so many episodes, none of them longer than the horizon."""
    owner, S, A = source.owner, source.n_states, source.n_actions
    if not isinstance(seen, EpisodeCounts) or seen.episodes != episodes:
        raise InvalidInput(f"{owner}: play must return EpisodeCounts of {episodes} episodes, got {shown(seen)}.")
    key, limit = seen.key, float(episodes) * horizon
    rises = key.ndim == 1 and key.dtype.kind == "i" and bool((np.diff(key) > 0).all())
    if (seen.n_states, seen.n_actions) != (S, A) or not rises or not ((key >= 0) & (key < S * A * S)).all():
        raise InvalidInput(f"{owner}: the keys of play must be (s*A + a)*S + s', sorted, each once; {S=}, {A=}.")
    sound = np.shape(seen.excess) == np.shape(seen.count)  # a wrong length is refused in the check that follows
    mean = seen.low + seen.excess / np.maximum(seen.count, 1.0) if sound else seen.excess
    _check_outcomes(source, "play", key.size, seen.row, seen.next_state, seen.count, mean)
    if (seen.count[~source.support.of_rows[seen.row]] > 0.0).any():
        raise InvalidInput(f"{owner}: play must take no action that is not allowed. Follow the policy.")
    steps = max(float(seen.count.sum()), float(seen.steps))
    if not (seen.steps >= 0 and steps <= limit * (1.0 + _ROUNDING)):
        rule = f"{episodes} episodes of {horizon} steps have at most {limit:.17g} steps"
        raise InvalidInput(f"{owner}: {rule}, got {steps:.17g}. Count each step once.")
    if seen.starts is not None and (np.shape(seen.starts) != (S,) or np.sum(seen.starts) != episodes):
        rule = f"count the {episodes} episodes by the {S} states that they began in"
        raise InvalidInput(f"{owner}: the starts of play must {rule}, got {shown(seen.starts)}.")


def _check_outcomes(
    source: Foreign, method: str, size: int, row: NDArray[np.int64], successor: Any, count: Any, reward: Any
) -> None:
    """Refuse counts, next states and rewards that there cannot be; the reward of a count of 0 may be anything."""
    owner, (low, high), A = source.owner, source.reward_range, source.n_actions
    for name, column in (("next_state", successor), ("count", count), ("reward", reward)):
        kinds = "i" if name == "next_state" else "iuf"
        if not isinstance(column, np.ndarray) or column.shape != (size,) or column.dtype.kind not in kinds:
            rule = f"hold {size} numbers, one for each outcome"
            raise InvalidInput(f"{owner}: the {name} of {method} must {rule}, got {shown(column)}.")
    slack = _ROUNDING * max(abs(low), abs(high))
    inside = (reward >= low - slack) & (reward <= high + slack) | (count == 0) & np.isfinite(reward)
    for good, values, rule in (
        ((count >= 0) & (count == np.rint(count)), count, "counts must be whole numbers, none below 0"),
        ((successor >= 0) & (successor < source.n_states), successor, f"next states must be 0..{source.n_states - 1}"),
        (inside | (source.known_rewards is not None), reward, f"rewards must lie in reward_range [{low:g}, {high:g}]"),
    ):
        if not good.all():
            i = int(np.argmin(good))
            pair = f"state {row[i] // A}, action {row[i] % A}"
            raise InvalidInput(f"{owner}: {rule}, got {values[i]:.17g} of {pair}. Mend its {method}.")


# --- parameters ---------------------------------------------------------------------------------------------------


def check_sizes(owner: str, n_states: object, n_actions: object) -> tuple[int, int]:
    """Return the numbers of states and actions; 64 bits must number the transitions."""
    S = check_integer(owner, "n_states", n_states, low=1, high=2**31 - 1)
    A = check_integer(owner, "n_actions", n_actions, low=1, high=2**31 - 1)
    if S * S * A >= 2**62:
        raise InvalidInput(f"{owner}: {S} states and {A} actions are more than can be numbered.")
    return S, A


def check_gamma(owner: str, gamma: object) -> float:
    """Return a discount in [0, 1).

    >>> check_gamma("chain-v1", 1.0)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: chain-v1: gamma must be a discount in [0, 1), got 1.0.
    """
    below_one = float(np.nextafter(1.0, 0.0))
    return check_real(owner, "gamma", gamma, low=0.0, high=below_one, rule="a discount in [0, 1)")


def check_range(owner: str, reward_range: object) -> tuple[float, float]:
    """Return the bounds of the rewards: two finite numbers, the lower one first."""
    bounds = check_numbers(owner, "reward_range", reward_range)
    if bounds.shape != (2,) or not np.isfinite(bounds).all() or bounds[0] > bounds[1]:
        rule = "two finite numbers (low, high) with low <= high"
        raise InvalidInput(f"{owner}: reward_range must be {rule}, got {shown(reward_range)}.")
    return float(bounds[0]), float(bounds[1])


def check_initial(owner: str, initial: ArrayLike, n_states: int) -> NDArray[np.float64]:
    """Return the distribution of the first state."""
    start = check_numbers(owner, "initial", initial).copy()
    if start.shape != (n_states,) or not ((start >= 0.0) & (start <= 2.0)).all() or abs(start.sum() - 1.0) > 1e-9:
        raise InvalidInput(f"{owner}: initial must hold {n_states} probabilities that sum to 1, got {shown(initial)}.")
    start.setflags(write=False)
    return start


def greedy(q: ArrayLike) -> NDArray[np.int64]:
    """Return the policy that takes, in every state, the lowest-numbered action of maximal value.

    An action that is not allowed has the value -inf.

    >>> greedy([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]])
    array([1, 0])
    """
    table = check_numbers("greedy", "q", q)
    if table.ndim != 2 or table.shape[1] == 0 or np.isnan(table).any():
        raise InvalidInput(f"greedy: q must be an (S, A) table of numbers without NaN, got shape {table.shape}.")
    policy: NDArray[np.int64] = table.argmax(axis=1)
    return policy
