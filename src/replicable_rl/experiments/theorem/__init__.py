"""The theorems at their own sample sizes: what they ask for, drawn; what they promise, measured.

Counts are drawn instead of samples, so that 10^15 samples and more cost no more than a thousand. For every shipped
problem, rPVI (Theorem 4.1, ``thm:rpvi``) and the replicable ApproximateMDP (Observation B.1, ``obs:rep-mdp``) run at
the m of their theorem in the sharp form that is proved in ``docs/proofs.md``. The paper's own listing of rPVI runs too,
with the m that its proof needs (tight), and with the m that is printed. Two promises are measured: how often do two
runs differ (at most rho), and how far is the answer off (at most epsilon)? For rPVI that is the loss of the policy from
the worst state, for ApproximateMDP the error of an entry of the model. The latter is measured after rows were divided
by their sums, which the promise does not cover: it can be larger. Times are those of the runs when they were made, as
the store keeps them.
"""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Experiment, FigureTable
from replicable_rl.experiments.theorem.analysis import analyse, design, verdicts
from replicable_rl.experiments.theorem.figure import draw


def _summary(dataset: Dataset) -> str:
    table, rho = dataset.tables["theorems"], dataset.details["rho"]
    differ, pairs = sum(table.column("differ")), sum(table.column("pairs"))
    drawn = max(float(samples) for samples in table.column("samples_a_run"))
    return (
        f"{differ} of {pairs} pairs differ, where rho = {rho} would allow {rho * pairs:.0f}; up to {drawn:.1e} "
        "samples a run"
    )


EXPERIMENT = Experiment(
    "theorem",
    40,
    title="The theorems at their own sample sizes",
    reading=[
        "The samples that the theorems ask for, drawn: counts are drawn instead of samples, so a run costs "
        "milliseconds. These are all problems that come with the library. Where ε = 0.1 would ask for more than 64 "
        "bits can count, ε is larger. Times are those of the runs when they were made.",
        "rPVI runs in three forms. The printed and the tight one are the paper's listing, with the m that is printed "
        "and with the m that its proof needs; the sharp one is ours. It keeps the same promises and takes a small part "
        "of the samples.",
        "ApproximateMDP's promise is about entries *before* a row is divided by its sum; the figure shows the error "
        "after it.",
    ],
    summary=_summary,
    caption="From left to right: samples of a run, pairs of runs that differ (bar: interval; dotted: ρ), the worst "
    "error of all runs in units of ε (arrows: smaller than drawn), median time of a run.",
    alternative="Four panels side by side with a row for every problem and algorithm: samples, disagreement, error, "
    "time.",
    tables=[
        FigureTable(
            "theorems",
            {"problem": "problem", "algorithm": "algorithm", "form": "form", "epsilon": "ε", "calls": "m asked"}
            | {"samples_a_run": "samples of a run", "differ": "pairs that differ", "pairs": "of"}
            | {"disagreement_high": "at most (95 %)", "worst_error": "worst error"}
            | {"median_seconds_a_run": "seconds a run"},
            "The same numbers.",
        )
    ],
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
