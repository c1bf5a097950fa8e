"""From a log to a data set: which column is what, which names there are, in which range rewards lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.data.columns import Columns, named_columns
from replicable_rl.data.counting import Facts, counted, index_of
from replicable_rl.data.dataset import Dataset, moved_to
from replicable_rl.data.pairs import are_pairs, read_pairs
from replicable_rl.data.process import END, Process, by_state, check_flags, check_initial, check_mask, check_names
from replicable_rl.data.source import opened
from replicable_rl.errors import InvalidInput, check_real
from replicable_rl.problem.source import check_range
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.bins import Bins
    from replicable_rl.data.counting import Rows
    from replicable_rl.data.labels import Declared


def from_transitions(
    source: Any,
    *,
    gamma: float,
    state: str | Sequence[str] = "state",
    action: str | Sequence[str] = "action",
    reward: str = "reward",
    next_state: str | Sequence[str] = "next_state",
    done: str | None = None,
    episode: str | None = None,
    order: str | None = None,
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
        Their columns; a state may be several of them.
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
    gamma = check_real(
        "from_transitions", "gamma", gamma, low=0.0, high=float(np.nextafter(1.0, 0.0)), rule="a discount in [0, 1)"
    )
    uses = {"state": state, "action": action, "reward": reward, "next_state": next_state}
    given = named_columns(bins, **uses, done=done, episode=episode, order=order)
    declared: Declared = check_names("states", states), check_names("actions", actions)
    undeclared = states is None, actions is None
    if are_pairs(allowed):
        pairs = read_pairs(allowed, given, declared)
        declared, allowed = (pairs.states, pairs.actions), pairs.allowed
    elif allowed is not None:
        check_flags(allowed)
    if allowed is not None and None in declared:
        raise InvalidInput(
            "from_transitions: allowed goes by the order of the names. Give states=... and actions=... beside it."
        )
    with opened(source, given, declared) as rows:
        return _dataset(rows, given, gamma, declared, undeclared, reward_range, initial, allowed)


def _dataset(
    rows: Rows,
    columns: Columns,
    gamma: float,
    declared: tuple[tuple[Any, ...] | None, tuple[Any, ...] | None],
    undeclared: tuple[bool, bool],  # names that are declared all the same are those of the pairs that are allowed
    reward_range: tuple[float, float] | None,
    initial: Any,
    allowed: Any,
) -> Dataset:
    ends = columns.done is not None
    found = counted(rows, columns)
    where = partial(rows.where_label, columns)
    bins = columns.bins_of("state")
    all_states = declared[0]
    if all_states is None and len(bins) == 1 and bins[0] is not None:
        all_states = bins[0].labels  # also those that were not seen: all logs with these bins are of one process
    states, state_at = index_of(found.states, all_states, "states", where, undeclared[0] and declared[0] is not None)
    actions, action_at = index_of(found.actions, declared[1], "actions", where, undeclared[1])
    if ends and END in states:
        raise InvalidInput(
            f'{rows.engine.name}: a state is called "{END}", and so is the state after the end (done=...). Rename it.'
        )
    end = len(states)
    state, action = state_at[found.state], action_at[found.action]
    successor = np.where(found.successor < 0, end, state_at[found.successor])
    bounds = _range(rows, columns, reward_range, found.facts)
    process = Process((*states, END) if ends else states, actions, gamma, bounds)
    first = check_initial(by_state(initial, process.states), len(process.states), ends)
    mask = check_mask(allowed, states, len(actions), ends)
    if mask is not None:
        _refuse_forbidden(rows, columns, process, mask, state, action)
    process = dataclasses.replace(process, initial=first, ends=ends, bins=columns.binned, allowed=mask)
    outcomes = state, action, successor, found.reward, found.count
    of_states = {"starts": found.starts, "ended": found.ended}
    more: dict[str, Any] = {
        name: None if each is None else moved_to(state_at, each, len(process.states))
        for name, each in of_states.items()
    }
    flaws = found.flaws._asdict()
    more |= {name: flaws[name] for name in ("broken", "cut", "after", "joined")}
    more |= {"early": found.early, "width": found.facts.width}
    return Dataset(process, *outcomes, **more)


def _refuse_forbidden(
    rows: Rows,
    columns: Columns,
    process: Process,
    allowed: Sequence[Sequence[bool]],
    state: NDArray[np.int64],
    action: NDArray[np.int64],
) -> None:
    """Refuse a log with an action that is not allowed where it was taken."""
    wrong = np.flatnonzero(~np.array(allowed)[state, action])
    if wrong.size:
        s, a = int(state[wrong[0]]), int(action[wrong[0]])
        raise InvalidInput(
            f"{rows.where_pair(columns, process.states[s], process.actions[a])}: the log has {process.action_names[a]} "
            f"in {process.state_names[s]}, which is not allowed. Mend allowed or the log."
        )


def _range(rows: Rows, columns: Columns, declared: tuple[float, float] | None, facts: Facts) -> tuple[float, float]:
    """Return the declared range of rewards, or that of those that were seen; nothing is earned after the end."""
    if declared is None:
        rest = [] if columns.done is None else [0.0]
        return min([facts.lowest, *rest]), max([facts.highest, *rest])
    bottom, top = check_range("from_transitions", declared)
    if columns.done is not None and not bottom <= 0.0 <= top:
        raise InvalidInput(
            f"{rows.engine.name}: reward_range must hold 0, which is earned after the end (done=...), got "
            f"[{bottom:g}, {top:g}]. Widen it."
        )
    if facts.lowest < bottom or facts.highest > top:
        many, where = rows.rewards_outside(columns, bottom, top)
        raise InvalidInput(
            f"{where}: {many} of {plural(facts.rows, 'reward')} {'is' if many == 1 else 'are'} outside reward_range "
            f"[{bottom:g}, {top:g}]: they go from {facts.lowest:g} to {facts.highest:g}, and this is the first. Widen "
            "reward_range, or mend the log."
        )
    return bottom, top
