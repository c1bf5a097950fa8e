"""What people read about the theorems at their own sample sizes."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Numbers, Texts


def _summary(dataset: Dataset) -> str:
    table, rho = dataset.tables["theorems"], dataset.details["rho"]
    differ, pairs = sum(table.column("differ")), sum(table.column("pairs"))
    drawn = max(float(samples) for samples in table.column("samples_a_run"))
    return (
        f"{differ} of {pairs} pairs differ, where rho = {rho} would allow {rho * pairs:.0f}; up to {drawn:.1e} "
        "samples a run"
    )


TEXTS = Texts(
    title="The theorems at their own sample sizes",
    reading=[
        "The samples that the theorems ask for, drawn: counts are drawn instead of samples, so a run costs "
        "milliseconds. These are all problems that come with the library. Where ε = 0.1 would ask for more than 64 "
        "bits can count, ε is larger. Times are those of the runs when they were made.",
        "ApproximateMDP's promise is about entries *before* a row is divided by its sum; the figure shows the error "
        "after it.",
    ],
    summary=_summary,
    caption="From left to right: samples of a run, pairs of runs that differ (bar: interval; dotted: ρ), the worst "
    "error of all runs in units of ε (arrows: smaller than drawn), median time of a run.",
    alternative="Four panels side by side with a row for every problem and algorithm: samples, disagreement, error, "
    "time.",
    tables=[
        Numbers(
            "theorems",
            {"problem": "problem", "algorithm": "algorithm", "epsilon": "ε", "calls": "m asked"}
            | {"samples_a_run": "samples of a run", "differ": "pairs that differ", "pairs": "of"}
            | {"disagreement_high": "at most (95 %)", "worst_error": "worst error"}
            | {"median_seconds_a_run": "seconds a run"},
            "The same numbers.",
        )
    ],
)
