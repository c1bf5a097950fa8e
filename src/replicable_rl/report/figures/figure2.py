"""Figure 2: modal share, unique share and pairwise agreement over the number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.report.figures.style import COLOURS, MARKERS, banded, dotted, logarithmic, power

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_PANELS = (
    ("modal_share", "Modal share", "runs in the largest class"),
    ("unique_share", "Unique share", "classes by runs"),
    ("agreement", "Pairwise agreement", "pairs that are identical"),
)


def draw(dataset: Dataset) -> Figure:
    """Draw the paper's two panels and the third it should have had, one row for each grid."""
    from matplotlib.figure import Figure

    points = dataset.tables["points"]
    grids, rho_sq = points.distinct("problem"), points.distinct("rho_sq")
    runs, pairs = points.rows[0][points.columns.index("runs")], points.rows[0][points.columns.index("pairs")]
    figure = Figure(figsize=(11.5, 3.5 * len(grids) + 0.7), layout="constrained")
    axes = figure.subplots(len(grids), 3, sharex=True, sharey=True, squeeze=False)
    for i, grid in enumerate(grids):
        asked = dataset.tables["theory"].where(problem=grid)[0]
        for j, (column, title, meaning) in enumerate(_PANELS):
            panel = axes[i, j]
            for k, value in enumerate(rho_sq):
                rows = points.where(problem=grid, rho_sq=value)
                label = f"$ρ_{{SQ}}$ = {value:g}"
                banded(panel, rows, "multiple", column, colour=COLOURS[k], marker=MARKERS[k], label=label)
            _finish(panel, i == 0, title, meaning, (runs, pairs)[j == 2], dataset)
            if column != "unique_share":
                dotted(panel, 1.0 - float(str(dataset.details["rho"])), "1 − ρ")
        axes[i, 0].set_ylabel(f"{grid}\n(N = {asked['pairs']} pairs)")
        needed = float(asked["calls_at_this_tolerance"]) / float(str(dataset.details["base_calls"]))
        axes[i, 2].annotate(
            f"the theorem asks for ×{power(needed)}",
            (0.98, 0.03),
            xycoords="axes fraction",
            ha="right",
            fontsize=9,
            color="#555555",
        )
    for panel in axes[-1]:
        panel.set_xlabel("calls per iteration, multiples of m = 13 000")
    axes[0, 1].legend(loc="upper right")
    return figure


def _finish(panel: Axes, top: bool, title: str, meaning: str, many: object, dataset: Dataset) -> None:
    from matplotlib.ticker import FuncFormatter

    if top:
        what = f"{many} pairs, each its own r" if title.startswith("Pair") else f"{many} runs under one r"
        panel.set_title(f"{title}\n", fontsize=12)
        panel.annotate(
            f"{meaning}; {what}", (0, 1.02), xycoords="axes fraction", fontsize=9.5, color="#555555", va="bottom"
        )
    logarithmic(panel)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"×{x:g}"))
    panel.set_ylim(-0.02, 1.04)
