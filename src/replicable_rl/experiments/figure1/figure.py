"""The grids, two policies of Phased Q-learning, and the one policy of rPVI."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.figure1.analysis import RPVI
from replicable_rl.mdp import Labels
from replicable_rl.plotting import BLACK, BLUE, GREY, ORANGE, RED, Axes, Figure, arrow, box, panels

_STEP = {"up": (0.0, 1.0), "down": (0.0, -1.0), "left": (-1.0, 0.0), "right": (1.0, 0.0)}
_GOAL = {"left": BLUE, "right": ORANGE}
Actions = dict[int, str]  # by state


def draw(dataset: Dataset) -> Figure:
    """Draw one row for each grid: its map, then both runs of both algorithms."""
    maps = dataset.details["maps"]
    figure, axes = panels((13.0, 5.5), len(maps), 5, room=0.96, gridspec_kw={"height_ratios": [1.15, 1.0]})
    for line, (grid, drawn) in zip(axes, maps.items(), strict=True):
        labels = Labels(layout=tuple(drawn["layout"]))
        _map(line[0], labels)
        line[0].set_title(grid, fontsize=10)
        _say(line[0], "30 % slip sideways", GREY)
        for panel, run in zip(line[1:], dataset.tables["runs"].where(problem=grid), strict=True):
            name, sample = run["algorithm"], run["sample"]
            mine, other = (_actions(dataset, grid, name, one) for one in (sample, 3 - sample))
            _map(panel, labels, mine, other)
            panel.set_title(f"{'rPVI' if name == RPVI else name}, sample {sample}", fontsize=10)
            colour = _GOAL[max(_GOAL, key=lambda side: float(run[side]))]
            _say(panel, f"ends left {_percent(run['left'])}, right {_percent(run['right'])}", colour)
    return figure


def _actions(dataset: Dataset, grid: str, algorithm: str, sample: int) -> Actions:
    rows = dataset.tables["states"].where(problem=grid, algorithm=algorithm, sample=sample)
    return {row["state"]: row["action"] for row in rows}


def _map(panel: Axes, labels: Labels, actions: Actions | None = None, other: Actions | None = None) -> None:
    """Draw the cells; with actions, an arrow in each open one, framed where the other run acts differently."""
    layout = labels.layout or ()
    goals = iter(_GOAL.values())
    for cell in labels.cells():
        x, y = cell.column, len(layout) - 1 - cell.row
        goal = cell.letter == "G"
        box(panel, x, y, 1, "#4A4A4A" if cell.state is None else next(goals) if goal else "white", "#BBBBBB")
        if actions is not None and other is not None and cell.open and cell.state is not None:
            _arrow(panel, x, y, actions[cell.state], actions[cell.state] != other[cell.state])
        elif goal or cell.letter == "S":
            colour = "white" if goal else BLACK
            panel.text(x + 0.5, y + 0.48, cell.letter, ha="center", va="center", color=colour, fontweight="bold")
    panel.set(xlim=(-0.06, len(layout[0]) + 0.06), ylim=(-0.06, len(layout) + 0.06), aspect="equal")
    panel.axis("off")


def _arrow(panel: Axes, x: float, y: float, action: str, differs: bool) -> None:
    if differs:
        box(panel, x + 0.04, y + 0.04, 0.92, "#FFE9A8", RED, linewidth=1.6)
    dx, dy = _STEP[action]
    tail, head = (x + 0.5 - 0.32 * dx, y + 0.5 - 0.32 * dy), (x + 0.5 + 0.34 * dx, y + 0.5 + 0.34 * dy)
    arrow(panel, tail, head, RED if differs else BLACK)


def _say(panel: Axes, text: str, colour: str) -> None:
    panel.text(0.5, -0.03, text, transform=panel.transAxes, ha="center", va="top", color=colour, fontsize=10.5)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0.0005 < share < 0.9995 else f"{100 * share:.0f} %"
