"""The theorems at their own sample sizes: samples drawn, disagreement against rho, error against epsilon, time."""

from typing import Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import SHORT_NAMES
from replicable_rl.experiments.theorem.analysis import FORMS, LEVELS
from replicable_rl.plotting import COLOURS, Figure, bounded, logarithmic, panels, said

_SHAPES = {"sharp": ("o", True), "tight": ("s", False), "printed": ("D", False)}  # marker, and whether it is filled
_STEP, _BETWEEN = 0.3, 0.35  # between two forms, and between two problems
_SMALLEST = 1e-4  # what is less than this part of epsilon is drawn here, as an arrow to the left
_PANELS = (
    ("Samples of a run", "drawn, at the theorem's own m"),
    ("Pairs that differ", "share, 95 % interval"),
    ("Worst error, in ε", "of the loss, of an entry"),
    ("Time of a run", "milliseconds, median"),
)


def draw(dataset: Dataset) -> Figure:
    """Draw a line for every problem, algorithm and form, and what was found about it side by side."""
    rows, rho = list(dataset.tables["theorems"]), dataset.details["rho"]
    places, names = _places(rows)
    widths = {"width_ratios": [1.0, 1.25, 1.1, 1.0]}
    figure, ((first, *others),) = panels((12.5, 0.62 * -places[-1] + 2.2), 1, 4, sharey=True, gridspec_kw=widths)
    axes = [first, *others]
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
    first.set_yticks(list(names.values()), list(names))
    first.set_ylim(places[-1] - 0.6, 0.6)
    handles = [
        first.plot([], [], **_look(algorithm, form), label=f"{SHORT_NAMES[algorithm]}, {_called(form)}")[0]
        for algorithm in LEVELS
        for form in FORMS[algorithm]
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure


def _places(rows: list[dict[str, Any]]) -> tuple[list[float], dict[str, float]]:
    """Return the height of every row, and of the name of every problem: in the middle of its rows."""
    places: list[float] = []
    of_problem: dict[str, list[float]] = {}
    y = _STEP
    for row in rows:
        y -= _STEP if row["problem"] in of_problem or not of_problem else _STEP + _BETWEEN
        of_problem.setdefault(row["problem"], []).append(y)
        places.append(y)
    return places, {name: (ys[0] + ys[-1]) / 2.0 for name, ys in of_problem.items()}


def _called(form: str) -> str:
    return "as printed" if form == "printed" else form


def _look(algorithm: str, form: str) -> dict[str, Any]:
    colour, (marker, filled) = COLOURS[list(LEVELS).index(algorithm)], _SHAPES[form]
    face = colour if filled else "white"
    return {"color": colour, "marker": marker, "linestyle": "none", "markersize": 5.5, "markerfacecolor": face}


def _line(axes: list[Any], y: float, row: dict[str, Any]) -> None:
    look = _look(row["algorithm"], row["form"])
    axes[0].plot(float(row["samples_a_run"]), y, **look)
    axes[1].plot([row["disagreement_low"], row["disagreement_high"]], [y, y], color=look["color"], linewidth=1.8)
    axes[1].plot(row["disagreement"], y, **look)
    said(axes[1], f"{row['differ']} of {row['pairs']}", (row["disagreement_high"], y), shift=(6, 0), fontsize=7.5)
    error = row["worst_error"] / row["epsilon"]
    axes[2].plot(max(error, _SMALLEST), y, **look | ({"marker": "<"} if error < _SMALLEST else {}))
    axes[3].plot(1e3 * row["median_seconds_a_run"], y, **look)
