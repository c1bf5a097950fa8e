"""Figure 1: the grids, two policies of Phased Q-learning, and the one policy of rPVI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.report.figures.style import BLACK, BLUE, GREY, ORANGE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_STEP = {"up": (0.0, 1.0), "down": (0.0, -1.0), "left": (-1.0, 0.0), "right": (1.0, 0.0)}
_SHORT = {"Replicable Phased Value Iteration": "rPVI"}
_SIDES = ("left", "right")
_GOAL = dict(zip(_SIDES, (BLUE, ORANGE), strict=True))


def draw(dataset: Dataset) -> Figure:
    """Draw one row for each grid: its map, then both runs of both algorithms."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    maps: Any = dataset.details["maps"]
    # Titles of panels that keep their shape need room of their own.
    figure = Figure(figsize=(13.0, 5.5), layout=ConstrainedLayoutEngine(rect=(0.0, 0.0, 1.0, 0.96)))
    axes = figure.subplots(len(maps), 5, gridspec_kw={"height_ratios": [1.15, 1.0]})
    for line, (grid, drawn) in zip(axes, maps.items(), strict=True):
        layout = drawn["layout"]
        _map(line[0], layout)
        line[0].set_title(grid, fontsize=10)
        _say(line[0], "30 % slip sideways", GREY)
        runs = dataset.tables["runs"].where(problem=grid)
        for panel, run in zip(line[1:], runs, strict=True):
            name = run["algorithm"]
            mine, other = (_actions(dataset, grid, name, sample) for sample in (run["sample"], 3 - run["sample"]))
            differ = {state for state in mine if mine[state] != other[state]}
            _map(panel, layout, mine, differ)
            panel.set_title(f"{_SHORT.get(name, name)}, sample {run['sample']}", fontsize=10)
            likelier = max(_SIDES, key=lambda side: run[side])
            _say(panel, f"ends left {_percent(run['left'])}, right {_percent(run['right'])}", _GOAL[likelier])
    return figure


def _actions(dataset: Dataset, grid: str, algorithm: str, sample: int) -> dict[int, str]:
    rows = dataset.tables["states"].where(problem=grid, algorithm=algorithm, sample=sample)
    return {row["state"]: row["action"] for row in rows}


def _map(panel: Axes, layout: list[str], actions: dict[int, str] | None = None, marked: set[int] | None = None) -> None:
    """Draw the cells; with actions, an arrow in each open one, and a frame around those where the runs differ."""
    from matplotlib.patches import Rectangle

    height, width = len(layout), len(layout[0])
    goals = iter(_GOAL.values())
    state = 0
    for i, line in enumerate(layout):
        for j, letter in enumerate(line):
            x, y = j, height - 1 - i
            wall, goal = letter == "#", letter == "G"
            face = "#4A4A4A" if wall else next(goals) if goal else "white"
            panel.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor="#BBBBBB", linewidth=0.8))
            if goal or (letter == "S" and actions is None):
                colour = "white" if goal else BLACK
                panel.text(x + 0.5, y + 0.48, letter, ha="center", va="center", color=colour, fontweight="bold")
            elif actions is not None and not wall:
                _arrow(panel, x, y, actions[state], state in (marked or ()))
            state += not wall
    panel.set_xlim(-0.06, width + 0.06)
    panel.set_ylim(-0.06, height + 0.06)
    panel.set_aspect("equal")
    panel.axis("off")


def _arrow(panel: Axes, x: float, y: float, action: str, differs: bool) -> None:
    from matplotlib.patches import FancyArrowPatch, Rectangle

    if differs:
        panel.add_patch(Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, facecolor="#FFE9A8", edgecolor=RED, linewidth=1.6))
    dx, dy = _STEP[action]
    tail, head = (x + 0.5 - 0.32 * dx, y + 0.5 - 0.32 * dy), (x + 0.5 + 0.34 * dx, y + 0.5 + 0.34 * dy)
    colour = RED if differs else BLACK
    panel.add_patch(FancyArrowPatch(tail, head, arrowstyle="-|>", mutation_scale=9, color=colour, linewidth=1.4))


def _say(panel: Axes, text: str, colour: str) -> None:
    panel.text(0.5, -0.03, text, transform=panel.transAxes, ha="center", va="top", color=colour, fontsize=10.5)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0.0005 < share < 0.9995 else f"{100 * share:.0f} %"
