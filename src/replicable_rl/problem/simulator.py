"""A black-box generative simulator behind the same interface as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_flag, check_numbers, shown
from replicable_rl.problem.source import BUDGET, Generative, Stepped
from replicable_rl.progress import report
from replicable_rl.runs import ObjectSpec
from replicable_rl.sampling import DRAWS, OutcomeCounts, Tally, Trust, check_calls, merge_tallies, tally_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_CHUNK = 1 << 16  # samples asked of `step_many` at a time


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
        self.refuse_beyond_budget(calls * self._rows.size)
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
        owner, names = str(self), (f"the {name} of {function}" for name in form)
        arrays = [check_numbers(owner, name, column) for name, column in zip(names, columns, strict=True)]
        if any(array.shape != state.shape for array in arrays):
            shapes = [array.shape for array in arrays]
            raise InvalidInput(f"{self}: {function} must return one of {form} for each of {state.shape}, got {shapes}.")
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
