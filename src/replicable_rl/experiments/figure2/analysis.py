"""Runs under one shared seed for the shares, pairs under many for the agreement, and the paper's claims about both."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, SHARED_SEED, Scale, Study, Verdict, judged, shown, study
from replicable_rl.experiments.shares import modal_share, unique_share
from replicable_rl.registry import make
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import paper_phased_vi
from replicable_rl.wording import interval

EPSILON, DELTA, RHO = 0.02, 0.001, 0.2
BASE = 13_000  # the paper's m
MULTIPLES = (1, 3, 10, 30, 100, 300, 1000)
RHO_SQ = (0.01, 0.1, 0.3, 0.9)
GRIDS = ("two-goals-v1", "two-goals-wide-v1")
SMALL = 0.15  # a unique share that is no more to speak of
CLOSE = 0.2  # shares that differ by less than this are taken for alike
PROMISE = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "tolerance": EPSILON}

Row = dict[str, Any]
Curve = list[Row]  # one rho_SQ on one grid, over the multiples


def design(scale: Scale) -> list[Study]:
    """Return, for every point, many runs under the published seed, and pairs of runs under seeds of their own."""
    rhos, multiples = RHO_SQ if not scale.quick else RHO_SQ[::2], scale.some(MULTIPLES)
    points = itertools.product(GRIDS, rhos, multiples)
    return [one for point in points for one in _studies(scale, *point)]


def _studies(scale: Scale, problem: str, rho_sq: float, multiple: int) -> Iterator[Study]:
    calls = BASE * multiple
    point = {"problem": problem, "multiple": multiple, "calls": calls, "rho_sq": rho_sq}
    algorithm = ObjectSpec("rpvi-v1", {**PROMISE, "rho_sq": rho_sq, "calls": calls})
    yield study(point, problem, algorithm, (SHARED_SEED,), scale.runs)
    yield study(point, problem, algorithm, scale.pairs)


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
    promise = pairs, gamma, EPSILON, DELTA, RHO
    loose, printed = (paper_phased_vi(*promise, tolerance=EPSILON, printed=printed) for printed in (False, True))
    strict = paper_phased_vi(*promise)
    return {
        "problem": grid,
        "pairs": pairs,
        "gamma": gamma,
        "calls_at_this_tolerance": loose["calls"],
        "calls_at_this_tolerance_printed": printed["calls"],
        "calls_of_the_theorem": strict["calls"],
        "rho_sq_of_the_theorem": RHO / (pairs * strict["iterations"]),
    }


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge the claims about Figure 2 on every grid."""
    return [one for grid in dataset.tables["points"].distinct("problem") for one in captions(dataset, grid)]


def captions(dataset: Dataset, grid: str) -> list[Verdict]:
    """Judge the claims about Figure 2 on one grid."""
    points, rho = dataset.tables["points"], dataset.details["rho"]
    curves = [points.where(problem=grid, rho_sq=value) for value in points.distinct("rho_sq")]
    found = [
        _rises(curves, rho),
        _matters_less(curves),
        _falls(curves),
        _negligible(curves),
        _far_above(curves, rho),
        _smaller_is_better(curves),
    ]
    return [one._replace(claim=f"{one.claim} ({grid})") for one in found]


def _rises(curves: list[Curve], rho: float) -> Verdict:
    first, last = [curve[0] for curve in curves], [curve[-1] for curve in curves]
    lowest = min(last, key=lambda row: float(row["modal_share"]))
    rises = all(a["modal_share"] < b["modal_share"] for a, b in zip(first, last, strict=True))
    return Verdict(
        "With more data the modal share rises past 1 − rho",
        "fig:exp_results",
        f"from {_range(first, 'modal_share')} at x{first[0]['multiple']} to at least {shown(lowest, 'modal_share')} at "
        f"x{last[0]['multiple']}, over all rho_SQ",
        judged(
            rises and all(row["modal_share_low"] > 1 - rho for row in last),
            any(row["modal_share_high"] < 1 - rho for row in last),
        ),
    )


