"""A black-box generative simulator behind the same interface as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_integer, check_real
from replicable_rl.records import ObjectSpec
from replicable_rl.sampling.counts import OutcomeCounts, Tally, check_calls, merge_tallies, tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Simulator"]

_CHUNK = 1 << 16  # samples asked of a vectorised simulator at a time


class Simulator:
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
    name : str
        What the run record calls it.

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
        vectorized: bool = False,
        name: str | None = None,
    ) -> None:
        if not callable(step):
            raise InvalidInput(f"Simulator: step must be callable, got {step!r}.")
        self._step, self._vectorized = step, vectorized
        self._name = name or getattr(step, "__qualname__", type(step).__name__)
        self.n_states = check_integer("Simulator", "n_states", n_states, low=1, high=2**31 - 1)
        self.n_actions = check_integer("Simulator", "n_actions", n_actions, low=1, high=2**31 - 1)
        if self.n_states * self.n_states * self.n_actions >= 2**62:
            raise InvalidInput(f"Simulator: {n_states} states and {n_actions} actions are more than can be numbered.")
        self.gamma = check_real(
            "Simulator", "gamma", gamma, low=0.0, high=np.nextafter(1.0, 0.0), rule="a discount in [0, 1)"
        )
        self.reward_range = _check_range(reward_range)

    @property
    def step(self) -> Callable[[Any, Any, np.random.Generator], tuple[Any, Any]]:
        """The function that simulates."""
        return self._step

    @property
    def known_rewards(self) -> None:
        """None: a simulator's rewards are learned from its samples."""
        return

    @property
    def spec(self) -> ObjectSpec:
        """A simulator is known by its name and sizes; its runs cannot be rebuilt from a record."""
        return ObjectSpec(
            "simulator",
            {
                "name": self._name,
                "n_states": self.n_states,
                "n_actions": self.n_actions,
                "gamma": self.gamma,
                "reward_range": self.reward_range,
                "vectorized": self._vectorized,
            },
        )

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        calls = check_calls("Simulator", calls)
        n_rows = self.n_states * self.n_actions
        # An outcome is a (row, next state); with it go its count and the sum of its rewards.
        key, count, reward = merge_tallies(self._batches(calls, rng))
        row = key // self.n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))]).astype(np.int64)
        return OutcomeCounts(indptr, (key % self.n_states).astype(np.int32), reward / count, count, calls)

    def _batches(self, calls: int, rng: np.random.Generator) -> Iterator[Tally]:
        total = self.n_states * self.n_actions * calls
        for start in range(0, total, _CHUNK):
            row = np.arange(start, min(start + _CHUNK, total), dtype=np.int64) // calls
            successor, reward = self._steps(row // self.n_actions, row % self.n_actions, rng)
            yield tally(row * self.n_states + successor, np.ones(row.size, dtype=np.int64), reward)

    def _steps(
        self, state: NDArray[np.int64], action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if self._vectorized:
            successor, reward = self._read([self._step(state, action, rng)])
        else:
            pairs = zip(state.tolist(), action.tolist(), strict=True)
            successor, reward = self._read([self._step(s, a, rng) for s, a in pairs])
        if successor.shape != state.shape or reward.shape != state.shape or successor.dtype.kind not in "iu":
            raise InvalidInput(
                f"Simulator {self._name}: step must return next states (integers) and rewards, one for each state "
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
                raise InvalidInput(
                    f"Simulator {self._name}: {rule}, got {values[i]:g} from state {state[i]}, action {action[i]}."
                )
        return successor.astype(np.int64), reward

    def _read(self, answers: list[tuple[Any, Any]]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return next states and rewards of a vectorised answer, or of one answer for each step."""
        try:
            states, rewards = zip(*((successor, reward) for successor, reward in answers), strict=True)
            both = (states[0], rewards[0]) if self._vectorized else (states, rewards)
            return np.asarray(both[0]), np.asarray(both[1], dtype=np.float64)
        except (TypeError, ValueError):
            wrong = next((one for one in answers if not (isinstance(one, tuple) and len(one) == 2)), answers[0])
            shown = " ".join(repr(wrong).split())
            raise InvalidInput(
                f"Simulator {self._name}: step must return a pair (next state, reward) of numbers, got {shown:.80}."
            ) from None


def _check_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    if not (isinstance(reward_range, (tuple, list)) and len(reward_range) == 2):
        raise InvalidInput(f"Simulator: reward_range must be (low, high), got {reward_range!r}.")
    low, high = (
        check_real("Simulator", "reward_range", bound, low=-np.inf, high=np.inf, rule="two finite numbers")
        for bound in reward_range
    )
    if low > high:
        raise InvalidInput(f"Simulator: reward_range must be (low, high) with low <= high, got {reward_range!r}.")
    return low, high
