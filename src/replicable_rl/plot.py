"""Figures of results: every function returns the Matplotlib axes that it drew on.

``ax=`` draws on axes of your own; without it a new figure of pyplot is made, which a notebook shows and
``ax.figure.savefig("policy.png")`` writes. Matplotlib is imported when something is drawn.

>>> import replicable_rl as rr
>>> run = rr.solve(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seed=1, sample_seed=1)
>>> rr.plot.policy(run).figure.savefig("policy.png")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from replicable_rl.audit import Agreement, AuditResult
from replicable_rl.diagnose import Calibration, Comparison, Diagnosis
from replicable_rl.errors import InvalidInput, check_choice, check_integer, shown
from replicable_rl.pages.decided import both, differ
from replicable_rl.pages.decided_figures import draw_decisions, plain_name, policy_size
from replicable_rl.pages.diagnose_figures import agreement_panel, loss_panel
from replicable_rl.plotting import (
    BLUE,
    COLOURS,
    GREEN,
    MARKERS,
    Axes,
    bounded,
    new_axes,
    readable,
    said,
    styled,
)
from replicable_rl.wording import number, plural

__all__ = ["agreement", "curve", "fragile_states", "frontier", "policy"]

_LONGEST = 28  # letters of a name


def policy(solution: Any, other: Any = None, *, problem: Any = None, ax: Any = None) -> Any:
    """Draw what is done in every state: arrows on a map, or a strip of states and actions where there is none.

    Parameters
    ----------
    solution : Run, Cuts or list of actions
        What is drawn.
    other : Run, Cuts or list of actions, optional
        What it is compared with: both are drawn side by side, and states where they differ are framed.
    problem : TabularMDP or Dataset, optional
        Whose states these are. None takes the problem of a run, where that has an id; for arrays of your own, pass it.
    ax : Axes, or a pair of them, optional
        Where to draw. On a single one, the first of two is drawn.

    Returns
    -------
    Axes, or a pair of them
        What was drawn on.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp = rr.make("two-goals-v1")
    >>> one, two = (rr.solve(mdp, rr.PhasedVI(0.1, 0.001), shared_seed=1, sample_seed=seed) for seed in (1, 4))
    >>> left, right = rr.plot.policy(one, two)
    """
    first, second = both("plot.policy", solution, other, problem)
    differing = set() if second is None else set(np.flatnonzero(differ(first, second)).tolist())
    shown_ones = [first] if second is None else [first, second]
    axes = _axes("plot.policy", ax, len(shown_ones), policy_size(first))
    with styled():
        for one, panel in zip(shown_ones, axes, strict=False):
            draw_decisions(panel, one, differing)
        if second is not None and len(axes) == 2:
            axes[0].set_title("first")
            axes[1].set_title(f"second: {plural(len(differing), 'state')} differ{'s' * (len(differing) == 1)}")
    return axes[0] if len(axes) == 1 else tuple(axes)


def agreement(
    *results: AuditResult | Agreement, level: str | None = None, names: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw how often two runs agree, with intervals and, where there is one, the line 1 - rho.

    The thick line is the interval for one look, the thin one that for every look.

    Parameters
    ----------
    *results : AuditResult or Agreement
        One audit is drawn at all its levels; several are drawn below each other, at one level.
    level : str, optional
        The level; None: all levels of one audit, the policies of several.
    names : list of str, optional
        What the results are called; None: their algorithms and problems.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        What was drawn on.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> audits = [rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01, calls=n), shared_seeds=20) for n in (10, 1e4)]
    >>> ax = rr.plot.agreement(*audits, names=["10 calls", "10 000 calls"])
    """
    rows = _agreements(results, level)
    labels = [label for label, _, _ in rows] if names is None else _names(names, len(rows))
    (axes,) = _axes("plot.agreement", ax, 1, (7.0, 1.3 + 0.5 * len(rows)))
    with styled():
        promises = {rho for _, _, rho in rows}
        for y, (_, found, rho) in enumerate(rows):
            axes.plot([found.every_look.low, found.every_look.high], [y, y], color=BLUE, linewidth=1.2)
            axes.plot([found.low, found.high], [y, y], color=BLUE, linewidth=5.0, alpha=0.35)
            axes.plot([found.estimate], [y], "o", color=BLUE)
            if rho is not None and len(promises) > 1:  # each its own, or some none
                axes.plot([1.0 - rho] * 2, [y - 0.3, y + 0.3], color=GREEN, linewidth=1.8)
                said(axes, "1 − ρ", (1.0 - rho, y - 0.3), ha="center", va="bottom", color=GREEN)
        if len(promises) == 1 and (rho := promises.pop()) is not None:
            bounded(axes, 1.0 - rho, "1 − ρ ")
        axes.set_yticks(range(len(rows)), [plain_name(label, 48) for label in labels])
        axes.set_ylim(len(rows) - 0.5, -0.75)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("two runs agree with probability")
        axes.grid(True, axis="x")
    return axes


