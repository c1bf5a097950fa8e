"""Several m around the predicted one on every grid of a growing family."""

from __future__ import annotations

import functools
import math

from replicable_rl.algorithms import predicted_disagreement
from replicable_rl.experiments.experiment import Scale, Study, study
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import ObjectSpec
from replicable_rl.registry import build
from replicable_rl.theory import PhasedVIPlan, phased_vi

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
            studies.append(study(point, problem, algorithm, 2 * scale.pairs))
    return studies


def plan_of(mdp: TabularMDP, calls: int | None = None) -> PhasedVIPlan:
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
