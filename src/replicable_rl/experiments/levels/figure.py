"""Model, value, policy: agreement over the samples, and the samples that each level takes."""

from typing import Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import SHORT_NAMES
from replicable_rl.plotting import BLUE, GREEN, ORANGE, RED, Axes, Figure, banded, dotted, logarithmic, panels, said

_CROSS = {"marker": "x", "markeredgecolor": ORANGE, "markersize": 9.0, "linestyle": "none"}
_LOOK: dict[tuple[str, str], dict[str, Any]] = {
    ("replicable-approximate-mdp-v1", "model"): {"colour": BLUE, "marker": "o"},
    ("replicable-approximate-mdp-v1", "value"): {"colour": ORANGE, **_CROSS},
    ("replicable-approximate-mdp-v1", "policy"): {"colour": BLUE, "marker": "^", "linestyle": "--"},
    ("rpvi-v1", "value"): {"colour": RED, "marker": "s"},
    ("rpvi-v1", "policy"): {"colour": RED, "marker": "v", "linestyle": "--"},
}


def draw(dataset: Dataset) -> Figure:
    """Draw the agreement on each grid, and below it the samples at which each level passes the target."""
    table, target = dataset.tables["agreement"], dataset.details["target"]
    grids = table.distinct("problem")
    figure, axes = panels((11.5, 6.4), 2, len(grids), sharex="col", gridspec_kw={"height_ratios": [2.2, 1.0]})
    for grid, (above, below) in zip(grids, axes.T, strict=True):
        for (algorithm, level), look in _LOOK.items():
            rows = table.where(problem=grid, algorithm=algorithm, level=level)
            banded(above, rows, "samples", "agreement", label=_label(rows[0]), **look)
        above.set(title=grid, ylim=(-0.03, 1.05))
        dotted(above, target, f"{target:g}")
        _needed(below, dataset.tables["needed"].where(problem=grid), named=grid == grids[0])
        said(below, f"samples for an agreement of {target:g}", (0.0, 1.02), "axes fraction", va="bottom", color=GREEN)
    axes[0, 0].set_ylabel("pairs that are identical")
    axes[0, 0].legend(loc="lower right", fontsize=9)
    return figure


def _label(row: dict[str, Any]) -> str:
    return f"{SHORT_NAMES[row['algorithm']]}: {row['level']}"


def _needed(panel: Axes, rows: list[dict[str, Any]], named: bool) -> None:
    """Draw where the target is passed, and what is shown to be too few and enough."""
    for y, row in enumerate(reversed(rows)):
        look = _LOOK[row["algorithm"], row["level"]]
        ends = row["samples_low"] or row["tried_from"], row["samples_high"] or row["tried_to"]
        panel.plot(ends, [y, y], color=look["colour"], linewidth=2.2)
        if row["samples_high"] is None:
            panel.plot(ends[1], y, ">", color=look["colour"])
        if row["samples"] is not None:
            panel.plot(row["samples"], y, look["marker"], color=look["colour"], markersize=8)
    panel.set_yticks(range(len(rows)), [_label(row) if named else "" for row in reversed(rows)])
    panel.set_ylim(-0.6, len(rows) - 0.4)
    logarithmic(panel)
    panel.grid(True, axis="x")
    panel.set_xlabel("samples of a run, in all")
