"""What the paper says about its Figure 2, in the captions and the section on experiments, judged on our data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.verdicts import Verdict, judged, shown

Row = dict[str, Any]
Curve = list[Row]  # one rho_SQ on one grid, over the multiples
_SMALL = 0.15  # a unique share that is no more to speak of
_CLOSE = 0.2  # shares that differ by less than this are taken for alike


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
            all(b["unique_share_high"] <= max(a["unique_share_low"] / 2, _SMALL) for a, b in pairs),
            any(b["unique_share_low"] > max(a["unique_share_high"] / 2, _SMALL) for a, b in pairs),
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
    return bool(max(row[f"{name}_high"] for row in rows) - min(row[f"{name}_low"] for row in rows) <= _CLOSE)


def _range(rows: list[Row], name: str) -> str:
    return f"{min(row[name] for row in rows):.3f}–{max(row[name] for row in rows):.3f}"


def _listed(multiples: list[int]) -> str:
    return ", ".join(f"x{multiple}" for multiple in multiples) or "no multiple"
