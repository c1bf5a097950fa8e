"""A recorded log as a problem: counts with n(s, a) of their own, and the digest that says which data they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.canonical import Json, array_digest, json_digest
from replicable_rl.errors import InvalidInput, check_integer, check_numbers, shown
from replicable_rl.files import Artifact, Parts
from replicable_rl.logs.process import Process
from replicable_rl.logs.samples import ALARM, Homogeneity, difference_of
from replicable_rl.problem.source import Recorded, Support
from replicable_rl.runs import Logged
from replicable_rl.sampling import EpisodeCounts, width_of
from replicable_rl.sampling import sums as summed
from replicable_rl.wording import Displayed, p_value, percent, plural

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.problem.table import Labels
    from replicable_rl.runs import ObjectSpec


_PLACES = ("state", "action", "successor")


class Flaws(NamedTuple):
    """What is odd about the rows of episodes."""

    broken: int = 0  # steps that do not go on where the one before ended
    cut: int = 0  # episodes that break off: their last row is not done
    after: int = 0  # steps that come after the end of their episode
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
        states, actions, successors = (
            _whole(name, values, size, below - 1)
            for name, values, below in zip(_PLACES, (state, action, successor), sizes, strict=True)
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
        return self.process.labels

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

    @property
    def added_up(self) -> bool:
        """Whether rewards take so many values that ``reward`` holds means."""
        return self.width > 0.0

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

    # --- other data sets ------------------------------------------------------------------------------

    def split(self, parts: int = 2, *, seed: int = 0) -> list[Dataset]:
        """Return disjoint parts of the log, each row in one of them at random."""
        parts = check_integer("Dataset.split", "parts", parts, low=2, high=max(2, self.rows))
        seed = check_integer("Dataset.split", "seed", seed, low=0, high=2**64 - 1)
        rng, even = np.random.Generator(np.random.PCG64DXSM(seed)), np.full(parts, 1.0 / parts)
        drawn = rng.multinomial(self.count, even)
        starts = [None] * parts if self.starts is None else rng.multinomial(self.starts, even).T
        return [self.with_counts(drawn[:, i], starts[i]) for i in range(parts)]

    def with_counts(self, count: NDArray[np.int64], starts: NDArray[np.int64] | None) -> Dataset:
        """Return other counts of the same outcomes and first states, as of another log."""
        seen = count > 0
        state, action, successor, reward, _ = (column[seen] for column in self.columns())
        more: dict[str, Any] = {"starts": starts, "width": self.width}
        return Dataset(self.process, state, action, successor, reward, count[seen], **more)

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
        n_states, n_actions = len(process.states), len(process.actions)
        key, reward = values.pop("key").astype(np.int64), values.pop("reward").astype(np.float64)
        if key.size and (key.min() < 0 or key.max() >= n_states * n_actions * n_states):
            raise InvalidInput("Dataset: what is counted must be of states and actions that are named.")
        pair = key // n_states
        columns = pair // n_actions, pair % n_actions, key % n_states, reward
        return Dataset(process, *columns, **values | {"flaws": Flaws(*values["flaws"])}, width=width)

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
    behaviour : (S, A) floats
        The share of each action in each state; rows of zeros where nothing is known.
    change : Homogeneity or None
        Whether both halves of the log look like one process; None where nobody knows when its rows came.
    warnings : tuple of str
        What should be looked at.
    process : Process
        What states and actions are called.
    """

    rows: int
    states: int
    actions: int
    pairs: int
    never_tried: int
    never_left: int
    least: int
    median: int
    behaviour: NDArray[np.float64]
    change: Homogeneity | None
    warnings: tuple[str, ...]
    process: Process

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

    def __repr__(self) -> str:
        wrong = f", {plural(len(self.warnings), 'warning')}" if self.warnings else ""
        sizes = [plural(self.rows, "row"), plural(self.states, "state"), plural(self.actions, "action")]
        return f"Summary({', '.join(sizes)}{wrong})"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, without the behaviour."""
        change = None if self.change is None else dict(self.change._asdict())
        left_out = ("behaviour", "process")
        values = {name: value for name, value in vars(self).items() if name not in left_out}
        return values | {"change": change, "warnings": list(self.warnings)}


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
        behaviour=data.visits / np.maximum(data.visits.sum(axis=1, keepdims=True), 1),
        change=change,
        warnings=tuple(_warnings(data, visits, never, change)),
        process=data.process,
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
    flaws = data.flaws
    if flaws.broken:
        go = "does not go on" if flaws.broken == 1 else "do not go on"
        yield f"{plural(flaws.broken, 'step')} of episodes {go} where the step before ended"
    if flaws.after:
        yield f"{plural(flaws.after, 'row')} of episodes {'comes' if flaws.after == 1 else 'come'} after the end"
    if flaws.dropped:
        are = "is" if flaws.dropped == 1 else "are"
        yield f"{plural(flaws.dropped, 'last row')} of episodes {are} left out: nobody saw what comes next"
    if flaws.cut and data.starts is not None:
        every = plural(int(data.starts.sum()), "episode")
        yield f"{flaws.cut} of {every} break{'s' * (flaws.cut == 1)} off: the last row is not done"
    if change is not None and change.p_value < ALARM:
        where = data.pair_names(change.state * data.n_actions + change.action)
        yield (
            f"the log looks like two processes: its halves differ ({p_value(change.p_value)}, most of all {where}); a "
            f"false alarm comes in {percent(ALARM)} of logs, or less often"
        )
