"""Model, value, policy: whether each level is harder to replicate than the next.

The same model gives the same value and the same value the same policy, so agreement cannot fall along the chain. The
paper expects it to *rise*: replicating a model should be hardest, a policy easiest. ApproximateMDP learns the model and
plans; rPVI estimates values directly. Both run over a range of sample sizes, and for each level the samples at which
two runs agree with probability 0.8 are read off.
"""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import SHORT_NAMES, Experiment, FigureTable
from replicable_rl.experiments.levels.analysis import analyse, design, verdicts
from replicable_rl.experiments.levels.figure import draw


def _summary(dataset: Dataset) -> str:
    rows = dataset.tables["needed"]
    grid = rows.distinct("problem")[0]
    said = [
        f"{row['level']} {row['samples']:.1e} ({SHORT_NAMES[row['algorithm']]})"
        for row in rows.where(problem=grid)
        if row["samples"] is not None
    ]
    return f"samples for an agreement of 0.8 on {grid}: {', '.join(said)}"


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
    summary=_summary,
    caption="Above: agreement over the samples of a run. Below: where it passes 0.8; a bar runs from what is shown to "
    "be too few to what is shown to be enough.",
    alternative="Agreement of model, value and policy over samples on two grids, and the samples for an agreement of "
    "0.8.",
    tables=[
        FigureTable(
            "needed",
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
