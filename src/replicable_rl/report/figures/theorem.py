"""The theorems at their own sample sizes: samples drawn, disagreement against rho, error against epsilon, time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.report.figures.style import BLUE, GREEN, GREY, MARKERS, RED, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_NAMES = {"rpvi-v1": "rPVI", "replicable-approximate-mdp-v1": "ApproximateMDP, replicable"}
_COLOURS = dict(zip(_NAMES, (BLUE, RED), strict=True))
_SMALLEST = 1e-4  # what is less than this part of epsilon is drawn here, as an arrow to the left


def draw(dataset: Dataset) -> Figure:
    """Draw a line for every problem and algorithm, and what was found about it side by side."""
    from matplotlib.figure import Figure

    rows = list(dataset.tables["theorems"])
    figure = Figure(figsize=(12.5, 0.38 * len(rows) + 1.7), layout="constrained")
    axes = figure.subplots(1, 4, sharey=True, gridspec_kw={"width_ratios": [1.0, 1.25, 1.1, 1.0]})
    places = {i: len(rows) - 1 - i - 0.25 * (i % 2 == 0) for i in range(len(rows))}
    for i, row in enumerate(rows):
        _line(axes, places[i], row)
    _scales(axes, dataset)
    axes[0].set_yticks([places[i] for i in range(len(rows))])
    axes[0].set_yticklabels([f"{row['problem']}" if i % 2 == 0 else "" for i, row in enumerate(rows)])
    axes[0].set_ylim(-0.8, len(rows) - 0.4)
    for panel in axes:
        panel.grid(False, axis="y")
        panel.grid(True, axis="x")
        panel.tick_params(axis="y", length=0)
    handles = [
        axes[0].plot([], [], MARKERS[k], color=_COLOURS[id], label=name)[0]
        for k, (id, name) in enumerate(_NAMES.items())
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _line(axes: Any, y: float, row: dict[str, Any]) -> None:
    colour, marker = _COLOURS[row["algorithm"]], MARKERS[list(_NAMES).index(row["algorithm"])]
    style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
    axes[0].plot(float(row["samples_a_run"]), y, **style)
    axes[1].plot([row["disagreement_low"], row["disagreement_high"]], [y, y], color=colour, linewidth=2.2)
    axes[1].plot(row["disagreement"], y, **style)
    said = f"{row['differ']} of {row['pairs']}"
    axes[1].annotate(
        said,
        (row["disagreement_high"], y),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=GREY,
    )
    error = row["worst_error"] / row["epsilon"]
    axes[2].plot(max(error, _SMALLEST), y, **style | ({"marker": "<"} if error < _SMALLEST else {}))
    axes[3].plot(1e3 * row["median_seconds_a_run"], y, **style)


def _scales(axes: Any, dataset: Dataset) -> None:
    rho = float(str(dataset.details["rho"]))
    logarithmic(axes[0])
    axes[0].set_title("Samples of a run")
    axes[0].set_xlabel("drawn, at the theorem's own m")
    _limit(axes[1], rho, f"ρ = {rho:g}")
    axes[1].set_xlim(-0.01, rho + 0.02)
    axes[1].set_title("Pairs that differ")
    axes[1].set_xlabel("share, 95 % interval")
    logarithmic(axes[2])
    _limit(axes[2], 1.0, "ε")
    axes[2].set_xlim(_SMALLEST / 2, 5.0)
    axes[2].set_title("Worst error, in ε")
    axes[2].set_xlabel("of the loss, of an entry")
    logarithmic(axes[3])
    axes[3].set_title("Time of a run")
    axes[3].set_xlabel("milliseconds, median")


def _limit(panel: Axes, at: float, text: str) -> None:
    panel.axvline(at, color=GREEN, linestyle=(0, (1, 2)), linewidth=1.8)
    panel.annotate(
        text,
        (at, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        color=GREEN,
        fontsize=9.5,
    )
