"""The paper's claims one by one: what was measured, and whether it held; and its errata, with evidence.

Claims are in our words. A verdict is computed from the other experiments' data: *held* or *not held* where an
interval (or a count that needs none) says so, *cannot tell* where it holds both answers. Change the data and
the verdicts change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.errata import errata
from replicable_rl.experiments.figure1 import PLAIN, RPVI

__all__ = ["NAME", "NEEDS", "TITLE", "analyse"]

NAME = "claims"
TITLE = "The paper's claims, and what was measured"
NEEDS = ("figure1", "figure2", "exploration", "theorem", "cost", "levels")

HELD, NOT_HELD, CANNOT_TELL = "held", "not held", "cannot tell"

Data = Mapping[str, Dataset]
Row = dict[str, Any]


class Claim(NamedTuple):
    """What is claimed, where in the paper, what was measured, and the verdict."""

    claim: str
    where: str
    measured: str
    verdict: str


def analyse(datasets: Data) -> Dataset:
    """Return the claims with their verdicts, and the errata with their evidence."""
    claims = [claim for judge in _JUDGES for claim in judge(datasets)]
    tables = {
        "claims": Table.of([claim._asdict() for claim in claims]),
        "errata": Table.of([one._asdict() for one in errata(datasets)]),
    }
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in (HELD, NOT_HELD, CANNOT_TELL)}
    return Dataset(NAME, TITLE, tables, {"verdicts": counts})


def _shown(row: Row, name: str) -> str:
    return f"{row[name]:.3f} ({row[f'{name}_low']:.3f}–{row[f'{name}_high']:.3f})"


def _judged(yes: bool, no: bool) -> str:
    return HELD if yes else NOT_HELD if no else CANNOT_TELL


# --- Figure 1 ----------------------------------------------------------------------------------


def _figure1(data: Data) -> list[Claim]:
    dataset = data["figure1"]
    headline: Any = dataset.details["headline"]
    grid = dataset.tables["runs"].distinct("problem")[0]
    plain, rpvi = (dataset.tables["all"].where(problem=grid, algorithm=name)[0] for name in (PLAIN, RPVI))
    left, right = (run for run in dataset.tables["runs"].where(problem=grid, algorithm=PLAIN))
    return [
        Claim(
            "Phased Q-learning returns different policies from different samples, and they prefer different goals",
            "fig:policy_difference",
            f"{plain['policy_classes']} policies in {plain['runs']} runs; two of them end in the left goal with "
            "probability "
            f"{left['left']:.3f} and {right['left']:.3f} (exact)",
            HELD if headline["other_goal"] else NOT_HELD,
        ),
        Claim(
            "rPVI, with one shared seed, returns one policy and one value function",
            "thm:rpvi",
            f"{rpvi['value_classes']} value function in {rpvi['runs']} runs; probability of the likeliest "
            f"{_shown(rpvi, 'value_modal_share')}",
            _judged(rpvi["value_modal_share_low"] >= 0.8, rpvi["value_modal_share_high"] < 0.8),
        ),
    ]


# --- the theorems ------------------------------------------------------------------------------


def _theorems(data: Data) -> list[Claim]:
    table, claims = data["theorem"].tables["theorems"], []
    for algorithm, name, where in (
        ("rpvi-v1", "rPVI", "thm:rpvi"),
        ("replicable-approximate-mdp-v1", "The replicable ApproximateMDP", "obs:rep-mdp"),
    ):
        rows = table.where(algorithm=algorithm)
        worst = max(rows, key=lambda row: float(row["disagreement_high"]))
        differ, pairs = sum(row["differ"] for row in rows), sum(row["pairs"] for row in rows)
        claims.append(
            Claim(
                f"{name} at its theorem's m: two runs differ with probability at most rho",
                where,
                f"{differ} of {pairs} pairs on {len(rows)} problems; least certain: {worst['problem']}, "
                f"{_shown(worst, 'disagreement')} against rho = {worst['rho']:g}",
                _judged(
                    all(row["disagreement_high"] <= row["rho"] for row in rows), any(row["refuted_rho"] for row in rows)
                ),
            )
        )
        off = max(rows, key=lambda row: float(row["worst_error"] / row["epsilon"]))
        policy = algorithm == "rpvi-v1"
        what = "policies lose at most epsilon" if policy else "entries of the model are within epsilon"
        beyond = "" if policy else ", after rows were divided by their sums, which is not promised"
        claims.append(
            Claim(
                f"{name} at its theorem's m: {what}",
                where,
                f"worst of {2 * pairs} runs: {off['worst_error']:.3g} against epsilon = {off['epsilon']:g} "
                f"({off['problem']}){beyond}",
                _judged(all(row["kept_epsilon"] for row in rows), policy),
            )
        )
    return claims


# --- Figure 2 ----------------------------------------------------------------------------------


def _figure2(data: Data) -> list[Claim]:
    dataset = data["figure2"]
    return [claim for grid in dataset.tables["points"].distinct("problem") for claim in _captions(dataset, grid)]


def _captions(dataset: Dataset, grid: str) -> list[Claim]:
    points, rho = dataset.tables["points"], float(str(dataset.details["rho"]))
    curves = [points.where(problem=grid, rho_sq=value) for value in points.distinct("rho_sq")]
    multiples = [row["multiple"] for row in curves[0]]
    columns = [[curve[i] for curve in curves] for i in range(len(multiples))]
    first, last = columns[0], columns[-1]
    lowest = min(last, key=lambda row: float(row["modal_share"]))
    apart = [multiples[i] for i, rows in enumerate(columns) if not _overlap(rows, "modal_share")]
    parted = [multiples[i] for i, rows in enumerate(columns) if not _overlap(rows, "unique_share")]
    falls = [(curve[0]["unique_share"], _at(curve, 10)["unique_share"]) for curve in curves]
    at_ten = _at(curves[0], 10)["multiple"]
    largest = max(curves, key=lambda curve: float(curve[0]["rho_sq"]))[-1]
    return [
        Claim(
            f"With more data the modal share rises past 1 − rho ({grid})",
            "fig:exp_results",
            f"from {_range(first, 'modal_share')} at x{multiples[0]} to at least {_shown(lowest, 'modal_share')} at "
            f"x{multiples[-1]}, over all rho_SQ",
            _judged(
                all(
                    a["modal_share"] < b["modal_share"] and b["modal_share_low"] > 1 - rho
                    for a, b in zip(first, last, strict=True)
                ),
                any(b["modal_share_high"] < 1 - rho for b in last),
            ),
        ),
        Claim(
            f"With more data the choice of rho_SQ matters less for the modal share ({grid})",
            "fig:exp_results",
            f"modal shares range over {_range(first, 'modal_share')} at x{multiples[0]}, "
            f"{_range(last, 'modal_share')} at "
            f"x{multiples[-1]}; their intervals have no point in common at {_listed(apart)}",
            _judged(bool(apart) and multiples[-1] not in apart, multiples[-1] in apart),
        ),
        Claim(
            f"More samples quickly reduce the unique share ({grid})",
            "fig:exp_results",
            f"from {_range(first, 'unique_share')} at x{multiples[0]} to {min(b for _, b in falls):.3f}–"
            f"{max(b for _, b in falls):.3f} at x{at_ten}",
            HELD if all(b <= max(a / 2, 0.1) for a, b in falls) else NOT_HELD,
        ),
        Claim(
            f"rho_SQ has a negligible impact on the unique share ({grid})",
            "fig:exp_results",
            f"intervals over all rho_SQ have no point in common at {_listed(parted)}; at x{multiples[0]} the shares "
            "range "
            f"over {_range(first, 'unique_share')}",
            NOT_HELD if parted else HELD,
        ),
        Claim(
            f"A rho_SQ far above the theorem's still replicates ({grid})",
            "sec:experiments",
            f"rho_SQ = {largest['rho_sq']:g} at x{largest['multiple']}: pairwise agreement "
            f"{_shown(largest, 'agreement')} "
            f"against 1 − rho = {1 - rho:g}",
            _judged(largest["agreement_low"] >= 1 - rho, largest["agreement_high"] < 1 - rho),
        ),
        _smaller_rho_sq(grid, curves),
    ]


def _smaller_rho_sq(grid: str, curves: list[list[Row]]) -> Claim:
    small, large = curves[0], curves[-1]
    pairs = list(zip(small, large, strict=True))
    better = [a["multiple"] for a, b in pairs if a["agreement_low"] > b["agreement_high"]]
    worse = [a["multiple"] for a, b in pairs if a["agreement_high"] < b["agreement_low"]]
    widest = max(pairs, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
    return Claim(
        f"A smaller rho_SQ improves replicability at a given sample ({grid})",
        "sec:experiments",
        f"pairwise agreement with rho_SQ = {small[0]['rho_sq']:g} and {large[0]['rho_sq']:g}: intervals apart at "
        f"{_listed(better + worse)}; widest at x{widest[0]['multiple']}, {_shown(widest[0], 'agreement')} and "
        f"{_shown(widest[1], 'agreement')}",
        _judged(bool(better) and not worse, bool(worse)),
    )


def _overlap(rows: list[Row], name: str) -> bool:
    """Whether the intervals have a point in common: the data allow one value for all."""
    return bool(max(row[f"{name}_low"] for row in rows) <= min(row[f"{name}_high"] for row in rows))


def _at(curve: list[Row], multiple: int) -> Row:
    """Return the last point up to a multiple."""
    return [row for row in curve if row["multiple"] <= multiple][-1]


def _range(rows: list[Row], name: str) -> str:
    return f"{min(row[name] for row in rows):.3f}–{max(row[name] for row in rows):.3f}"


def _listed(multiples: list[int]) -> str:
    return ", ".join(f"x{multiple}" for multiple in multiples) or "no multiple"


# --- cost and levels ---------------------------------------------------------------------------


def _cost(data: Data) -> list[Claim]:
    rows = [row for row in data["cost"].tables["needed"] if row["measured_high"] is not None]
    slope = data["cost"].tables["slopes"].where(samples="measured")[0]
    ratio = min((row["tight"] / row["measured_high"] for row in rows), default=0.0)
    known = slope["slope"] is not None and slope["slope_low"] is not None and slope["slope_high"] is not None
    said = f"{slope['slope']:.2f}" if slope["slope"] is not None else "not fitted"
    interval = f" ({slope['slope_low']:.2f}–{slope['slope_high']:.2f})" if known else " (no interval)"
    return [
        Claim(
            "Replicable value functions take orders of magnitude fewer samples than the bound",
            "sec:experiments",
            f"at most 1/{ratio:.2g} of the tight bound on each of {len(rows)} grids, at the same tolerance",
            _judged(len(rows) > 0 and ratio >= 100.0, False),
        ),
        Claim(
            "The overhead is far better than the squared dependence on |S||A|",
            "sec:experiments",
            f"it grows with the power {said}{interval} of |S||A|; the bound with the power 2 and a logarithm",
            _judged(known and slope["slope_high"] < 2.0, known and slope["slope_low"] >= 2.0),
        ),
    ]


def _levels(data: Data) -> list[Claim]:
    table, needed = data["levels"].tables["agreement"], data["levels"].tables["needed"]
    claims = [
        _easier(table, "replicable-approximate-mdp-v1", "value", "model"),
        _easier(table, "replicable-approximate-mdp-v1", "policy", "value"),
        _easier(table, "rpvi-v1", "policy", "value"),
    ]
    for grid in needed.distinct("problem"):
        value = needed.where(problem=grid, algorithm="rpvi-v1", level="value")[0]
        model = needed.where(problem=grid, algorithm="replicable-approximate-mdp-v1", level="model")[0]
        claims.append(
            Claim(
                f"Estimating values directly is much cheaper than estimating the model ({grid})",
                "app:rep-app-mpd",
                f"samples for an agreement of 0.8: value {_samples(value)}, model {_samples(model)}, same tolerance",
                _judged(
                    None not in (value["samples_high"], model["samples_low"])
                    and value["samples_high"] < model["samples_low"],
                    None not in (model["samples_high"], value["samples_low"])
                    and model["samples_high"] < value["samples_low"],
                ),
            )
        )
    return claims


def _easier(table: Table, algorithm: str, easy: str, hard: str) -> Claim:
    """Compare two levels of the same runs: on which grids is there a size where one agrees more often, clearly."""
    grids, shown, alike = table.distinct("problem"), [], []
    for grid in grids:
        rows = list(
            zip(*(table.where(problem=grid, algorithm=algorithm, level=level) for level in (easy, hard)), strict=True)
        )
        gap = max(rows, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
        alike.append(all(a["same"] == b["same"] for a, b in rows))
        if any(a["agreement_low"] > b["agreement_high"] for a, b in rows):
            shown.append(grid)
        text = f"{_shown(gap[0], 'agreement')} and {_shown(gap[1], 'agreement')}"
    same = " (the same in every pair of runs)" if all(alike) else ""
    name = "rPVI" if algorithm == "rpvi-v1" else "ApproximateMDP"
    return Claim(
        f"A {easy} is easier to replicate than a {hard} ({name})",
        "sec:rep-rl",
        f"agreement of {easy} and {hard}, where furthest apart on {grids[-1]}: {text}{same}",
        _judged(len(shown) == len(grids), all(alike)),
    )


def _samples(row: Row) -> str:
    low, middle, high = (
        "beyond" if row[name] is None else f"{row[name]:.2g}" for name in ("samples_low", "samples", "samples_high")
    )
    return f"{middle} ({low}–{high})"


# --- exploration -------------------------------------------------------------------------------


def _exploration(data: Data) -> list[Claim]:
    table, details = data["exploration"].tables["agreement"], data["exploration"].details
    rho, epsilon = float(str(details["rho"])), float(str(details["epsilon"]))
    ours, theirs = (table.where(part="grid", variant=name, level="model")[-1] for name in ("RepRMAX", "R-max"))
    policy = table.where(part="grid", variant="R-max", level="policy")[-1]
    fixed = table.where(part="knife edge", variant="fixed threshold, rSTAT", level="story")[-1]
    random = table.where(part="knife edge", variant="RepRMAX", level="story")[-1]
    plain = table.where(part="grid", variant="random threshold, plain means", level="model")[-1]
    loss = max(row["worst_loss"] for row in table.where(variant="RepRMAX"))
    return [
        Claim(
            "RepRMAX replicates the whole model, R-max does not",
            "thm:repmax-replicable",
            f"m = {ours['episodes']:.0e}: same model {_shown(ours, 'agreement')}, R-max {_shown(theirs, 'agreement')} "
            f"(same policy {_shown(policy, 'agreement')})",
            _judged(
                ours["agreement_low"] >= 1 - rho and theirs["agreement_high"] < 1 - rho,
                ours["agreement_high"] < 1 - rho or theirs["agreement_low"] >= 1 - rho,
            ),
        ),
        Claim(
            "RepRMAX finds a nearly optimal policy",
            "lem:repmax-convergence",
            f"largest loss of any run, from the start and before normalisation: {loss:.2g} against epsilon = "
            f"{epsilon:g}",
            HELD if loss <= epsilon else NOT_HELD,
        ),
        Claim(
            "A threshold that is random and shared keeps the known sets of two runs together",
            "alg:repmax",
            f"problem built against a fixed threshold, m = {random['episodes']:.0e}: same known pairs in every round "
            f"{_shown(random, 'agreement')}, fixed threshold {_shown(fixed, 'agreement')}",
            _judged(
                random["agreement_low"] > fixed["agreement_high"], random["agreement_high"] < fixed["agreement_low"]
            ),
        ),
        Claim(
            "Replicable queries are what makes models agree",
            "alg:repmax",
            f"two-goals grid, m = {plain['episodes']:.0e}, random threshold: same model with rSTAT "
            f"{_shown(ours, 'agreement')}, with plain means {_shown(plain, 'agreement')}",
            _judged(ours["agreement_low"] > plain["agreement_high"], ours["agreement_high"] < plain["agreement_low"]),
        ),
    ]


_JUDGES: tuple[Callable[[Data], list[Claim]], ...] = (_figure1, _theorems, _figure2, _cost, _levels, _exploration)
