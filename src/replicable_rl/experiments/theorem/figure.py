"""The theorems at their own sample sizes: samples drawn, disagreement against rho, error against epsilon, time."""

from typing import Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import SHORT_NAMES
from replicable_rl.experiments.theorem.analysis import LEVELS
from replicable_rl.plotting import COLOURS, MARKERS, Figure, bounded, logarithmic, panels, said

_LOOK = {
    id: {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": "none", "label": SHORT_NAMES[id]}
    for k, id in enumerate(LEVELS)
}
_SMALLEST = 1e-4  # what is less than this part of epsilon is drawn here, as an arrow to the left
_PANELS = (
    ("Samples of a run", "drawn, at the theorem's own m"),
    ("Pairs that differ", "share, 95 % interval"),
    ("Worst error, in ε", "of the loss, of an entry"),
    ("Time of a run", "milliseconds, median"),
)


def draw(dataset: Dataset) -> Figure:
    """Draw a line for every problem and algorithm, and what was found about it side by side."""
    rows, rho = list(dataset.tables["theorems"]), dataset.details["rho"]
    widths = {"width_ratios": [1.0, 1.25, 1.1, 1.0]}
    figure, ((first, *others),) = panels((12.5, 0.38 * len(rows) + 1.7), 1, 4, sharey=True, gridspec_kw=widths)
    axes = [first, *others]
    places = [len(rows) - 1 - i - 0.25 * (i % 2 == 0) for i in range(len(rows))]
    for y, row in zip(places, rows, strict=True):
        _line(axes, y, row)
    for i in (0, 2, 3):
        logarithmic(axes[i])
    bounded(axes[1], rho, f"ρ = {rho:g}")
    axes[1].set_xlim(-0.01, rho + 0.02)
    bounded(axes[2], 1.0, "ε")
    axes[2].set_xlim(_SMALLEST / 2, 5.0)
    for panel, (title, label) in zip(axes, _PANELS, strict=True):
        panel.set(title=title, xlabel=label)
        panel.grid(False, axis="y")
        panel.grid(True, axis="x")
        panel.tick_params(axis="y", length=0)
    first.set_yticks(places, [row["problem"] if i % 2 == 0 else "" for i, row in enumerate(rows)])
    first.set_ylim(-0.8, len(rows) - 0.4)
    handles = [first.plot([], [], **look)[0] for look in _LOOK.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _line(axes: list[Any], y: float, row: dict[str, Any]) -> None:
    look = {name: value for name, value in _LOOK[row["algorithm"]].items() if name != "label"}
    axes[0].plot(float(row["samples_a_run"]), y, **look)
    axes[1].plot([row["disagreement_low"], row["disagreement_high"]], [y, y], color=look["color"], linewidth=2.2)
    axes[1].plot(row["disagreement"], y, **look)
    said(axes[1], f"{row['differ']} of {row['pairs']}", (row["disagreement_high"], y), shift=(6, 0), fontsize=9)
    error = row["worst_error"] / row["epsilon"]
    axes[2].plot(max(error, _SMALLEST), y, **look | ({"marker": "<"} if error < _SMALLEST else {}))
    axes[3].plot(1e3 * row["median_seconds_a_run"], y, **look)
