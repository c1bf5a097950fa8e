"""Runs under one shared seed for the shares, pairs under many for the agreement, and what both say."""

from __future__ import annotations

from collections.abc import Sequence

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, SHARED_SEED, Scale, Study, study
from replicable_rl.experiments.shares import modal_share, unique_share
from replicable_rl.records import ObjectSpec
from replicable_rl.registry import make
from replicable_rl.theory import phased_vi

EPSILON, DELTA, RHO = 0.02, 0.001, 0.2
BASE = 13_000  # the paper's m
MULTIPLES = (1, 3, 10, 30, 100, 300, 1000)
RHO_SQ = (0.01, 0.1, 0.3, 0.9)
GRIDS = ("two-goals-v1", "two-goals-wide-v1")
PROMISE = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "tolerance": EPSILON}


def design(scale: Scale) -> list[Study]:
    """Return, for every point, many runs under the published seed, and pairs of runs under seeds of their own."""
    studies = []
    for grid in GRIDS:
        for rho_sq in RHO_SQ if not scale.quick else RHO_SQ[::2]:
            for multiple in scale.some(MULTIPLES):
                calls = BASE * multiple
                point = {"problem": grid, "multiple": multiple, "calls": calls, "rho_sq": rho_sq}
                algorithm = ObjectSpec("rpvi-v1", {**PROMISE, "rho_sq": rho_sq, "calls": calls})
                studies.append(study(point, grid, algorithm, (SHARED_SEED,), scale.runs))
                studies.append(study(point, grid, algorithm, scale.pairs))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return both shares and the agreement at every point, each with its interval."""
    rows = []
    for one, under_one, under_many in zip(studies[::2], results[::2], results[1::2], strict=True):
        (sizes,) = under_one.class_sizes("value").values()
        found = under_many.agreement("value")
        rows.append(
            {**one.point, "runs": sum(sizes), "largest_class": max(sizes), "classes": len(sizes)}
            | estimate_columns("modal_share", modal_share(sizes, CONFIDENCE))
            | estimate_columns("unique_share", unique_share(sizes, CONFIDENCE))
            | {"pairs": found.pairs, "same": found.same}
            | estimate_columns("agreement", found.value)
        )
    theory = [_theory(grid) for grid in GRIDS]
    details = {**PROMISE, "base_calls": BASE, "shared_seed": str(SHARED_SEED), "confidence": CONFIDENCE}
    return Dataset({"points": Table.of(rows), "theory": Table.of(theory)}, details)


def _theory(grid: str) -> dict[str, str | int | float]:
    """What the theorem asks for on a grid, at the figure's tolerance and at the proof's own."""
    problem = make(grid)
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
