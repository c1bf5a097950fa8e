"""Figure 2 of the paper: the samples until value functions repeat.

rPVI with accuracy 0.02, delta = 0.001 and rho = 0.2; the calls per iteration are multiples of m = 13 000, which is what
Phased Q-learning needs, and rho_SQ is treated as a hyperparameter. The paper's two panels show the modal share and the
unique share of 150 runs under one shared seed. The third panel is what its dotted line, 1 - rho, is about: the
probability that two runs agree, over shared seeds.

The tolerance of a query is epsilon itself. With the tolerance of the paper's proof, (1-gamma) eps/2, the bins are
twenty times as narrow, and the multiples of the figure would not be enough.
"""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.figure2.analysis import analyse, design, verdicts
from replicable_rl.experiments.figure2.figure import draw
from replicable_rl.wording import share


def _summary(dataset: Dataset) -> str:
    points = dataset.tables["points"]
    rho_sq, parts = points.distinct("rho_sq")[0], []
    for grid in points.distinct("problem"):
        rows = points.where(problem=grid, rho_sq=rho_sq)
        shares = (f"{share(row['modal_share'], 2)} at x{row['multiple']}" for row in (rows[0], rows[-1]))
        agree = (share(row["agreement"], 2) for row in (rows[0], rows[-1]))
        parts.append(f"{grid}: modal share {' to '.join(shares)}, pairwise agreement {' to '.join(agree)}")
    return f"{'; '.join(parts)} (rho_SQ = {rho_sq:g})"


EXPERIMENT = Experiment(
    "figure2",
    20,
    title="Figure 2: replicability of rPVI against the number of samples",
    reading=[
        "rPVI with ε = 0.02, δ = 0.001, ρ = 0.2, and calls in multiples of 13 000, as in the paper's experiment. The "
        "paper does not say which grid, discount and multiples it used; these are ours. The tolerance of a query is ε "
        "itself.",
        "The first two panels are the paper's: all runs share *one* seed r. Which ρ_SQ looks best there depends on r, "
        "because an edge of a bin may fall near a mean. The third panel averages over r. That is the quantity that ρ "
        "bounds.",
    ],
    summary=_summary,
    caption="Lines are estimates, bands their intervals; the dotted line is 1 − ρ. Modal share: the interval is of the "
    "probability of the likeliest value function under this r. Unique share: of its expectation. Agreement: Clopper "
    "and Pearson.",
    alternative="Six panels: modal share, unique share and pairwise agreement over multiples of 13000 calls, for two "
    "grids and several rho_SQ.",
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
