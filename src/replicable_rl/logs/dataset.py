"""A recorded log as a problem: counts with n(s, a) of their own, and the declared process that they are samples of.

The process says the names, bins, discount and reward range, and holds no data. A name is a text or a whole number, and
a tuple of these where a state has several columns. Columns of numbers are binned with declared edges: edges at the
quantiles of a log would differ from log to log, and two logs of one process would be samples of two problems.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.canonical import Json, array_digest, json_digest
from replicable_rl.errors import (
    InvalidInput,
    check_numbers,
    did_you_mean,
    shown,
    whole_number,
)
from replicable_rl.files import Artifact, Parts
from replicable_rl.logs.samples import ALARM, Homogeneity, difference_of
from replicable_rl.problem.source import Recorded, Support, check_initial
from replicable_rl.problem.table import Labels
from replicable_rl.runs import Logged, ObjectSpec
from replicable_rl.sampling import EpisodeCounts, width_of
from replicable_rl.sampling import sums as summed
from replicable_rl.wording import Displayed, p_value, percent, plural, short_repr

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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


Binned = tuple[str, int, tuple[float, ...]]  # "state" or "action", which part of it is binned, and where the edges are


def bins_of(bins: Any, columns: Sequence[str]) -> dict[str, Bins]:
    """Return the bins of columns; each must be a column of the states or of the actions."""
    if bins is None:
        return {}
    if not isinstance(bins, Mapping) or not all(isinstance(edges, Bins) for edges in bins.values()):
        rule = "bins must say the edges of a column, such as {'temperature': Bins([10, 20])}"
        raise InvalidInput(f"from_transitions: {rule}, got {shown(bins)}. Edges are declared, never taken from data.")
    unknown = [column for column in bins if column not in columns]
    if unknown:
        raise InvalidInput(
            f"from_transitions: bins must name columns of states or actions, got {shown(unknown[0])}. Next states have "
            "the bins of their states."
        )
    return dict(bins)


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
            params["bins"] = [[use, place, list(edges)] for use, place, edges in self.bins]
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

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "states": list(map(_to_json, self.states)),
            "actions": list(map(_to_json, self.actions)),
            "gamma": self.gamma,
            "reward_range": self.reward_range,
            "initial": self.initial,
            "ends": self.ends,
            "bins": self.bins,
            "allowed": self.allowed,
        }

    @classmethod
    def from_json(cls, data: Json) -> Process:
        """Read the JSON form back; JSON writes a whole float as an integer."""
        floats = {name: data[name] and tuple(map(float, data[name])) for name in ("reward_range", "initial")}
        names = {name: tuple(map(_from_json, data[name])) for name in ("states", "actions")}
        bins = tuple((use, place, tuple(map(float, edges))) for use, place, edges in data["bins"])
        allowed = data["allowed"] and tuple(map(tuple, data["allowed"]))
        return cls(**data | floats | names | {"bins": bins, "allowed": allowed, "gamma": float(data["gamma"])})


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


def _told_apart(labels: tuple[Label, ...]) -> tuple[str, ...]:
    """Return labels as texts; as Python writes them where two would look alike, such as 1 and "1".

    >>> _told_apart((("b", 0), ("c", 1))), _told_apart((1, "1"))
    (('b, 0', 'c, 1'), ('1', "'1'"))
    """
    names = tuple(", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels)
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
    names = names.tolist() if isinstance(names, np.ndarray) else names
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


# --- counts ----


class Flaws(NamedTuple):
    """What is odd about the rows of episodes."""

    broken: int = 0  # steps that do not go on where the one before ended
    dropped: int = 0  # last rows that are left out, for nobody knows their next states


NO_FLAWS = Flaws()


class Dataset(Recorded, Artifact):
    """A log of transitions, counted: what `solve` takes in place of a problem that can be sampled.

    Build one with :func:`from_transitions`. It says what a problem says (sizes, discount, reward range), and has
    ``counts``. The *problem* is the declared process, so that two logs of one process are two samples of one problem.

    Parameters
    ----------
    process : Process
        Names, discount and reward range.
    state, action, successor : (K,) integers
        What was seen: places in the names of the process.
    reward, count : (K,) numbers
        The reward of every outcome, and how often it was seen.
    early : (K,) integers, optional
        How often in the earlier half of the log.
    starts : (S,) integers, optional
        How many episodes began in each state.
    flaws : Flaws
        What is odd about the rows of episodes.
    width : float
        Where rewards take very many values, how long the stretches are of which ``reward`` holds the means; else 0.
    """

    saved_as = "data set"

    def __init__(
        self,
        process: Process,
        state: ArrayLike,
        action: ArrayLike,
        successor: ArrayLike,
        reward: ArrayLike,
        count: ArrayLike,
        *,
        early: ArrayLike | None = None,
        starts: ArrayLike | None = None,
        flaws: Flaws = NO_FLAWS,
        width: float = 0.0,
    ) -> None:
        self.process, self.n_states, self.n_actions = process, len(process.states), len(process.actions)
        self.gamma, self.reward_range = process.gamma, process.reward_range
        self.flaws, self.width = flaws, float(width)
        rewards, (low, high) = check_numbers("Dataset", "reward", reward), self.reward_range
        size, sizes = rewards.shape, (self.n_states, self.n_actions, self.n_states)
        places = ("state", "action", "successor")
        states, actions, successors = (
            _whole(name, values, size, below - 1)
            for name, values, below in zip(places, (state, action, successor), sizes, strict=True)
        )
        counts = _whole("count", count, size)
        if not ((rewards >= low) & (rewards <= high) & (counts > 0)).all():
            rule = f"needs a reward in reward_range [{low:g}, {high:g}] and a count of 1 or more"
            raise InvalidInput(f"Dataset: every outcome {rule}.")
        key = (states * self.n_actions + actions) * self.n_states + successors
        order = np.lexsort((rewards, key))  # one order, whatever order the rows came in
        self.key, self.reward, self.count = key[order], rewards[order] + 0.0, counts[order]
        self.early = None if early is None else _whole("early", early, size)[order]
        self.starts = None if starts is None else _whole("starts", starts, (self.n_states,)).copy()
        if process.initial is not None:  # the declared distribution of the first state, or that of the episodes
            self.initial = np.array(process.initial)
        elif self.starts is not None and self.starts.sum():
            self.initial = self.starts / float(self.starts.sum())
        self.support = Support.of("Dataset", process.allowed, self.n_states, self.n_actions)
        pair = self.key // self.n_states
        wrong = pair[~self.support.of_rows[pair]]
        if wrong.size:
            name = self.pair_names(int(wrong[0]))
            raise InvalidInput(f"Dataset: the log has {name}, which is not allowed. Mend allowed or the log.")
        for array in (self.key, self.reward, self.count, self.early, self.starts):
            if array is not None:
                array.setflags(write=False)

    # --- what a problem says ------------------------------------------------------------------------

    @property
    def spec(self) -> ObjectSpec:
        """The declared process."""
        return self.process.spec

    @property
    def labels(self) -> Labels:
        """Names of states and actions for people, as a table has them."""
        return Labels(self.process.state_names, self.process.action_names)

    @cached_property
    def sample(self) -> Logged:
        """Which data these are: a digest that depends on what is in the log, not on the order of its rows."""
        arrays = [self.key, self.reward, self.count, *([] if self.starts is None else [self.starts])]
        return Logged(json_digest([self.spec.to_json(), array_digest("dataset", *arrays)]))

    @cached_property
    def counts(self) -> EpisodeCounts:
        """The counts of transitions, rewards added up over the outcomes of each."""
        return self.counts_of(self.count, self.starts)

    def counts_of(self, count: NDArray[np.int64], starts: NDArray[np.int64] | None) -> EpisodeCounts:
        """Return other counts of the same outcomes and first states, as of another log, in the same form."""
        low, width, times = self.reward_range[0], width_of(self.reward_range), count.astype(np.float64)
        key, inverse, stays = self._transitions
        total = summed(inverse[: times.size], times, key.size)
        total[stays] += times.sum()  # what comes after the end is known: nothing, for ever
        with np.errstate(over="ignore", invalid="ignore"):  # who decides refuses what is infinite
            excess = summed(inverse[: times.size], times * (self.reward - low), key.size)
            excess[stays] += times.sum() * (0.0 - low)
            squares = None
            if key.size < self.key.size + stays.size:  # a transition with several rewards
                mean, place = excess / np.maximum(total, 1.0), inverse[: times.size]
                squares = summed(place, times * ((self.reward - low - mean[place]) / width) ** 2, key.size)
                squares[stays] += times.sum() * ((0.0 - low - mean[stays]) / width) ** 2
        episodes, rows = 0 if starts is None else int(starts.sum()), int(count.sum())
        more: dict[str, Any] = {"low": low, "width": width, "squares": squares, "starts": starts}
        more |= {"trust": self.trust}
        return EpisodeCounts(self.n_states, self.n_actions, key, total, excess, episodes, rows, **more)

    @cached_property
    def _transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The transitions, that of every outcome, and where those after the end are."""
        end, actions = self.n_states - 1, np.arange(self.n_actions) if self.process.ends else np.zeros(0, np.int64)
        stays = (end * self.n_actions + actions) * self.n_states + end
        key, inverse = np.unique(np.concatenate([self.key, stays]), return_inverse=True)
        return key, inverse, inverse[self.key.size :]

    @property
    def rows(self) -> int:
        """Transitions in the log."""
        return int(self.count.sum())

    @cached_property
    def visits(self) -> NDArray[np.int64]:
        """n(s, a): how often each pair was tried, (S, A); what comes after the end is not counted."""
        pair = self.key // self.n_states
        tried = np.bincount(pair, weights=self.count, minlength=self.n_states * self.n_actions)
        return tried.astype(np.int64).reshape(self.n_states, self.n_actions)

    def pair_names(self, pair: int) -> str:
        """Return what a pair is called, by its number: the action, and the state in which it is taken.

        >>> from replicable_rl import from_transitions
        >>> log = {"state": ["home"], "action": ["go"], "reward": [1.0], "next_state": ["home"]}
        >>> from_transitions(log, gamma=0.9).pair_names(0)
        'go in home'
        """
        s, a = divmod(pair, self.n_actions)
        return f"{self.process.action_names[a]} in {self.process.state_names[s]}"

    def summary(self) -> Summary:
        """Return what is in the log, and what is wrong with it."""
        return summarise(self)

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return state, action, successor, reward and count of every outcome."""
        pair = self.key // self.n_states
        return pair // self.n_actions, pair % self.n_actions, self.key % self.n_states, self.reward, self.count

    def parts(self) -> Parts:
        """Return what a file holds of it: the counts, and the process with its names."""
        values = {"process": self.process.to_json(), "width": self.width.hex(), "flaws": list(self.flaws)}
        some = {"early": self.early, "starts": self.starts}
        counted = {"key": self.key, "reward": self.reward, "count": self.count}
        return Parts(values, counted | {name: array for name, array in some.items() if array is not None})

    @classmethod
    def from_parts(cls, parts: Parts) -> Dataset:
        """Make a data set of what a file holds."""
        values: dict[str, Any] = {**parts.values, **parts.arrays}
        process, width = Process.from_json(values.pop("process")), float.fromhex(values.pop("width"))
        n_states, n_actions, key = len(process.states), len(process.actions), values.pop("key").astype(np.int64)
        places = key // n_states // n_actions, key // n_states % n_actions, key % n_states
        return cls(process, *places, **values | {"flaws": Flaws(*values["flaws"])}, width=width)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dataset) and other.sample == self.sample

    def __hash__(self) -> int:
        return hash(self.sample)

    def __repr__(self) -> str:
        return f"Dataset({plural(self.rows, 'row')}, S={self.n_states}, A={self.n_actions}, gamma={self.gamma:g})"


def _whole(name: str, values: ArrayLike, shape: tuple[int, ...], high: float = 2.0**62) -> NDArray[np.int64]:
    """Return whole numbers from 0 to a bound."""
    numbers = check_numbers("Dataset", name, values)
    if numbers.shape != shape or not ((numbers >= 0) & (numbers <= high) & (numbers == np.floor(numbers))).all():
        raise InvalidInput(
            f"Dataset: {name} must hold {shape[0]} whole numbers from 0 to {high:g}, got {shown(values)}."
        )
    return np.asarray(values).astype(np.int64)


# --- what is in a log ----


@dataclass(frozen=True, eq=False)
class Summary(Displayed):
    """What a log holds.

    Attributes
    ----------
    rows, states, actions : int
        How many of them.
    pairs : int
        How many pairs (state, action) are allowed.
    never_tried : int
        Of these, without a single row.
    never_left : int
        States from which no row starts, where the log does not say how to go on.
    least, median : int
        Samples of the pair that has fewest, and of the one in the middle, among those that were tried.
    change : Homogeneity or None
        Whether both halves of the log look like one process; None where nobody knows when its rows came.
    warnings : tuple of str
        What should be looked at.
    """

    rows: int
    states: int
    actions: int
    pairs: int
    never_tried: int
    never_left: int
    least: int
    median: int
    change: Homogeneity | None
    warnings: tuple[str, ...]

    __repr__ = short_repr

    def __str__(self) -> str:
        tried = self.pairs - self.never_tried
        lines = [
            f"{plural(self.rows, 'row')}; {plural(self.states, 'state')}, {plural(self.actions, 'action')}",
            f"{tried} of {plural(self.pairs, 'pair')} {'was' if tried == 1 else 'were'} tried: "
            f"{plural(self.least, 'time')} at least, {plural(self.median, 'time')} in the middle",
        ]
        if self.change is not None:
            lines.append(f"one process over time: {p_value(self.change.p_value)} ({plural(self.change.pairs, 'pair')})")
        return "\n".join([*lines, *(f"Warning: {warning}." for warning in self.warnings)])

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return vars(self) | {"change": None if self.change is None else self.change._asdict()}


def summarise(data: Dataset) -> Summary:
    """Return what is in a log, and what is wrong with it."""
    real = data.n_states - int(data.process.ends)  # the state after the end is ours
    visits, allowed = data.visits[:real], data.support.mask[:real]
    tried = visits[visits > 0]
    never = (visits == 0) & allowed
    change = None  # nobody knows when its rows came
    if data.early is not None:
        halves = np.stack([data.early, data.count - data.early], axis=1)
        change = difference_of(data.n_states, data.n_actions, data.key, data.reward, halves, data.width)
    return Summary(
        rows=data.rows,
        states=real,
        actions=data.n_actions,
        pairs=int(allowed.sum()),
        never_tried=int(never.sum()),
        never_left=int((visits.sum(axis=1) == 0).sum()),
        least=int(tried.min()) if tried.size else 0,
        median=int(np.median(tried)) if tried.size else 0,
        change=change,
        warnings=tuple(_warnings(data, visits, never, change)),
    )


def _warnings(
    data: Dataset, visits: NDArray[np.int64], never: NDArray[np.bool_], change: Homogeneity | None
) -> Iterator[str]:
    states = data.process.state_names
    lost = visits.sum(axis=1) == 0
    if never.any():
        some = f"such as {data.pair_names(int(never.argmax()))}"
        yield f"{plural(int(never.sum()), 'pair')} never tried, {some}: nobody knows what they are worth"
    if lost.any():
        some = f"such as {states[int(np.argmax(lost))]}"
        why = "nobody saw what comes next" if data.process.ends else "is a column for the end missing (done=...)"
        yield f"{plural(int(lost.sum()), 'state')} never left, {some}: {why}"
    if data.flaws.broken:
        yield f"{plural(data.flaws.broken, 'time')} a step of an episode does not begin where the step before ended"
    if data.flaws.dropped:
        yield f"{plural(data.flaws.dropped, 'last row')} of episodes left out: nobody saw what comes next"
    if change is not None and change.p_value < ALARM:
        where = data.pair_names(change.state * data.n_actions + change.action)
        yield (
            f"the log looks like two processes: its halves differ ({p_value(change.p_value)}, most of all {where}); a "
            f"false alarm comes in {percent(ALARM)} of logs, or less often"
        )
