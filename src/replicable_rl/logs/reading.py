"""From a log to a data set, and from several logs to samples of one process.

A log seldom holds all names of its process. The names of several logs are those of all of them together, in one order,
and their range of rewards is that of all rewards.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_choice, check_in_open_interval, shown, speaking_as
from replicable_rl.logs.counting import Count
from replicable_rl.logs.dataset import END, Dataset, Declared, Label, Process, bins_of, check_names, initial_of
from replicable_rl.logs.samples import ALARM, Homogeneity, difference_of
from replicable_rl.logs.sources import PARTS, Columns, header_of, opened
from replicable_rl.problem.source import Support, check_gamma, check_range
from replicable_rl.progress import bar, track
from replicable_rl.runs import Logged, Run
from replicable_rl.wording import brief, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.logs.dataset import Bins


def from_transitions(
    source: Any,
    *,
    gamma: float | None = None,
    state: str | Sequence[str] = "state",
    action: str | Sequence[str] = "action",
    reward: str = "reward",
    next_state: str | Sequence[str] | None = None,
    done: str | None = None,
    episode: str | None = None,
    order: str | None = None,
    last: str = "drop",
    bins: Mapping[str, Bins] | None = None,
    reward_range: tuple[float, float] | None = None,
    initial: Any = None,
    states: Sequence[Any] | None = None,
    actions: Sequence[Any] | None = None,
    allowed: Any = None,
) -> Dataset:
    """Count the transitions of a log.

    Parameters
    ----------
    source : path, data frame, Arrow table, Ibis table, or dictionary of arrays
        A file that ends in .csv, .tsv, .jsonl, .ndjson or .parquet, a folder or a pattern of such files, a pandas or
        Polars data frame, an Arrow table, or a dictionary with an array for every column. A table of Ibis is counted by
        its own database.
    gamma : float
        Discount in [0, 1).
    state, action, next_state : str, or list of str
        Their columns; a state may be several of them. Without a column of next states, the next state is that of the
        episode's next row: name ``episode`` and ``order``.
    reward : str
        The column of the rewards.
    done : str, optional
        The column that says whether the episode ended with this step: it then stays in one more state, "(end)", without
        reward.
    episode : str, optional
        The column that says which episode a row belongs to: first states are learned from it. The rows of an episode
        are in order, or ``order`` says how.
    order : str, optional
        The column that orders the rows of an episode, such as a step or a time. Tables in a database need it. Texts
        are numbers, or all of them times written like 2024-01-31 09:59.
    last : "drop" or "end"
        Without a column of next states: whether the last row of an episode, whose next state nobody knows, is left out,
        or ends the episode. Where ``done`` is true, the episode ends in any case.
    bins : dict of Bins, optional
        Columns of numbers to bin, by name; the columns of next states have the bins of their states.
    reward_range : (low, high), optional
        Bounds that every reward obeys; the smallest and the largest in the log when not given, which another log may
        pass: give it where you compare logs.
    initial : (S,) floats, or dict, optional
        Distribution of the first state: a probability for every state in order, or by name, where all others have none.
    states, actions : list, optional
        All there are, also those that the log did not see: give them where you compare logs.
    allowed : path, data frame, dictionary of arrays, or (S, A) truth values, optional
        Which actions each state has; all when not given. Another action is never decided. A file, a frame, or columns,
        has a row for every pair that is allowed, in columns called as those of the log; its states and actions are
        then all there are. Truth values, True and False, go in the order of ``states`` and ``actions``, which must be
        given.

    Returns
    -------
    Dataset
        With ``.summary()``; ``rr.solve(dataset, algorithm, shared_seed=...)`` decides on it.

    Examples
    --------
    >>> log = {"state": ["a", "a", "b"], "action": [0, 1, 0], "reward": [0.0, 1.0, 0.0], "next_state": ["b", "a", "b"]}
    >>> from_transitions(log, gamma=0.9)
    Dataset(3 rows, S=2, A=2, gamma=0.9)
    """
    also = "" if gamma is not None else "gamma=..., the discount in [0, 1)"
    discount = 0.0 if gamma is None else check_gamma("from_transitions", gamma)
    uses = {"state": state, "action": action, "reward": reward, "next_state": next_state}
    columns = _named_columns(bins, last, **uses, done=done, episode=episode, order=order)
    declared: Declared = check_names("states", states), check_names("actions", actions)
    bounds = None if reward_range is None else check_range("from_transitions", reward_range)
    mask = None
    if allowed is not None:
        declared, mask = _mask(allowed, columns, declared)
    with opened(source, columns, also) as log:
        if gamma is None:
            raise InvalidInput(f"{log.name}: give {also}.")
        ends = log.columns.has_ends
        if ends and bounds is not None and not bounds[0] <= 0.0 <= bounds[1]:
            rule = "must hold 0, which is earned after the end (done=...)"
            raise InvalidInput(f"{log.name}: reward_range {rule}, got [{bounds[0]:g}, {bounds[1]:g}]. Widen it.")
        counted = Count(log, declared, bounds, mask).counted()
        if ends and END in counted.states:
            rule = f'a state is called "{END}", and so is the state after the end'
            raise InvalidInput(f"{log.name}: {rule}. Rename it.")
        binned = log.columns.binned
    names, end = (*counted.states, *([END] if ends else [])), len(counted.states)
    earned = [*counted.bounds, *([0.0] if ends else [])]
    rows = None if mask is None or mask.all() else [*mask.tolist(), *([[True] * mask.shape[1]] * ends)]
    bounds = bounds or (min(earned), max(earned))
    first, barred = initial_of(initial, names), None if rows is None else tuple(map(tuple, rows))
    process = Process(names, tuple(counted.actions), discount, bounds, first, ends, binned, barred)
    s, a, successor, earnings, count = counted.outcomes
    starts = counted.more["starts"]
    more = counted.more | {"starts": None if starts is None else np.append(starts, [0] * ends)}
    return Dataset(process, s, a, np.where(successor < 0, end, successor), earnings, count, **more)


def _named_columns(bins: Any, last: str, **given: Any) -> Columns:
    """Return columns as a user names them."""
    uses: dict[str, tuple[str, ...]] = {}
    for use, value in given.items():
        if value is None and use not in ("state", "action", "reward"):
            continue
        names = tuple(value) if use in PARTS and isinstance(value, (list, tuple)) else (value,)
        if not names or not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"from_transitions: {use} must name a column, got {shown(value)}.")
        uses[use] = names
    if uses["state"] == uses.get("next_state"):  # a part of it may be both: what never changes
        rule = f"state and next_state must be two columns, got {shown(given['state'])} for both"
        raise InvalidInput(f"from_transitions: {rule}. Name the column of the state that comes next.")
    if "order" in uses and "episode" not in uses:
        raise InvalidInput("from_transitions: order says how the rows of an episode follow each other. Name episode.")
    check_choice("from_transitions", "last", last, ("drop", "end"))
    return Columns(uses, bins_of(bins, (*uses["state"], *uses["action"])), ends=last == "end")


@speaking_as("from_transitions, allowed", "from_transitions")
def _mask(allowed: Any, columns: Columns, declared: Declared) -> tuple[Declared, NDArray[np.bool_]]:
    """Return all states and actions, and which actions each state has.

    Either from a source with a row for every such pair, whose names are read as those of a log; or from an (S, A) table
    of truth values.
    """
    if isinstance(allowed, (str, os.PathLike)) or header_of(allowed) is not None:
        uses = {use: columns.of(use) for use in ("state", "action")}
        with opened(allowed, Columns(uses, columns.bins, is_list=True)) as pairs:
            counted = Count(pairs, declared).counted()
        mask = np.zeros((len(counted.states), len(counted.actions)), dtype=np.bool_)
        mask[counted.outcomes[0], counted.outcomes[1]] = True
        declared = tuple(counted.states), tuple(counted.actions)
    else:
        is_table = isinstance(allowed, (list, tuple, np.ndarray)) and len({np.size(row) for row in allowed}) == 1
        mask = np.asarray(allowed if is_table else None)
        if mask.dtype != np.bool_:  # a list of pairs of numbers looks the same
            raise InvalidInput(
                "from_transitions: allowed must be a file or columns of pairs, such as {'state': [...], 'action': "
                f"[...]}}, or an (S, A) table of True and False, got {shown(allowed)}."
            )
    states, actions = declared
    if states is None or actions is None:
        raise InvalidInput(
            "from_transitions: allowed goes by the order of the names. Give states=... and actions=... beside it."
        )
    return declared, Support.of("from_transitions", mask, len(states), len(actions)).mask


# --- several logs -------------------------------------------------------------------------------------------------


def from_logs(sources: Any, *, gamma: float | None = None, **options: Any) -> dict[str, Dataset]:
    """Count the transitions of several logs as samples of one process.

    Parameters
    ----------
    sources : list, or dict of names and sources
        Each is what :func:`from_transitions` takes.
    gamma : float
        Discount in [0, 1).
    **options
        Columns and bounds, as for :func:`from_transitions`, for all logs alike.

    Returns
    -------
    dict of str and Dataset
        The logs by their names: what was given, or their files, or "log 1", "log 2", ... ``rr.audit`` takes it.

    Examples
    --------
    >>> one = {"state": ["a", "b"], "action": [0, 1], "reward": [0, 1], "next_state": ["b", "a"]}
    >>> two = {"state": ["a", "c"], "action": [0, 0], "reward": [2, 0], "next_state": ["c", "a"]}
    >>> logs = from_logs([one, two], gamma=0.9)
    >>> logs["log 2"].process.states, logs["log 1"].reward_range
    (('a', 'b', 'c'), (0.0, 2.0))
    """
    named = named_logs("from_logs", sources)
    return align({name: from_transitions(source, gamma=gamma, **options) for name, source in named.items()})


def align(logs: Any) -> dict[str, Dataset]:
    """Give logs one process: the names of all of them, and the range of all their rewards.

    Parameters
    ----------
    logs : list of Dataset, or dict of names and Datasets
        With one discount; of states and actions that are named alike.

    Returns
    -------
    dict of str and Dataset
        The same counts under the common names. Logs of one process stay as they are.

    Examples
    --------
    >>> log = {"state": ["a"], "action": ["go"], "reward": [1], "next_state": ["a"]}
    >>> other = {"state": ["b"], "action": ["stay"], "reward": [0], "next_state": ["b"]}
    >>> one, two = align([from_transitions(part, gamma=0.5) for part in (log, other)]).values()
    >>> one.process == two.process, one.process.actions
    (True, ('go', 'stay'))
    """
    named = datasets("align", logs)
    processes = {name: data.process for name, data in named.items()}
    if len(set(processes.values())) == 1:
        return named
    common = _common(processes)
    return {name: _moved(data, common) for name, data in named.items()}


def datasets(owner: str, logs: Any) -> dict[str, Dataset]:
    """Return logs by their names; what is none is refused."""
    named = named_logs(owner, logs)
    for name, data in named.items():
        if not isinstance(data, Dataset):
            raise InvalidInput(f"{owner}: {name} must be a Dataset, as from_logs returns them, got {shown(data)}.")
    return named


def named_logs(owner: str, logs: Any) -> dict[str, Any]:
    """Return what was given by its names: those of a dictionary, of files, or numbers.

    >>> list(named_logs("audit", ["spring/log.csv", "autumn/log.csv"]))
    ['spring/log.csv', 'autumn/log.csv']
    """
    if not isinstance(logs, (Mapping, list, tuple)):
        raise InvalidInput(f"{owner}: needs a list of logs, or a dictionary with their names, got {shown(logs)}.")
    values = list(logs.values() if isinstance(logs, Mapping) else logs)
    paths = [os.fsdecode(log) if isinstance(log, (str, os.PathLike)) else "" for log in values]
    names = list(logs) if isinstance(logs, Mapping) else [path or f"log {i + 1}" for i, path in enumerate(paths)]
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            rule = "each log needs a name of its own, and counts once"
            raise InvalidInput(f"{owner}: {rule}, got {shown(name)}{' twice' * isinstance(name, str)}.")
    if len(names) < 2:
        raise InvalidInput(f"{owner}: needs two logs or more, got {len(names)}. For a single log use `diagnose`.")
    return dict(zip(names, values, strict=True))


_MOST_LOGS = 200
_KEPT = 20  # pairs of logs that a record lists
_MOST_NAMES = 20_000  # of states, in a record
_LONGEST = 80  # letters of a name there
_COMMON = {
    "gamma": "one discount",
    "ends": "a column for the end (done=...), all or none",
    "initial": "one distribution of the first state",
    "bins": "the same bins",
    "allowed": "the same actions that are allowed",
}


def _common(processes: Mapping[str, Process]) -> Process:
    """Return the process that all logs can be samples of."""
    first = next(iter(processes))
    common = processes[first]
    for field, what in _COMMON.items():
        for name, process in processes.items():
            values = vars(common)[field], vars(process)[field]
            if values[0] != values[1]:
                raise InvalidInput(
                    f"align: logs of one process have {what}, got {shown(values[0])} in {first} and {shown(values[1])} "
                    f"in {name}. Read them alike."
                )
    states = _union("states", {name: _without_end(process) for name, process in processes.items()})
    states += common.states[-1:] if common.ends else ()
    actions = _union("actions", {name: process.actions for name, process in processes.items()})
    by_name = common.initial is not None or common.allowed is not None
    if by_name and any((process.states, process.actions) != (states, actions) for process in processes.values()):
        raise InvalidInput(
            "align: initial and allowed go by the names. Declare the same states=... and actions=... for all."
        )
    lows, highs = zip(*(process.reward_range for process in processes.values()), strict=True)
    return dataclasses.replace(common, states=states, actions=actions, reward_range=(min(lows), max(highs)))


def _without_end(process: Process) -> tuple[Label, ...]:
    return process.states[:-1] if process.ends else process.states


def _union(kind: str, names: Mapping[str, tuple[Label, ...]]) -> tuple[Label, ...]:
    """Return all names once: as they were declared where all logs have the same, else in their own order."""
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    kinds = {_kind(label): (log, label) for log, labels in names.items() for label in labels}
    if len(kinds) > 1:
        raise InvalidInput(
            f"align: logs of one process name {kind} alike, got "
            f"{' and '.join(f'{shown(label)} in {log}' for log, label in kinds.values())}. Write all columns alike."
        )
    return tuple(sorted({label for labels in names.values() for label in labels}))


def _kind(label: Label) -> Any:
    """Return what sort of name a label is."""
    return tuple(map(_kind, label)) if isinstance(label, tuple) else type(label)


def _moved(data: Dataset, process: Process) -> Dataset:
    """Return a log under the names of another process, which has all of its own; the end is the last state of both."""
    places = []
    for own, names in ((_without_end(data.process), process.states), (data.process.actions, process.actions)):
        place = {label: i for i, label in enumerate(names)}
        places.append(np.array([place[label] for label in own] + [len(names) - 1], dtype=np.int64))
    states, actions = places[0][: data.n_states], places[1]
    state, action, successor, reward, count = data.columns()
    starts = None if data.starts is None else np.bincount(states, data.starts, len(process.states)).astype(np.int64)
    more: dict[str, Any] = {"early": data.early, "starts": starts, "flaws": data.flaws, "width": data.width}
    return Dataset(process, states[state], actions[action], states[successor], reward, count, **more)


# --- do they look like one process? ------------------------------------------------------------------------------


def same_process(one: Dataset, two: Dataset) -> Homogeneity | None:
    """Test whether two logs come from one process; None where they have no pair in common that can be compared.

    Parameters
    ----------
    one, two : Dataset
        Read with the same names, discount and reward range.
    """
    one, two = datasets("same_process", {"one": one, "two": two}).values()
    if one.process != two.process:
        raise InvalidInput("same_process: the logs are of two declared processes. Use from_logs, or align them.")
    key, reward = np.concatenate([one.key, two.key]), np.concatenate([one.reward, two.reward])
    table = np.zeros((key.size, 2), dtype=np.int64)
    table[: one.key.size, 0], table[one.key.size :, 1] = one.count, two.count
    return difference_of(one.n_states, one.n_actions, key, reward, table, max(one.width, two.width))


@dataclass(frozen=True)
class LogPair:
    """Two logs compared: their places, and where they differ most; ``p_value`` is corrected for the number of pairs."""

    one: int
    two: int
    p_value: float
    state: str
    action: str


@dataclass(frozen=True)
class Logs:
    """The recorded samples of an audit.

    Attributes
    ----------
    names, digests, rows
        What people call them, which data they are, and how many transitions each has.
    compared, differing : int
        Pairs of logs that had anything in common to be compared by, and how many of them differ by more than chance.
    pairs : tuple of LogPair
        The pairs that were compared, the most different first; of very many, the first ones.
    alarm : float
        The probability that logs of one process are said to differ.
    states, actions
        Their names; None where there are very many.
    """

    names: tuple[str, ...]
    digests: tuple[str, ...]
    rows: tuple[int, ...]
    compared: int = 0
    differing: int = 0
    pairs: tuple[LogPair, ...] = ()
    alarm: float = 1e-3
    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None

    __repr__ = short_repr

    def name_of(self, run: Run) -> str:
        """Return the name of the log that a run decided on."""
        sample = None if run.spec is None else run.spec.sample
        return self.names[self.digests.index(sample.digest)] if isinstance(sample, Logged) else "a log"

    @property
    def differ(self) -> bool:
        """Whether some of them come from different processes, as far as a test can tell."""
        return self.differing > 0


@bar()
def compare_logs(logs: Any, *, alarm: float = ALARM) -> Logs:
    """Test whether logs come from one process: all pairs of them, corrected for their number.

    Parameters
    ----------
    logs : list of Dataset, or dict of names and Datasets
        Of one declared process: from :func:`from_logs` or :func:`align`.
    alarm : float
        The probability with which logs of one process are said to differ.

    Returns
    -------
    Logs
        ``.differ`` says whether some pair differs, and ``.pairs`` says which, and where.

    Examples
    --------
    >>> log = {"state": [0] * 200, "action": [0] * 200, "reward": [0, 1] * 100, "next_state": [0] * 200}
    >>> lucky = log | {"reward": [1] * 200}
    >>> compare_logs(from_logs([log, lucky], gamma=0.5)).differ
    True
    """
    named = datasets("compare_logs", logs)
    alarm = check_in_open_interval("compare_logs", "alarm", alarm)
    names, data = tuple(named), list(named.values())
    digests = tuple(log.sample.digest for log in data)
    if len(names) > _MOST_LOGS:
        raise InvalidInput(f"compare_logs: takes at most {_MOST_LOGS} logs, got {len(names)}.")
    for name, digest in zip(names, digests, strict=True):
        first = names[digests.index(digest)]
        if first != name:
            raise InvalidInput(
                f"compare_logs: {first} and {name} hold the same data, which is no evidence. Give each log once."
            )
    process, pairs = data[0].process, []
    for i, j in track(list(itertools.combinations(range(len(data)), 2)), "pairs of logs"):
        found = same_process(data[i], data[j])
        if found is not None:
            where = process.state_names[found.state], process.action_names[found.action]
            pairs.append(LogPair(i, j, found.p_value, *(brief(name, _LONGEST) for name in where)))
    corrected = [dataclasses.replace(pair, p_value=min(1.0, pair.p_value * len(pairs))) for pair in pairs]
    corrected.sort(key=lambda pair: (pair.p_value, pair.one, pair.two))
    few = len(process.states) <= _MOST_NAMES
    return Logs(
        names,
        digests,
        tuple(log.rows for log in data),
        alarm=alarm,
        compared=len(pairs),
        differing=sum(pair.p_value < alarm for pair in corrected),
        pairs=tuple(corrected[:_KEPT]),
        states=tuple(brief(name, _LONGEST) for name in process.state_names) if few else None,
        actions=tuple(brief(name, _LONGEST) for name in process.action_names) if few else None,
    )
