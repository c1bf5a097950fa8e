"""Whatever holds Q-values, as one thing: a function of a batch of observations that returns checked values, (n, A)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from replicable_rl.adapters import sb3_library as library
from replicable_rl.adapters.sb3_policy import TrainedPolicy, are_states
from replicable_rl.errors import InvalidInput, check_numbers, is_masked, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_KINDS = "a function of observations, a DQN of Stable-Baselines3, or a table of shape (S, A)"
_LARGEST = 1e100  # so that sums and gaps stay finite


class QFunction(Protocol):
    """Action values of a batch of observations."""

    def __call__(self, observations: Any) -> Floats:
        """Return values of shape (n, A)."""
        ...

    def is_single(self, observation: Any) -> bool:
        """Whether this is known to be one observation and no batch."""
        ...


def as_q_functions(owner: str, given: Any) -> tuple[QFunction, ...]:
    """Return the Q-functions that were given: one, or a list of several.

    >>> len(as_q_functions("StableDecisions", [[0.5, 0.25], [1.0, 0.0]]))  # two states: one table
    1
    >>> len(as_q_functions("StableDecisions", [np.zeros((2, 2)), np.ones((2, 2))]))
    2
    """
    listed = isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim == 3)
    if listed and not len(given):
        raise InvalidInput(f"{owner}: q_functions must hold at least one Q-function, got none.")
    if listed and not _is_table(given):
        return tuple(_as_q_function(owner, one) for one in given)
    return (_as_q_function(owner, given),)


def _is_table(given: Any) -> bool:
    """Whether a list is the rows of one table."""
    try:
        array = np.asarray(given)
    except Exception:  # rows of several lengths, or whatever somebody's object raises
        return not any(callable(one) or np.ndim(one) == 2 for one in given)
    return array.ndim < 3 and array.dtype.kind in "fiub"


def _as_q_function(owner: str, given: Any) -> QFunction:
    if isinstance(given, TrainedPolicy):
        given = given.model
    if hasattr(given, "policy") and hasattr(given, "predict"):  # a model of Stable-Baselines3, whose import is slow
        if not hasattr(given, "q_net"):
            raise InvalidInput(
                f"{owner}: q_functions must hold Q-values, which {type(given).__name__} does not learn for its actions."
                " Give a DQN, or a function of your own."
            )
        return Network(owner, given)
    if callable(given) and not isinstance(given, type):
        return Function(owner, given)
    if isinstance(given, (np.ndarray, list, tuple)) or hasattr(given, "detach"):
        table = check_values(owner, "a table of q_functions", given)
        if not len(table):
            raise InvalidInput(f"{owner}: a table of q_functions must have a row for every state, got none.")
        return Table(owner, table.copy())
    raise InvalidInput(f"{owner}: q_functions must be {_KINDS}, or a list of these, got {shown(given)}.")


def check_values(owner: str, what: str, values: Any) -> Floats:
    """Return action values as floats of shape (n, A); -inf marks what is not allowed."""
    if hasattr(values, "detach"):  # a tensor of PyTorch, which may be on a GPU and have a gradient
        values = values.detach().cpu().numpy()
    q = check_numbers(owner, what, values)
    if q.ndim != 2 or not q.shape[1]:
        raise InvalidInput(f"{owner}: {what} must have shape (n, A), got {q.shape}.")
    wrong = ~(np.isneginf(q) | (np.abs(q) <= _LARGEST))
    if wrong.any():
        row, action = np.argwhere(wrong)[0]
        raise InvalidInput(
            f"{owner}: {what} must be finite (-inf: not allowed) and at most 1e100, got {q[row, action]} in row {row}, "
            f"action {action}."
        )
    nowhere = np.isneginf(q).all(axis=1)
    if nowhere.any():
        raise InvalidInput(f"{owner}: {what} must allow an action in every row, got none in row {nowhere.argmax()}.")
    return q + 0.0  # without negative zeros


@dataclass(frozen=True, eq=False)
class Table:
    """A table of shape (S, A)."""

    owner: str
    q: Floats

    def __call__(self, observations: Any) -> Floats:
        """Return the rows of states."""
        states = _as_array(self.owner, observations)
        if not states.size:
            states = states.astype(np.int64)
        if states.dtype.kind not in "iu" or states.ndim != 1:
            raise InvalidInput(
                f"{self.owner}: observations of a table must be its states, a list of integers, got "
                f"{shown(observations)}."
            )
        wrong = states[(states < 0) | (states >= len(self.q))]
        if wrong.size:
            raise InvalidInput(f"{self.owner}: states must lie in 0..{len(self.q) - 1}, got {wrong[0]}.")
        rows: Floats = self.q[states]
        return rows

    def is_single(self, observation: Any) -> bool:
        """A state alone is a number."""
        return np.ndim(observation) == 0


@dataclass(frozen=True, eq=False)
class Function:
    """Anybody's function of a batch of observations."""

    owner: str
    function: Callable[[Any], Any]

    def __call__(self, observations: Any) -> Floats:
        """Return its values, whatever array they come in."""
        count = _length(self.owner, observations)
        returned = self.function(observations)
        q = check_values(self.owner, "the values of a Q-function", returned)
        if len(q) != count:
            raise InvalidInput(
                f"{self.owner}: a Q-function must return one row for each of the {count} observations, got {len(q)}."
            )
        return q

    def is_single(self, observation: Any) -> bool:
        """Nothing is known about the observations of a function."""
        return False


