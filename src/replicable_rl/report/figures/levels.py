"""Model, value, policy: agreement over the samples, and the samples that each level takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.report.figures.style import BLUE, GREEN, ORANGE, RED, banded, dotted, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_NAMES = {"replicable-approximate-mdp-v1": "ApproximateMDP", "rpvi-v1": "rPVI"}
_LOOK: dict[tuple[str, str], dict[str, Any]] = {
    ("replicable-approximate-mdp-v1", "model"): {"colour": BLUE, "marker": "o"},
    ("replicable-approximate-mdp-v1", "value"): {
        "colour": ORANGE,
        "marker": "x",
        "markeredgecolor": ORANGE,
        "markersize": 9.0,
        "linestyle": "none",
    },
    ("replicable-approximate-mdp-v1", "policy"): {"colour": BLUE, "marker": "^", "linestyle": "--"},
    ("rpvi-v1", "value"): {"colour": RED, "marker": "s"},
    ("rpvi-v1", "policy"): {"colour": RED, "marker": "v", "linestyle": "--"},
}


def draw(dataset: Dataset) -> Figure:
    """Draw the agreement on each grid, and below it the samples at which each level passes the target."""
    from matplotlib.figure import Figure

    table, needed = dataset.tables["agreement"], dataset.tables["needed"]
    grids = table.distinct("problem")
    figure = Figure(figsize=(11.5, 6.4), layout="constrained")
    axes = figure.subplots(2, len(grids), sharex="col", gridspec_kw={"height_ratios": [2.2, 1.0]}, squeeze=False)
    target = float(str(dataset.details["target"]))
    for j, grid in enumerate(grids):
        for (algorithm, level), look in _LOOK.items():
            rows = table.where(problem=grid, algorithm=algorithm, level=level)
            banded(axes[0, j], rows, "samples", "agreement", label=f"{_NAMES[algorithm]}: {level}", **look)
        axes[0, j].set_title(grid)
        axes[0, j].set_ylim(-0.03, 1.05)
        dotted(axes[0, j], target, f"{target:g}")
        _needed(axes[1, j], needed.where(problem=grid), first=j == 0)
    axes[0, 0].set_ylabel("pairs that are identical")
    axes[0, 0].legend(loc="lower right", fontsize=9)
    return figure


def _needed(panel: Axes, rows: list[dict[str, Any]], first: bool) -> None:
    """Draw where the target is passed, and what is shown to be too few and enough."""
    for i, row in enumerate(rows):
        look = _LOOK[row["algorithm"], row["level"]]
        y = len(rows) - 1 - i
        ends = row["samples_low"] or row["tried_from"], row["samples_high"] or row["tried_to"]
        panel.plot(ends, [y, y], color=look["colour"], linewidth=2.2)
        if row["samples_high"] is None:
            panel.plot(ends[1], y, ">", color=look["colour"])
        if row["samples"] is not None:
            panel.plot(row["samples"], y, look["marker"], color=look["colour"], markersize=8)
    labels = [f"{_NAMES[row['algorithm']]}: {row['level']}" for row in rows]
    panel.set_yticks(range(len(rows)), list(reversed(labels)) if first else [""] * len(rows))
    panel.set_ylim(-0.6, len(rows) - 0.4)
    logarithmic(panel)
    panel.grid(True, axis="x")
    panel.set_xlabel("samples of a run, in all")
    panel.annotate(
        "samples for an agreement of 0.8", (0.0, 1.02), xycoords="axes fraction", color=GREEN, va="bottom", fontsize=9.5
    )
