"""RepRMAX: agreement over the episodes of a round, what each ingredient does, and stories laid over each other."""

from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.plotting import BLUE, COLOURS, MARKERS, RED, Axes, Figure, banded, dotted, logarithmic, panels

_LEVELS = {"model": "model (and value)", "policy": "policy", "story": "known set, round by round"}
_SHORT = {
    "RepRMAX": "random, rSTAT",
    "fixed threshold, rSTAT": "fixed, rSTAT",
    "random threshold, plain means": "random, plain",
    "R-max": "fixed, plain",
}


def draw(dataset: Dataset) -> Figure:
    """Draw RepRMAX beside R-max, the 2 x 2, the problem built against a fixed threshold, and the stories."""
    figure, axes = panels((12.5, 7.6), 2, 3)
    table = dataset.tables["agreement"]
    for panel, variant in zip(axes[0], ("RepRMAX", "R-max"), strict=False):
        for k, (level, label) in enumerate(_LEVELS.items()):
            rows = table.where(part="grid", variant=variant, level=level)
            banded(panel, rows, "episodes", "agreement", colour=COLOURS[k], marker=MARKERS[k], label=label)
        panel.set_title(f"{variant}: agreement of two runs")
    axes[0, 1].legend(loc="upper center", fontsize=9, labelspacing=0.15, borderaxespad=0.1)
    _variants(axes[0, 2], table, "grid", "model")
    axes[0, 2].set_title("Which ingredient? Same model")
    small = {"title_fontsize": 9, "fontsize": 9}
    axes[0, 2].legend(
        loc="center left", bbox_to_anchor=(-0.01, 0.58), title="threshold, estimate", handlelength=1.6, **small
    )
    _variants(axes[1, 0], table, "knife edge", "story")
    axes[1, 0].set_title("A problem against a fixed threshold")
    axes[1, 0].legend(loc="center right", title="same known pairs in every round", **small)
    for panel in (*axes[0], axes[1, 0]):
        logarithmic(panel)
        panel.set(ylim=(-0.03, 1.05), xlabel="episodes m per round")
        dotted(panel, 1.0 - dataset.details["rho"], "1 − ρ", x=0.9, above=False)
    for panel in axes[:, 0]:
        panel.set_ylabel("pairs that are identical")
    for panel, variant, colour in zip(axes[1, 1:], ("RepRMAX", "R-max"), (BLUE, RED), strict=True):
        _stories(panel, dataset.tables["stories"].where(variant=variant), colour)
        panel.set_title(f"{variant}: ten runs, one shared seed")
    return figure


def _variants(panel: Axes, table: Table, part: str, level: str) -> None:
    for k, (variant, label) in enumerate(_SHORT.items()):
        rows = table.where(part=part, variant=variant, level=level)
        if rows:
            style = {"colour": COLOURS[k], "marker": MARKERS[k], "label": label}
            dash = "--" if label.startswith("fixed") else "-"
            banded(panel, rows, "episodes", "agreement", linestyle=dash, **style)


def _stories(panel: Axes, rounds: list[dict[str, int]], colour: str) -> None:
    for run in sorted({row["run"] for row in rounds}):
        rows = [row for row in rounds if row["run"] == run]
        xs, ys = [0] + [row["round"] for row in rows], [0] + [row["known"] for row in rows]
        panel.step(xs, ys, where="post", color=colour, alpha=0.35, linewidth=1.6)
        panel.plot(xs[-1], ys[-1], "o", color=colour, alpha=0.5)
    panel.set(xlabel=f"round (of m = {rounds[0]['episodes']} episodes)", ylabel="known pairs", ylim=(0, 33))
