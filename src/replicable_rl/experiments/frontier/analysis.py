"""Agreement and loss at every size, the samples for an agreement of 0.8 on every curve, and whether aims are met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import AuditResult, Estimate
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.crossing import crossing
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, Study, Verdict, judged, shown
from replicable_rl.experiments.frontier.curves import (
    BUDGET,
    COARSE,
    DEFAULT,
    DELTA,
    FINE,
    PLAIN,
    PUBLISHED,
    RHO,
    TARGET,
    is_shown,
    stakes,
)
from replicable_rl.experiments.frontier.lab import FOLLOWED

Row = dict[str, Any]

SMALL = 50  # states, up to which the aims are tighter
AIMS = {DEFAULT: (10**4, 10**6), PUBLISHED: (10**3, 10**5)}  # samples per pair: small problems, and the others
FEWER = 10**4  # times as many samples does rPVI take on two-goals, at least: the aim
MET, MISSED, UNCLEAR = "met", "missed", "cannot tell"


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return a row for every audit, and one for every curve."""
    points = [_point(one, result) for one, result in zip(studies, results, strict=True)]
    curves = dict.fromkeys((row["problem"], row["rule"]) for row in points)
    needed = [needed_of([row for row in points if (row["problem"], row["rule"]) == curve]) for curve in curves]
    details = {"budget": BUDGET, "delta": DELTA, "rho": RHO, "target": TARGET, "confidence": CONFIDENCE}
    return Dataset({"points": Table.of(points), "needed": Table.of(needed)}, details)


