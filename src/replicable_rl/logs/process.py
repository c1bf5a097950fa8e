"""The declared process behind a log: names, bins, discount, reward range. Never data.

A name is a text or a whole number, and a tuple of these where a state has several columns. Columns of numbers are
binned with declared edges: edges at the quantiles of a log would differ from log to log, and two logs of one process
would be samples of two problems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from replicable_rl.canonical import Json, json_digest, json_text
from replicable_rl.errors import (
    InvalidInput,
    check_integer,
    check_numbers,
    did_you_mean,
    is_masked,
    shown,
    whole_number,
)
from replicable_rl.problem.source import Support, check_gamma, check_initial, check_range
from replicable_rl.problem.table import Labels
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import short_repr

END = "(end)"  # the name of the state in which an episode that is done stays
EXACT = 2**53  # whole numbers below it are floats too
WHOLE = re.compile("0|-?[1-9][0-9]{0,37}")  # as a text; 0 has no sign: two ways to write a name are never one
_MOST_EDGES = 1000  # of a column: every one is a comparison for every row

Label = Any  # a text, a whole number, or a tuple of them
Declared = tuple[tuple[Label, ...] | None, tuple[Label, ...] | None]  # all states, and all actions, where given


@dataclass(frozen=True)
class Bins:
    """Bins of a numeric column, for ``from_transitions(..., bins={"temperature": rr.Bins([10, 20, 30])})``.

    A bin is half open, [10, 20): a value on an edge belongs to the bin above it.

    Parameters
    ----------
    edges : list of floats
        Where one bin ends and the next begins, in increasing order. What is below the first and above the last has a
        bin of its own.

    Examples
    --------
    >>> Bins([10, 20, 30]).labels
    ('below 10', '[10, 20)', '[20, 30)', '30 or more')
    """

    edges: Sequence[float]  # a tuple, whatever it was given as

    __repr__ = short_repr

    def __post_init__(self) -> None:
        edges = check_numbers("Bins", "edges", self.edges)
        rising = edges.ndim == 1 and edges.size and np.isfinite(edges).all() and (edges[1:] > edges[:-1]).all()
        if not rising or edges.size > _MOST_EDGES:
            raise InvalidInput(
                f"Bins: edges must be 1 to {_MOST_EDGES} finite numbers in increasing order, got {shown(self.edges)}."
            )
        object.__setattr__(self, "edges", tuple((edges + 0.0).tolist()))  # no -0.0, which is the same edge

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the bins, which become the names of states."""
        names = [repr(edge).removesuffix(".0") for edge in self.edges]
        inner = [f"[{low}, {high})" for low, high in pairwise(names)]
        return (f"below {names[0]}", *inner, f"{names[-1]} or more")


class Binned(NamedTuple):
    """Which part of a state or an action is binned, and where the edges are; part of the identity of a process."""

    use: str  # "state" or "action"
    place: int
    edges: tuple[float, ...]

    def to_json(self) -> Json:
        """Return the JSON form."""
        return [self.use, self.place, list(self.edges)]


def bins_of(bins: Any, columns: Sequence[str]) -> dict[str, Bins]:
    """Return the bins of columns; each must be a column of the states or of the actions."""
    if bins is not None and not isinstance(bins, Mapping):
        rule = 'bins must say which column has which, {"temperature": Bins([10, 20])}'
        raise InvalidInput(f"from_transitions: {rule}, got {shown(bins)}.")
    for column, edges in (bins or {}).items():
        if not isinstance(edges, Bins):
            raise InvalidInput(
                f"from_transitions: the bins of {shown(column)} must be Bins([...]) with edges that you declare, got "
                f"{shown(edges)}. Edges from the data would make every log another problem."
            )
        if column not in columns:
            raise InvalidInput(
                f"from_transitions: bins must name a column of the states or the actions, got {shown(column)}. Next "
                "states have the bins of the states."
            )
    return dict(bins or {})


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
        names = json_digest([list(map(_to_json, self.states)), list(map(_to_json, self.actions))])
        params: dict[str, Json] = {"names": names, "gamma": self.gamma, "reward_range": list(self.reward_range)}
        if self.initial is not None:
            params["initial"] = json_digest(list(self.initial))
        if self.bins:
            params["bins"] = [binned.to_json() for binned in self.bins]
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
            "states": list(map(_to_json, self.states)),
            "actions": list(map(_to_json, self.actions)),
            "gamma": self.gamma,
            "reward_range": list(self.reward_range),
            "initial": None if self.initial is None else list(self.initial),
            "ends": self.ends,
            "bins": [binned.to_json() for binned in self.bins],
            "allowed": None if self.allowed is None else [list(row) for row in self.allowed],
        }

    @classmethod
    def from_json(cls, data: Json) -> Process:
        """Read the JSON form back."""
        states = check_names("states", list(map(_from_json, data["states"]))) or ()
        actions = check_names("actions", list(map(_from_json, data["actions"]))) or ()
        gamma = check_gamma("Process", data["gamma"])
        bounds = check_range("Process", tuple(map(float, data["reward_range"])))  # JSON writes a whole float as integer
        bins = []
        for use, place, edges in data["bins"]:
            place = check_integer("Process", "bins", place, low=0, high=2**31)
            bins.append(Binned(str(use), place, tuple(Bins(tuple(map(float, edges))).edges)))
        support = Support.of("Process", data["allowed"], len(states), len(actions))
        allowed = None if data["allowed"] is None else tuple(map(tuple, support.mask.tolist()))
        return cls(
            states,
            actions,
            gamma,
            bounds,
            initial_of(data["initial"], states),
            data["ends"] is True,
            tuple(bins),
            allowed,
        )


