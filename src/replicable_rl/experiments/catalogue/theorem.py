"""The theorems at their own sample sizes: samples drawn, disagreement against rho, error against what is promised.

The error of rPVI is the loss of its policy from the worst state, and epsilon is promised. ApproximateMDP promises that
every row, before it is divided by its sum, is within epsilon of the truth in l1. Division at most doubles this error: a
row of answers a, |a - p|_1 <= epsilon, has a sum within epsilon of 1, so |a - a/sum|_1 = |sum - 1| <= epsilon. So rows
of the model are within 2 epsilon, and this is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from replicable_rl import plot
from replicable_rl.audit import AuditResult
from replicable_rl.experiments import estimates
from replicable_rl.experiments.estimates import SHORT_NAMES, distinct, transition_probabilities, where, written
from replicable_rl.experiments.experiment import Data, Experiment, Row, Scale, Study, Verdict
from replicable_rl.registry import build, make
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import MAX_CALLS, paper_phased_vi, phased_vi

PROBLEMS = (  # all that need no input, but for inventory-v1, on which a run of rPVI takes a hundred times as long
    *("two-goals-v1", "two-goals-wide-v1", "riverswim-v1", "chain-v1"),
    *("garnet-v1", "machine-repair-v1", "admission-v1"),
)
DELTA, RHO = 0.001, 0.2
EPSILONS = (0.1, 0.5)  # the larger one where m would pass 2**63 - 1, the most that can be counted
ROW: dict[str, Any] = {"epsilon": 0.05, "norm": "l1"}  # of a row before division; twice as much after it
RPVI, MODEL = "rpvi-v1", "replicable-approximate-mdp-v1"
LEVELS = {RPVI: "value", MODEL: "model"}  # what each theorem is about
FORMS = {RPVI: ("sharp", "tight", "as printed"), MODEL: ("sharp",)}
_THEOREMS = {RPVI: ("rPVI", "thm:rpvi"), MODEL: ("The replicable ApproximateMDP", "obs:rep-mdp")}
_MARKERS = {"sharp": "o", "tight": "s", "as printed": "D"}
_STEP, _BETWEEN = 0.3, 0.35  # between two forms, and between two problems
_SMALLEST = 1e-4  # what is less than this part of epsilon is drawn here, as an arrow to the left
_PANELS = (
    ("Samples of a run", "drawn, at the theorem's own m"),
    ("Pairs that differ", "share, with its interval"),
    ("Worst error", "in units of what is promised"),
)


class Theorem(Experiment):
    """The theorems at their own sample sizes.

    The samples that the theorems ask for, drawn: counts are drawn instead of samples, so a run costs milliseconds.
    No parameter is given but the promise. Where ε = 0.1 would ask for more than 64 bits can count, ε is larger.

    rPVI runs in three forms. The printed and the tight one are the paper's listing, with the m that is printed and with
    the m that its proof needs; the sharp one is ours. It keeps the same promises and takes a small part of the samples.

    ApproximateMDP promises rows within ε in l1. Dividing a row by its sum at most doubles this error, so the rows of
    its model are within 2ε.
    """

    order = 40
    caption = (
        "From left to right: samples of a run, pairs of runs that differ (bar: interval; dotted: ρ), the worst error "
        "of all runs in units of what is promised (arrows: smaller than drawn)."
    )

    def design(self, scale: Scale) -> list[Study]:
        """Return both algorithms on every shipped problem, in all their forms."""
        studies = []
        for problem in PROBLEMS:
            for algorithm in LEVELS:
                for form in FORMS[algorithm]:
                    promise = _promise(problem, form) if algorithm == RPVI else ROW
                    if promise is None:
                        continue
                    spec = ObjectSpec(algorithm, {"delta": DELTA, "rho": RHO, **promise})
                    bound = promise["epsilon"] * (1 if algorithm == RPVI else 2)
                    point = {"problem": problem, "algorithm": algorithm, "form": form, "bound": bound}
                    studies.append(Study.of(point, problem, spec, scale.pairs))
        return studies

    def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
        """Return a row for every theorem on every problem."""
        rows = [_row(study, result) for study, result in zip(studies, results, strict=True)]
        return Data({"theorems": rows}, {"delta": DELTA, "rho": RHO})

    def verdicts(self, data: Data) -> list[Verdict]:
        """Judge rho and epsilon for both algorithms, over all problems."""
        judged = []
        for algorithm, (name, theorem) in _THEOREMS.items():
            for form in FORMS[algorithm]:
                rows = where(data.tables["theorems"], algorithm=algorithm, form=form)
                called = f"{name}, {form}, at its theorem's m"
                judged += [_rho(called, theorem, rows), _epsilon(called, theorem, rows, algorithm == RPVI)]
        return judged

    def draw(self, data: Data) -> plot.Figure:
        """Draw a line for every problem, algorithm and form, and what was found about it side by side."""
        rows = data.tables["theorems"]
        problems = distinct(rows, "problem")
        heights = [-_STEP * i - _BETWEEN * problems.index(row["problem"]) for i, row in enumerate(rows)]
        figure, (axes,) = plot.panels((10.5, 0.62 * -heights[-1] + 2.2), 1, len(_PANELS), sharey=True)
        for y, row in zip(heights, rows, strict=True):
            look, error = _look(row["algorithm"], row["form"]), row["worst_error"] / row["bound"]
            axes[0].plot(float(row["samples_a_run"]), y, **look)
            ends = row["disagreement_low"], row["disagreement_high"]
            axes[1].plot(ends, [y, y], color=look["color"], linewidth=1.8)
            axes[1].plot(row["disagreement"], y, **look)
            plot.remark(axes[1], f"{row['differ']} of {row['pairs']}", (ends[1], y), shift=(6, 0), fontsize=7.5)
            axes[2].plot(max(error, _SMALLEST), y, **look | ({"marker": "<"} if error < _SMALLEST else {}))
        for panel in (axes[0], axes[2]):
            plot.logarithmic(panel)
        plot.bounded(axes[1], RHO, f"ρ = {RHO:g}")
        axes[1].set_xlim(-0.01, RHO + 0.02)
        plot.bounded(axes[2], 1.0, "promised")
        axes[2].set_xlim(_SMALLEST / 2, 5.0)
        for panel, (title, label) in zip(axes, _PANELS, strict=True):
            panel.set(title=title, xlabel=label)
            panel.grid(False, axis="y")
            panel.grid(True, axis="x")
            panel.tick_params(axis="y", length=0)
        places = [[y for y, row in zip(heights, rows, strict=True) if row["problem"] == name] for name in problems]
        axes[0].set_yticks([(ys[0] + ys[-1]) / 2.0 for ys in places], problems)
        axes[0].set_ylim(heights[-1] - 0.6, 0.6)
        shapes = [(algorithm, form) for algorithm in LEVELS for form in FORMS[algorithm]]
        labels = [f"{SHORT_NAMES[algorithm]}, {form}" for algorithm, form in shapes]
        handles = [axes[0].plot([], [], **_look(*shape))[0] for shape in shapes]
        figure.legend(handles=handles, labels=labels, loc="outside lower center", ncols=5)
        return figure


def _promise(problem: str, form: str) -> dict[str, Any] | None:
    """Return the smallest epsilon at which a form of rPVI can be run, with the paper's parameters for its listing."""
    mdp = make(problem)
    known = mdp.known_rewards is not None
    for epsilon in EPSILONS:
        promise, paper = (mdp.support.pairs, mdp.gamma, epsilon, DELTA, RHO), {}
        if form != "sharp":
            paper = paper_phased_vi(*promise, known_rewards=known, printed=form == "as printed")
        if phased_vi(*promise, known_rewards=known, **paper).calls <= MAX_CALLS:
            return {"epsilon": epsilon, **paper}
    return None


