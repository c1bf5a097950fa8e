"""What is in a log, and what is wrong with it, before anybody decides on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.data.homogeneity import Homogeneity, homogeneity
from replicable_rl.data.stretches import changes, place
from replicable_rl.display import Displayed
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.wording import percent, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.canonical import Json
    from replicable_rl.data.dataset import Dataset

ALARM = 1e-3  # a false alarm about two processes in one log: one in a thousand logs


@dataclass(frozen=True, eq=False)
class Summary(Displayed):
    """What a log holds.

    Attributes
    ----------
    rows, states, actions : int
        How many of them.
    never_tried : int
        Pairs (state, action) without a single row.
    never_left : int
        States from which no row starts, where the log does not say how to go on.
    least, median : int
        Samples of the pair that has fewest, and of the one in the middle, among those that were tried.
    behaviour : (S, A) floats
        The share of each action in each state; rows of zeros where nothing is known.
    change : Homogeneity or None
        Whether the first and the second half of the log look like one process; None where it cannot be told.
    warnings : tuple of str
        What should be looked at.
    pairs : int or None
        How many pairs there are where some actions are not allowed in every state; None: all.
    """

    rows: int
    states: int
    actions: int
    never_tried: int
    never_left: int
    least: int
    median: int
    behaviour: NDArray[np.float64]
    change: Homogeneity | None
    warnings: tuple[str, ...]
    pairs: int | None = None

    def __str__(self) -> str:
        pairs = self.states * self.actions if self.pairs is None else self.pairs
        lines = [
            f"{plural(self.rows, 'row')}; {plural(self.states, 'state')}, {plural(self.actions, 'action')}",
            f"{pairs - self.never_tried} of {plural(pairs, 'pair')} were tried: {plural(self.least, 'time')} at least, "
            f"{plural(self.median, 'time')} in the middle",
        ]
        if self.change is not None:
            lines.append(
                f"first half against second half: p = {self.change.p_value:.2g} ({plural(self.change.pairs, 'pair')})"
            )
        return "\n".join([*lines, *(f"Warning: {warning}." for warning in self.warnings)])

    def __repr__(self) -> str:
        wrong = f", {plural(len(self.warnings), 'warning')}" if self.warnings else ""
        sizes = [plural(self.rows, "row"), plural(self.states, "state"), plural(self.actions, "action")]
        return f"Summary({', '.join(sizes)}{wrong})"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, without the behaviour."""
        change = None if self.change is None else dict(self.change._asdict())
        names = ("rows", "states", "actions", "never_tried", "never_left", "least", "median")
        return {**{name: getattr(self, name) for name in names}, "change": change, "warnings": list(self.warnings)}


def summarise(data: Dataset) -> Summary:
    """Return what is in a log, and what is wrong with it."""
    real = data.n_states - int(data.process.ends)  # the state after the end is ours
    visits = data.visits[:real]
    tried = visits[visits > 0]
    left = visits.sum(axis=1)
    shares = data.visits / np.maximum(data.visits.sum(axis=1, keepdims=True), 1)
    allowed = None if data.allowed is None else data.allowed[:real]
    never = visits == 0 if allowed is None else (visits == 0) & allowed
    change = None
    if data.early is not None:
        change = _compared(data, data.key, data.reward, data.early, data.count - data.early, data.width)
    return Summary(
        data.rows,
        real,
        data.n_actions,
        int(never.sum()),
        int((left == 0).sum()),
        int(tried.min()) if tried.size else 0,
        int(np.median(tried)) if tried.size else 0,
        shares,
        change,
        tuple(_warnings(data, visits, never, change)),
        None if allowed is None else int(allowed.sum()),
    )


def _warnings(
    data: Dataset, visits: NDArray[np.int64], never: NDArray[np.bool_], change: Homogeneity | None
) -> list[str]:
    found, states = [], data.process.state_names
    lost = visits.sum(axis=1) == 0
    if never.any():
        some = f"such as {data.pair_names(int(never.argmax()))}"
        found.append(f"{plural(int(never.sum()), 'pair')} never tried, {some}: nobody knows what they are worth")
    if lost.any():
        some = f"such as {states[int(np.argmax(lost))]}"
        why = "nobody saw what comes next" if data.process.ends else "is a column for the end missing (done=...)"
        found.append(f"{plural(int(lost.sum()), 'state')} never left, {some}: {why}")
    if data.broken:
        found.append(f"{plural(data.broken, 'step')} of episodes do not go on where the step before ended")
    if data.cut and data.starts is not None:
        every = plural(int(data.starts.sum()), "episode")
        found.append(f"{data.cut} of {every} break{'s' * (data.cut == 1)} off: the last row is not done")
    if change is not None and change.p_value < ALARM:
        where = data.pair_names(change.state * data.n_actions + change.action)
        found.append(
            f"the first and the second half look like two processes (p = {change.p_value:.2g}, most of all {where}); a "
            f"false alarm comes in {percent(ALARM)} of logs"
        )
    return found


def same_process(one: Dataset, two: Dataset) -> Homogeneity | None:
    """Test whether two logs come from one process; None where they have no pair in common that can be compared.

    Parameters
    ----------
    one, two : Dataset
        Read with the same names, discount and reward range.
    """
    from replicable_rl.data.dataset import Dataset

    for name, data in (("one", one), ("two", two)):
        if not isinstance(data, Dataset):
            raise InvalidInput(f"same_process: {name} must be a Dataset, got {shown(data)}.")
    if one.process != two.process:
        raise InvalidInput(
            "same_process: the logs are of two declared processes. Read both with the same states=..., actions=..., "
            "gamma and reward_range."
        )
    key, reward = np.concatenate([one.key, two.key]), np.concatenate([one.reward, two.reward])
    is_first = np.arange(key.size) < one.key.size
    count = np.concatenate([one.count, two.count])
    counts = np.where(is_first, count, 0), np.where(is_first, 0, count)
    return _compared(one, key, reward, *counts, max(one.width, two.width))


def _compared(
    data: Dataset,
    key: NDArray[np.int64],
    reward: NDArray[np.float64],
    one: NDArray[np.int64],
    two: NDArray[np.int64],
    width: float,
) -> Homogeneity | None:
    """Compare two counts of outcomes; where rewards take many values, by next states alone, and by their stretches too.

    Stretches are many, and a change of next states would get lost among them.
    """
    if not width:
        return _test(data, key, reward, one, two)
    found = [_test(data, key, where, one, two) for where in (np.zeros(key.size), place(reward, width))]
    known = sorted((test for test in found if test is not None), key=lambda test: test.p_value)
    return known[0]._replace(p_value=min(1.0, len(found) * known[0].p_value)) if known else None


def _test(
    data: Dataset, key: NDArray[np.int64], where: NDArray[np.float64], one: NDArray[np.int64], two: NDArray[np.int64]
) -> Homogeneity | None:
    order = np.lexsort((where, key))
    new = np.ones(order.size, dtype=bool)
    new[1:] = changes(key[order]) | changes(where[order])
    first = np.flatnonzero(new)
    x, y = (np.add.reduceat(count[order], first) if order.size else count for count in (one, two))
    return homogeneity(key[order][new] // data.n_states, x, y, data.n_actions)
