"""Model, value, policy: whether each level is harder to replicate than the next.

The same model gives the same value and the same value the same policy, so agreement cannot fall along the chain. The
paper expects it to *rise*: replicating a model should be hardest, a policy easiest. ApproximateMDP learns the model and
plans; rPVI estimates values directly. Both run over a range of sample sizes, and for each level the samples at which
two runs agree with probability 0.8 are read off.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import agreement, crossing, of_each, undecided
from replicable_rl.experiments.experiment import (
    SHORT_NAMES,
    Data,
    Experiment,
    Row,
    Scale,
    Study,
    Verdict,
    shown,
    table,
    where,
)
from replicable_rl.plotting import BLUE, GREEN, ORANGE, RED, Axes, Figure, banded, dotted, logarithmic, panels, remark
from replicable_rl.runs import ObjectSpec

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
TARGET = 0.8
TOLERANCE = 0.02  # of a query about a value or a probability, both in [0, 1]
PROMISE = {"epsilon": TOLERANCE, "delta": 0.001, "rho": 0.2, "tolerance": TOLERANCE}
MODEL, VALUE = "replicable-approximate-mdp-v1", "rpvi-v1"
CALLS = {  # in powers of ten, and more densely where values and models pass the target
    MODEL: (*(10**k for k in range(3, 8)), 3 * 10**7, 10**8, 3 * 10**8, 10**9, 3 * 10**9, 10**10),
    VALUE: (*(10**k for k in range(2, 6)), 2 * 10**5, 10**6, 3 * 10**6, 10**7, 10**8),
}
ENOUGH_PAIRS = 50  # that never differ, to say that two levels do not
_CROSS = {"marker": "x", "markeredgecolor": ORANGE, "markersize": 9.0, "linestyle": "none"}
_LOOK: dict[tuple[str, str], dict[str, Any]] = {
    (MODEL, "model"): {"colour": BLUE, "marker": "o"},
    (MODEL, "value"): {"colour": ORANGE, **_CROSS},
    (MODEL, "policy"): {"colour": BLUE, "marker": "^", "linestyle": "--"},
    (VALUE, "value"): {"colour": RED, "marker": "s"},
    (VALUE, "policy"): {"colour": RED, "marker": "v", "linestyle": "--"},
}


def design(scale: Scale) -> list[Study]:
    """Return both algorithms over their range of calls, on both grids."""
    studies = []
    for problem, name in itertools.product(GRIDS, CALLS):
        for calls in scale.some(CALLS[name]):
            point = {"problem": problem, "algorithm": name, "calls": calls}
            studies.append(Study.of(point, problem, ObjectSpec(name, {**PROMISE, "calls": calls}), scale.pairs))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
    """Return agreement at every level over the samples, and the samples at which it passes the target."""
    rows: list[Row] = []
    for study, result in zip(studies, results, strict=True):
        levels = [level for algorithm, level in _LOOK if algorithm == study.point["algorithm"]]
        about = {**study.point, "samples": result.runs[0].samples}
        rows += [{**about, "level": level, **agreement(result, level)} for level in levels]
    needed = []
    for problem, (algorithm, level) in itertools.product(GRIDS, _LOOK):
        curve = where(rows, problem=problem, algorithm=algorithm, level=level)
        samples, counts = [row["samples"] for row in curve], [(row["same"], row["pairs"]) for row in curve]
        about = {"problem": problem, "algorithm": algorithm, "level": level}
        about |= {"tried_from": samples[0], "tried_to": samples[-1]}
        needed.append(about | crossing("samples", samples, counts, TARGET))
    return Data({"agreement": rows, "needed": needed}, {**PROMISE, "target": TARGET})


def verdicts(data: Data) -> list[Verdict]:
    """Judge that each level is easier than the one before it, and that values are cheaper than models."""
    return [
        _easier(data, MODEL, "value", "model"),
        _easier(data, MODEL, "policy", "value"),
        _easier(data, VALUE, "policy", "value"),
        *(_cheaper(data, grid) for grid in GRIDS),
    ]


def _easier(data: Data, algorithm: str, easy: str, hard: str) -> Verdict:
    """Compare two levels of the same runs: count the grids on which, at some size, one clearly agrees more often."""
    clear, alike, text = 0, True, ""
    rests_on: list[Row] = []
    for grid in GRIDS:
        points = where(data.tables["agreement"], problem=grid, algorithm=algorithm)
        rows = list(zip(where(points, level=easy), where(points, level=hard), strict=True))
        gap = max(rows, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
        alike = alike and all(a["same"] == b["same"] for a, b in rows)
        clear += any(a["agreement_low"] > b["agreement_high"] for a, b in rows)
        rests_on += gap
        text = f"{shown(gap[0], 'agreement')} and {shown(gap[1], 'agreement')}"
    same = " (the same in every pair of runs)" if alike else ""
    return Verdict.judged(
        f"A {easy} is easier to replicate than a {hard} ({SHORT_NAMES[algorithm]})",
        "sec:rep-rl",
        f"agreement of {easy} and {hard}, where furthest apart on {GRIDS[-1]}: {text}{same}",
        yes=clear == len(GRIDS),
        no=alike and min(row["pairs"] for row in data.tables["agreement"]) >= ENOUGH_PAIRS,
        rests_on=rests_on,
    )


def _cheaper(data: Data, grid: str) -> Verdict:
    both = [(VALUE, "value"), (MODEL, "model")]
    needed, curves = (
        [where(data.tables[name], problem=grid, algorithm=algorithm, level=level) for algorithm, level in both]
        for name in ("needed", "agreement")
    )
    (value,), (model,) = needed
    return Verdict.judged(
        f"Estimating values directly is much cheaper than estimating the model ({grid})",
        "app:rep-app-mpd",
        f"samples for an agreement of 0.8: value {_samples(value)}, model {_samples(model)}, same tolerance",
        yes=_below(value, model),
        no=_below(model, value),
        rests_on=[row for curve in curves for row in curve if undecided(row, TARGET, of_each(len(curve)))],
    )


def _below(less: Row, more: Row) -> bool:
    """Whether what is enough for one is too little for the other."""
    enough, too_few = less["samples_high"], more["samples_low"]
    return enough is not None and too_few is not None and enough < too_few


def _samples(row: Row) -> str:
    low, middle, high = (
        "beyond" if row[name] is None else f"{row[name]:.2g}" for name in ("samples_low", "samples", "samples_high")
    )
    return f"{middle} ({low}–{high})"


def draw(data: Data) -> Figure:
    """Draw the agreement on each grid, and below it the samples at which each level passes the target."""
    figure, axes = panels((11.5, 6.4), 2, len(GRIDS), sharex="col", gridspec_kw={"height_ratios": [2.2, 1.0]})
    for grid, (above, below) in zip(GRIDS, axes.T, strict=True):
        for (algorithm, level), look in _LOOK.items():
            rows = where(data.tables["agreement"], problem=grid, algorithm=algorithm, level=level)
            banded(above, rows, "samples", "agreement", label=_label(rows[0]), **look)
        above.set(title=grid, ylim=(-0.03, 1.05))
        dotted(above, TARGET, f"{TARGET:g}")
        _needed(below, where(data.tables["needed"], problem=grid), named=grid == GRIDS[0])
        remark(below, f"samples for an agreement of {TARGET:g}", (0.0, 1.02), "axes fraction", va="bottom", color=GREEN)
    axes[0, 0].set_ylabel("pairs that are identical")
    axes[0, 0].legend(loc="lower right", fontsize=9)
    return figure


def _label(row: Row) -> str:
    return f"{SHORT_NAMES[row['algorithm']]}: {row['level']}"


def _needed(panel: Axes, rows: Sequence[Row], named: bool) -> None:
    """Draw where the target is passed, and what is shown to be too few and enough."""
    for y, row in enumerate(reversed(rows)):
        look = _LOOK[row["algorithm"], row["level"]]
        ends = row["samples_low"] or row["tried_from"], row["samples_high"] or row["tried_to"]
        panel.plot(ends, [y, y], color=look["colour"], linewidth=2.2)
        if row["samples_high"] is None:
            panel.plot(ends[1], y, ">", color=look["colour"])
        if row["samples"] is not None:
            panel.plot(row["samples"], y, look["marker"], color=look["colour"], markersize=8)
    panel.set_yticks(range(len(rows)), [_label(row) if named else "" for row in reversed(rows)])
    panel.set_ylim(-0.6, len(rows) - 0.4)
    logarithmic(panel)
    panel.grid(True, axis="x")
    panel.set_xlabel("samples of a run, in all")


EXPERIMENT = Experiment(
    "levels",
    60,
    title="Model, value, policy: how many samples each takes",
    reading=[
        "The same model gives the same value, and the same value the same policy. The paper expects each level to be "
        "harder than the next. ApproximateMDP learns a model and plans; rPVI estimates values directly; both have a "
        "tolerance of 0.02.",
        "Where the value is computed from the model, value and model agree together: two different models hardly ever "
        "have the same value to the last bit.",
    ],
    caption="Above: agreement over the samples of a run. Below: where it passes 0.8; a bar runs from what is shown to "
    "be too few to what is shown to be enough.",
    alternative="Agreement of model, value and policy over samples on two grids, and the samples for an agreement of "
    "0.8.",
    blocks=lambda data: [
        table(
            data.tables["needed"],
            {"problem": "problem", "algorithm": "algorithm", "level": "level", "samples": "samples"}
            | {"samples_low": "shown too few", "samples_high": "shown enough"},
            "Samples of a run for an agreement of 0.8.",
        )
    ],
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
