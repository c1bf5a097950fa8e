"""What people read about Figure 2."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Texts


def _summary(dataset: Dataset) -> str:
    points = dataset.tables["points"]
    rho_sq, parts = points.distinct("rho_sq")[0], []
    for grid in points.distinct("problem"):
        rows = points.where(problem=grid, rho_sq=rho_sq)
        shares = (f"{row['modal_share']:.2f} at x{row['multiple']}" for row in (rows[0], rows[-1]))
        agree = (f"{row['agreement']:.2f}" for row in (rows[0], rows[-1]))
        parts.append(f"{grid}: modal share {' to '.join(shares)}, pairwise agreement {' to '.join(agree)}")
    return f"{'; '.join(parts)} (rho_SQ = {rho_sq:g})"


TEXTS = Texts(
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
)
