"""Figures of results, and policies as text: ``rr.plot.policy(run)``, ``rr.draw(run)``.

Every function of a figure returns the Matplotlib axes that it drew on. ``ax=`` draws on axes of yours; without it, a
new figure of pyplot is made, which a notebook shows and ``axes.figure.savefig("policy.png")`` writes. Matplotlib is
the extra ``plot``, imported when something is drawn.

>>> import replicable_rl as rr
>>> run = rr.solve(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seed=1, sample_seed=1)
>>> rr.plot.policy(run).figure.savefig("policy.png")  # doctest: +SKIP

Colours are Okabe and Ito's, which colour-blind readers can tell apart; lines also differ in their markers. Estimates
come with their intervals as bands or whiskers. Figures of experiments are saved so that the same data gives the same
bytes: letters are paths in SVG and embedded in PDF, and nothing in a file comes from a clock.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit import Agreement, AuditResult
from replicable_rl.audit.audits import problem_of
from replicable_rl.diagnose import Calibration, Diagnosis, Point
from replicable_rl.errors import InvalidInput, check_numbers, needs, shown
from replicable_rl.files import replacing
from replicable_rl.logs import Dataset
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.report import Policy, text
from replicable_rl.report.blocks import OPEN, WALL
from replicable_rl.rules import Cuts
from replicable_rl.runs import Run
from replicable_rl.wording import brief, number, plural, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any  # what annotations name, without loading matplotlib

__all__ = ["agreement", "curve", "draw", "fragile_states", "policy"]

_LETTERS = 28  # of a name
_INCHES = 9.0  # of a map
BLACK, GREY = "#222222", "#767676"
BLUE, ORANGE, GREEN, PURPLE, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
FORMATS = ("png", "svg", "pdf")

_STEPS = {"up": (0.0, 1.0), "down": (0.0, -1.0), "left": (-1.0, 0.0), "right": (1.0, 0.0)}
_STYLE = Path(__file__).with_name("plot.mplstyle")
_NO_DATES: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class Drawing(str):
    """A text that a prompt and a notebook show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.2">{escape(self)}</pre>'


def draw(solution: Any, other: Any = None, *, problem: Any = None) -> Drawing:
    """Return a policy as text: a map where the problem has one; of two policies, a star marks where they differ.

    Parameters
    ----------
    solution : Run, Cuts or list of actions
        The policy.
    other : Run, Cuts or list of actions, optional
        A policy to compare it with.
    problem : TabularMDP or Dataset, optional
        The problem, for its names and its map; by default that of a run, where it has an id.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> one, two = (rr.solve(mdp, rr.PhasedVI(0.1, 0.001), shared_seed=1, sample_seed=seed) for seed in (1, 4))
    >>> draw(one, two)
    ┌───┬───┬───┐      ┌───┬───┬───┐
    │ G │*→ │ G │      │ G │*← │ G │
    ├───┼───┼───┤      ├───┼───┼───┤
    │ ↑ │███│ ↑ │      │ ↑ │███│ ↑ │
    ├───┼───┼───┤      ├───┼───┼───┤
    │ ↑ │*→ │ ↑ │      │ ↑ │*← │ ↑ │
    └───┴───┴───┘      └───┴───┴───┘
    """
    return Drawing(text([policies("draw", solution, other, problem)]))


def policies(owner: str, solution: Any, other: Any = None, problem: Any = None) -> Policy:
    """Return the actions of one solution or two, with the names of the problem."""
    solutions = [solution] if other is None else [solution, other]
    actions = [_actions(owner, each) for each in solutions]
    if len({each.size for each in actions}) > 1:
        sizes = " and ".join(str(each.size) for each in actions)
        raise InvalidInput(f"{owner}: both must decide in the same states, got {sizes} of them.")
    labels = _labels(owner, solution, np.concatenate(actions), actions[0].size, problem)
    states = labels.states or tuple(map(str, range(actions[0].size)))
    names = labels.actions or ()
    runs = [
        (run, [names[a] if a < len(names) else str(a) for a in each.tolist()])
        for run, each in zip(("first", "second"), actions, strict=False)
    ]
    return Policy(states, runs, labels.layout)


