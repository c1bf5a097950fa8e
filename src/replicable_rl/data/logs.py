"""Several logs as samples of one declared process, and whether they look like one.

Logs that are compared need the same names and the same range of rewards. A log seldom holds all of them, so the names
of the process are those of all logs together, in one order, and its range is that of all rewards.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.data.dataset import Dataset
from replicable_rl.data.process import Label, Process, spoken, written_key
from replicable_rl.data.reading import from_transitions
from replicable_rl.data.summary import ALARM, same_process
from replicable_rl.errors import InvalidInput, check_in_open_interval, shown
from replicable_rl.progress import track
from replicable_rl.records import LogPair, Logs
from replicable_rl.wording import brief

_KEPT = 20  # pairs of logs that a record lists
_MOST_NAMES = 20_000  # of states, in a record
_LONGEST = 80  # letters of a name there


def from_logs(sources: Any, *, gamma: float, **options: Any) -> dict[str, Dataset]:
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
    named = _named("from_logs", sources)
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
    named = checked_logs("align", logs)
    processes = {name: data.process for name, data in named.items()}
    if len(set(map(_identity, processes.values()))) == 1:
        return dict(named)
    common = _common(processes)
    return {name: _moved(data, common) for name, data in named.items()}


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
        ``.differ`` says whether some pair differs, and ``.sentence`` says which, and where.

    Examples
    --------
    >>> log = {"state": [0] * 200, "action": [0] * 200, "reward": [0, 1] * 100, "next_state": [0] * 200}
    >>> lucky = log | {"reward": [1] * 200}
    >>> compare_logs(from_logs([log, lucky], gamma=0.5)).differ
    True
    """
    named = checked_logs("compare_logs", logs)
    alarm = check_in_open_interval("compare_logs", "alarm", alarm)
    data = list(named.values())
    samples = tuple(named), tuple(one.sample.digest for one in data), tuple(one.rows for one in data)
    record = Logs(*samples, alarm=alarm)  # the same data twice are refused before anything is compared
    process = data[0].process
    pairs = list(_compared(data))
    corrected = sorted((pair._replace(p_value=min(1.0, pair.p_value * len(pairs))) for pair in pairs), key=_by_p_value)
    few = len(process.states) <= _MOST_NAMES
    return dataclasses.replace(
        record,
        compared=len(pairs),
        differing=sum(pair.p_value < alarm for pair in corrected),
        pairs=tuple(corrected[:_KEPT]),
        states=tuple(brief(name, _LONGEST) for name in process.state_names) if few else None,
        actions=tuple(brief(name, _LONGEST) for name in process.action_names) if few else None,
    )


def checked_logs(owner: str, logs: Any) -> dict[str, Dataset]:
    """Return logs by their names; what is none is refused."""
    named = _named(owner, logs)
    for name, data in named.items():
        if not isinstance(data, Dataset):
            raise InvalidInput(f"{owner}: {name} must be a Dataset, as from_logs returns them, got {shown(data)}.")
    return named


def _named(owner: str, logs: Any) -> dict[str, Any]:
    """Return what was given by its names: those of a dictionary, of files, or numbers."""
    if isinstance(logs, Mapping):
        named = {str(name): one for name, one in logs.items()}
    elif isinstance(logs, Sequence) and not isinstance(logs, (str, bytes)):
        names = _file_names([os.fsdecode(one) for one in logs if isinstance(one, (str, os.PathLike))])
        named = {}
        for i, one in enumerate(logs, start=1):
            name = names[os.fsdecode(one)] if isinstance(one, (str, os.PathLike)) else f"log {i}"
            if name in named:
                raise InvalidInput(f"{owner}: {shown(name)} is given twice, which is no evidence. Give each log once.")
            named[name] = one
    else:
        raise InvalidInput(f"{owner}: needs a list of logs, or a dictionary with their names, got {shown(logs)}.")
    if len(named) < 2:
        raise InvalidInput(
            f"{owner}: needs two logs or more, got {len(named)}. What another log would say, `diagnose` tells of one."
        )
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


def _compared(data: Sequence[Dataset]) -> Iterator[LogPair]:
    both = list(itertools.combinations(range(len(data)), 2))
    process = data[0].process
    for i, j in track(both, "pairs of logs"):
        found = same_process(data[i], data[j])
        if found is not None:
            where = (spoken(process.states[found.state]), spoken(process.actions[found.action]))
            yield LogPair(i, j, found.p_value, *(brief(name, _LONGEST) for name in where))


def _by_p_value(pair: LogPair) -> tuple[float, int, int]:
    return pair.p_value, pair.one, pair.two


# --- one process for all logs -------------------------------------------------------------------------


def _identity(process: Process) -> tuple[str, str]:
    return str(process.spec.to_json()), str(process.initial)  # names by their types: 1 and 1.0 are two