def _matters_less(curves: list[Curve]) -> Verdict:
    apart = _apart(curves, "modal_share")
    first, last = [curve[0] for curve in curves], [curve[-1] for curve in curves]
    end = last[0]["multiple"]
    return Verdict(
        "With more data the choice of rho_SQ matters less for the modal share",
        "fig:exp_results",
        f"modal shares range over {_range(first, 'modal_share')} at x{first[0]['multiple']}, "
        f"{_range(last, 'modal_share')} at x{end}; intervals apart at {_listed(apart)}",
        judged(bool(apart) and _within(last, "modal_share"), end in apart),
    )


def _falls(curves: list[Curve]) -> Verdict:
    first = [curve[0] for curve in curves]
    then = [[row for row in curve if row["multiple"] <= 10][-1] for curve in curves]
    pairs = list(zip(first, then, strict=True))
    return Verdict(
        "More samples quickly reduce the unique share",
        "fig:exp_results",
        f"from {_range(first, 'unique_share')} at x{first[0]['multiple']} to {_range(then, 'unique_share')} at "
        f"x{then[0]['multiple']}",
        judged(
            all(b["unique_share_high"] <= max(a["unique_share_low"] / 2, SMALL) for a, b in pairs),
            any(b["unique_share_low"] > max(a["unique_share_high"] / 2, SMALL) for a, b in pairs),
        ),
    )


def _negligible(curves: list[Curve]) -> Verdict:
    apart, first = _apart(curves, "unique_share"), [curve[0] for curve in curves]
    return Verdict(
        "rho_SQ has a negligible impact on the unique share",
        "fig:exp_results",
        f"intervals apart at {_listed(apart)}; at x{first[0]['multiple']} the shares range over "
        f"{_range(first, 'unique_share')}",
        judged(all(_within(rows, "unique_share") for rows in zip(*curves, strict=True)), bool(apart)),
    )


def _far_above(curves: list[Curve], rho: float) -> Verdict:
    row = max(curves, key=lambda curve: float(curve[0]["rho_sq"]))[-1]
    return Verdict(
        "A rho_SQ far above the theorem's still replicates",
        "sec:experiments",
        f"rho_SQ = {row['rho_sq']:g} at x{row['multiple']}: pairwise agreement {shown(row, 'agreement')} against "
        f"1 − rho = {1 - rho:g}",
        judged(row["agreement_low"] >= 1 - rho, row["agreement_high"] < 1 - rho),
    )


def _smaller_is_better(curves: list[Curve]) -> Verdict:
    small, large = curves[0], curves[-1]
    pairs = list(zip(small, large, strict=True))
    better = [a["multiple"] for a, b in pairs if a["agreement_low"] > b["agreement_high"]]
    worse = [a["multiple"] for a, b in pairs if a["agreement_high"] < b["agreement_low"]]
    widest = max(pairs, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
    return Verdict(
        "A smaller rho_SQ improves replicability at a given sample",
        "sec:experiments",
        f"pairwise agreement with rho_SQ = {small[0]['rho_sq']:g} and {large[0]['rho_sq']:g}: intervals apart at "
        f"{_listed(better + worse)}; widest at x{widest[0]['multiple']}, {shown(widest[0], 'agreement')} and "
        f"{shown(widest[1], 'agreement')}",
        judged(bool(better) and not worse, bool(worse)),
    )


def _apart(curves: list[Curve], name: str) -> list[int]:
    """Return the multiples at which the intervals have no point in common: no one value fits all rho_SQ."""
    return [
        rows[0]["multiple"]
        for rows in zip(*curves, strict=True)
        if max(row[f"{name}_low"] for row in rows) > min(row[f"{name}_high"] for row in rows)
    ]


def _within(rows: Iterable[Row], name: str) -> bool:
    """Whether the shares are shown to be close to each other: all their intervals lie within a narrow one."""
    rows = list(rows)
    return bool(max(row[f"{name}_high"] for row in rows) - min(row[f"{name}_low"] for row in rows) <= CLOSE)


def _range(rows: list[Row], name: str) -> str:
    return interval(min(row[name] for row in rows), max(row[name] for row in rows))


def _listed(multiples: list[int]) -> str:
    return ", ".join(f"x{multiple}" for multiple in multiples) or "no multiple"
