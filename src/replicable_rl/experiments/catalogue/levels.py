"""Model, value, policy: whether each level is harder to replicate than the next.

Agreement cannot fall along the chain. The paper expects it to rise: replicating a model should be hardest, a policy
easiest. Both algorithms run over a range of sample sizes, and for each level the samples at which two runs agree with
probability 0.8 are read off.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from replicable_rl import plot
from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import SHORT_NAMES, crossing, is_open, of_each, pairwise, where, written
from replicable_rl.experiments.experiment import Data, Experiment, Row, Scale, Study, Verdict
from replicable_rl.runs import ObjectSpec

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
TARGET = 0.8
TOLERANCE = 0.02  # of a query about a value or a probability, both in [0, 1]
PROMISE = {"epsilon": TOLERANCE, "delta": 0.001, "rho": 0.2, "tolerance": TOLERANCE}
MODEL, VALUE = "replicable-approximate-mdp-v1", "rpvi-v1"
CALLS = {  # in powers of ten, and more densely where values and models pass the target
    MODEL: (10**3, 10**4, 10**5, 10**6, 10**7, 2 * 10**7, 10**8, 7 * 10**8, 10**10),
    VALUE: (10**2, 10**3, 10**4, 10**5, 150_000, 10**6, 5 * 10**6, 10**8),
}
ENOUGH_PAIRS = 50  # that never differ, to say that two levels do not
_CROSS = {"marker": "x", "markeredgecolor": plot.ORANGE, "markersize": 9.0, "linestyle": "none"}
_LOOK: dict[tuple[str, str], dict[str, Any]] = {
    (MODEL, "model"): {"colour": plot.BLUE, "marker": "o"},
    (MODEL, "value"): {"colour": plot.ORANGE, **_CROSS},
    (MODEL, "policy"): {"colour": plot.BLUE, "marker": "^", "linestyle": "--"},
    (VALUE, "value"): {"colour": plot.RED, "marker": "s"},
    (VALUE, "policy"): {"colour": plot.RED, "marker": "v", "linestyle": "--"},
}


class Levels(Experiment):
    """Model, value, policy: how many samples each takes.

    The same model gives the same value, and the same value the same policy. The paper expects each level to be harder
    than the next. ApproximateMDP learns a model and plans; rPVI estimates values directly; both have a tolerance of
    0.02.

    Where the value is computed from the model, value and model agree together: two different models hardly ever have
    the same value to the last bit.
    """

    order = 60
    caption = "Agreement over the samples of a run. The dotted line is the agreement whose price is compared."

    def design(self, scale: Scale) -> list[Study]:
        """Return both algorithms over their range of calls, on both grids."""
        studies = []
        for problem, name in itertools.product(GRIDS, CALLS):
            for calls in scale.some(CALLS[name]):
                point = {"problem": problem, "algorithm": name, "calls": calls}
                studies.append(Study.of(point, problem, ObjectSpec(name, {**PROMISE, "calls": calls}), scale.pairs))
        return studies

    def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
        """Return agreement at every level over the samples, and the samples at which it passes the target."""
        rows: list[Row] = []
        for study, result in zip(studies, results, strict=True):
            levels = [level for algorithm, level in _LOOK if algorithm == study.point["algorithm"]]
            about = {**study.point, "samples": result.runs[0].samples}
            rows += [{**about, "level": level, **pairwise(result, level)} for level in levels]
        needed = []
        for problem, (algorithm, level) in itertools.product(GRIDS, _LOOK):
            curve = where(rows, problem=problem, algorithm=algorithm, level=level)
            samples, counts = [row["samples"] for row in curve], [(row["same"], row["pairs"]) for row in curve]
            about = {"problem": problem, "algorithm": algorithm, "level": level}
            needed.append(about | crossing("samples", samples, counts, TARGET))
        return Data({"agreement": rows, "needed": needed}, {**PROMISE, "target": TARGET})

    def verdicts(self, data: Data) -> list[Verdict]:
        """Judge that each level is easier than the one before it, and that values are cheaper than models."""
        return [
            _easier(data, MODEL, "value", "model"),
            _easier(data, MODEL, "policy", "value"),
            _easier(data, VALUE, "policy", "value"),
            *(_cheaper(data, grid) for grid in GRIDS),
        ]

    def draw(self, data: Data) -> plot.Figure:
        """Draw the agreement on each grid."""
        figure, (axes,) = plot.panels((11.5, 4.6), 1, len(GRIDS), sharey=True)
        for grid, panel in zip(GRIDS, axes, strict=True):
            for (algorithm, level), look in _LOOK.items():
                rows = where(data.tables["agreement"], problem=grid, algorithm=algorithm, level=level)
                plot.banded(panel, rows, "samples", "agreement", label=f"{SHORT_NAMES[algorithm]}: {level}", **look)
            panel.set(title=grid, ylim=(-0.03, 1.05), xlabel="samples of a run, in all")
            plot.logarithmic(panel)
            plot.dotted(panel, TARGET, f"{TARGET:g}")
        axes[0].set_ylabel("pairs that are identical")
        axes[0].legend(loc="lower right", fontsize=9)
        return figure


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
        text = f"{written(gap[0], 'agreement')} and {written(gap[1], 'agreement')}"
    same = " (the same in every pair of runs)" if alike else ""
    return Verdict(
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
    return Verdict(
        f"Estimating values directly is much cheaper than estimating the model ({grid})",
        "app:rep-app-mpd",
        f"samples for an agreement of 0.8: value {_samples(value)}, model {_samples(model)}, same tolerance",
        yes=_below(value, model),
        no=_below(model, value),
        rests_on=[row for curve in curves for row in curve if is_open(row, TARGET, of_each(len(curve)))],
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


EXPERIMENT = Levels()
