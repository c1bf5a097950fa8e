"""Calibrations and comparisons as figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from replicable_rl.diagnose import Calibration, Comparison, Point
from replicable_rl.display import shows
from replicable_rl.plotting import (
    BLUE,
    GREY,
    RED,
    Axes,
    Figure,
    banded,
    dotted,
    logarithmic,
    panels,
    power,
    readable,
    remark,
    save_as,
    styled,
)
from replicable_rl.wording import number

_NEAR = 100.0  # times the largest size: what the proof needs is drawn as a line up to here, and else said


@shows("calibration figure")
def save_calibration(found: Calibration, path: str | os.PathLike[str]) -> None:
    """Draw a calibration to a file."""
    with styled():
        save_as(draw_calibration(found), path)


@shows("comparison figure")
def save_comparison(found: Comparison, path: str | os.PathLike[str]) -> None:
    """Draw a comparison to a file."""
    with styled():
        save_as(draw_comparison(found), path)


def draw_calibration(found: Calibration) -> Figure:
    """Draw agreement over samples, and below it the loss where it is known."""
    with_loss = all(point.loss is not None for point in found.points)
    figure, axes = panels((7.5, 6.0 if with_loss else 3.6), 2 if with_loss else 1, 1, sharex=True)
    agreement_panel(axes[0, 0], found)
    if with_loss:
        loss_panel(axes[1, 0], found)
    axes[-1, 0].legend(*axes[0, 0].get_legend_handles_labels(), loc="upper right" if with_loss else "center right")
    axes[-1, 0].set_xlabel("samples in all" if found.points[0].samples is not None else found.size_name)
    readable(axes[-1, 0])
    return figure


def agreement_panel(axes: Axes, found: Calibration) -> None:
    """Draw agreement over samples, with what was asked, what was found, and what the proof needs."""
    rows = [_row(point) for point in found.points]
    banded(axes, rows, "samples", "agreement", colour=BLUE, marker="")
    _marks(axes, found.points, rows, "agreement", BLUE)
    dotted(axes, 1.0 - found.rho, "1 − ρ")
    axes.set_ylim(-0.02, 1.04)
    axes.set_ylabel(f"agreement of the {found.level}")
    axes.set_title(f"{found.problem.id}, {_name(found)}")
    _over_samples(axes, found, 0.05)
    _mark_theory(axes, found, rows[-1]["samples"])


def loss_panel(axes: Axes, found: Calibration) -> None:
    """Draw the mean loss over samples, with what was asked."""
    rows = [_row(point) for point in found.points]
    banded(axes, rows, "samples", "loss", colour=RED, marker="")
    _marks(axes, found.points, rows, "loss", RED)
    if found.epsilon is not None:
        dotted(axes, found.epsilon, "ε")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("mean loss, in [0, 1]")
    _over_samples(axes, found, 0.7)


def _over_samples(axes: Axes, found: Calibration, height: float) -> None:
    """Let x be samples, and mark those that are enough, with words at a height."""
    logarithmic(axes)
    if found.samples is not None:
        axes.axvline(found.samples, color=GREY, linewidth=1.0)
        at = float(found.samples), height
        remark(axes, "met from here", at, ("data", "axes fraction"), shift=(-4, 0), ha="right", va="bottom")


def _name(found: Calibration) -> str:
    """Return the rule of a plug-in policy, or else the id of the algorithm."""
    rule = found.algorithm.params.get("rule", found.algorithm.id)
    return str(rule.get("id", "") if isinstance(rule, dict) else rule)


def _marks(axes: Axes, points: Sequence[Point], rows: list[dict[str, Any]], y: str, colour: str) -> None:
    """Draw sizes that are met as full marks, the others as empty ones."""
    for verdict, face in (("met", colour), ("undecided", "lightgrey"), ("not met", "white")):
        chosen = [row for point, row in zip(points, rows, strict=True) if point.verdict == verdict]
        xs, ys = [row["samples"] for row in chosen], [row[y] for row in chosen]
        axes.plot(xs, ys, "o", color=colour, markerfacecolor=face, label=verdict if chosen else None)


def _mark_theory(axes: Axes, found: Calibration, largest: float) -> None:
    """Say how many samples the proof needs, and draw where that is if it is near."""
    text = "no proof says how many" if found.theory is None else f"the proof needs {power(float(found.theory))} samples"
    if found.theory is not None and found.theory <= _NEAR * largest:
        axes.axvline(float(found.theory), color=GREY, linestyle="--", linewidth=1.0)
        text += " (dashed)"
    elif found.theory is not None:
        text += " →"
    remark(axes, text, (1.0, 1.02), "axes fraction", ha="right", va="bottom")


def _row(point: Point) -> dict[str, Any]:
    row: dict[str, Any] = {"samples": float(point.samples if point.samples is not None else point.size)}
    for name, estimate in (("agreement", point.agreement), ("loss", point.loss)):
        if estimate is not None:
            row |= {name: float(estimate), f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return row


def draw_comparison(found: Comparison) -> Figure:
    """Draw, for every line, the samples that were measured and those of the proof."""
    figure, axes = panels((8.0, 1.2 + 0.42 * len(found.rows)), 1, 1)
    panel, rows = axes[0, 0], list(reversed(found.rows))
    logarithmic(panel)
    for i, row in enumerate(rows):
        ends = [float(x) for x in (row.samples, row.theory) if x is not None]
        if len(ends) == 2:
            panel.plot(ends, [i, i], color=GREY, linewidth=0.8)
        if row.samples is not None:
            panel.plot([row.samples], [i], "o", color=BLUE)
        if row.theory is not None:
            panel.plot([float(row.theory)], [i], "D", color=RED, markerfacecolor="white")
        if row.samples is None:
            why = "undecided" if row.met is None else "not met"
            remark(panel, why, (0.01, i), ("axes fraction", "data"))
    panel.plot([], [], "o", color=BLUE, label="measured")
    panel.plot([], [], "D", color=RED, markerfacecolor="white", label="proved")
    panel.set_yticks(range(len(rows)), [row.name for row in rows])
    panel.set_ylim(-0.6, len(rows) - 0.4)
    panel.set_xlabel(f"samples in all for agreement {1.0 - found.rho:g} and loss {number(found.epsilon, 3)}")
    panel.set_title(found.problem.id)
    panel.legend(loc="best")
    return figure