def as_label(label: Any) -> Label:
    """Return a label as Python's own text or whole number; floats that are whole are whole numbers.

    >>> as_label(np.int64(3)), as_label(2.0), as_label((np.str_("a"), 1))
    (3, 2, ('a', 1))
    """
    if isinstance(label, tuple) and not any(isinstance(part, tuple) for part in label):
        return tuple(map(as_label, label))
    if isinstance(label, str):
        return str(label)
    number = whole_number(label)
    if number is not None and (isinstance(label, (int, np.integer)) or abs(number) < EXACT):
        return number
    raise InvalidInput(
        f"from_transitions: a name must be a text or a whole number, got {shown(label)}. Cast it to text."
    )


def spoken(label: Label) -> str:
    """Return a label as a text for people; of several parts, one that holds a comma or a quote stands in quotes.

    >>> print(spoken(("b", 0)), spoken(("p", "q, r")), spoken(("p, q", "r")), sep=" | ")
    b, 0 | p, "q, r" | "p, q", r
    """
    parts = map(str, label if isinstance(label, tuple) else ())
    plain = (part if part == part.strip() != "" and not set(part) & {",", '"'} else json_text(part) for part in parts)
    return ", ".join(plain) if isinstance(label, tuple) else str(label)


def _told_apart(labels: tuple[Label, ...]) -> tuple[str, ...]:
    """Return labels as texts; as Python writes them where two would look alike, such as 1 and "1"."""
    names = tuple(map(spoken, labels))
    return names if len(set(names)) == len(names) else tuple(map(repr, labels))


def _to_json(label: Label) -> Json:
    """Return a label as JSON, with its type: 1 and "1" are two names.

    >>> _to_json(1), _to_json(("1", 2))
    ('int:1', ['str:1', 'int:2'])
    """
    return [_to_json(part) for part in label] if isinstance(label, tuple) else f"{type(label).__name__}:{label}"


def _from_json(data: Any) -> Label:
    """Return the label that was written.

    >>> _from_json(_to_json((1, "a:b")))
    (1, 'a:b')
    """
    if isinstance(data, list):
        return tuple(map(_from_json, data))
    kind, _, text = data.partition(":")
    return {"str": str, "int": int}[kind](text)


# --- what is declared ---------------------------------------------------------------------------------------------


def check_names(kind: str, names: Any) -> tuple[Label, ...] | None:
    """Return declared names, each once."""
    if names is None:
        return None
    if isinstance(names, np.ndarray) and names.ndim == 1 and not is_masked(names):
        names = names.tolist()
    if not isinstance(names, (list, tuple, range)) or len(names) == 0:
        raise InvalidInput(f"from_transitions: {kind} must be a list of names, got {shown(names)}.")
    labels = tuple(map(as_label, names))
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"from_transitions: {kind} must name each of them once, got {shown(names)}.")
    return labels


def initial_of(initial: Any, states: Sequence[Label]) -> tuple[float, ...] | None:
    """Return the declared distribution of the first state, given in order, or by name: states left out have none."""
    if isinstance(initial, Mapping):
        shares = {as_label(name): probability for name, probability in initial.items()}
        unknown = next((name for name in shares if name not in states), None)
        if unknown is not None:
            hint = did_you_mean(str(unknown), map(str, states))
            raise InvalidInput(f"from_transitions: initial=... names {shown(unknown)}, which is no state.{hint}")
        initial = [shares.get(name, 0.0) for name in states]
    return None if initial is None else tuple(check_initial("from_transitions", initial, len(states)).tolist())
