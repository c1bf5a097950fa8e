"""From a log to a data set: which column is what, which names there are, in which range rewards lie."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, check_choice, shown, speaking_as
from replicable_rl.logs.counting import Count
from replicable_rl.logs.dataset import Dataset
from replicable_rl.logs.process import END, Declared, Process, bins_of, check_names, initial_of
from replicable_rl.logs.sources import PARTS, Columns, header_of, opened
from replicable_rl.problem.source import Support, check_gamma, check_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    process = Process(
        names,
        tuple(counted.actions),
        discount,
        bounds or (min(earned), max(earned)),
        initial_of(initial, names),
        ends,
        binned,
        None if rows is None else tuple(map(tuple, rows)),
    )
    s, a, successor, earnings, count = counted.outcomes
    more = counted.more | {
        name: None if counted.more[name] is None else np.append(counted.more[name], [0] * ends)
        for name in ("starts", "ended")
    }
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
        raise InvalidInput(
            f"from_transitions: state and next_state must be two columns, got {shown(given['state'])} for both. Name "
            "the column of the state that comes next."
        )
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
        try:
            mask = np.asarray(allowed)
        except Exception:  # rows of unequal lengths, and whatever a stranger's object raises
            mask = np.asarray(None)
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
