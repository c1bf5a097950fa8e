"""What each experiment found, in a sentence or two for the terminal; every number is read off the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replicable_rl.experiments.dataset import Dataset

__all__ = ["SUMMARIES"]


def _figure1(dataset: Dataset) -> str:
    return "; ".join(
        f"{row['algorithm']} on {row['problem']}: {row['policy_classes']} "
        f"polic{'y' if row['policy_classes'] == 1 else 'ies'} in {row['runs']} runs"
        for row in dataset.tables["all"]
    )


def _figure2(dataset: Dataset) -> str:
    points = dataset.tables["points"]
    parts = []
    for grid in points.distinct("problem"):
        rows = points.where(problem=grid, rho_sq=points.distinct("rho_sq")[0])
        first, last = rows[0], rows[-1]
        shares = (f"{row['modal_share']:.2f} at x{row['multiple']}" for row in (first, last))
        agree = (f"{row['agreement']:.2f}" for row in (first, last))
        parts.append(f"{grid}: modal share {' to '.join(shares)}, pairwise agreement {' to '.join(agree)}")
    return f"{'; '.join(parts)} (rho_SQ = {points.distinct('rho_sq')[0]:g})"


def _exploration(dataset: Dataset) -> str:
    table = dataset.tables["agreement"]
    ours, theirs = (table.where(part="grid", variant=name, level="model")[-1] for name in ("RepRMAX", "R-max"))
    return (
        f"m = {ours['episodes']:.0e}: same model in {ours['same']} of {ours['pairs']} pairs (RepRMAX), "
        f"{theirs['same']} of {theirs['pairs']} (R-max)"
    )


def _theorem(dataset: Dataset) -> str:
    table = dataset.tables["theorems"]
    differ, pairs = sum(table.column("differ")), sum(table.column("pairs"))
    drawn = max(float(samples) for samples in table.column("samples_a_run"))
    return (
        f"{differ} of {pairs} pairs differ, where rho = {dataset.details['rho']} would allow "
        f"{float(str(dataset.details['rho'])) * pairs:.0f}; up to {drawn:.1e} samples a run"
    )


def _cost(dataset: Dataset) -> str:
    slopes = {row["samples"]: row for row in dataset.tables["slopes"]}
    one: Mapping[str, Any] = slopes["measured"]
    rows = [row for row in dataset.tables["needed"] if row["measured"] is not None]
    if one["slope"] is None:
        return "too few grids reach an agreement of 0.8 inside the range tried"
    ends = (
        ""
        if one["slope_low"] is None or one["slope_high"] is None
        else f" ({one['slope_low']:.2f}–{one['slope_high']:.2f})"
    )
    ratio = min(row["tight"] / row["measured"] for row in rows)
    return (
        f"an agreement of 0.8 takes 1/{ratio:.0e} of the theorem's m or less; it grows with the power "
        f"{one['slope']:.2f}{ends} "
        f"of N, the theorem's with {slopes['tight']['slope']:.2f}"
    )


def _levels(dataset: Dataset) -> str:
    rows = dataset.tables["needed"]
    grid = rows.distinct("problem")[0]
    said = [
        f"{row['level']} {row['samples']:.1e} ({'ApproximateMDP' if 'mdp' in row['algorithm'] else 'rPVI'})"
        for row in rows.where(problem=grid)
        if row["samples"] is not None
    ]
    return f"samples for an agreement of 0.8 on {grid}: {', '.join(said)}"


def _claims(dataset: Dataset) -> str:
    verdicts: Any = dataset.details["verdicts"]
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())


SUMMARIES: Mapping[str, Callable[[Dataset], str]] = {
    "figure1": _figure1,
    "figure2": _figure2,
    "exploration": _exploration,
    "theorem": _theorem,
    "cost": _cost,
    "levels": _levels,
    "claims": _claims,
}