@dataclass(frozen=True, eq=False)
class Network:
    """The Q-network of a Stable-Baselines3 model."""

    owner: str
    model: Any

    def __call__(self, observations: Any) -> Floats:
        """Return the network's values."""
        arrays, space = _arrays(observations), self.model.observation_space
        if self._is_batch(observations) is not True or not are_states(space, arrays):
            raise InvalidInput(
                f"{self.owner}: observations must be a batch, with a first axis over observations of {shown(space)}."
            )
        torch = library.import_library("torch")
        with library.isolated(), torch.no_grad():  # one thread: the last bits may depend on their number
            self.model.policy.set_training_mode(False)
            tensor, _ = self.model.policy.obs_to_tensor(arrays)
            q = self.model.q_net(tensor).cpu().numpy()
        return check_values(self.owner, "the values of a Q-network", q)

    def is_single(self, observation: Any) -> bool:
        """The model knows how one observation looks."""
        return self._is_batch(observation) is False

    def _is_batch(self, observations: Any) -> bool | None:
        try:
            return bool(self.model.policy.is_vectorized_observation(_arrays(observations)))
        except Exception:  # the library's own sentence depends on the kind of space
            return None


def _arrays(observations: Any) -> Any:
    if isinstance(observations, Mapping):
        return {name: np.asarray(one) for name, one in observations.items()}
    return np.asarray(observations)


def batch_of_one(owner: str, observation: Any) -> Any:
    """Return a batch that holds one observation: an array, or a mapping of arrays."""
    if isinstance(observation, Mapping):
        return {name: _as_array(owner, [one]) for name, one in observation.items()}
    if hasattr(observation, "unsqueeze"):  # a tensor of PyTorch
        return observation.unsqueeze(0)
    return _as_array(owner, [observation])


def as_array(values: Any) -> NDArray[Any]:
    """Return an array of what can be one, and of None what cannot."""
    try:
        return np.asarray(values)
    except Exception:  # whatever somebody's object raises
        return np.asarray(None)


def _as_array(owner: str, observations: Any) -> NDArray[Any]:
    array = as_array(observations)
    if is_masked(observations) or not array.ndim:
        raise InvalidInput(
            f"{owner}: observations must be a batch with a first axis, got {shown(observations)}. "
            "For one observation alone call act(observation)."
        )
    return array


def _length(owner: str, observations: Any) -> int:
    if isinstance(observations, Mapping) and observations:
        return len(_as_array(owner, next(iter(observations.values()))))
    return len(_as_array(owner, observations))