def _actions(owner: str, solution: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    policy = solution.policy if isinstance(solution, (Run, Cuts)) else solution
    actions = check_numbers(owner, "the solution", policy)
    if actions.ndim != 1 or not actions.size or not ((actions >= 0) & (actions % 1.0 == 0.0) & (actions < 2**31)).all():
        raise InvalidInput(
            f"{owner}: the solution must be a Run, Cuts, or one action for every state, got {shown(policy)}."
        )
    return actions.astype(np.int64)


def _labels(owner: str, solution: Any, actions: Any, n_states: int, problem: Any) -> Labels:
    """Return the names of the problem that is given, or that a run or cuts name by an id."""
    spec = solution.problem if isinstance(solution, Cuts) else None
    if isinstance(solution, Run) and solution.spec is not None:
        spec = solution.spec.problem
    if problem is None and spec is not None:
        problem = problem_of(spec, actions[:n_states])
    if problem is None:
        return (solution.names if isinstance(solution, Cuts) else None) or Labels()
    if not isinstance(problem, (TabularMDP, Dataset)):
        raise InvalidInput(f"{owner}: problem must be a TabularMDP or a Dataset, got {shown(problem)}.")
    if n_states != problem.n_states or actions.max() >= problem.n_actions:
        raise InvalidInput(
            f"{owner}: the policy has {n_states} states and actions up to {actions.max()}, the problem "
            f"{problem.n_states} states and {problem.n_actions} actions. Give the problem that was solved."
        )
    return problem.labels


def policy(solution: Any, other: Any = None, *, problem: Any = None, ax: Any = None) -> Any:
    """Draw the action of every state as arrows on the map of the problem; without a map, :func:`draw` makes a table.

    The parameters are those of :func:`draw`. Two policies are drawn side by side, with frames around the states where
    they differ, on two axes; on a single one, the first is drawn.

    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> one, two = (rr.solve(mdp, rr.PhasedVI(0.1, 0.001), shared_seed=1, sample_seed=seed) for seed in (1, 4))
    >>> left, right = rr.plot.policy(one, two)
    """
    block = policies("plot.policy", solution, other, problem)
    if not block.layout:
        raise InvalidInput("plot.policy: the problem must have a map, got none. Use draw, or pass problem=.")
    columns, rows = len(block.layout[0]), len(block.layout)
    cell = min(0.75, _INCHES / max(columns, rows))
    axes = _axes("plot.policy", ax, len(block.runs), (cell * columns + 0.6, cell * rows + 0.7))
    drawn = sum(state is not None for row in block.cells for _, state in row)
    with styled():
        for (_, actions), panel in zip(block.runs, axes, strict=False):
            named = dict(enumerate(actions[:drawn]))
            draw_map(panel, Labels(layout=tuple(block.layout)), named, set(block.differing))
        if len(axes) == 2:
            count = len(block.differing)
            axes[0].set_title("first")
            axes[1].set_title(f"second: {plural(count, 'state')} differ{'s' * (count == 1)}")
    return axes[0] if len(axes) == 1 else tuple(axes)


def agreement(
    *results: AuditResult, level: str | None = None, names: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw how often two runs agree, with intervals, and 1 − ρ where it is promised.

    The interval holds at every look.

    Parameters
    ----------
    *results : AuditResult
        One audit is drawn at all its levels; several are drawn below each other, at one level.
    level : str, optional
        The level; None: all levels of one audit, the policies of several.
    names : list of str, optional
        What the results are called; None: their algorithms.
    ax : Axes, optional
        Where to draw.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> audits = [rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01, calls=n), shared_seeds=20) for n in (10, 1e4)]
    >>> axes = rr.plot.agreement(*audits, names=["10 calls", "10 000 calls"])
    """
    rows = _agreements(results, level)
    labels = [name for name, _, _ in rows] if names is None else list(names)
    if isinstance(names, str) or len(labels) != len(rows):
        raise InvalidInput(f"plot.agreement: names must be a list of {plural(len(rows), 'text')}, got {shown(names)}.")
    (axes,) = _axes("plot.agreement", ax, 1, (7.0, 1.3 + 0.5 * len(rows)))
    with styled():
        for y, (_, value, rho) in enumerate(rows):
            axes.plot([value.low, value.high], [y, y], color=BLUE, linewidth=5.0, alpha=0.35)
            axes.plot([value.estimate], [y], "o", color=BLUE)
            if rho is not None:
                axes.plot([1.0 - rho] * 2, [y - 0.3, y + 0.3], color=GREEN, linewidth=1.8)
                remark(axes, "1 − ρ", (1.0 - rho, y - 0.3), ha="center", va="bottom", color=GREEN)
        axes.set_yticks(range(len(rows)), [plain_name(name, 48) for name in labels])
        axes.set_ylim(len(rows) - 0.5, -0.75)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("two runs agree with probability")
        axes.grid(True, axis="x")
    return axes


def _agreements(results: Sequence[Any], level: str | None) -> list[tuple[str, Agreement, float | None]]:
    """Return a label, the agreement and ρ of every row."""
    for result in results:
        _check("plot.agreement", "a result", result, AuditResult)
    if len(results) == 1 and level is None:
        return [(name, results[0].agreement(name), results[0].rho) for name in results[0].levels]
    return [(result.algorithm.text, result.agreement(level), result.rho) for result in results]


def curve(calibration: Calibration, *, ax: Any = None) -> Any:
    """Draw the agreement that a calibration measured over the number of samples.

    >>> import replicable_rl as rr
    >>> from replicable_rl.diagnose import calibrate
    >>> found = calibrate(rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2), start=100, shared_seeds=400)
    >>> axes = rr.plot.curve(found)
    """
    _check("plot.curve", "calibration", calibration, Calibration)
    (axes,) = _axes("plot.curve", ax, 1, (7.0, 3.8))
    rows = [_row(point) for point in calibration.points]
    with styled():
        banded(axes, rows, "samples", "agreement", colour=BLUE, marker="")
        for verdict, face in (("met", BLUE), ("undecided", "lightgrey"), ("not met", "white")):
            marked = [row for point, row in zip(calibration.points, rows, strict=True) if point.verdict == verdict]
            xs, ys = [row["samples"] for row in marked], [row["agreement"] for row in marked]
            axes.plot(xs, ys, "o", color=BLUE, markerfacecolor=face, label=verdict if marked else None)
        axes.set_xscale("log")
        dotted(axes, 1.0 - calibration.rho, "1 − ρ")
        axes.set_ylim(-0.02, 1.04)
        if calibration.samples is not None:
            axes.axvline(float(calibration.samples), color=GREY, linewidth=1.0, label="met from here")
        axes.set_title(plain_name(f"{calibration.problem.id}, {calibration.algorithm.id}", 60))
        axes.set_ylabel("agreement of two runs")
        axes.set_xlabel("samples in all" if calibration.points[0].samples is not None else calibration.size_name)
        axes.legend(loc="best")
    return axes


def _row(point: Point) -> dict[str, float]:
    value = point.agreement
    ends = {"agreement": value.estimate, "agreement_low": value.low, "agreement_high": value.high}
    return {"samples": float(point.samples if point.samples is not None else point.size), **ends}


def fragile_states(diagnosis: Diagnosis, limit: int = 20, *, ax: Any = None) -> Any:
    """Draw the states that another log may decide otherwise: how often two logs differ there, and what it costs.

    >>> import replicable_rl as rr
    >>> log = {"state": [0, 0, 1, 1] * 5, "action": [0, 1] * 10, "next_state": [1, 0] * 10}
    >>> log["reward"] = [0, 0.5, 1, 0] * 5
    >>> axes = rr.plot.fragile_states(rr.diagnose(rr.from_transitions(log, gamma=0.9), resamples=20))
    """
    _check("plot.fragile_states", "diagnosis", diagnosis, Diagnosis)
    states = diagnosis.states[:limit]
    (axes,) = _axes("plot.fragile_states", ax, 1, (7.5, 1.3 + 0.34 * max(1, len(states))))
    with styled():
        axes.barh(range(len(states)), [state.share for state in states], color=BLUE, height=0.6)
        for y, state in enumerate(states):
            remark(axes, f"costs {number(state.at_stake, 2)}", (state.share, y), shift=(4, 0), ha="left")
        names = [
            f"{plain_name(state.state)}: {plain_name(state.action, 14)} or {plain_name(state.rival, 14)}"
            for state in states
        ]
        axes.set_yticks(range(len(states)), names)
        axes.set_ylim(max(1, len(states)) - 0.4, -0.6)
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel("two logs differ with probability")
        axes.grid(True, axis="x")
        if not states:
            remark(axes, "no state was decided in two ways", (0.5, 0.5), "axes fraction", ha="center")
        elif len(diagnosis.states) > limit:
            axes.set_title(f"{limit} of {len(diagnosis.states)} fragile states")
    return axes


def plain_name(name: str, longest: int = _LETTERS) -> str:
    """Write a name as it is, and not as a formula: Matplotlib reads dollars as such."""
    return brief(visible(" ".join(name.split())), longest).replace("$", r"\$")


def _check(owner: str, name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidInput(f"{owner}: {name} must be of the class {kind.__name__}, got {shown(value)}.")


def _axes(owner: str, ax: Any, count: int, size: tuple[float, float]) -> list[Axes]:
    """Return the axes to draw on: the user's, or as many as are needed in a new figure."""
    kind = needs("matplotlib.axes", extra="plot", who=owner).Axes
    if ax is None:
        return new_axes(size, count)
    panels = list(ax) if isinstance(ax, (list, tuple, np.ndarray)) else [ax]
    if len(panels) not in (1, count) or not all(isinstance(each, kind) for each in panels):
        pair = ", or a pair of them" if count == 2 else ""
        raise InvalidInput(f"{owner}: ax must be Matplotlib axes{pair}, got {shown(ax)}.")
    return panels


# --- how all figures look -----------------------------------------------------------------------------------------


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