def _row(study: Study, result: AuditResult) -> Row:
    same = estimates.pairwise(result, LEVELS[study.point["algorithm"]])
    differ = estimates.columns("disagreement", *(1.0 - same[f"agreement{end}"] for end in ("", "_high", "_low")))
    least, most, runs = zip(*_errors(study, result), strict=True)
    beyond = sum(n for error, n in zip(least, runs, strict=True) if error > study.point["bound"])
    return {
        **study.point,
        "samples_a_run": max(run.samples or 0 for run in result.runs),
        "pairs": same["pairs"],
        "differ": same["pairs"] - same["same"],
        **differ,
        "worst_error": max(most),
        "refuted": estimates.proportion("", beyond, len(result.runs))["_low"] > DELTA,  # one or two runs may be beyond
    }


def _errors(study: Study, result: AuditResult) -> Iterator[tuple[float, float, int]]:
    """Yield the error of every distinct output, at least and at most, and how many runs returned it."""
    if study.point["algorithm"] == RPVI:
        for policy in result.policies or ():
            loss, error = policy.worst_loss, policy.normalised_error
            yield loss - error, loss + error, policy.runs
        return
    truth = transition_probabilities(build(study.audit.problem))
    runs = Counter(run.fingerprints["model"] for run in result.runs)
    for fingerprint, model in result.outputs("model").items():
        error = float(np.abs(transition_probabilities(model) - truth).sum(axis=2).max())
        yield error, error, runs[fingerprint]


def _rho(called: str, theorem: str, rows: Sequence[Row]) -> Verdict:
    worst = max(rows, key=lambda row: float(row["disagreement_high"]))
    differ, pairs = sum(row["differ"] for row in rows), sum(row["pairs"] for row in rows)
    return Verdict(
        f"{called}: two runs differ with probability at most rho",
        theorem,
        f"{differ} of {pairs} pairs on {len(rows)} problems; least certain: {worst['problem']}, "
        f"{written(worst, 'disagreement')} against rho = {RHO:g}",
        yes=worst["disagreement_high"] <= RHO,
        no=any(row["disagreement_low"] > RHO for row in rows),
        rests_on=[row for row in rows if row["disagreement_high"] > RHO],
    )


def _epsilon(called: str, theorem: str, rows: Sequence[Row], is_policy: bool) -> Verdict:
    worst = max(rows, key=lambda row: float(row["worst_error"] / row["bound"]))
    what = "policies lose at most epsilon" if is_policy else "rows of the model are within 2 epsilon, in l1"
    return Verdict(
        f"{called}: {what}",
        theorem,
        f"worst of {2 * sum(row['pairs'] for row in rows)} runs: {worst['worst_error']:.3g} against {worst['bound']:g} "
        f"({worst['problem']})",
        yes=all(row["worst_error"] <= row["bound"] for row in rows),
        no=any(row["refuted"] for row in rows),
    )


def _look(algorithm: str, form: str) -> dict[str, Any]:
    colour = plot.COLOURS[list(LEVELS).index(algorithm)]
    return {"color": colour, "marker": _MARKERS[form], "linestyle": "none", "markersize": 5.5}


EXPERIMENT = Theorem()
