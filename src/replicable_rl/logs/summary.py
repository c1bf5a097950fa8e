"""What is in a log, and what is wrong with it, before anybody decides on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.display import Displayed
from replicable_rl.logs.process import Process
from replicable_rl.logs.samples import Homogeneity, change_over_time
from replicable_rl.wording import brief, p_value, percent, plural, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from replicable_rl.canonical import Json
    from replicable_rl.logs.dataset import Dataset

ALARM = 1e-3  # a false alarm about two processes in one log: one in a thousand logs, or less often
_STATES, _ACTIONS = 5, 4  # of the behaviour, in the text
_STATES_IN_JSON = 1000
_LONGEST = 40  # letters of a name


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
        lines += self._behaviour()
        return "\n".join([*lines, *(f"Warning: {warning}." for warning in self.warnings)])

    def __repr__(self) -> str:
        wrong = f", {plural(len(self.warnings), 'warning')}" if self.warnings else ""
        sizes = [plural(self.rows, "row"), plural(self.states, "state"), plural(self.actions, "action")]
        return f"Summary({', '.join(sizes)}{wrong})"

    @property
    def _left(self) -> list[int]:
        """The states that were left."""
        return [int(s) for s in np.flatnonzero(self.behaviour[: self.states].any(axis=1))]

    def _behaviour(self) -> list[str]:
        """Return what was done in the first states that were left, a line each."""
        lines = ["actions taken:"] if self._left else []
        for s in self._left[:_STATES]:
            often = np.argsort(-self.behaviour[s], kind="stable")[: np.count_nonzero(self.behaviour[s])].tolist()
            first = often if len(often) <= _ACTIONS + 1 else often[:_ACTIONS]
            taken = [f"{_name(self.process.action_names[a])} {_share(self.behaviour[s, a])}" for a in first]
            if others := often[len(first) :]:
                taken.append(f"{len(others)} others {_share(self.behaviour[s, others].sum())}")
            lines.append(f"  {_name(self.process.state_names[s])}: {', '.join(taken)}")
        more = len(self._left) - _STATES
        return [*lines, f"  {plural(more, 'more state')} in summary().behaviour"] if more > 0 else lines

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, with the behaviour in the first 1000 states; ``behaviour_left_out`` counts the others.

        The behaviour is a list of states with the shares of their actions, without those that were not taken.
        """
        sizes = (self.rows, self.states, self.actions, self.never_tried, self.never_left, self.least, self.median)
        names = ("rows", "states", "actions", "never_tried", "never_left", "least", "median")
        behaviour: list[Json] = []
        for s in self._left[:_STATES_IN_JSON]:
            taken = np.flatnonzero(self.behaviour[s]).tolist()
            shares: Json = {self.process.action_names[a]: float(self.behaviour[s, a]) for a in taken}
            behaviour.append({"state": self.process.state_names[s], "actions": shares})
        return {
            **dict(zip(names, sizes, strict=True)),
            "change": None if self.change is None else dict(self.change._asdict()),
            "behaviour": behaviour,
            "behaviour_left_out": max(0, len(self._left) - _STATES_IN_JSON),
            "warnings": list(self.warnings),
        }


def summarise(data: Dataset) -> Summary:
    """Return what is in a log, and what is wrong with it."""
    real = data.n_states - int(data.process.ends)  # the state after the end is ours
    visits, allowed = data.visits[:real], data.support.mask[:real]
    tried = visits[visits > 0]
    never = (visits == 0) & allowed
    change = change_over_time(data)
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


def _name(name: str) -> str:
    return brief(visible(" ".join(name.split())), _LONGEST)


def _share(share: float) -> str:
    """Return a share in per cent, with one digit more where it is below one.

    >>> _share(0.3333), _share(0.00123)
    ('33 %', '0.1 %')
    """
    return percent(round(float(share), 2 if share >= 0.005 else 3))


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
    yield from _contradictions(data, ~lost)
    if data.flaws.dropped:
        are = "is" if data.flaws.dropped == 1 else "are"
        yield f"{plural(data.flaws.dropped, 'last row')} of episodes {are} left out: nobody saw what comes next"
    if data.flaws.cut and data.starts is not None:
        every = plural(int(data.starts.sum()), "episode")
        yield f"{data.flaws.cut} of {every} break{'s' * (data.flaws.cut == 1)} off: the last row is not done"
    if change is not None and change.p_value < ALARM:
        where = data.pair_names(change.state * data.n_actions + change.action)
        yield (
            f"the log looks like two processes: its halves differ ({p_value(change.p_value)}, most of all {where}); a "
            f"false alarm comes in {percent(ALARM)} of logs, or less often"
        )


def _contradictions(data: Dataset, is_left: NDArray[np.bool_]) -> Iterator[str]:
    """Say which rows contradict each other."""
    if data.flaws.broken:
        go = "does not go on" if data.flaws.broken == 1 else "do not go on"
        yield f"{plural(data.flaws.broken, 'step')} of episodes {go} where the step before ended"
    if data.flaws.after:
        come = "comes" if data.flaws.after == 1 else "come"
        yield f"{plural(data.flaws.after, 'row')} of episodes {come} after the end: the row before is done"
    if data.ended is not None:
        both = (data.ended[: is_left.size] > 0) & is_left
        if both.any():
            many, rows = int(both.sum()), plural(int(data.ended[: is_left.size][both].sum()), "row")
            ends, left = ("ends", "is left") if many == 1 else ("end", "are left")
            yield (
                f"{plural(many, 'state')} both {ends} episodes ({rows}) and {left} in other rows, such as "
                f"{data.process.state_names[int(both.argmax())]}: is done also set where a recording just stopped"
            )
