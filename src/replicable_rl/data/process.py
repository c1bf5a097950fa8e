"""The declared process behind a log: names, discount, reward range. Never data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import Json, json_digest
from replicable_rl.data.bins import Binned, bins_to_json, check_binned
from replicable_rl.data.labels import Label, plain, read_back, spoken, written
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_numbers, check_real, did_you_mean, is_masked, shown
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.source import check_range
from replicable_rl.problem.support import Support
from replicable_rl.runs import ObjectSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

END = "(end)"  # the name of the state in which an episode that is done stays


@dataclass(frozen=True)
class Process:
    """Names of states and actions, discount, range of rewards, and the first state's distribution if it is declared.

    ``ends`` says whether the last state is the one in which episodes that are done stay. ``bins`` says where the edges
    of binned columns are: logs that are binned in two ways are of two processes. ``allowed`` says which actions each
    state has, a row of truth values for every state; None: all.
    """

    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    gamma: float
    reward_range: tuple[float, float]
    initial: tuple[float, ...] | None = None
    ends: bool = False
    bins: tuple[Binned, ...] = ()
    allowed: tuple[tuple[bool, ...], ...] | None = None

    __repr__ = short_repr

    @cached_property  # names may be very many
    def spec(self) -> ObjectSpec:
        """The identity of the process: two logs of one process are two samples of one problem."""
        names = json_digest([[written(one) for one in self.states], [written(one) for one in self.actions]])
        params: dict[str, Json] = {"names": names, "gamma": self.gamma, "reward_range": list(self.reward_range)}
        if self.initial is not None:
            params["initial"] = json_digest(list(self.initial))
        if self.bins:
            params["bins"] = bins_to_json(self.bins)
        if self.allowed is not None:
            params["allowed"] = json_digest([list(row) for row in self.allowed])
        return ObjectSpec("process", params | ({"ends": True} if self.ends else {}))

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """The states as texts, no two alike: what people read everywhere."""
        return _told_apart(self.states)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """The actions as texts, no two alike."""
        return _told_apart(self.actions)

    @property
    def labels(self) -> Labels:
        """The names of states and actions, as tables have them."""
        return Labels(self.state_names, self.action_names)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "states": [written(label) for label in self.states],
            "actions": [written(label) for label in self.actions],
            "gamma": self.gamma,
            "reward_range": list(self.reward_range),
            "initial": None if self.initial is None else list(self.initial),
            "ends": self.ends,
            "bins": bins_to_json(self.bins),
            "allowed": None if self.allowed is None else [list(row) for row in self.allowed],
        }

    @classmethod
    def from_json(cls, data: Json) -> Process:
        """Read the JSON form back."""
        states = check_names("states", [read_back(label) for label in data["states"]])
        actions = check_names("actions", [read_back(label) for label in data["actions"]])
        if states is None or actions is None:
            raise InvalidInput("Process: states and actions must have names.")
        high = float(np.nextafter(1.0, 0.0))
        gamma = check_real("Process", "gamma", data["gamma"], low=0.0, high=high, rule="a discount in [0, 1)")
        bounds = check_range("Process", tuple(map(float, data["reward_range"])))  # JSON writes a whole float as integer
        initial, allowed = (
            check_initial(data["initial"], len(states)),
            check_mask(data["allowed"], states, len(actions)),
        )
        return cls(states, actions, gamma, bounds, initial, data["ends"] is True, check_binned(data["bins"]), allowed)


def _told_apart(labels: tuple[Label, ...]) -> tuple[str, ...]:
    """Return labels as texts; as Python writes them where two would look alike, such as 1 and "1"."""
    names = tuple(map(spoken, labels))
    return names if len(set(names)) == len(names) else tuple(map(repr, labels))


def check_mask(
    allowed: Any, states: Sequence[Label], n_actions: int, ends: bool = False
) -> tuple[tuple[bool, ...], ...] | None:
    """Return which actions each state has; None where all have all. After the end, every action is the same."""
    if allowed is None:
        return None
    mask = Support.of("from_transitions", allowed, len(states), n_actions, names=states).mask
    rows = tuple(map(tuple, mask.tolist()))
    return None if mask.all() else (*rows, (True,) * n_actions) if ends else rows


def check_flags(allowed: Any) -> None:
    """Refuse a table of numbers for one of truth values: a list of pairs of numbers looks the same."""
    try:
        are_flags = np.asarray(allowed).dtype == np.bool_
    except Exception:  # rows of unequal lengths, and whatever somebody's object raises
        are_flags = False
    if not are_flags:
        raise InvalidInput(
            "from_transitions: allowed must be a file or columns of pairs, such as {'state': [...], 'action': [...]}, "
            f"or an (S, A) table of True and False, got {shown(allowed)}."
        )


def check_names(kind: str, names: Any) -> tuple[Label, ...] | None:
    """Return declared names, each once."""
    if names is None:
        return None
    is_list = isinstance(names, Sequence) or (isinstance(names, np.ndarray) and names.ndim == 1)
    if isinstance(names, (str, bytes)) or not is_list or is_masked(names) or len(names) == 0:
        raise InvalidInput(f"from_transitions: {kind} must be a list of names, got {shown(names)}.")
    given = tuple(map(plain, names.tolist() if isinstance(names, np.ndarray) else names))
    if len(set(given)) < len(given):
        raise InvalidInput(f"from_transitions: {kind} must name each of them once, got {shown(names)}.")
    return given


def by_state(initial: Any, states: Sequence[Label]) -> Any:
    """Return probabilities of states that are given by name in the order of the states; all others are 0."""
    if not isinstance(initial, Mapping):
        return initial
    place = {state: i for i, state in enumerate(states)}
    first: list[Any] = [0.0] * len(states)
    for name, probability in initial.items():
        key = plain(name)
        if key not in place:
            hint = did_you_mean(spoken(name), map(spoken, states))
            raise InvalidInput(f"from_transitions: initial=... names {shown(name)}, which is no state.{hint}")
        first[place[key]] = probability
    return first


def check_initial(initial: Any, n_states: int, ends: bool = False) -> tuple[float, ...] | None:
    """Return the declared distribution of the first state; the last may be the one after the end."""
    if initial is None:
        return None
    first: NDArray[np.float64] = check_numbers("from_transitions", "initial", initial)
    last = f', the last of them for "{END}"' if ends else ""
    if first.shape != (n_states,) or not (first >= 0.0).all() or abs(first.sum() - 1.0) > 1e-9:
        raise InvalidInput(
            f"from_transitions: initial must hold {n_states} probabilities that sum to 1{last}, got {shown(initial)}."
        )
    return tuple(first.tolist())
