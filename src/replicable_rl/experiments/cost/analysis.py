r"""Several m around the predicted one on every grid; where agreement passes 0.8, and how fast that grows.

On logarithmic axes the growth is a slope: least squares of log m on log N,

    slope = sum_i w_i log m_i,        w_i = (x_i - mean x)/sum_j (x_j - mean x)^2,

and as it is linear in log m_i, the ends of the m_i give the ends of the slope.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.cost.prediction import predicted_disagreement
from replicable_rl.experiments.crossing import Crossing, crossing
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, Scale, Study, Verdict, judged, study
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import build
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import PhasedVINumbers, paper_phased_vi, phased_vi
from replicable_rl.theory.rstat import hoeffding_samples
from replicable_rl.wording import with_interval

Row = dict[str, Any]

EPSILON, DELTA, RHO = 0.02, 0.001, 0.2
PROMISE = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "tolerance": EPSILON}
GRIDS = ((3, 3), (3, 5), (5, 5), (7, 7), (9, 9))  # rows and columns
FACTORS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 4.0)  # of the predicted m, which errs upwards


def pillars(rows: int, columns: int) -> str:
    """Return a map with goals in the upper corners, the start below in the middle, and pillars between the ways.

    >>> pillars(3, 5).split("/")
    ['G...G', '.#.#.', '..S..']
    """
    lines = [["#" if i % 2 and j % 2 else "." for j in range(columns)] for i in range(rows)]
    lines[0][0] = lines[0][-1] = "G"
    lines[-1][columns // 2] = "S"
    return "/".join("".join(line) for line in lines)


def design(scale: Scale) -> list[Study]:
    """Return several m around the predicted one on every grid."""
    studies = []
    for rows, columns in GRIDS if not scale.quick else GRIDS[:4:3]:
        problem = ObjectSpec("gridworld-v1", {"layout": pillars(rows, columns)})
        mdp = build(problem)
        for factor in FACTORS if not scale.quick else FACTORS[::2]:
            # Two significant digits: the design should not hang on the last bit of a prediction.
            calls = round(float(f"{factor * predicted_calls(mdp):.1e}"))
            point = {"grid": f"{rows} x {columns}", "pairs_sa": mdp.n_states * mdp.n_actions, "calls": calls}
            algorithm = ObjectSpec("rpvi-v1", {**PROMISE, "calls": calls})
            studies.append(study(point, problem, algorithm, scale.pairs))
    return studies


def plan_of(mdp: TabularMDP, calls: int | None = None) -> PhasedVINumbers:
    """Return what rPVI does on a grid at the tolerance of this experiment."""
    return phased_vi(mdp.n_states * mdp.n_actions, mdp.gamma, EPSILON, DELTA, RHO, tolerance=EPSILON, calls=calls)


@functools.cache  # the design asks, and the analysis again
def predicted_calls(mdp: TabularMDP) -> float:
    """Return the m at which the prediction for two runs is an agreement of 1 - rho."""
    low, high = math.log(1e2), math.log(1e12)
    while high - low > 1e-3:
        middle = (low + high) / 2.0
        if predicted_disagreement(mdp, plan_of(mdp, round(math.exp(middle)))) > RHO:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2.0)


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return the agreement at every m, what is needed on every grid, and how fast it grows."""
    points, grids = [], {one.point["grid"]: one.audit.problem for one in studies}
    for one, result in zip(studies, results, strict=True):
        found = result.agreement("value")
        about = {**one.point, "pairs": found.pairs, "same": found.same}
        points.append(about | estimate_columns("agreement", found.value))
    needed = [_needed(grid, build(problem), points) for grid, problem in grids.items()]
    at_once = together(needed, points)
    slopes = [slope(name, at_once) for name in ("measured", "predicted", "tight", "printed", "plain")]
    tables = {"points": Table.of(points), "needed": Table.of(needed), "slopes": Table.of(slopes)}
    return Dataset(tables, {**PROMISE, "confidence": CONFIDENCE})