def _point(one: Study, result: AuditResult) -> Row:
    mdp, gain, epsilon = stakes(one.point["problem"])
    found = result.agreement("policy")
    (samples,) = {run.samples for run in result.runs}
    lost = [(policy.loss / gain, policy.runs) for policy in result.policies or ()]
    return (
        {**one.point, "states": mdp.n_states, "actions": mdp.n_actions, "epsilon": epsilon}
        | {"samples_per_pair": (samples or 0) // (mdp.n_states * mdp.n_actions), "samples_a_run": samples}
        | {"pairs": found.pairs, "same": found.same}
        | estimate_columns("agreement", found.value)
        | {"loss": sum(loss * runs for loss, runs in lost) / len(result.runs)}
        | {"worst_loss": max(loss for loss, _ in lost)}
        | {"runs_over_budget": sum(runs for loss, runs in lost if loss > BUDGET)}
        | _with_the_publisher(result)
    )


def _with_the_publisher(result: AuditResult) -> Row:
    """How often the first lab of each pair decided as the publisher had: the pairs are independent."""
    first = [run for i, run in enumerate(result.runs) if i % result.spec.runs_per_seed == 0]
    if FOLLOWED not in first[0].history:
        return {"publisher": None, "publisher_low": None, "publisher_high": None}
    same = sum(int(run.history[FOLLOWED][0]) for run in first)
    ends = clopper_pearson(same, len(first), CONFIDENCE)
    return dict(estimate_columns("publisher", Estimate(same / len(first), *ends)))


def needed_of(points: Sequence[Row]) -> Row:
    """Return where one curve passes the target, and what it loses there.

    ``samples`` is the estimate, ``samples_low`` the largest size that is shown to be too small and ``samples_high``
    the smallest that is shown to be enough; all are samples of a pair. The loss is that at the latter, or at the
    largest size tried.
    """
    sizes, same, pairs = ([row[name] for row in points] for name in ("samples_per_pair", "same", "pairs"))
    start = points[0]
    # The error is shared out over the sizes that might have been tried, not those that were.
    confidence = 1.0 - (1.0 - CONFIDENCE) * len(points) / start["sizes"]
    where = crossing(sizes, same, pairs, TARGET, confidence)
    at_once = where.samples is None and max(s / n for s, n in zip(same, pairs, strict=True)) >= TARGET
    reached = [row for row in points if is_shown(row["same"], row["pairs"], row["sizes"])]
    there = reached[0] if reached else points[-1]
    about = {name: start[name] for name in ("problem", "rule", "states", "actions", "epsilon")}
    return (
        about
        | where._replace(samples=float(sizes[0]) if at_once else where.samples).columns("samples")
        | {"at_the_first_size": at_once, "tried_from": sizes[0], "tried_to": sizes[-1]}
        | {name: there[name] for name in ("samples_per_pair", "samples_a_run", "pairs", "same")}
        | {name: there[name] for name in ("agreement", "agreement_low", "agreement_high")}
        | {name: there[name] for name in ("loss", "worst_loss", "runs_over_budget")}
        | {name: there[name] for name in ("publisher", "publisher_low", "publisher_high")}
        | {"within_budget": there["loss"] <= BUDGET}
    )


def standing(row: Row, aim: float) -> str:
    """Say whether a curve is shown to pass the target with ``aim`` samples of a pair, within the budget."""
    enough, too_few = row["samples_high"], row["samples_low"]
    if enough is not None and enough <= aim:
        return MET if row["within_budget"] else MISSED
    return MISSED if too_few is not None and too_few >= aim else UNCLEAR


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge the aims: small sample sizes, no worse than the plain model, and far fewer samples than rPVI."""
    needed = dataset.tables["needed"]
    found = []
    for rule, (few, many) in AIMS.items():
        for small, aim in ((True, few), (False, many)):
            rows = [row for row in needed.where(rule=rule) if (row["states"] <= SMALL) == small]
            if rows:
                found.append(_aim(rule, small, aim, rows))
    return [*found, _never_worse(dataset.tables["points"]), *_fewer(needed)]


_NAMES = {DEFAULT: "The affordable rule", PUBLISHED: "Published cuts"}


def _aim(rule: str, small: bool, aim: int, rows: Sequence[Row]) -> Verdict:
    stand = {row["problem"]: standing(row, aim) for row in rows}
    said = [f"{list(stand.values()).count(MET)} of {len(rows)} problems"]
    said += [
        f"{what}: {'; '.join(names)}"
        for state, what in ((MISSED, "not on"), (UNCLEAR, "not shown on"))
        if (names := [name for name, one in stand.items() if one == state])
    ]
    return Verdict(
        f"{_NAMES[rule]}: {aim:.0e} samples per pair are enough for an agreement of {TARGET:g} within {BUDGET:.0%} of "
        f"the gain, with {'at most' if small else 'more than'} {SMALL} states",
        "beyond the paper",
        "shown on " + ", ".join(said),
        judged(all(one == MET for one in stand.values()), MISSED in stand.values()),
    )


def _never_worse(points: Table) -> Verdict:
    """Compare with the plain model wherever that is replicable already."""
    rows, worse = [], []
    for plain in points.where(rule=PLAIN):
        if plain["agreement_low"] < TARGET:
            continue
        for ours in points.where(rule=DEFAULT, problem=plain["problem"], size=plain["size"]):
            rows.append((ours, plain))
            worse += [(ours, plain)] if ours["agreement_high"] < plain["agreement_low"] else []
    text = "the plain model was replicable nowhere"
    if rows:
        ours, plain = min(worse or rows, key=lambda pair: float(pair[0]["agreement"] - pair[1]["agreement"]))
        text = (
            f"{len(rows)} comparisons, clearly worse in {len(worse)}; furthest apart on {plain['problem']}, "
            f"{plain['size']:.0e} samples: {shown(ours, 'agreement')}, plain {shown(plain, 'agreement')}"
        )
    return Verdict(
        "The affordable rule agrees no less often than the plain model where that is replicable already",
        "beyond the paper",
        text,
        judged(bool(rows) and not worse, bool(worse)),
    )


def _fewer(needed: Table) -> list[Verdict]:
    """Compare the samples of the affordable rule with those of rPVI, at either tolerance."""
    ours = needed.where(rule=DEFAULT, problem="two-goals")
    theirs = [row for rule in (FINE, COARSE) for row in needed.where(rule=rule, problem="two-goals")]
    return [_times_fewer(ours[0], row) for row in theirs if ours]


def _times_fewer(ours: Row, theirs: Row) -> Verdict:
    """Judge by the ends of both intervals: what is shown too few for one, and what is enough for the other."""
    estimate = ratio(theirs["samples"], ours["samples"])
    least, most = ratio(theirs["samples_low"], ours["samples_high"]), ratio(theirs["samples_high"], ours["samples_low"])
    ends = (f"{what} {end:.1e}" for what, end in (("at least", least), ("at most", most)) if end is not None)
    said = "not both reached" if estimate is None else f"{estimate:.1e} times"
    tolerance = "the tolerance that its proof needs" if theirs["rule"] == FINE else "a tolerance as large as the loss"
    return Verdict(
        f"The affordable rule takes {FEWER:.0e} times fewer samples than rPVI at {tolerance} (two-goals)",
        "beyond the paper",
        f"samples in all for an agreement of {TARGET:g}: {', '.join([said, *ends])}",
        judged(least is not None and least >= FEWER, most is not None and most < FEWER),
    )


def ratio(one: float | None, two: float | None) -> float | None:
    """Return how many times as large a number is, where both are known."""
    return None if one is None or two is None else one / two
