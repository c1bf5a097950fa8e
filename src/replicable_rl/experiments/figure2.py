"""Figure 2 of the paper: the samples until value functions repeat.

rPVI with accuracy 0.02, delta = 0.001 and rho = 0.2; the calls per iteration are multiples of m = 13 000, which
is what Phased Q-learning needs, and rho_SQ is treated as a hyperparameter. The paper's two panels show the
modal share and the unique share of 150 runs under one shared seed. The third panel is what its dotted line, 1 -
rho, is about: the probability that two runs agree, over shared seeds.

The tolerance of a query is epsilon itself. With the tolerance of the paper's proof, (1-gamma) eps/2, the bins
are twenty times as narrow, and the multiples of the figure would not be enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.lab import CONFIDENCE, SHARED_SEED, Scale, Study
from replicable_rl.experiments.shares import modal_share, unique_share
from replicable_rl.records import ObjectSpec
from replicable_rl.theory import phased_vi

__all__ = ["NAME", "TITLE", "analyse", "plan"]

NAME = "figure2"
TITLE = "Figure 2: replicability of rPVI against the number of samples"

EPSILON, DELTA, RHO = 0.02, 0.001, 0.2
BASE = 13_000  # the paper's m
MULTIPLES = (1, 3, 10, 30, 100, 300, 1000)
RHO_SQ = (0.01, 0.1, 0.3, 0.9)
GRIDS = ("two-goals-v1", "two-goals-wide-v1")


def plan(scale: Scale) -> list[Study]:
    """For every point: runs under one shared seed, for the shares, and pairs under many, for the agreement."""
    studies = []
    for grid in GRIDS:
        for rho_sq in RHO_SQ if not scale.quick else RHO_SQ[::2]:
            for multiple in scale.some(MULTIPLES):
                about = (("problem", grid), ("multiple", multiple), ("calls", BASE * multiple), ("rho_sq", rho_sq))
                params = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO}
                params |= {"tolerance": EPSILON, "rho_sq": rho_sq, "calls": BASE * multiple}
                algorithm = ObjectSpec("rpvi-v1", params)
                for seeds, runs in (((SHARED_SEED,), scale.runs), (scale.pairs, 2)):
                    studies.append(Study(ObjectSpec(grid), algorithm, seeds, runs, about=about))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return both shares and the agreement at every point, each with its interval."""
    rows = []
    for study, under_one, under_many in zip(studies[::2], results[::2], results[1::2], strict=True):
        (sizes,) = under_one.class_sizes("value").values()
        found = under_many.agreement("value")
        rows.append(
            study.point
            | {"runs": sum(sizes), "largest_class": max(sizes), "classes": len(sizes)}
            | estimate_columns("modal_share", modal_share(sizes, CONFIDENCE))
            | estimate_columns("unique_share", unique_share(sizes, CONFIDENCE))
            | {"pairs": found.pairs, "same": found.same}
            | estimate_columns("agreement", found.value)
        )
    theory = [_theory(grid) for grid in GRIDS]
    details = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "rho": RHO,
        "tolerance": EPSILON,
        "base_calls": BASE,
        "shared_seed": str(SHARED_SEED),
        "confidence": CONFIDENCE,
    }
    return Dataset(NAME, TITLE, {"points": Table.of(rows), "theory": Table.of(theory)}, details)


def _theory(grid: str) -> dict[str, str | int | float]:
    """What the theorem asks for on a grid, at the figure's tolerance and at the proof's own."""
    problem, _ = Study(ObjectSpec(grid), ObjectSpec("phased-vi-v1", {"epsilon": EPSILON, "delta": DELTA}), 2).objects()
    pairs, gamma = problem.n_states * problem.n_actions, problem.gamma
    loose = phased_vi(pairs, gamma, EPSILON, DELTA, RHO, tolerance=EPSILON)
    strict = phased_vi(pairs, gamma, EPSILON, DELTA, RHO)
    return {
        "problem": grid,
        "pairs": pairs,
        "gamma": gamma,
        "calls_at_this_tolerance": loose.calls_needed,
        "calls_at_this_tolerance_printed": loose.calls_printed or 0,
        "calls_of_the_theorem": strict.calls_needed,
        "rho_sq_of_the_theorem": RHO / strict.queries,
    }