def _needed(grid: str, mdp: TabularMDP, points: Sequence[Row]) -> Row:
    at = plan_of(mdp)
    promise = at.pairs, mdp.gamma, EPSILON, DELTA, RHO
    printed = paper_phased_vi(*promise, tolerance=EPSILON, printed=True)["calls"]
    return (
        {"grid": grid, "pairs_sa": at.pairs}
        | crossing_of([row for row in points if row["grid"] == grid], CONFIDENCE).columns("measured")
        | {"predicted": predicted_calls(mdp), "tight": float(at.calls_needed)}
        | {"printed": float(printed), "plain": float(hoeffding_samples(at.tolerance, at.delta_sq))}
        | {"tight_of_the_proof": float(paper_phased_vi(*promise)["calls"])}
    )


def together(needed: Sequence[Row], points: Sequence[Row]) -> list[Row]:
    """Return what is needed with intervals that hold for all grids at once.

    The slope's interval takes an end of every grid's: their errors add up, so each gets its share.
    """
    joint = 1.0 - (1.0 - CONFIDENCE) / len(needed)
    of_grid = {row["grid"]: [point for point in points if point["grid"] == row["grid"]] for row in needed}
    return [row | crossing_of(of_grid[row["grid"]], joint).columns("measured") for row in needed]


def crossing_of(rows: Sequence[Row], confidence: float) -> Crossing:
    """Find where the agreement on one grid passes 1 - rho."""
    calls, same, pairs = ([row[name] for row in rows] for name in ("calls", "same", "pairs"))
    return crossing(calls, same, pairs, 1.0 - RHO, confidence)


def slope(name: str, needed: Sequence[Row]) -> Row:
    """Fit log m = constant + slope * log N; the ends of measured m's give the ends of the slope."""
    rows = [row for row in needed if row[name] is not None]
    if len(rows) < 2:
        return {"samples": name, "slope": None, "slope_low": None, "slope_high": None, "constant": None}
    x = [math.log(row["pairs_sa"]) for row in rows]
    mean = sum(x) / len(x)
    spread = sum((xi - mean) ** 2 for xi in x)
    weights = [(xi - mean) / spread for xi in x]
    fitted = sum(w * math.log(row[name]) for w, row in zip(weights, rows, strict=True))
    constant = sum(math.log(row[name]) for row in rows) / len(rows) - fitted * mean
    low, high = (_extreme(name, rows, weights, sign) for sign in (-1, 1))
    return {"samples": name, "slope": fitted, "slope_low": low, "slope_high": high, "constant": constant}


def _extreme(name: str, rows: Sequence[Row], weights: Sequence[float], sign: int) -> float | None:
    """Return the smallest or largest slope that the intervals allow; None where one of them has no end."""
    sides = (f"{name}_high" if sign * weight > 0 else f"{name}_low" for weight in weights)
    ends: list[Any] = [
        row.get(side, row[name]) for row, side in zip(rows, sides, strict=True)
    ]  # a formula is its own interval
    return None if None in ends else sum((w * math.log(end) for w, end in zip(weights, ends, strict=True)), 0.0)


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge that it is far cheaper than the bound, and that it grows more slowly."""
    grids = list(dataset.tables["needed"])
    rows = [row for row in grids if row["measured_high"] is not None]
    ratio = min((row["tight"] / row["measured_high"] for row in rows), default=0.0)
    measured = dataset.tables["slopes"].where(samples="measured")[0]
    low, high = measured["slope_low"], measured["slope_high"]
    known = measured["slope"] is not None and low is not None and high is not None
    return [
        Verdict(
            "Replicable value functions take orders of magnitude fewer samples than the bound",
            "sec:experiments",
            f"at most 1/{ratio:.2g} of the tight bound on {len(rows)} of {len(grids)} grids, at the same tolerance"
            if rows
            else "an agreement of 0.8 was shown on no grid",
            judged(len(rows) == len(grids) and ratio >= 100.0, False),
        ),
        Verdict(
            "The overhead is far better than the squared dependence on |S||A|",
            "sec:experiments",
            f"m over |S||A| on logarithmic axes: {slope_text(measured)}; the bound grows with slope 2 and a logarithm",
            judged(known and high < 2.0, known and low >= 2.0),
        ),
    ]


def slope_text(row: Row) -> str:
    """Write a slope with its interval, or why there is none."""
    if row["slope"] is None:
        return "too few points for a slope"
    if row["slope_low"] is None or row["slope_high"] is None:
        return f"slope {row['slope']:.2f} (no interval)"
    return f"slope {with_interval(row['slope'], row['slope_low'], row['slope_high'], 2)}"
