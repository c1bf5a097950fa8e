"""What rho costs: samples for an agreement of 0.8, against the theorem, on growing grids.

The theorem pays for a union bound over N*T queries: m grows as (NT)^2. Two runs need less, for differences heal and
most means lie far from the edge of a bin. A family of grids with pillars (the first is two-goals) grows in N; on each,
rPVI runs at several m around the one that the central limit theorem predicts, and the m at which two runs agree with
probability 0.8 is read off.
"""

from replicable_rl.experiments.cost.analysis import analyse, design, slope_text, verdicts
from replicable_rl.experiments.cost.figure import draw
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Experiment, FigureTable


def _summary(dataset: Dataset) -> str:
    slopes = {row["samples"]: row for row in dataset.tables["slopes"]}
    rows = [row for row in dataset.tables["needed"] if row["measured"] is not None]
    if slopes["measured"]["slope"] is None:
        return "too few grids reach an agreement of 0.8 inside the range tried"
    ratio = min(row["tight"] / row["measured"] for row in rows)
    return (
        f"an agreement of 0.8 takes 1/{ratio:.0e} of the theorem's m or less; over N it grows with "
        f"{slope_text(slopes['measured'])}, the theorem's m with slope {slopes['tight']['slope']:.2f}"
    )


EXPERIMENT = Experiment(
    "cost",
    50,
    title="What replicability costs, against what the theorem asks",
    reading=[
        "How many calls does rPVI need until two runs agree with probability 1 − ρ = 0.8? Grids with pillars grow in "
        "the number N of state-action pairs; the first is the two-goals grid. The theorem is evaluated at the same "
        "tolerance, so that the comparison is fair to it.",
        "A bar runs from the largest m that is shown to be too few to the smallest that is shown to be enough.",
    ],
    summary=_summary,
    caption="Left: agreement over m on each grid. Right: the m for an agreement of 0.8 over N, on logarithmic axes, "
    "and what theory asks for. Slopes are least squares; the interval of the measured one follows from the bars.",
    alternative="Two panels: agreement over calls for growing grids, and calls needed over the number of pairs.",
    tables=[
        FigureTable(
            "needed",
            {"grid": "grid", "pairs_sa": "N", "measured": "m measured", "measured_low": "shown too few"}
            | {"measured_high": "shown enough", "predicted": "predicted", "tight": "theorem, tight"}
            | {"printed": "theorem, printed", "plain": "accuracy alone"},
            "Calls m per iteration for an agreement of 0.8, and what theory asks for at the same tolerance.",
        )
    ],
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
