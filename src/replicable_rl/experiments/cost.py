r"""What rho costs: samples for an agreement of 0.8, against the theorem, on growing grids.

The theorem pays for a union bound over N*T queries: m grows as (NT)^2. Two runs need less, for differences heal
and most means lie far from the edge of a bin. A family of grids with pillars (the first is two-goals) grows in
N; on each, rPVI runs at several m around the one that the central limit theorem predicts, and the m at which
two runs agree with probability 0.8 is read off. On logarithmic axes the growth is a slope: least squares of log
m on log N,

    slope = sum_i w_i log m_i,        w_i = (x_i - mean x)/sum_j (x_j - mean x)^2,

and as it is linear in log m_i, the ends of the m_i give the ends of the slope.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from replicable_rl.algorithms import predicted_disagreement
from replicable_rl.audit import AuditResult
from replicable_rl.experiments.crossing import Crossing, crossing
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.lab import CONFIDENCE, Scale, Study
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import ObjectSpec
from replicable_rl.registry import make
from replicable_rl.theory import PhasedVIPlan, phased_vi

__all__ = ["NAME", "TITLE", "analyse", "pillars", "plan"]

NAME = "cost"
TITLE = "What replicability costs, against what the theorem asks"

EPSILON, DELTA, RHO = 0.02, 0.001, 0.2
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


def plan(scale: Scale) -> list[Study]:
    """Several m around the predicted one on every grid."""
    studies = []
    for rows, columns in GRIDS if not scale.quick else GRIDS[:4:3]:
        problem = ObjectSpec("gridworld-v1", {"layout": pillars(rows, columns)})
        mdp = make(problem.id, **problem.params)
        predicted = _predicted_calls(mdp)
        for factor in FACTORS if not scale.quick else FACTORS[::2]:
            calls = _rounded(factor * predicted)
            params = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "tolerance": EPSILON, "calls": calls}
            about = ("grid", f"{rows} x {columns}"), ("pairs_sa", mdp.n_states * mdp.n_actions), ("calls", calls)
            studies.append(Study(problem, ObjectSpec("rpvi-v1", params), 2 * scale.pairs, about=about))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return the agreement at every m, what is needed on every grid, and how fast it grows."""
    points, needed = [], []
    for study, result in zip(studies, results, strict=True):
        found = result.agreement("value")
        about = study.point | {"pairs": found.pairs, "same": found.same}
        points.append(about | estimate_columns("agreement", found.value))
    for study in {study.point["grid"]: study for study in studies}.values():
        rows = [row for row in points if row["grid"] == study.point["grid"]]
        mdp = make(study.problem.id, **study.problem.params)
        at = _plan(mdp, None)
        proof = phased_vi(at.pairs, mdp.gamma, EPSILON, DELTA, RHO)
        needed.append(
            {"grid": study.point["grid"], "pairs_sa": at.pairs}
            | _crossing(rows, CONFIDENCE).columns("measured")
            | {"predicted": _predicted_calls(mdp), "tight": float(at.calls_needed)}
            | {"printed": float(at.calls_printed or 0), "plain": float(at.calls_plain)}
            | {"tight_of_the_proof": float(proof.calls_needed)}
        )
    together = _together(needed, points)
    slopes = [_slope(name, together) for name in ("measured", "predicted", "tight", "printed", "plain")]
    details = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "tolerance": EPSILON, "confidence": CONFIDENCE}
    tables = {"points": Table.of(points), "needed": Table.of(needed), "slopes": Table.of(slopes)}
    return Dataset(NAME, TITLE, tables, details)


def _together(needed: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is needed with intervals that hold for all grids at once.

    The slope's interval takes an end of every grid's: their errors add up, so each gets its share.
    """
    joint = 1.0 - (1.0 - CONFIDENCE) / len(needed)
    of_grid = {row["grid"]: [point for point in points if point["grid"] == row["grid"]] for row in needed}
    return [row | _crossing(of_grid[row["grid"]], joint).columns("measured") for row in needed]


def _crossing(rows: Sequence[dict[str, Any]], confidence: float) -> Crossing:
    calls, same, pairs = ([row[name] for row in rows] for name in ("calls", "same", "pairs"))
    return crossing(calls, same, pairs, 1.0 - RHO, confidence)


def _slope(name: str, needed: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fit log m = constant + slope * log N; the ends of measured m's give the ends of the slope."""
    rows = [row for row in needed if row[name] is not None]
    if len(rows) < 2:
        return {"samples": name, "slope": None, "slope_low": None, "slope_high": None, "constant": None}
    x = [math.log(row["pairs_sa"]) for row in rows]
    mean = sum(x) / len(x)
    spread = sum((xi - mean) ** 2 for xi in x)
    weights = [(xi - mean) / spread for xi in x]
    slope = sum(w * math.log(row[name]) for w, row in zip(weights, rows, strict=True))
    constant = sum(math.log(row[name]) for row in rows) / len(rows) - slope * mean
    low, high = (_extreme(name, rows, weights, sign) for sign in (-1, 1))
    return {"samples": name, "slope": slope, "slope_low": low, "slope_high": high, "constant": constant}


def _extreme(name: str, rows: Sequence[dict[str, Any]], weights: Sequence[float], sign: int) -> float | None:
    """Return the smallest or largest slope that the intervals allow; None where one of them has no end."""
    total = 0.0
    for row, weight in zip(rows, weights, strict=True):
        end = row.get(
            f"{name}_high" if sign * weight > 0 else f"{name}_low", row[name]
        )  # a formula is its own interval
        if end is None:
            return None
        total += weight * math.log(end)
    return total


def _plan(mdp: TabularMDP, calls: int | None) -> PhasedVIPlan:
    pairs = mdp.n_states * mdp.n_actions
    return phased_vi(pairs, mdp.gamma, EPSILON, DELTA, RHO, tolerance=EPSILON, calls=calls)


@functools.cache  # the plan asks, and the analysis again
def _predicted_calls(mdp: TabularMDP) -> float:
    """Return the m at which the prediction for two runs is an agreement of 1 - rho."""
    low, high = math.log(1e2), math.log(1e12)
    while high - low > 1e-3:
        middle = (low + high) / 2.0
        if predicted_disagreement(mdp, _plan(mdp, round(math.exp(middle)))) > RHO:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2.0)


def _rounded(x: float) -> int:
    """Round to two significant digits: the plan should not hang on the last bit of a prediction."""
    return round(float(f"{x:.1e}"))
