"""A policy on Matplotlib axes: arrows on a map, or a strip of states and actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from replicable_rl.pages.decided import Decided
from replicable_rl.plotting import BLUE, RED, Axes, box, grid
from replicable_rl.wording import brief, visible

_MOST_STATES = 400  # of a strip
NAMED = 25  # states and bars that have their names beside them
_LONGEST = 28  # letters of a name
_LARGEST = 9.0  # inches of a map


def policy_size(one: Decided) -> tuple[float, float]:
    """Return how large a figure of a policy should be."""
    if one.labels.layout:
        columns, rows = len(one.labels.layout[0]), len(one.labels.layout)
        cell = min(0.75, _LARGEST / max(columns, rows))
        return cell * columns + 0.6, cell * rows + 0.7
    return min(10.0, 2.5 + 0.3 * min(one.policy.size, NAMED)), 1.6 + 0.3 * min(one.n_actions, NAMED)


def draw_decisions(axes: Axes, one: Decided, differing: set[int]) -> None:
    """Draw what a policy does in every state, and mark those in which another one differs."""
    if one.labels.layout:
        cells = sum(cell.state is not None for cell in one.labels.cells())
        grid(axes, one.labels, {s: one.action(int(one.policy[s])) for s in range(cells)}, differing)
        return
    drawn = min(one.policy.size, _MOST_STATES)
    taken = one.policy[:drawn]
    axes.imshow(_worth(one, drawn), cmap="Greys", vmin=0.0, vmax=4.0, aspect="auto", interpolation="nearest")
    axes.plot(np.arange(drawn), taken, "o", color=BLUE, markersize=5.0 if drawn <= 60 else 2.0)
    for s in differing & set(range(drawn)):
        box(axes, s - 0.5, taken[s] - 0.5, 1.0, "none", RED, linewidth=1.8)
    few = drawn <= NAMED
    steps = range(drawn) if few else np.linspace(0, drawn - 1, 8).astype(int).tolist()
    labels = [plain_name(one.state(s), 14) for s in steps]
    axes.set_xticks(list(steps), labels, rotation=90 if max(map(len, labels)) > 3 else 0)
    actions = range(one.n_actions) if one.n_actions <= NAMED else range(0, one.n_actions, one.n_actions // 10)
    axes.set_yticks(list(actions), [plain_name(one.action(a), 14) for a in actions])
    axes.set_xlabel("state" if drawn == one.policy.size else f"the first {drawn} of {one.policy.size} states")
    axes.grid(False)


def _worth(one: Decided, drawn: int) -> Any:
    """Return how good every action is beside the best one of its state, (A, S); 0 where nothing is known."""
    if one.q is None:
        return np.zeros((one.n_actions, drawn))
    q = np.where(np.isfinite(one.q[:drawn]), one.q[:drawn], np.nan)
    low, high = np.nanmin(q, axis=1, keepdims=True), np.nanmax(q, axis=1, keepdims=True)
    return np.nan_to_num((q - low) / np.where(high > low, high - low, 1.0)).T


def plain_name(text: str, longest: int = _LONGEST) -> str:
    """Write a name as it is, and not as a formula: Matplotlib reads dollars as such."""
    return brief(visible(" ".join(text.split())), longest).replace("$", r"\$")
