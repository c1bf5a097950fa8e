"""Samples for an agreement of 1 - rho over the size of the problem: measured, predicted and proved."""

from replicable_rl.experiments.cost.analysis import slope_text
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.plotting import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    MARKERS,
    RED,
    Axes,
    Figure,
    banded,
    dotted,
    logarithmic,
    panels,
    said,
)

_LINES = (  # column, label, colour, dash, and by how many points the label is moved up
    ("printed", "theorem, as printed", RED, "--", 7),
    ("tight", "theorem, tight", RED, "-", -7),
    ("predicted", "predicted (central limit)", GREY, "-", 0),
    ("plain", "accuracy alone", GREEN, "-", 0),
)


def draw(dataset: Dataset) -> Figure:
    """Draw the agreement on every grid, and what is needed for the target as the grids grow."""
    figure, ((left, right),) = panels((12.0, 4.9), 1, 2, gridspec_kw={"width_ratios": [1.0, 1.15]})
    points = dataset.tables["points"]
    for k, grid in enumerate(points.distinct("grid")):
        rows = points.where(grid=grid)
        label = f"{grid}, N = {rows[0]['pairs_sa']}"
        banded(left, rows, "calls", "agreement", colour=COLOURS[k], marker=MARKERS[k], label=label)
    logarithmic(left)
    left.set(ylim=(0.35, 1.02), xlabel="calls m per iteration", title="Agreement on growing grids")
    left.set_ylabel("pairs with identical value functions")
    left.legend(loc="lower right", fontsize=9)
    dotted(left, 1.0 - dataset.details["rho"], "1 − ρ")
    _growth(right, dataset)
    return figure


def _growth(panel: Axes, dataset: Dataset) -> None:
    needed = dataset.tables["needed"]
    slopes = {row["samples"]: row for row in dataset.tables["slopes"]}
    xs = needed.column("pairs_sa")
    for name, label, colour, dash, up in _LINES:
        ys = needed.column(name)
        panel.plot(xs, ys, color=colour, linestyle=dash)
        said(panel, f"{label}\nslope {slopes[name]['slope']:.2f}", (xs[-1], ys[-1]), shift=(7, up), color=colour)
    rows = [row for row in needed if row["measured"] is not None]
    for row in rows:
        ends = row["measured_low"] or row["measured"], row["measured_high"] or row["measured"]
        panel.plot([row["pairs_sa"]] * 2, ends, color=BLUE, linewidth=2.2, alpha=0.6)
    panel.plot([row["pairs_sa"] for row in rows], [row["measured"] for row in rows], "o", color=BLUE, markersize=7)
    if rows:
        text, end = f"measured\n{slope_text(slopes['measured'])}", (rows[-1]["pairs_sa"], rows[-1]["measured"])
        said(panel, text, end, shift=(7, -6), color=BLUE)
    logarithmic(panel)
    panel.set_yscale("log")
    panel.set_xlim(xs[0] / 1.2, xs[-1] * 3.6)
    panel.set_xticks(xs, [str(x) for x in xs])
    panel.minorticks_off()
    panel.set(xlabel="pairs N = |S||A|", title="Calls m for an agreement of 0.8")
