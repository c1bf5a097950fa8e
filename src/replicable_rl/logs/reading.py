"""From a log to a data set: which column is what, which names there are, in which range rewards lie."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, shown, speaking_as
from replicable_rl.logs.columns import Columns, named_columns
from replicable_rl.logs.counting import Count
from replicable_rl.logs.dataset import Dataset
from replicable_rl.logs.frames import opened_frame
from replicable_rl.logs.process import END, Declared, Process, check_initial, check_mask, check_names
from replicable_rl.logs.relation import opened
from replicable_rl.problem.source import check_gamma, check_range

if TYPE_CHECKING:
    from replicable_rl.logs.process import Bins


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
        A file that ends in .csv, .tsv, .jsonl or .ndjson, or in these with .gz behind, or in .parquet, a folder or a
        pattern of such files, a pandas or Polars data frame, an Arrow table, or a dictionary with an array for every
        column. A table of Ibis is counted by its own database.
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
        count as numbers where all of them are numbers, and as times where all are written like 2024-01-31 09:59.
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
    columns = named_columns(bins, last, **uses, done=done, episode=episode, order=order)
    declared: Declared = check_names("states", states), check_names("actions", actions)
    bounds = None if reward_range is None else check_range("from_transitions", reward_range)
    has_pairs = isinstance(allowed, (str, os.PathLike)) or (allowed is not None and opened_frame(allowed) is not None)
    if has_pairs:
        *both, allowed = _pairs(allowed, columns, declared)
        declared = both[0], both[1]
    elif allowed is not None:
        _check_flags(allowed, declared)
    mask = None if allowed is None else check_mask(allowed, declared[0] or (), len(declared[1] or ()))
    with opened(source, columns, also) as log:
        if gamma is None:
            raise InvalidInput(f"{log.name}: give {also}.")
        ends = log.columns.has_ends
        if ends and bounds is not None and not bounds[0] <= 0.0 <= bounds[1]:
            rule = "must hold 0, which is earned after the end (done=...)"
            raise InvalidInput(f"{log.name}: reward_range {rule}, got [{bounds[0]:g}, {bounds[1]:g}]. Widen it.")
        found = Count(log, declared, bounds, mask).counted()
        if ends and END in found.states:
            rule = f'a state is called "{END}", and so is the state after the end'
            raise InvalidInput(f"{log.name}: {rule}. Rename it.")
        binned = log.columns.binned
    earned = [found.lowest, found.highest, *([0.0] if ends else [])]
    names, end = (*found.states, *([END] if ends else [])), len(found.states)
    process = Process(
        names,
        tuple(found.actions),
        discount,
        bounds or (min(earned), max(earned)),
        check_initial(initial, names, ends),
        ends,
        binned,
        None if mask is None or mask.all() else tuple(map(tuple, [*mask.tolist(), *([[True] * mask.shape[1]] * ends)])),
    )
    return Dataset(
        process, found.state, found.action, np.where(found.successor < 0, end, found.successor), found.reward,
        found.count, early=found.early, width=found.width, flaws=found.flaws,
        starts=None if found.starts is None else np.append(found.starts, [0] * ends),
        ended=None if found.ended is None else np.append(found.ended, [0] * ends),
    )  # fmt: skip


@speaking_as("from_transitions, allowed", "from_transitions")
def _pairs(source: Any, columns: Columns, declared: Declared) -> tuple[Any, Any, Any]:
    """Return all states, all actions, and which actions each state has, from a list with a row for every such pair.

    Names are read as those of a log. States and actions that are not declared are those of the list, in order.
    """
    uses = {use: columns.of(use) for use in ("state", "action")}
    with opened(source, Columns(uses, columns.bins, is_list=True)) as pairs:
        found = Count(pairs, declared).counted()
    allowed = np.zeros((len(found.states), len(found.actions)), dtype=np.bool_)
    allowed[found.state, found.action] = True
    return tuple(found.states), tuple(found.actions), allowed


def _check_flags(allowed: Any, declared: Declared) -> None:
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
    if None in declared:
        raise InvalidInput(
            "from_transitions: allowed goes by the order of the names. Give states=... and actions=... beside it."
        )
