"""The paper's claims one by one: what was measured, and whether it held; and its errata, with evidence.

Claims are in our words. A verdict is computed from the other experiments' data: *held* or *not held* where an
interval (or a count that needs none) says so, *cannot tell* where it holds both answers. Change the data and
the verdicts change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replicable_rl.experiments.captions import figure2_claims
from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.errata import errata
from replicable_rl.experiments.figure1 import PLAIN, RPVI
from replicable_rl.experiments.verdicts import CANNOT_TELL, HELD, NOT_HELD, Claim, judged, shown

__all__ = ["NAME", "NEEDS", "TITLE", "analyse"]

NAME = "claims"
TITLE = "The paper's claims, and what was measured"
NEEDS = ("figure1", "figure2", "exploration", "theorem", "cost", "levels")

Data = Mapping[str, Dataset]
Row = dict[str, Any]
_ENOUGH_PAIRS = 50  # that never differ, to say that two levels do not


def analyse(datasets: Data) -> Dataset:
    """Return the claims with their verdicts, and the errata with their evidence."""
    claims = [claim for judge in _JUDGES for claim in judge(datasets)]
    tables = {
        "claims": Table.of([claim._asdict() for claim in claims]),
        "errata": Table.of([one._asdict() for one in errata(datasets)]),
    }
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in (HELD, NOT_HELD, CANNOT_TELL)}
    return Dataset(NAME, TITLE, tables, {"verdicts": counts})


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
            f"{shown(rpvi, 'value_modal_share')}",
            judged(rpvi["value_modal_share_low"] >= 0.8, rpvi["value_modal_share_high"] < 0.8),
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
                f"{shown(worst, 'disagreement')} against rho = {worst['rho']:g}",
                judged(
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
                judged(
                    all(row["kept_epsilon"] for row in rows), policy and any(row["refuted_epsilon"] for row in rows)
                ),
            )
        )
    return claims


# --- cost and levels ---------------------------------------------------------------------------


def _cost(data: Data) -> list[Claim]:
    grids = list(data["cost"].tables["needed"])
    rows = [row for row in grids if row["measured_high"] is not None]
    slope = data["cost"].tables["slopes"].where(samples="measured")[0]
    ratio = min((row["tight"] / row["measured_high"] for row in rows), default=0.0)
    known = slope["slope"] is not None and slope["slope_low"] is not None and slope["slope_high"] is not None
    said = f"{slope['slope']:.2f}" if slope["slope"] is not None else "not fitted"
    interval = f" ({slope['slope_low']:.2f}–{slope['slope_high']:.2f})" if known else " (no interval)"
    return [
        Claim(
            "Replicable value functions take orders of magnitude fewer samples than the bound",
            "sec:experiments",
            f"at most 1/{ratio:.2g} of the tight bound on {len(rows)} of {len(grids)} grids, at the same tolerance"
            if rows
            else "an agreement of 0.8 was shown on no grid",
            judged(len(rows) == len(grids) and ratio >= 100.0, False),
        ),
        Claim(
            "The overhead is far better than the squared dependence on |S||A|",
            "sec:experiments",
            f"it grows with the power {said}{interval} of |S||A|; the bound with the power 2 and a logarithm",
            judged(known and slope["slope_high"] < 2.0, known and slope["slope_low"] >= 2.0),
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
                judged(
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
    grids = table.distinct("problem")
    clear, alike = 0, []
    for grid in grids:
        rows = list(
            zip(*(table.where(problem=grid, algorithm=algorithm, level=level) for level in (easy, hard)), strict=True)
        )
        gap = max(rows, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
        alike.append(all(a["same"] == b["same"] for a, b in rows))
        if any(a["agreement_low"] > b["agreement_high"] for a, b in rows):
            clear += 1
        text = f"{shown(gap[0], 'agreement')} and {shown(gap[1], 'agreement')}"
    same = " (the same in every pair of runs)" if all(alike) else ""
    name = "rPVI" if algorithm == "rpvi-v1" else "ApproximateMDP"
    return Claim(
        f"A {easy} is easier to replicate than a {hard} ({name})",
        "sec:rep-rl",
        f"agreement of {easy} and {hard}, where furthest apart on {grids[-1]}: {text}{same}",
        judged(clear == len(grids), all(alike) and min(row["pairs"] for row in table) >= _ENOUGH_PAIRS),
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
    loss = max(row["worst_loss"] for row in table.where(variant="RepRMAX"))
    return [
        Claim(
            "RepRMAX replicates the whole model, R-max does not",
            "thm:repmax-replicable",
            f"m = {ours['episodes']:.0e}: same model {shown(ours, 'agreement')}, R-max {shown(theirs, 'agreement')} "
            f"(same policy {shown(policy, 'agreement')})",
            judged(
                ours["agreement_low"] >= 1 - rho and theirs["agreement_high"] < 1 - rho,
                ours["agreement_high"] < 1 - rho or theirs["agreement_low"] >= 1 - rho,
            ),
        ),
        Claim(
            "RepRMAX finds a nearly optimal policy",
            "lem:repmax-convergence",
            f"largest loss of any run, from the start and before normalisation: {loss:.2g} against epsilon = "
            f"{epsilon:g}",
            judged(loss <= epsilon, False),  # normalised, it is smaller still
        ),
    ]


def _ingredients(data: Data) -> list[Claim]:
    table = data["exploration"].tables["agreement"]
    fixed = table.where(part="knife edge", variant="fixed threshold, rSTAT", level="story")[-1]
    random = table.where(part="knife edge", variant="RepRMAX", level="story")[-1]
    ours = table.where(part="grid", variant="RepRMAX", level="model")[-1]
    plain = table.where(part="grid", variant="random threshold, plain means", level="model")[-1]
    return [
        Claim(
            "A threshold that is random and shared keeps the known sets of two runs together",
            "alg:repmax",
            f"problem built against a fixed threshold, m = {random['episodes']:.0e}: same known set in every round "
            f"{shown(random, 'agreement')}, fixed threshold {shown(fixed, 'agreement')}",
            judged(
                random["agreement_low"] > fixed["agreement_high"], random["agreement_high"] < fixed["agreement_low"]
            ),
        ),
        Claim(
            "Replicable queries are what makes models agree",
            "alg:repmax",
            f"two-goals grid, m = {plain['episodes']:.0e}, random threshold: same model with rSTAT "
            f"{shown(ours, 'agreement')}, with plain means {shown(plain, 'agreement')}",
            judged(ours["agreement_low"] > plain["agreement_high"], ours["agreement_high"] < plain["agreement_low"]),
        ),
    ]


_JUDGES: tuple[Callable[[Data], list[Claim]], ...] = (
    _figure1,
    _theorems,
    lambda data: figure2_claims(data["figure2"]),
    _cost,
    _levels,
    _exploration,
    _ingredients,
)
