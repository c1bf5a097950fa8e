"""How all figures look, and how they are saved so that the same data gives the same bytes.

This is the one module that imports matplotlib, and only when something is drawn. Colours are Okabe and Ito's, which
colour-blind readers can tell apart; lines also differ in their markers. Estimates come with their intervals as bands or
whiskers. Letters are drawn as paths in SVG and embedded in PDF, so that a figure looks the same everywhere, and nothing
in a file comes from a clock.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.errors import needs
from replicable_rl.files import replacing
from replicable_rl.problem.table import Labels
from replicable_rl.report.blocks import OPEN, WALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any  # what annotations name, without loading matplotlib

BLACK, GREY = "#222222", "#767676"
BLUE, ORANGE, GREEN, PURPLE, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
FORMATS = ("png", "svg", "pdf")

_STEPS = {"up": (0.0, 1.0), "down": (0.0, -1.0), "left": (-1.0, 0.0), "right": (1.0, 0.0)}
_STYLE = Path(__file__).with_name("plotting.mplstyle")
_NO_DATES: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw inside the block in the house style, whatever the user's own matplotlib settings are."""
    mpl = needs("matplotlib", extra="plot", who="plot")
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(mpl.rc_params_from_file(_STYLE, use_default_template=False))
        yield


def panels(
    size: tuple[float, float], rows: int, columns: int, *, room: float = 1.0, **options: Any
) -> tuple[Figure, Any]:
    """Return a new figure and its (rows, columns) panels.

    Titles of panels that keep their shape need room of their own: they get ``1 - room`` of the height.
    """
    needs("matplotlib", extra="plot", who="plot")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(rect=(0.0, 0.0, 1.0, room)))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def new_axes(size: tuple[float, float], count: int = 1) -> list[Axes]:
    """Return axes side by side in a new figure of pyplot, each of this size, which a notebook shows."""
    import matplotlib.pyplot as plt

    # Outside of the style: the first figure sets up the notebook, which must outlast it.
    figure = plt.figure(figsize=(size[0] * count, size[1]), facecolor="white", layout="constrained")
    with styled():
        return list(figure.subplots(1, count, squeeze=False)[0])


def save_all(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG, SVG and PDF, each whole or not at all, without a date."""
    files = []
    with styled():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is found: not once more for every format
        for kind in FORMATS:
            files.append(folder / f"{name}.{kind}")
            with replacing(files[-1]) as stream:
                figure.savefig(stream, format=kind, dpi=150, metadata=_NO_DATES[kind])
    return files


def banded(
    axes: Axes, rows: Sequence[Mapping[str, Any]], x: str, y: str, *, colour: str, marker: str, **line: Any
) -> None:
    """Draw an estimate over x as a line, and its interval as a band."""
    xs = [float(row[x]) for row in rows]
    low, middle, high = ([row[name] for row in rows] for name in (f"{y}_low", y, f"{y}_high"))
    axes.fill_between(xs, low, high, color=colour, alpha=0.13, linewidth=0)
    axes.plot(xs, middle, **{"color": colour, "marker": marker, "markeredgecolor": "white"} | line)


def remark(axes: Axes, text: str, at: tuple[float, float], xycoords: Any = "data", **options: Any) -> None:
    """Write a few words beside a point, by default in grey; ``shift`` moves them by some points."""
    shift = options.pop("shift", (0, 0))
    usual: dict[str, Any] = {"fontsize": 9.5, "color": GREY, "va": "center", "annotation_clip": False}
    axes.annotate(text, at, xycoords=xycoords, xytext=shift, textcoords="offset points", **usual | options)


def dotted(axes: Axes, level: float, text: str, *, x: float = 0.01, above: bool = True) -> None:
    """Draw the dotted line that an estimate is compared with, and say what it is."""
    axes.axhline(level, color=GREEN, linestyle=(0, (1, 2)), linewidth=1.8)
    shift, va = ((0, 3), "bottom") if above else ((0, -3), "top")
    remark(axes, text, (x, level), ("axes fraction", "data"), shift=shift, va=va, color=GREEN)


def bounded(axes: Axes, at: float, text: str) -> None:
    """Draw the dotted line that upright estimates must stay left of, and say what it is."""
    axes.axvline(at, color=GREEN, linestyle=(0, (1, 2)), linewidth=1.8)
    remark(axes, text, (at, 1.0), ("data", "axes fraction"), shift=(-4, -2), ha="right", va="top", color=GREEN)


def box(axes: Axes, x: float, y: float, side: float, face: str, edge: str, linewidth: float = 0.8) -> None:
    """Draw a square with its lower left corner at (x, y)."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), side, side, facecolor=face, edgecolor=edge, linewidth=linewidth))


def arrow(axes: Axes, tail: tuple[float, float], head: tuple[float, float], colour: str) -> None:
    """Draw an arrow."""
    from matplotlib.patches import FancyArrowPatch

    axes.add_patch(FancyArrowPatch(tail, head, arrowstyle="-|>", mutation_scale=9, color=colour, linewidth=1.4))


def draw_map(
    axes: Axes,
    labels: Labels,
    actions: Mapping[int, str],
    differing: Collection[int] = (),
    *,
    goals: Sequence[str] = (),
) -> None:
    """Draw a map: an arrow, or else the action's name, in open cells; cells where another run differs are framed."""
    layout, colours, states = labels.layout or (), iter(goals), itertools.count()
    for y, line in zip(range(len(layout) - 1, -1, -1), layout, strict=True):
        for x, letter in enumerate(line):
            state, is_goal = None if letter == WALL else next(states), letter == "G"
            inside = "#4A4A4A" if state is None else next(colours, GREEN) if is_goal else "white"
            box(axes, x, y, 1, inside, "#BBBBBB")
            if state is not None and state in actions and letter in OPEN:
                _decision(axes, x, y, actions[state], state in differing)
            elif state is not None and (letter == "S" or letter not in OPEN):
                colour = "white" if is_goal else BLACK
                axes.text(x + 0.5, y + 0.48, letter, ha="center", va="center", color=colour, fontweight="bold")
    axes.set(xlim=(-0.06, len(layout[0]) + 0.06), ylim=(-0.06, len(layout) + 0.06), aspect="equal")
    axes.axis("off")


def _decision(axes: Axes, x: float, y: float, action: str, differs: bool) -> None:
    colour = RED if differs else BLACK
    if differs:
        box(axes, x + 0.04, y + 0.04, 0.92, "#FFE9A8", RED, linewidth=1.6)
    if action not in _STEPS:
        axes.text(x + 0.5, y + 0.48, action[:3], ha="center", va="center", color=colour)
        return
    dx, dy = _STEPS[action]
    tail, head = (x + 0.5 - 0.32 * dx, y + 0.5 - 0.32 * dy), (x + 0.5 + 0.34 * dx, y + 0.5 + 0.34 * dy)
    arrow(axes, tail, head, colour)


def logarithmic(axes: Axes) -> None:
    """Make the x axis logarithmic; ticks at powers of ten are enough, and the others take most of the time."""
    axes.set_xscale("log")
    axes.minorticks_off()


def power(x: float) -> str:
    """Write a number as a power of ten for a label.

    >>> power(1e15), power(2.6e19)
    ('$10^{15}$', '$2.6·10^{19}$')
    """
    mantissa, _, exponent = f"{x:.1e}".partition("e")
    factor = "" if mantissa == "1.0" else f"{mantissa}·"
    return f"${factor}10^{{{int(exponent)}}}$"
