"""Several logs as samples of one declared process, and whether they look like one.

Logs that are compared need the same names and the same range of rewards. A log seldom holds all of them, so the names
of the process are those of all logs together, in one order, and its range is that of all rewards.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, shown
from replicable_rl.logs.dataset import Dataset, moved_to
from replicable_rl.logs.process import Label, Process
from replicable_rl.logs.reading import from_transitions
from replicable_rl.logs.samples import same_process
from replicable_rl.logs.summary import ALARM
from replicable_rl.progress import bar_where_it_is_seen, track
from replicable_rl.runs import Logged, Run
from replicable_rl.wording import brief

_MOST_LOGS = 200
_KEPT = 20  # pairs of logs that a record lists
_MOST_NAMES = 20_000  # of states, in a record
_LONGEST = 80  # letters of a name there


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
    named = _checked("align", logs)
    processes = {name: data.process for name, data in named.items()}
    if len(set(processes.values())) == 1:
        return named
    common = _common(processes)
    return {name: _moved(data, common) for name, data in named.items()}


@bar_where_it_is_seen()
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
    named = _checked("compare_logs", logs)
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


# --- logs and their names -----------------------------------------------------------------------------------------


def _checked(owner: str, logs: Any) -> dict[str, Dataset]:
    """Return logs by their names; what is none is refused."""
    named = named_logs(owner, logs)
    for name, data in named.items():
        if not isinstance(data, Dataset):
            raise InvalidInput(f"{owner}: {name} must be a Dataset, as from_logs returns them, got {shown(data)}.")
    return named


def named_logs(owner: str, logs: Any) -> dict[str, Any]:
    """Return what was given by its names: those of a dictionary, of files, or numbers."""
    named: dict[str, Any] = {}
    if isinstance(logs, Mapping):
        for name, log in logs.items():
            if not isinstance(name, str):
                raise InvalidInput(f"{owner}: the name of a log must be a text, got {shown(name)}.")
            named[name] = log
    elif isinstance(logs, Sequence) and not isinstance(logs, (str, bytes)):
        names = _file_names([os.fsdecode(log) for log in logs if isinstance(log, (str, os.PathLike))])
        for i, log in enumerate(logs, start=1):
            name = names[os.fsdecode(log)] if isinstance(log, (str, os.PathLike)) else f"log {i}"
            if name in named:
                raise InvalidInput(f"{owner}: {shown(name)} is given twice, which is no evidence. Give each log once.")
            named[name] = log
    else:
        raise InvalidInput(f"{owner}: needs a list of logs, or a dictionary with their names, got {shown(logs)}.")
    if len(named) < 2:
        raise InvalidInput(f"{owner}: needs two logs or more, got {len(named)}. For a single log use `diagnose`.")
    return named


def _file_names(paths: Sequence[str]) -> dict[str, str]:
    """Return short names of files: their paths without the folder that all are in.

    >>> _file_names(["/data/spring/log.csv", "/data/autumn/log.csv"])
    {'/data/spring/log.csv': 'spring/log.csv', '/data/autumn/log.csv': 'autumn/log.csv'}
    """
    try:
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120  # as it is written
        return {path: str(Path(path).relative_to(folder)) for path in paths}
    except ValueError:  # no folder in common, or no paths at all
        return {path: path for path in paths}


# --- one process --------------------------------------------------------------------------------------------------


def _common(processes: Mapping[str, Process]) -> Process:
    """Return the process that all logs can be samples of."""
    every = list(processes.values())
    first = every[0]
    for what, found in (
        ("one discount", [process.gamma for process in every]),
        ("a column for the end (done=...), all or none", [process.ends for process in every]),
        ("one distribution of the first state", [process.initial for process in every]),
        ("the same bins", [process.bins for process in every]),
        ("the same actions that are allowed", [process.allowed for process in every]),
    ):
        other = next((i for i, one in enumerate(found) if one != found[0]), 0)
        if other:
            both = list(processes)
            raise InvalidInput(
                f"align: logs of one process have {what}, got {shown(found[0])} in {both[0]} and {shown(found[other])} "
                f"in {both[other]}. Read them alike."
            )
    states = _union("states", {name: _without_end(process) for name, process in processes.items()})
    states += first.states[-1:] if first.ends else ()
    actions = _union("actions", {name: process.actions for name, process in processes.items()})
    by_name = first.initial is not None or first.allowed is not None
    if by_name and any((process.states, process.actions) != (states, actions) for process in every):
        raise InvalidInput(
            "align: initial and allowed go by the names. Declare the same states=... and actions=... for all."
        )
    ranges = [process.reward_range for process in every]
    bounds = min(low for low, _ in ranges), max(high for _, high in ranges)
    return dataclasses.replace(first, states=states, actions=actions, reward_range=bounds)


def _without_end(process: Process) -> tuple[Label, ...]:
    return process.states[:-1] if process.ends else process.states


def _union(kind: str, names: Mapping[str, tuple[Label, ...]]) -> tuple[Label, ...]:
    """Return all names once: as they were declared where all logs have the same, else in their own order."""
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    kinds: dict[str, tuple[str, Label]] = {}
    for log, labels in names.items():
        for label in labels:
            kinds.setdefault(_kind(label), (log, label))
    if len(kinds) > 1:
        one, two = (f"{kind} such as {shown(label)} in {log}" for kind, (log, label) in list(kinds.items())[:2])
        raise InvalidInput(
            f"align: logs of one process name {kind} alike, got {one} and {two}. Write the columns of all logs alike."
        )
    return tuple(sorted({label for labels in names.values() for label in labels}))


def _kind(label: Label) -> str:
    """Return what sort of name a label is."""
    if isinstance(label, tuple):
        return f"({', '.join(map(_kind, label))})"
    return "a whole number" if isinstance(label, int) else "a text"


def _moved(data: Dataset, process: Process) -> Dataset:
    """Return a log under the names of another process, which has all of its own; the end is the last state of both."""
    places = []
    for own, names in ((_without_end(data.process), process.states), (data.process.actions, process.actions)):
        place = {label: i for i, label in enumerate(names)}
        places.append(np.array([place[label] for label in own] + [len(names) - 1], dtype=np.int64))
    states, actions = places[0][: data.n_states], places[1]
    state, action, successor, reward, count = data.columns()
    size = len(process.states)
    return Dataset(
        process,
        states[state],
        actions[action],
        states[successor],
        reward,
        count,
        early=data.early,
        starts=None if data.starts is None else moved_to(states, data.starts, size),
        flaws=data.flaws,
        ended=None if data.ended is None else moved_to(states, data.ended, size),
        width=data.width,
    )
