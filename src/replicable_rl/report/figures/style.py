"""How all figures look, and how they are saved so that the same data gives the same bytes.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; lines also differ in their markers.
Estimates come with their intervals as bands or whiskers. Letters are drawn as paths in SVG and embedded in PDF,
so that a figure looks the same everywhere, and nothing in a file comes from a clock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLACK",
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "MARKERS",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "banded",
    "dotted",
    "label_end",
    "logarithmic",
    "power",
    "save",
    "styled",
]

BLACK, GREY = "#222222", "#767676"
BLUE, ORANGE, GREEN, PURPLE, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
FORMATS = ("png", "svg", "pdf")

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 11.0,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 11.0,
    "axes.labelcolor": BLACK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 10.0,
    "figure.dpi": 100.0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "replicable-rl",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "path.simplify": False,
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw inside the block in the house style, whatever the user's own matplotlib settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]  # names are checked when it runs
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG, SVG and PDF, each whole or not at all, without a date."""
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    files = []
    with styled():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is found: not once more for every format
        for kind in FORMATS:
            files.append(folder / f"{name}.{kind}")
            with replacing(files[-1]) as stream:
                figure.savefig(stream, format=kind, dpi=150, metadata=metadata[kind])
    return files


def banded(
    axes: Axes, rows: Sequence[dict[str, Any]], x: str, y: str, *, colour: str, marker: str, **line: Any
) -> None:
    """Draw an estimate over x as a line, and its interval as a band."""
    xs = [float(row[x]) for row in rows]
    axes.fill_between(
        xs, [row[f"{y}_low"] for row in rows], [row[f"{y}_high"] for row in rows], color=colour, alpha=0.13, linewidth=0
    )
    axes.plot(xs, [row[y] for row in rows], **{"color": colour, "marker": marker, "markeredgecolor": "white"} | line)


def dotted(axes: Axes, level: float, text: str, *, x: float = 0.01, above: bool = True) -> None:
    """Draw the dotted line that an estimate is compared with, and say what it is."""
    axes.axhline(level, color=GREEN, linestyle=(0, (1, 2)), linewidth=1.8)
    axes.annotate(
        text,
        (x, level),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3 if above else -3),
        textcoords="offset points",
        color=GREEN,
        va="bottom" if above else "top",
        fontsize=9.5,
    )


def label_end(axes: Axes, x: float, y: float, text: str, colour: str, *, dy: float = 0.0) -> None:
    """Name a line at its right end, where the eye is when it gets there."""
    axes.annotate(
        text,
        (x, y),
        xytext=(7, dy),
        textcoords="offset points",
        color=colour,
        va="center",
        fontsize=9.5,
        annotation_clip=False,
    )


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
