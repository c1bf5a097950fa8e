"""A black-box generative simulator behind the same interface as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_flag, check_integer, check_numbers, shown
from replicable_rl.records import ObjectSpec
from replicable_rl.sampling.counts import OutcomeCounts, Tally, check_calls, merge_tallies, tally
from replicable_rl.sampling.problem import BUDGET, Stepped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_CHUNK = 1 << 16  # samples asked of a vectorised simulator at a time


class Simulator(Stepped):
    """A simulator ``step(state, action, rng) -> (next state, reward)`` as a problem.

    Its cost is that of the steps: m calls take m steps for every pair. Rewards are
    learned from the samples, so they may depend on the next state or be random, as long as
    they stay in ``reward_range``.

    Parameters
    ----------
    step : callable
        With ``vectorized=True`` it takes and returns arrays of one length.
    n_states, n_actions, gamma, reward_range
        The problem it simulates.
    initial : (S,) floats, optional
        Distribution of the first state, where it is known; it is not sampled.
    name : str
        What the run record calls it.
    version : str, optional
        A store knows code by its version alone: give one, and change it whenever the code changes.
    budget : int
        The most steps that one run may take; more is refused before it starts.

    Examples
    --------
    >>> def coin(state, action, rng):
    ...     return int(rng.random() < 0.5), float(state)
    >>> problem = Simulator(coin, n_states=2, n_actions=1, gamma=0.9, reward_range=(0.0, 1.0))
    >>> problem.draw(100, np.random.default_rng(0)).count.sum()
    np.int64(200)
    """

    def __init__(
        self,
        step: Callable[[Any, Any, np.random.Generator], tuple[Any, Any]],
        *,
        n_states: int,
        n_actions: int,
        gamma: float,
        reward_range: tuple[float, float],
        initial: ArrayLike | None = None,
        vectorized: bool = False,
        name: str | None = None,
        version: str | None = None,
        budget: int = BUDGET,
    ) -> None:
        if not callable(step):
            raise InvalidInput(f"Simulator: step must be callable, got {shown(step)}.")
        if name is not None and not isinstance(name, str):
            raise InvalidInput(f"Simulator: name must be a text, got {shown(name)}.")
        self.step, self._vectorized = step, check_flag("Simulator", "vectorized", vectorized)
        self.name = str(name or "") or str(getattr(step, "__qualname__", type(step).__name__))
        self.n_states = check_integer("Simulator", "n_states", n_states, low=1, high=2**31 - 1)
        self.n_actions = check_integer("Simulator", "n_actions", n_actions, low=1, high=2**31 - 1)
        if self.n_states * self.n_states * self.n_actions >= 2**62:
            raise InvalidInput(f"Simulator: {n_states} states and {n_actions} actions are more than can be numbered.")
        super().__init__(gamma, reward_range, version, budget)
        self.initial = None if initial is None else _check_initial(initial, self.n_states)

    @property
    def spec(self) -> ObjectSpec:
        """A simulator is known by its name, version and sizes; its runs cannot be rebuilt from a record."""
        sizes = {name: getattr(self, name) for name in ("n_states", "n_actions", "gamma", "reward_range")}
        initial = None if self.initial is None else self.initial.tolist()
        given = {key: value for key, value in (("version", self.version), ("initial", initial)) if value is not None}
        return ObjectSpec("simulator", {"name": self.name, **sizes, "vectorized": self._vectorized, **given})

    @property
    def code(self) -> tuple[Any, ...]:
        """The function that is stepped."""
        return (self.step,)

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls, n_rows = check_calls("Simulator", calls), self.n_states * self.n_actions
        self._refuse_beyond_budget(calls * n_rows, "Pass fewer calls or raise budget.")
        # An outcome is a (row, next state); with it go its count and the sum of its rewards, above the lowest.
        key, count, excess = merge_tallies(self._batches(calls, rng))
        row = key // self.n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))]).astype(np.int64)
        reward = np.clip(self.reward_range[0] + excess / count, *self.reward_range)
        return OutcomeCounts(indptr, (key % self.n_states).astype(np.int32), reward, count, calls)

    def _batches(self, calls: int, rng: np.random.Generator) -> Iterator[Tally]:
        total = self.n_states * self.n_actions * calls
        for start in range(0, total, _CHUNK):
            row = np.arange(start, min(start + _CHUNK, total), dtype=np.int64) // calls
            successor, reward = self._steps(row // self.n_actions, row % self.n_actions, rng)
            key, once = row * self.n_states + successor, np.ones(row.size, dtype=np.int64)
            yield tally(key, once, reward - self.reward_range[0])

    def _steps(
        self, state: NDArray[np.int64], action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if self._vectorized:
            successor, reward = self._read([self.step(state, action, rng)])
        else:
            pairs = zip(state.tolist(), action.tolist(), strict=True)
            successor, reward = self._read([self.step(s, a, rng) for s, a in pairs])
        if successor.shape != state.shape or reward.shape != state.shape or successor.dtype.kind not in "iu":
            raise InvalidInput(
                f"{self}: step must return next states (integers) and rewards, one for each state "
                f"asked; got {successor.dtype} of shape {successor.shape} and rewards of shape {reward.shape}."
            )
        low, high = self.reward_range
        for bad, values, rule in (
            (
                (successor < 0) | (successor >= self.n_states),
                successor,
                f"next states must lie in 0..{self.n_states - 1}",
            ),
            (~((reward >= low) & (reward <= high)), reward, f"rewards must lie in reward_range [{low:g}, {high:g}]"),
        ):
            if bad.any():
                i = int(np.argmax(bad))
                raise InvalidInput(f"{self}: {rule}, got {values[i]:g} from state {state[i]}, action {action[i]}.")
        return successor.astype(np.int64), reward

    def _read(self, answers: list[tuple[Any, Any]]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return next states and rewards of a vectorised answer, or of one answer for each step."""
        try:
            states, rewards = zip(*((successor, reward) for successor, reward in answers), strict=True)
            both = (states[0], rewards[0]) if self._vectorized else (states, rewards)
            return np.asarray(both[0]), np.asarray(both[1], dtype=np.float64)
        except (TypeError, ValueError):
            wrong = next((one for one in answers if not (isinstance(one, tuple) and len(one) == 2)), answers[0])
            raise InvalidInput(
                f"{self}: step must return a pair (next state, reward) of numbers, got {shown(wrong)}."
            ) from None


def _check_initial(initial: ArrayLike, n_states: int) -> NDArray[np.float64]:
    first = check_numbers("Simulator", "initial", initial).copy()
    if first.shape != (n_states,) or not (first >= 0.0).all() or abs(first.sum() - 1.0) > 1e-9:
        raise InvalidInput(
            f"Simulator: initial must hold {n_states} probabilities that sum to 1, got {shown(initial)}."
        )
    first.setflags(write=False)
    return first
