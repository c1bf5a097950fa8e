"""Several logs as samples of one declared process, and whether they look like one.

Logs that are compared need the same names and the same range of rewards. A log seldom holds all of them, so the names
of the process are those of all logs together, in one order, and its range is that of all rewards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from replicable_rl.data.alignment import align, checked_logs, named_logs
from replicable_rl.data.comparing import same_process
from replicable_rl.data.dataset import Dataset
from replicable_rl.data.reading import from_transitions
from replicable_rl.data.summary import ALARM
from replicable_rl.errors import InvalidInput, check_in_open_interval
from replicable_rl.progress import bar_where_it_is_seen, track
from replicable_rl.runs.audits import LogPair, Logs
from replicable_rl.wording import brief

_MOST_LOGS = 200
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
    named = named_logs("from_logs", sources)
    return align({name: from_transitions(source, gamma=gamma, **options) for name, source in named.items()})


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
    named = checked_logs("compare_logs", logs)
    alarm = check_in_open_interval("compare_logs", "alarm", alarm)
    data = list(named.values())
    digests = tuple(one.sample.digest for one in data)
    _refuse_twice(tuple(named), digests)
    process = data[0].process
    pairs = list(_compared(data))
    corrected = sorted((replace(pair, p_value=min(1.0, pair.p_value * len(pairs))) for pair in pairs), key=_by_p_value)
    few = len(process.states) <= _MOST_NAMES
    return Logs(
        tuple(named),
        digests,
        tuple(one.rows for one in data),
        alarm=alarm,
        compared=len(pairs),
        differing=sum(pair.p_value < alarm for pair in corrected),
        pairs=tuple(corrected[:_KEPT]),
        states=tuple(brief(name, _LONGEST) for name in process.state_names) if few else None,
        actions=tuple(brief(name, _LONGEST) for name in process.action_names) if few else None,
    )


def _refuse_twice(names: Sequence[str], digests: Sequence[str]) -> None:
    if len(names) > _MOST_LOGS:
        raise InvalidInput(f"compare_logs: takes at most {_MOST_LOGS} logs, got {len(names)}.")
    for name, digest in zip(names, digests, strict=True):
        first = names[digests.index(digest)]
        if first != name:
            raise InvalidInput(
                f"compare_logs: {first} and {name} hold the same data, which is no evidence. Give each log once."
            )


def _compared(data: Sequence[Dataset]) -> Iterator[LogPair]:
    both = list(itertools.combinations(range(len(data)), 2))
    process = data[0].process
    for i, j in track(both, "pairs of logs"):
        found = same_process(data[i], data[j])
        if found is not None:
            state = brief(process.state_names[found.state], _LONGEST)
            action = brief(process.action_names[found.action], _LONGEST)
            yield LogPair(i, j, found.p_value, state, action)


def _by_p_value(pair: LogPair) -> tuple[float, int, int]:
    return pair.p_value, pair.one, pair.two
