"""Samples of a pair for an agreement of 0.8 against the loss: a panel for every problem, a marker for every rule."""

from typing import Any

from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.frontier.curves import COARSE, DEFAULT, FINE, PLAIN, PUBLISHED
from replicable_rl.plotting import (
    BAND,
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    Axes,
    Figure,
    bounded,
    panels,
)

_COLUMNS = 4
_RIGHT = 7.0  # per cent: what loses more is drawn at the edge
_LITTLE = 0.1  # per cent: what loses less stands in a band of its own, where every rule has its place
_BAND = (-4.1, -0.35)
_ASIDE = {DEFAULT: -0.15, PUBLISHED: 0.15}  # per cent, for these two often lose the same
_LOOKS = {
    DEFAULT: ("o", BLUE),
    PUBLISHED: ("*", RED),
    "tolerance": ("^", GREEN),
    "rounded": ("s", PURPLE),
    "gumbel": ("D", ORANGE),
    PLAIN: ("X", BLACK),
    COARSE: ("P", GREY),
    FINE: ("p", GREY),
}


def draw(dataset: Dataset) -> Figure:
    """Draw every curve's end: how many samples, and what they lose."""
    needed = dataset.tables["needed"]
    problems = needed.distinct("problem")
    columns = min(_COLUMNS, len(problems))
    lines = -(-len(problems) // columns)
    figure, axes = panels((12.5, 2.75 * lines + 1.0), lines, columns, sharex=True, sharey=True)
    for panel, problem in zip(axes.flat, problems, strict=False):
        rows = needed.where(problem=problem)
        panel.axvspan(*_BAND, color=BAND, linewidth=0)
        bounded(panel, 100.0 * dataset.details["budget"], "budget" if panel is axes[0, 0] else "")
        for row in rows:
            _mark(panel, row)
        panel.set_title(f"{problem} (S = {rows[0]['states']})", fontsize=10.5)
        panel.grid(True, axis="both")
    _scales(axes, needed)
    for panel in list(axes.flat)[len(problems) :]:
        panel.set_visible(False)
    handles = [
        axes[0, 0].plot([], [], linestyle="none", **_look(rule), label=rule)[0]
        for rule in _LOOKS
        if rule in needed.distinct("rule")
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), handletextpad=0.1, columnspacing=1.2)
    return figure


def _scales(axes: Any, needed: Table) -> None:
    """Set the scales, which all panels share, and name them at the left and below."""
    first = axes[0, 0]
    first.set(yscale="log", xlim=(_BAND[0] - 0.2, _RIGHT + 0.9))
    first.set_xticks([sum(_BAND) / 2.0, 1, 3, 5, 7], [f"< {_LITTLE:g}", "1", "3", "5", "7"])
    first.set_ylim(min(needed.column("tried_from")) / 5.0, max(needed.column("tried_to")) * 8.0)
    first.set_yticks([10.0**k for k in range(3, 17, 3)])
    first.minorticks_off()
    for panel in axes[:, 0]:
        panel.set_ylabel("samples per pair")
    for panel in axes[-1]:
        panel.set_xlabel("loss, % of the gain")


def _look(rule: str, hollow: bool = False) -> dict[str, Any]:
    marker, colour = _LOOKS[rule]
    size = 10.0 if marker == "*" else 6.5
    return {"marker": marker, "color": colour, "markersize": size, "markerfacecolor": "white" if hollow else colour}


def _mark(panel: Axes, row: dict[str, Any]) -> None:
    """Draw one curve's end, with the interval of its samples."""
    lost, place = 100.0 * row["loss"], list(_LOOKS).index(row["rule"])
    slot = (_BAND[1] - _BAND[0]) / len(_LOOKS)
    x = _BAND[0] + slot * (place + 0.5) if lost < _LITTLE else min(lost, _RIGHT) + _ASIDE.get(row["rule"], 0.0)
    reached = row["samples"] is not None
    y = float(row["samples"] if reached else row["tried_to"])
    look = _look(row["rule"], hollow=not reached)
    low, high = (row[f"samples_{end}"] for end in ("low", "high"))
    if reached:
        panel.plot([x, x], [low or y, high or y], color=look["color"], linewidth=1.6, alpha=0.55)
    panel.plot(x, y, linestyle="none", **look)
    if not reached:
        _arrow(panel, (x, y), (0, 14), look["color"])
    elif row["at_the_first_size"]:
        _arrow(panel, (x, y), (0, -14), look["color"])
    if lost > _RIGHT:
        _arrow(panel, (x, y), (14, 0), look["color"])


def _arrow(panel: Axes, at: tuple[float, float], by: tuple[int, int], colour: str) -> None:
    """Draw an arrow from a point by so many points of print."""
    style = {"arrowstyle": "<-", "color": colour, "linewidth": 1.1, "shrinkA": 0.0, "shrinkB": 3.0}
    panel.annotate("", xy=at, xytext=by, textcoords="offset points", arrowprops=style)
