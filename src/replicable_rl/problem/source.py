"""What an algorithm can ask of a problem: its sizes, and samples of one kind or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from replicable_rl.display import Displayed, described
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge, check_integer, check_real, shown
from replicable_rl.problem.support import check_allowed
from replicable_rl.wording import listed, number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.runs import ObjectSpec
    from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts

Kind = Literal["drawn", "played", "recorded"]
BUDGET = 10**9  # steps of one run, where nobody says otherwise: more would hardly end


@runtime_checkable
class Problem(Protocol):
    """Sizes, discount, rewards and identity of a problem.

    ``known_rewards`` is the (S, A) table of rewards where each pair has one known reward, and None where rewards must
    be learned from the samples. ``initial`` is the distribution of the first state, None where it is not known.
    ``estimated`` says whether the problem was itself estimated from data.

    A problem may also have ``allowed``, an (S, A) table of truth values that says which actions each state has. Without
    it, every state has all of them. Pairs that are not allowed are not sampled, and what ``known_rewards`` says of them
    means nothing. A log has ``counts``, what was recorded.
    """

    @property
    def n_states(self) -> int: ...  # noqa: D102
    @property
    def n_actions(self) -> int: ...  # noqa: D102
    @property
    def gamma(self) -> float: ...  # noqa: D102
    @property
    def reward_range(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def known_rewards(self) -> NDArray[np.float64] | None: ...  # noqa: D102
    @property
    def initial(self) -> NDArray[np.float64] | None: ...  # noqa: D102
    @property
    def estimated(self) -> bool: ...  # noqa: D102
    @property
    def spec(self) -> ObjectSpec: ...  # noqa: D102


_TOLD = ("n_states", "n_actions", "gamma", "reward_range", "known_rewards", "initial", "estimated", "spec")


@runtime_checkable
class GenerativeModel(Problem, Protocol):
    """A problem whose every state-action pair can be sampled: what phased value iteration needs."""

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        ...


@runtime_checkable
class EpisodicModel(Problem, Protocol):
    """A problem that is played in episodes: what R-max needs."""

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        ...


def kind_of(problem: Problem) -> Kind:
    """Return how the samples of a problem are had: "drawn" of every pair, "played" in episodes, or "recorded".

    A problem that can be drawn and played is drawn; so is a table.
    """
    if hasattr(problem, "play") and not hasattr(problem, "draw"):
        return "played"
    return "recorded" if hasattr(problem, "counts") else "drawn"


def check_source(problem: object) -> GenerativeModel | EpisodicModel:
    """Return the problem if samples can be had from it; refuse everything else.

    >>> check_source("chain-v1")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: problem must be a TabularMDP, a Simulator, an EpisodicEnv or another object with
    the methods of GenerativeModel or EpisodicModel, got str. Use replicable_rl.make(...) to turn an id into a problem.
    """
    if not isinstance(problem, GenerativeModel | EpisodicModel):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        if hasattr(problem, "draw") or hasattr(problem, "play"):
            hint = f" It has no {listed([name for name in _TOLD if not hasattr(problem, name)])}."
        raise InvalidInput(
            "problem must be a TabularMDP, a Simulator, an EpisodicEnv or another object with the methods of "
            f"GenerativeModel or EpisodicModel, got {type(problem).__name__}.{hint}"
        )
    rewards, (low, high), shape = problem.known_rewards, problem.reward_range, (problem.n_states, problem.n_actions)
    if rewards is not None and not (rewards.shape == shape and ((rewards >= low) & (rewards <= high)).all()):
        raise InvalidInput(f"{type(problem).__name__}: known_rewards must be (S, A) and lie in [{low:g}, {high:g}].")
    allowed = getattr(problem, "allowed", None)
    if allowed is not None:
        check_allowed(type(problem).__name__, allowed, *shape)
        if not isinstance(allowed, np.ndarray) or allowed.dtype != np.bool_:
            raise InvalidInput(f"{type(problem).__name__}: allowed must be a numpy array of truth values.")
    return problem


class Stepped(Displayed):
    """What problems that somebody's own code steps have in common: no table, a version, and a budget of steps."""

    initial: NDArray[np.float64] | None = None
    known_rewards: None = None  # rewards are learned from the samples
    estimated: bool = False
    name: str
    n_states: int
    n_actions: int

    def __init__(self, gamma: float, reward_range: object, version: str | None, budget: int) -> None:
        owner = type(self).__name__
        below_one = float(np.nextafter(1.0, 0.0))
        self.gamma = check_real(owner, "gamma", gamma, low=0.0, high=below_one, rule="a discount in [0, 1)")
        self.reward_range = check_range(owner, reward_range)
        self.most_samples = check_integer(owner, "budget", budget, low=1, high=2**63 - 1)  # of one run
        if version is not None and not (isinstance(version, str) and version):
            raise InvalidInput(f"{owner}: version must be a text such as '1', got {shown(version)}.")
        self.version = None if version is None else str(version)

    @property
    def code(self) -> tuple[Any, ...]:
        """Somebody's own functions and objects that are stepped."""
        return ()

    @property
    def identity(self) -> str | None:
        """What a store must be told before it can tell this problem from another one; None if nothing is missing."""
        if self.version is not None:
            return None
        return (
            f"{self}: a store knows somebody's own code by its version only. Give version='1' and change it whenever "
            "the code changes."
        )

    def refuse_beyond_budget(self, steps: int, remedy: str) -> None:
        """Refuse more steps than one run may take."""
        if steps > self.most_samples:
            asked, most = number(steps, 3), number(self.most_samples, 3)
            raise SampleSizeTooLarge(
                f"{self}: {asked} steps would be taken one by one, more than budget={most}. {remedy}"
            )

    def __repr__(self) -> str:
        return described(self, f"{self.name}: S={self.n_states}, A={self.n_actions}, gamma={self.gamma:g}")

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.name}"


def check_range(owner: str, reward_range: object) -> tuple[float, float]:
    """Return the bounds of the rewards: two finite numbers, the lower one first."""
    is_list = isinstance(reward_range, (tuple, list)) or (isinstance(reward_range, np.ndarray) and reward_range.ndim)
    bounds: tuple[object, ...] = tuple(reward_range) if is_list else ()  # type: ignore[arg-type]  # as just seen
    rule = "two finite numbers"
    if len(bounds) != 2:
        raise InvalidInput(f"{owner}: reward_range must be {rule}, got {shown(reward_range)}.")
    low, high = (check_real(owner, "reward_range", one, low=-np.inf, high=np.inf, rule=rule) for one in bounds)
    if low > high:
        raise InvalidInput(f"{owner}: reward_range must be (low, high) with low <= high, got {shown(reward_range)}.")
    return low, high
