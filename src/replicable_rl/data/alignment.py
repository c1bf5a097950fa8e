"""Logs under one declared process: the names of all of them, in one order, and the range of all their rewards."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.data.dataset import Dataset, moved_to
from replicable_rl.data.process import Label, Process
from replicable_rl.errors import InvalidInput, shown


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
    >>> from replicable_rl import from_transitions
    >>> log = {"state": ["a"], "action": ["go"], "reward": [1], "next_state": ["a"]}
    >>> other = {"state": ["b"], "action": ["stay"], "reward": [0], "next_state": ["b"]}
    >>> one, two = align([from_transitions(part, gamma=0.5) for part in (log, other)]).values()
    >>> one.process == two.process, one.process.actions
    (True, ('go', 'stay'))
    """
    named = checked_logs("align", logs)
    processes = {name: data.process for name, data in named.items()}
    if len(set(processes.values())) == 1:
        return dict(named)
    common = _common(processes)
    return {name: _moved(data, common) for name, data in named.items()}


def checked_logs(owner: str, logs: Any) -> dict[str, Dataset]:
    """Return logs by their names; what is none is refused."""
    named = named_logs(owner, logs)
    for name, data in named.items():
        if not isinstance(data, Dataset):
            raise InvalidInput(f"{owner}: {name} must be a Dataset, as from_logs returns them, got {shown(data)}.")
    return named


def named_logs(owner: str, logs: Any) -> dict[str, Any]:
    """Return what was given by its names: those of a dictionary, of files, or numbers."""
    if isinstance(logs, Mapping):
        named = dict(logs)
        for name in named:
            if not isinstance(name, str):
                raise InvalidInput(f"{owner}: the name of a log must be a text, got {shown(name)}.")
    elif isinstance(logs, Sequence) and not isinstance(logs, (str, bytes)):
        paths = [_path(owner, one) if isinstance(one, (str, os.PathLike)) else None for one in logs]
        names, named = _file_names([path for path in paths if path is not None]), {}
        for i, (one, path) in enumerate(zip(logs, paths, strict=True), start=1):
            name = f"log {i}" if path is None else names[path]
            if name in named:
                raise InvalidInput(f"{owner}: {shown(name)} is given twice, which is no evidence. Give each log once.")
            named[name] = one
    else:
        raise InvalidInput(f"{owner}: needs a list of logs, or a dictionary with their names, got {shown(logs)}.")
    if len(named) < 2:
        raise InvalidInput(f"{owner}: needs two logs or more, got {len(named)}. For a single log use `diagnose`.")
    return named


def _path(owner: str, path: str | os.PathLike[str]) -> str:
    try:
        return os.fsdecode(path)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"{owner}: a log must name a file, got {shown(path)}.") from None


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
    if len({(process.bins, process.allowed) for process in processes.values()}) > 1:
        raise InvalidInput("align: the logs have other bins, or other actions are allowed. Read them alike.")
    if first.allowed is not None and any(
        (process.states, process.actions) != (states, actions) for process in processes.values()
    ):
        raise InvalidInput("align: allowed goes by the names, so declare the same states=... and actions=... for all.")
    ranges = [process.reward_range for process in processes.values()]
    bounds = min(low for low, _ in ranges), max(high for _, high in ranges)
    common = Process(states, actions, first.gamma, bounds, first.initial, first.ends)
    return dataclasses.replace(common, bins=first.bins, allowed=first.allowed)


def _without_end(process: Process) -> tuple[Label, ...]:
    return process.states[:-1] if process.ends else process.states


def _union(kind: str, names: Mapping[str, tuple[Label, ...]]) -> tuple[Label, ...]:
    """Return all names once: as they were declared where all logs have the same, else in their own order."""
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    kinds = {log: {_kind(label) for label in some} for log, some in names.items()}
    if len(set().union(*kinds.values())) > 1:
        one, two = _two_unlike({log: sorted(some) for log, some in kinds.items()})
        raise InvalidInput(
            f"align: logs of one process name {kind} alike, got {_such(names[one])} in {one} and {_such(names[two])} "
            f"in {two}. Write the columns of all logs alike."
        )
    return tuple(sorted({label for some in names.values() for label in some}))


def _two_unlike(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the first log, and of the first that has something else."""
    first = next(iter(found))
    return first, next((name for name in found if found[name] != found[first]), first)


def _such(labels: Sequence[Label]) -> str:
    return f"{_kind(labels[0])} such as {shown(labels[0])}" if labels else "nothing"


def _kind(label: Label) -> str:
    """Return what sort of name a label is."""
    if isinstance(label, tuple):
        return f"({', '.join(map(_kind, label))})"
    return "a whole number" if isinstance(label, int) else "a text"


def _moved(data: Dataset, process: Process) -> Dataset:
    """Return a log under the names of another process, which has all of its own."""
    at = [
        _places(getattr(data.process, kind), getattr(process, kind), ends)
        for kind, ends in (("states", process.ends), ("actions", False))
    ]
    state, action, successor, reward, count = data.columns()
    moved = at[0][state], at[1][action], at[0][successor], reward, count
    of_states = {"starts": data.starts, "ended": data.ended}
    more: dict[str, Any] = {
        name: None if each is None else moved_to(at[0], each, len(process.states)) for name, each in of_states.items()
    }
    more |= {name: getattr(data, name) for name in ("flaws", "early", "width")}
    return Dataset(process, *moved, **more)


def _places(own: Sequence[Label], common: Sequence[Label], ends: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where names are among the common ones; the state after the end is the last of both."""
    place = {label: i for i, label in enumerate(common)}
    where = [place[label] for label in own[: len(own) - ends]]
    return np.array([*where, *([len(common) - 1] if ends else [])], dtype=np.int64)
