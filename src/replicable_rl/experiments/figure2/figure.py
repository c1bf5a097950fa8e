"""Modal share, unique share and pairwise agreement over the number of samples."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.plotting import (
    COLOURS,
    GREY,
    MARKERS,
    Axes,
    Figure,
    banded,
    dotted,
    logarithmic,
    panels,
    power,
    said,
)

_PANELS = {
    "modal_share": ("Modal share", "largest class by runs; {runs} runs under one r"),
    "unique_share": ("Unique share", "classes by runs; {runs} runs under one r"),
    "agreement": ("Pairwise agreement", "pairs that are identical; {pairs} pairs, each its own r"),
}


def draw(dataset: Dataset) -> Figure:
    """Draw the paper's two panels and the third it should have had, one row for each grid."""
    points, details = dataset.tables["points"], dataset.details
    grids, first = points.distinct("problem"), next(iter(points))
    figure, axes = panels((11.5, 3.5 * len(grids) + 0.7), len(grids), 3, sharex=True, sharey=True)
    for i, grid in enumerate(grids):
        asked = dataset.tables["theory"].where(problem=grid)[0]
        for panel, (column, (title, meaning)) in zip(axes[i], _PANELS.items(), strict=True):
            _curves(panel, dataset, grid, column)
            if i == 0:
                panel.set_title(f"{title}\n", fontsize=12)
                said(panel, meaning.format(**first), (0, 1.02), "axes fraction", va="bottom")
            if column != "unique_share":
                dotted(panel, 1.0 - details["rho"], "1 − ρ")
        axes[i, 0].set_ylabel(f"{grid}\n(N = {asked['pairs']} pairs)")
        needed = f"the theorem asks for ×{power(float(asked['calls_at_this_tolerance']) / details['base_calls'])}"
        said(axes[i, 2], needed, (0.98, 0.03), "axes fraction", ha="right", va="bottom", color=GREY, fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel("calls per iteration, multiples of m = 13 000")
    axes[0, 1].legend(loc="upper right")
    return figure


def _curves(panel: Axes, dataset: Dataset, grid: str, column: str) -> None:
    points = dataset.tables["points"]
    for k, value in enumerate(points.distinct("rho_sq")):
        rows, label = points.where(problem=grid, rho_sq=value), f"$ρ_{{SQ}}$ = {value:g}"
        banded(panel, rows, "multiple", column, colour=COLOURS[k], marker=MARKERS[k], label=label)
    logarithmic(panel)
    panel.xaxis.set_major_formatter("×{x:g}")
    panel.set_ylim(-0.02, 1.04)
