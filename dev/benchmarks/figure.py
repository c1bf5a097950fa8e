"""The figure: how time grows, a panel for every size, from measurements alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dev.benchmarks.fitting import fit_curve
from dev.benchmarks.records import Book
from dev.benchmarks.rendering import slope_text
from dev.benchmarks.timing import OURS, Measurement

__all__ = ["draw"]

_PANELS = {"m": "samples m", "S": "states S", "T": "iterations T", "H": "steps H", "cores": "cores"}


def draw(book: Book, path: Path) -> None:
    """Write the figure; the same measurements give the same file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(11, 6.4), layout="constrained")
        axes = figure.subplots(2, 3).flat
        for (size, label), panel in zip(_PANELS.items(), axes, strict=False):
            _panel(panel, size, label, [curve for curve in book.curves() if curve[0].against == size])
        for empty in axes:
            empty.set_axis_off()
        figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(panel: Any, size: str, label: str, curves: list[list[Measurement]]) -> None:
    lines = []
    for curve in curves:
        first = curve[0]
        if first.section == "planning" and "0.99" not in first.job.split()[-1:]:
            continue  # one discount is enough to see
        name = first.job if first.by == OURS else first.by
        name = f"planning, {first.job}: {first.by}" if first.section == "planning" else name
        x = [float(point.at[size]) for point in curve]
        style = "o-" if first.by == OURS else "o:"
        panel.plot(x, [1e3 * point.best for point in curve], style, markersize=3, linewidth=1, label=name)
        if first.by == OURS:
            lines.append(f"{name}: {slope_text(fit_curve(curve))}")
    panel.set_xscale("log", base=2 if size == "cores" else 10)
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    if lines and high < 10.0 * low:  # a decade at least: noise should not look like growth
        panel.set_ylim(low / math.sqrt(10.0), high * math.sqrt(10.0))
    if size == "cores":
        cores = sorted({int(point.at[size]) for curve in curves for point in curve})
        panel.set_xticks(cores, [str(number) for number in cores])
    panel.set_xlabel(label)
    panel.set_ylabel("ms")
    panel.set_title("\n".join(["slope (95 %)", *lines]), fontsize=7, loc="left")
    if lines:
        panel.legend(fontsize=6)