def _common(processes: Mapping[str, Process]) -> Process:
    """Return the process that all logs can be samples of."""
    first = next(iter(processes.values()))
    for what in ("gamma", "ends"):
        found = {name: getattr(process, what) for name, process in processes.items()}
        if len(set(found.values())) > 1:
            one, two = _two_unlike(found)
            said = "one discount" if what == "gamma" else "a column for the end (done=...), all or none"
            raise InvalidInput(
                f"align: logs of one process have {said}, got {shown(found[one])} in {one} and {shown(found[two])} in "
                f"{two}. Read them alike."
            )
    states = _union("states", {name: _without_end(process) for name, process in processes.items()})
    states += first.states[-1:] if first.ends else ()
    if any(process.initial is not None and process.states != states for process in processes.values()):
        raise InvalidInput("align: a declared first state needs the same states=... in every log. Read them alike.")
    initials = {process.initial for process in processes.values()}
    if len(initials) > 1:
        raise InvalidInput("align: the logs declare several distributions of the first state. Read them alike.")
    actions = _union("actions", {name: process.actions for name, process in processes.items()})
    ranges = [process.reward_range for process in processes.values()]
    bounds = min(low for low, _ in ranges), max(high for _, high in ranges)
    return Process(states, actions, first.gamma, bounds, first.initial, first.ends)


def _without_end(process: Process) -> tuple[Label, ...]:
    return process.states[:-1] if process.ends else process.states


def _union(kind: str, names: Mapping[str, tuple[Label, ...]]) -> tuple[Label, ...]:
    """Return all names once: as they were declared where all logs have the same, else in their own order."""
    if len({tuple(map(written_key, one)) for one in names.values()}) == 1:
        return next(iter(names.values()))
    kinds = {log: {_kind(label) for label in some} for log, some in names.items()}
    if len(set().union(*kinds.values())) > 1:
        one, two = _two_unlike({log: sorted(some) for log, some in kinds.items()})
        raise InvalidInput(
            f"align: logs of one process name {kind} alike, got {_such(names[one])} in {one} and {_such(names[two])} "
            f"in {two}. Write the columns of all logs alike."
        )
    every = [label for some in names.values() for label in some]
    floats = _float_places(every)
    distinct = {written_key(label): label for label in (_floated(label, floats) for label in every)}
    return tuple(sorted(distinct.values()))


def _two_unlike(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the first log, and of the first that has something else."""
    first = next(iter(found))
    return first, next((name for name in found if found[name] != found[first]), first)


def _such(labels: Sequence[Label]) -> str:
    return f"{_kind(labels[0])} such as {shown(labels[0])}" if labels else "nothing"


def _kind(label: Label) -> str:
    """Return what sort of name a label is; whole numbers and others are one sort."""
    if isinstance(label, tuple):
        return f"({', '.join(map(_kind, label))})"
    if isinstance(label, (int, float)) and not isinstance(label, bool):
        return "a number"
    return "a text" if isinstance(label, str) else f"a {type(label).__name__}"


def _float_places(labels: Sequence[Label]) -> set[int]:
    """Return in which columns of a name, counted from 0, some log has numbers that are not whole."""
    return {i for label in labels for i, part in enumerate(_parts(label)) if isinstance(part, float)}


def _floated(label: Label, places: set[int]) -> Label:
    """Return a label with its numbers written as those of the other logs: 1 is 1.0 where another log has 0.5."""
    parts = tuple(
        float(part) if i in places and isinstance(part, int) else part for i, part in enumerate(_parts(label))
    )
    return parts if isinstance(label, tuple) else parts[0]


def _parts(label: Label) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _moved(data: Dataset, process: Process) -> Dataset:
    """Return a log under the names of another process, which has all of its own."""
    at = [
        _places(getattr(data.process, kind), getattr(process, kind), ends)
        for kind, ends in (("states", process.ends), ("actions", False))
    ]
    state, action, successor, reward, count = data._columns()
    starts = None
    if data.starts is not None:
        starts = np.zeros(len(process.states), dtype=np.int64)
        starts[at[0]] = data.starts
    moved = at[0][state], at[1][action], at[0][successor], reward, count
    return Dataset(process, *moved, early=data.early, starts=starts, broken=data.broken, added_up=data.added_up)


def _places(own: Sequence[Label], common: Sequence[Label], ends: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where names are among the common ones; the state after the end is the last of both."""
    floats = _float_places(common[: len(common) - ends])
    place = {written_key(label): i for i, label in enumerate(common)}
    where = [place[written_key(_floated(label, floats))] for label in own[: len(own) - ends]]
    return np.array([*where, *([len(common) - 1] if ends else [])], dtype=np.int64)
