"""Both algorithms over their range of calls, and the samples at which each level passes the target."""

import itertools
from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.crossing import crossing
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, SHORT_NAMES, Scale, Study, Verdict, judged, shown, study
from replicable_rl.runs import ObjectSpec

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
TARGET = 0.8
TOLERANCE = 0.02  # of a query about a value or a probability, both in [0, 1]
PROMISE = {"epsilon": TOLERANCE, "delta": 0.001, "rho": 0.2, "tolerance": TOLERANCE}
MODEL, VALUE = "replicable-approximate-mdp-v1", "rpvi-v1"
CALLS = {MODEL: tuple(10**k for k in range(3, 11)), VALUE: tuple(10**k for k in range(2, 9))}
ENOUGH_PAIRS = 50  # that never differ, to say that two levels do not


def design(scale: Scale) -> list[Study]:
    """Return both algorithms over their range of calls, on both grids."""
    studies = []
    for problem, name in itertools.product(GRIDS, CALLS):
        for calls in scale.some(CALLS[name]):
            algorithm = ObjectSpec(name, {**PROMISE, "calls": calls})
            point = {"problem": problem, "algorithm": name, "calls": calls}
            studies.append(study(point, problem, algorithm, scale.pairs))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return agreement at every level over the samples, and the samples at which it passes the target."""
    rows: list[dict[str, Any]] = []
    for one, result in zip(studies, results, strict=True):
        (samples,) = {run.samples for run in result.runs}
        for level, found in result.agreements.items():
            about = {**one.point, "samples": samples, "level": level, "pairs": found.pairs, "same": found.same}
            rows.append(about | estimate_columns("agreement", found.value))
    details = {**PROMISE, "target": TARGET, "confidence": CONFIDENCE}
    return Dataset({"agreement": Table.of(rows), "needed": Table.of(_needed(rows))}, details)


def _needed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    names, found = ("problem", "algorithm", "level"), []
    for curve in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        points = [row for row in rows if tuple(row[name] for name in names) == curve]
        samples, same, pairs = ([row[name] for row in points] for name in ("samples", "same", "pairs"))
        where = crossing(samples, same, pairs, TARGET, CONFIDENCE)
        tried = {"tried_from": samples[0], "tried_to": samples[-1]}
        found.append(dict(zip(names, curve, strict=True)) | where.columns("samples") | tried)
    return found


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge that each level is easier than the one before it, and that values are cheaper than models."""
    table, needed = dataset.tables["agreement"], dataset.tables["needed"]
    return [
        _easier(table, MODEL, "value", "model"),
        _easier(table, MODEL, "policy", "value"),
        _easier(table, VALUE, "policy", "value"),
        *(_cheaper(needed, grid) for grid in needed.distinct("problem")),
    ]


def _easier(table: Table, algorithm: str, easy: str, hard: str) -> Verdict:
    """Compare two levels of the same runs: count the grids on which, at some size, one clearly agrees more often."""
    grids = table.distinct("problem")
    clear, alike, text = 0, True, ""
    for grid in grids:
        curves = (table.where(problem=grid, algorithm=algorithm, level=level) for level in (easy, hard))
        rows = list(zip(*curves, strict=True))
        gap = max(rows, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
        alike = alike and all(a["same"] == b["same"] for a, b in rows)
        clear += any(a["agreement_low"] > b["agreement_high"] for a, b in rows)
        text = f"{shown(gap[0], 'agreement')} and {shown(gap[1], 'agreement')}"
    same = " (the same in every pair of runs)" if alike else ""
    return Verdict(
        f"A {easy} is easier to replicate than a {hard} ({SHORT_NAMES[algorithm]})",
        "sec:rep-rl",
        f"agreement of {easy} and {hard}, where furthest apart on {grids[-1]}: {text}{same}",
        judged(clear == len(grids), alike and min(row["pairs"] for row in table) >= ENOUGH_PAIRS),
    )


def _cheaper(needed: Table, grid: str) -> Verdict:
    value = needed.where(problem=grid, algorithm=VALUE, level="value")[0]
    model = needed.where(problem=grid, algorithm=MODEL, level="model")[0]
    return Verdict(
        f"Estimating values directly is much cheaper than estimating the model ({grid})",
        "app:rep-app-mpd",
        f"samples for an agreement of 0.8: value {_samples(value)}, model {_samples(model)}, same tolerance",
        judged(_below(value, model), _below(model, value)),
    )


def _below(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Whether what is enough for one is too little for the other."""
    enough, too_few = one["samples_high"], two["samples_low"]
    return enough is not None and too_few is not None and enough < too_few


def _samples(row: dict[str, Any]) -> str:
    low, middle, high = (
        "beyond" if row[name] is None else f"{row[name]:.2g}" for name in ("samples_low", "samples", "samples_high")
    )
    return f"{middle} ({low}–{high})"