def curve(found: Calibration, of: str = "agreement", *, ax: Any = None) -> Any:
    """Draw what a calibration measured over the number of samples, with intervals and what was asked.

    Parameters
    ----------
    found : Calibration
        From :func:`replicable_rl.calibrate`.
    of : {"agreement", "loss"}
        What is drawn over the samples.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        What was drawn on.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> from replicable_rl.diagnose import calibrate
    >>> found = calibrate(rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2), start=100, shared_seeds=400)
    >>> ax = rr.plot.curve(found)
    """
    _check("plot.curve", "found", found, Calibration)
    of = check_choice("plot.curve", "of", of, ("agreement", "loss"))
    if of == "loss" and any(point.loss is None for point in found.points):
        raise InvalidInput("plot.curve: losses are not known where the problem is no table. Draw the agreement.")
    (axes,) = _axes("plot.curve", ax, 1, (7.0, 3.8))
    with styled():
        (agreement_panel if of == "agreement" else loss_panel)(axes, found)
        axes.set_xlabel("samples in all" if found.points[0].samples is not None else found.size_name)
        readable(axes)
        handles, texts = axes.get_legend_handles_labels()
        if handles:
            axes.legend(handles, texts, loc="best")
        if of == "loss":
            axes.set_title(plain_name(f"{found.problem.id}, {found.algorithm.id}", 60))
    return axes


