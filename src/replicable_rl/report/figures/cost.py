"""What rho costs: samples for an agreement of 1 - rho over the size of the problem, measured, predicted and proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.report.figures.style import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    MARKERS,
    RED,
    banded,
    dotted,
    label_end,
    logarithmic,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_LINES = (
    ("printed", "theorem, as printed", RED, "--"),
    ("tight", "theorem, tight", RED, "-"),
    ("predicted", "predicted (central limit)", GREY, "-"),
    ("plain", "accuracy alone", GREEN, "-"),
)


def draw(dataset: Dataset) -> Figure:
    """Draw the agreement on every grid, and what is needed for the target as the grids grow."""
    from matplotlib.figure import Figure

    rho = float(str(dataset.details["rho"]))
    figure = Figure(figsize=(12.0, 4.9), layout="constrained")
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.0, 1.15]})
    points = dataset.tables["points"]
    for k, grid in enumerate(points.distinct("grid")):
        rows = points.where(grid=grid)
        label = f"{grid}, N = {rows[0]['pairs_sa']}"
        banded(left, rows, "calls", "agreement", colour=COLOURS[k], marker=MARKERS[k], label=label)
    logarithmic(left)
    left.set_ylim(0.35, 1.02)
    left.set_xlabel("calls m per iteration")
    left.set_ylabel("pairs with identical value functions")
    left.set_title("Agreement on growing grids")
    left.legend(loc="lower right", fontsize=9)
    dotted(left, 1.0 - rho, "1 − ρ")
    _growth(right, dataset)
    return figure


def _growth(panel: Axes, dataset: Dataset) -> None:
    needed = dataset.tables["needed"]
    slopes = {row["samples"]: row for row in dataset.tables["slopes"]}
    xs = needed.column("pairs_sa")
    for name, label, colour, dash in _LINES:
        ys = needed.column(name)
        panel.plot(xs, ys, color=colour, linestyle=dash)
        text = f"{label}\nslope {slopes[name]['slope']:.2f}"
        label_end(panel, xs[-1], ys[-1], text, colour, dy=-7 if name == "tight" else 7 if name == "printed" else 0)
    rows = [row for row in needed if row["measured"] is not None]
    for row in rows:
        ends = row["measured_low"] or row["measured"], row["measured_high"] or row["measured"]
        panel.plot([row["pairs_sa"]] * 2, ends, color=BLUE, linewidth=2.2, alpha=0.6)
    panel.plot([row["pairs_sa"] for row in rows], [row["measured"] for row in rows], "o", color=BLUE, markersize=7)
    if rows:
        label_end(
            panel, rows[-1]["pairs_sa"], rows[-1]["measured"], f"measured\n{_slope(slopes['measured'])}", BLUE, dy=-6
        )
    logarithmic(panel)
    panel.set_yscale("log")
    panel.set_xlim(xs[0] / 1.2, xs[-1] * 3.6)
    panel.set_xticks(xs, [str(x) for x in xs])
    panel.minorticks_off()
    panel.set_xlabel("pairs N = |S||A|")
    panel.set_title("Calls m for an agreement of 0.8", color=BLACK)


def _slope(row: dict[str, Any]) -> str:
    if row["slope"] is None:
        return "too few points for a slope"
    if row["slope_low"] is None or row["slope_high"] is None:
        return f"slope {row['slope']:.2f} (no interval)"
    return f"slope {row['slope']:.2f} ({row['slope_low']:.2f}–{row['slope_high']:.2f})"
