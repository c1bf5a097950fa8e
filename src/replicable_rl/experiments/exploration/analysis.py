"""The 2 x 2 of thresholds and estimates, on the grid and on the problem built against a fixed threshold."""

import itertools
from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.audit.agreement import measure
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, SHARED_SEED, Scale, Study, Verdict, judged, shown, study
from replicable_rl.runs import ObjectSpec

GRID = ObjectSpec("two-goals-v1")
KNIFE_EDGE = ObjectSpec("gridworld-v1", {"layout": "G.S#S.G", "slip": 0.0})
EPISODES = tuple(10**k for k in range(2, 8))
PROMISE = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "horizon": 20}
SIZES = {"known": 0.5, "window": 0.5, "tolerance": 0.1, "rounds": 100}
VARIANTS = {
    "RepRMAX": ("randomised", "rstat"),
    "fixed threshold, rSTAT": ("fixed", "rstat"),
    "random threshold, plain means": ("randomised", "plain"),
    "R-max": ("fixed", "plain"),
}
ENDS = ("RepRMAX", "R-max")  # both ingredients, and none
STORIES = 10  # runs laid over each other
STORY_EPISODES = 100


def design(scale: Scale) -> list[Study]:
    """Return the 2 x 2 over m on the grid, both thresholds on the other problem, and runs to lay side by side."""
    seeds, thresholds = (
        max(2, scale.pairs // 2),
        [name for name, (_, estimate) in VARIANTS.items() if estimate == "rstat"],
    )
    grid = itertools.product(VARIANTS, scale.some(EPISODES, every=3))
    edge = itertools.product(thresholds, scale.some(EPISODES[::2], every=3))
    return [
        *(_study("grid", GRID, *point, seeds) for point in grid),
        *(_study("knife edge", KNIFE_EDGE, *point, seeds) for point in edge),
        *(_study("stories", GRID, one, STORY_EPISODES, (SHARED_SEED,), STORIES) for one in ENDS),
    ]


def _study(
    part: str, problem: ObjectSpec, variant: str, episodes: int, seeds: int | tuple[int, ...], runs: int = 2
) -> Study:
    threshold, estimate = VARIANTS[variant]
    params = {**PROMISE, **SIZES, "episodes": episodes, "threshold": threshold, "estimate": estimate}
    point = {"part": part, "problem": problem.text, "variant": variant, "episodes": episodes}
    return study(point, problem, ObjectSpec("replicable-rmax-v1", params), seeds, runs)


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return the agreement of every variant at every level, and the stories of some runs."""
    points: list[dict[str, Any]] = []
    stories: list[dict[str, Any]] = []
    for one, result in zip(studies, results, strict=True):
        if one.point["part"] == "stories":
            stories += _stories(dict(one.point), result)
        else:
            points += _levels(dict(one.point), result)
    details = {**PROMISE, **SIZES, "confidence": CONFIDENCE, "shared_seed": str(SHARED_SEED)}
    return Dataset({"agreement": Table.of(points), "stories": Table.of(stories)}, details)


def _levels(point: dict[str, Any], result: AuditResult) -> list[dict[str, Any]]:
    found = dict(result.agreements)
    if point["part"] != "grid" or point["variant"] in ENDS:  # reading histories takes its time
        texts = ["-".join(str(int(digest)) for digest in run.history["known_set"]) for run in result.runs]
        found["story"] = measure("story", texts, result.spec.runs_per_seed, CONFIDENCE)
    loss = max(one.loss + one.error for one in result.policies or ())
    return [
        point
        | {"level": level, "pairs": one.pairs, "same": one.same}
        | estimate_columns("agreement", one.value)
        | {"worst_loss": loss}
        for level, one in found.items()
    ]


def _stories(point: dict[str, Any], result: AuditResult) -> list[dict[str, Any]]:
    about = {name: value for name, value in point.items() if name != "part"}
    return [
        about | {"run": number, "round": i, "known": int(known)}
        for number, run in enumerate(result.runs, start=1)
        for i, known in enumerate(run.history["known"], start=1)
    ]


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge the theorems about RepRMAX, and then its ingredients."""
    return [*_theorems(dataset), *_ingredients(dataset)]


def _last(dataset: Dataset, part: str, variant: str, level: str) -> dict[str, Any]:
    """Return the point with the most episodes."""
    return dataset.tables["agreement"].where(part=part, variant=variant, level=level)[-1]


def _theorems(dataset: Dataset) -> list[Verdict]:
    rho, epsilon = dataset.details["rho"], dataset.details["epsilon"]
    ours, theirs = (_last(dataset, "grid", name, "model") for name in ("RepRMAX", "R-max"))
    policy = _last(dataset, "grid", "R-max", "policy")
    loss = max(row["worst_loss"] for row in dataset.tables["agreement"].where(variant="RepRMAX"))
    return [
        Verdict(
            "RepRMAX replicates the whole model, R-max does not",
            "thm:repmax-replicable",
            f"m = {ours['episodes']:.0e}: same model {shown(ours, 'agreement')}, R-max {shown(theirs, 'agreement')} "
            f"(same policy {shown(policy, 'agreement')})",
            judged(
                ours["agreement_low"] >= 1 - rho and theirs["agreement_high"] < 1 - rho,
                ours["agreement_high"] < 1 - rho or theirs["agreement_low"] >= 1 - rho,
            ),
        ),
        Verdict(
            "RepRMAX finds a nearly optimal policy",
            "lem:repmax-convergence",
            f"largest loss of any run, from the start and before normalisation: {loss:.2g} against epsilon = "
            f"{epsilon:g}",
            judged(loss <= epsilon, False),  # normalised, it is smaller still
        ),
    ]


def _ingredients(dataset: Dataset) -> list[Verdict]:
    fixed, random = (_last(dataset, "knife edge", one, "story") for one in ("fixed threshold, rSTAT", "RepRMAX"))
    plain, ours = (_last(dataset, "grid", one, "model") for one in ("random threshold, plain means", "RepRMAX"))
    return [
        Verdict(
            "A threshold that is random and shared keeps the known sets of two runs together",
            "alg:repmax",
            f"problem built against a fixed threshold, m = {random['episodes']:.0e}: same known set in every round "
            f"{shown(random, 'agreement')}, fixed threshold {shown(fixed, 'agreement')}",
            _better(random, fixed),
        ),
        Verdict(
            "Replicable queries are what makes models agree",
            "alg:repmax",
            f"two-goals grid, m = {plain['episodes']:.0e}, random threshold: same model with rSTAT "
            f"{shown(ours, 'agreement')}, with plain means {shown(plain, 'agreement')}",
            _better(ours, plain),
        ),
    ]


def _better(one: dict[str, Any], two: dict[str, Any]) -> str:
    """Judge that one agrees more often than the other."""
    return judged(one["agreement_low"] > two["agreement_high"], one["agreement_high"] < two["agreement_low"])
