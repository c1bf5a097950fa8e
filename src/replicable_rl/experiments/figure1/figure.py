"""The grids, two policies of Phased Q-learning, and the one policy of rPVI."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.figure1.analysis import RPVI
from replicable_rl.plotting import BLUE, GREY, ORANGE, Axes, Figure, grid, panels
from replicable_rl.problem.table import Labels

_GOAL = {"left": BLUE, "right": ORANGE}
Actions = dict[int, str]  # by state


def draw(dataset: Dataset) -> Figure:
    """Draw one row for each grid: its map, then both runs of both algorithms."""
    maps = dataset.details["maps"]
    figure, axes = panels((13.0, 5.5), len(maps), 5, room=0.96, gridspec_kw={"height_ratios": [1.15, 1.0]})
    for line, (problem, drawn) in zip(axes, maps.items(), strict=True):
        labels = Labels(layout=tuple(drawn["layout"]))
        _map(line[0], labels)
        line[0].set_title(problem, fontsize=10)
        _say(line[0], "30 % slip sideways", GREY)
        for panel, run in zip(line[1:], dataset.tables["runs"].where(problem=problem), strict=True):
            name, sample = run["algorithm"], run["sample"]
            mine, other = (_actions(dataset, problem, name, one) for one in (sample, 3 - sample))
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
    differing = {} if actions is None or other is None else {s: actions[s] != other[s] for s in actions}
    grid(panel, labels, actions or {}, {s for s, differs in differing.items() if differs}, goals=tuple(_GOAL.values()))


def _say(panel: Axes, text: str, colour: str) -> None:
    panel.text(0.5, -0.03, text, transform=panel.transAxes, ha="center", va="top", color=colour, fontsize=10.5)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0.0005 < share < 0.9995 else f"{100 * share:.0f} %"