def frontier(found: Comparison, *, ax: Any = None) -> Any:
    """Draw the samples that every rule and algorithm needs against what its policies lose.

    Parameters
    ----------
    found : Comparison
        From :func:`replicable_rl.compare`, on a table: nobody knows losses elsewhere.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        What was drawn on.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp = rr.make("chain-v1")
    >>> ax = rr.plot.frontier(rr.compare(mdp, algorithms=["greedy", "affordable"], start=64, shared_seeds=300))
    """
    _check("plot.frontier", "found", found, Comparison)
    if found.gain is None:
        raise InvalidInput("plot.frontier: losses are not known where the problem is no table. Use found.plot(path).")
    (axes,) = _axes("plot.frontier", ax, 1, (7.5, 4.2))
    with styled():
        axes.set_yscale("log")
        axes.minorticks_off()
        for i, row in enumerate(found.rows):
            look: dict[str, Any] = {
                "color": COLOURS[i % len(COLOURS)],
                "marker": MARKERS[(i + i // len(COLOURS)) % len(MARKERS)],  # no two lines look the same
                "linestyle": "none",
            }
            name = plain_name(row.name, _LONGEST)
            if row.samples is not None and row.loss is not None:
                axes.plot([row.loss], [row.samples], label=name, markersize=8, alpha=0.8, **look)
            else:
                why = "undecided" if row.met is None else "not met"
                axes.plot([], [], label=f"{name}: {why}", markerfacecolor="white", **look)
        if found.met is not True:
            said(axes, "nothing is met at the sizes tried", (0.4, 0.5), "axes fraction", ha="center")
        bounded(axes, found.epsilon, "loss allowed ")
        axes.set_xlim(-0.03 * found.epsilon, 1.1 * found.epsilon)
        axes.set_xlabel("mean loss, in values normalised to [0, 1]")
        axes.set_ylabel(f"samples for an agreement of {1.0 - found.rho:g}")
        axes.set_title(plain_name(found.problem.text, 60))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def fragile_states(found: Diagnosis, most: int = 20, *, ax: Any = None) -> Any:
    """Draw the states that another log may decide otherwise: how often two logs differ there, and what it costs.

    Parameters
    ----------
    found : Diagnosis
        From :func:`replicable_rl.diagnose`.
    most : int
        So many states at most, the most fragile first.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        What was drawn on.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> log = {"state": [0, 0, 1, 1] * 5, "action": [0, 1] * 10, "next_state": [1, 0] * 10}
    >>> log["reward"] = [0, 0.5, 1, 0] * 5
    >>> ax = rr.plot.fragile_states(rr.diagnose(rr.from_transitions(log, gamma=0.9), resamples=20))
    """
    _check("plot.fragile_states", "found", found, Diagnosis)
    most = check_integer("plot.fragile_states", "most", most, low=1, high=1000)
    states = found.states[:most]
    (axes,) = _axes("plot.fragile_states", ax, 1, (7.5, 1.3 + 0.34 * max(1, len(states))))
    with styled():
        axes.barh(range(len(states)), [one.share for one in states], color=BLUE, height=0.6)
        for y, one in enumerate(states):
            said(axes, f"costs {number(one.at_stake, 2)}", (one.share, y), shift=(4, 0), ha="left")
        names = [
            f"{plain_name(one.state)}: {plain_name(one.action, 14)} or {plain_name(one.rival, 14)}" for one in states
        ]
        axes.set_yticks(range(len(states)), names)
        axes.set_ylim(max(1, len(states)) - 0.4, -0.6)
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel("two logs differ with probability")
        axes.grid(True, axis="x")
        if not states:
            said(axes, "no state was decided in two ways", (0.5, 0.5), "axes fraction", ha="center")
        elif len(found.states) > most:
            shown_ones = "most fragile" if most == 1 else f"{most} most fragile"
            axes.set_title(f"the {shown_ones} of {len(found.states)} states")
    return axes


# --- agreements --------------------------------------------------------------------------------------


def _agreements(results: tuple[Any, ...], level: str | None) -> list[tuple[str, Agreement, float | None]]:
    """Return what is drawn: a label, the agreement, and rho."""
    if not results:
        raise InvalidInput("plot.agreement: needs one result of an audit or more, got none.")
    rows: list[tuple[str, Agreement, float | None]] = []
    for one in results:
        if isinstance(one, Agreement):
            rows.append((one.level, one, None))
            continue
        _check("plot.agreement", "a result", one, AuditResult)
        levels = list(one.levels) if level is None and len(results) == 1 else [level]
        for found in map(one.agreement, levels):
            rows.append((found.level if len(results) == 1 else _of(one, results), found, one.rho))
    if not rows:
        raise InvalidInput("plot.agreement: every run of this audit failed, so there is nothing to draw.")
    return rows


def _of(result: AuditResult, results: tuple[Any, ...]) -> str:
    """Return what tells an audit from the others: its algorithm, and its settings and its problem where they differ."""
    ids = [one.algorithm.id for one in results if isinstance(one, AuditResult)]
    algorithm = result.algorithm.id if len(set(ids)) == len(ids) else result.algorithm.text
    problems = {one.problem for one in results if isinstance(one, AuditResult)}
    return algorithm if len(problems) == 1 else f"{algorithm} on {result.problem.text}"


def _names(names: Any, count: int) -> list[str]:
    texts = list(names) if isinstance(names, (list, tuple)) and all(isinstance(one, str) for one in names) else []
    if len(texts) != count:
        raise InvalidInput(f"plot.agreement: names must be a list of {plural(count, 'text')}, got {shown(names)}.")
    return texts


# --- all of them -------------------------------------------------------------------------------------


def _check(owner: str, name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InvalidInput(f"{owner}: {name} must be {article} {kind.__name__}, got {shown(value)}.")


def _axes(owner: str, ax: Any, count: int, size: tuple[float, float]) -> list[Axes]:
    """Return the axes to draw on: the user's own, or as many as are needed in a new figure."""
    if ax is None:
        return new_axes(size, count)
    given = list(ax) if isinstance(ax, (list, tuple)) or getattr(ax, "ndim", None) == 1 else [ax]
    if len(given) not in (1, count) or not all(hasattr(one, "add_patch") and hasattr(one, "imshow") for one in given):
        pair = ", or a pair of them" if count == 2 else ""
        raise InvalidInput(f"{owner}: ax must be Matplotlib axes{pair}, got {shown(ax)}.")
    return given
