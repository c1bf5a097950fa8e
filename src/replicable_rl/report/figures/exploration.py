"""RepRMAX: agreement over the episodes of a round, what each ingredient does, and stories laid over each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.report.figures.style import BLUE, COLOURS, MARKERS, RED, banded, dotted, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_LEVELS = {
    "model": "model (and value)",
    "policy": "policy",
    "story": "known set, round by round",
}

_SHORT = {
    "RepRMAX": "random, rSTAT",
    "fixed threshold, rSTAT": "fixed, rSTAT",
    "random threshold, plain means": "random, plain",
    "R-max": "fixed, plain",
}


def draw(dataset: Dataset) -> Figure:
    """Draw RepRMAX beside R-max, the 2 x 2, the problem built against a fixed threshold, and the stories."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 7.6), layout="constrained")
    axes = figure.subplots(2, 3)
    table, rho = dataset.tables["agreement"], float(str(dataset.details["rho"]))
    for panel, variant in zip(axes[0], ("RepRMAX", "R-max"), strict=False):
        for k, (level, label) in enumerate(_LEVELS.items()):
            rows = table.where(part="grid", variant=variant, level=level)
            banded(panel, rows, "episodes", "agreement", colour=COLOURS[k], marker=MARKERS[k], label=label)
        panel.set_title(f"{variant}: agreement of two runs")
    axes[0, 1].legend(loc="center", bbox_to_anchor=(0.5, 0.24))
    _variants(axes[0, 2], table, "grid", "model")
    axes[0, 2].set_title("Which ingredient? Same model")
    axes[0, 2].legend(
        loc="center left",
        bbox_to_anchor=(-0.01, 0.58),
        title="threshold, estimate",
        title_fontsize=9,
        fontsize=9,
        handlelength=1.6,
    )
    _variants(axes[1, 0], table, "knife edge", "story")
    axes[1, 0].set_title("A problem against a fixed threshold")
    axes[1, 0].legend(loc="center right", title="same known pairs in every round", title_fontsize=9, fontsize=9)
    for panel in (*axes[0], axes[1, 0]):
        logarithmic(panel)
        panel.set_ylim(-0.03, 1.05)
        panel.set_xlabel("episodes m per round")
        dotted(panel, 1.0 - rho, "1 − ρ", x=0.9, above=False)
    axes[0, 0].set_ylabel("pairs that are identical")
    axes[1, 0].set_ylabel("pairs that are identical")
    for panel, variant, colour in zip(axes[1, 1:], ("RepRMAX", "R-max"), (BLUE, RED), strict=True):
        _stories(panel, dataset, variant, colour)
    return figure


def _variants(panel: Axes, table: Table, part: str, level: str) -> None:
    for k, variant in enumerate(table.distinct("variant")):
        rows = table.where(part=part, variant=variant, level=level)
        if rows:
            style = {"colour": COLOURS[k], "marker": MARKERS[k], "label": _SHORT[variant]}
            dash: dict[str, Any] = {"linestyle": "--"} if variant.startswith(("fixed", "R-max")) else {}
            banded(panel, rows, "episodes", "agreement", **style, **dash)


def _stories(panel: Axes, dataset: Dataset, variant: str, colour: str) -> None:
    table = dataset.tables["stories"]
    runs = table.where(variant=variant)
    numbers = sorted({row["run"] for row in runs})
    for run in numbers:
        rows = [row for row in runs if row["run"] == run]
        xs, ys = [0] + [row["round"] for row in rows], [0] + [row["known"] for row in rows]
        panel.step(xs, ys, where="post", color=colour, alpha=0.35, linewidth=1.6)
        panel.plot(xs[-1], ys[-1], "o", color=colour, alpha=0.5)
    panel.set_title(f"{variant}: {len(numbers)} runs, one shared seed")
    panel.set_xlabel(f"round (of m = {runs[0]['episodes']} episodes)")
    panel.set_ylabel("known pairs")
    panel.set_ylim(0, 33)
