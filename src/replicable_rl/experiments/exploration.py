"""RepRMAX, which the paper leaves without an experiment: whether exploration replicates, and why.

Two ingredients turn R-max into RepRMAX: a threshold k' for "known" that is random and shared, and rSTAT for the
entries of the model. All four combinations run on the two-goals grid, over the episodes m of a round. Agreement
is counted for the model, the value, the policy, and the *story*: the set of known pairs after every round.

On a grid where nothing depends on k, a random threshold has nothing to repair. So there is a second problem,
built against a fixed one: two starts of probability 1/2, left at once, so that exactly half of the episodes
visit a pair; with k = 1/2, whether it becomes known is a coin toss, however large m is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replicable_rl.audit import Agreement, AuditResult
from replicable_rl.audit.agreement import measure
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.lab import CONFIDENCE, SHARED_SEED, Scale, Study
from replicable_rl.records import ObjectSpec, RunRecord

__all__ = ["NAME", "TITLE", "analyse", "plan"]

NAME = "exploration"
TITLE = "RepRMAX: agreement of exploration, and what makes it"

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
STORIES = 10  # runs laid over each other
STORY_EPISODES = 100


def plan(scale: Scale) -> list[Study]:
    """The 2 x 2 over m on the grid, both thresholds on the problem built against one, and runs to lay side by side."""
    pairs = max(2, scale.pairs // 2)
    studies = []
    for variant, (threshold, estimate) in VARIANTS.items():
        for problem, label in ((GRID, "grid"), (KNIFE_EDGE, "knife edge")):
            if problem is KNIFE_EDGE and estimate == "plain":
                continue
            for episodes in scale.some(EPISODES[::2] if problem is KNIFE_EDGE else EPISODES, every=3):
                algorithm = _algorithm(episodes, threshold, estimate)
                about = ("part", label), ("problem", problem.text), ("variant", variant), ("episodes", episodes)
                studies.append(Study(problem, algorithm, pairs, about=about))
    for variant in ("RepRMAX", "R-max"):
        algorithm = _algorithm(STORY_EPISODES, *VARIANTS[variant])
        about = ("part", "stories"), ("problem", GRID.text), ("variant", variant), ("episodes", STORY_EPISODES)
        studies.append(Study(GRID, algorithm, (SHARED_SEED,), STORIES, about=about))
    return studies


def _algorithm(episodes: int, threshold: str, estimate: str) -> ObjectSpec:
    params = {**PROMISE, **SIZES, "episodes": episodes, "threshold": threshold, "estimate": estimate}
    return ObjectSpec("replicable-rmax-v1", params)


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return the agreement of every variant at every level, and the stories of some runs."""
    points: list[dict[str, Any]] = []
    stories: list[dict[str, Any]] = []
    for study, result in zip(studies, results, strict=True):
        about = {name: value for name, value in study.point.items() if name != "part"}
        if study.point["part"] == "stories":
            stories += _stories(about, result)
        else:
            points += _levels({"part": study.point["part"]} | about, result)
    details = {**PROMISE, **SIZES, "confidence": CONFIDENCE, "shared_seed": str(SHARED_SEED)}
    return Dataset(NAME, TITLE, {"agreement": Table.of(points), "stories": Table.of(stories)}, details)


def _levels(about: dict[str, Any], result: AuditResult) -> list[dict[str, Any]]:
    found: dict[str, Agreement] = {level: result.agreement(level) for level in ("model", "value", "policy")}
    if about["part"] != "grid" or about["variant"] in ("RepRMAX", "R-max"):  # reading histories takes its time
        texts = ["-".join(map(str, _story(result, record, "known_set"))) for record in result.records]
        found["story"] = measure("story", texts, result.plan.runs_per_seed, CONFIDENCE)
    loss = max(one.loss + one.error for one in result.policies or ())
    return [
        about
        | {"level": level, "pairs": one.pairs, "same": one.same}
        | estimate_columns("agreement", one.value)
        | {"worst_loss": loss}
        for level, one in found.items()
    ]


def _stories(about: dict[str, Any], result: AuditResult) -> list[dict[str, Any]]:
    return [
        about | {"run": number, "round": i, "known": known}
        for number, record in enumerate(result.records, start=1)
        for i, known in enumerate(_story(result, record, "known"), start=1)
    ]


def _story(result: AuditResult, record: RunRecord, column: str) -> list[int]:
    """Return how many pairs were known after every round, or the digest of which."""
    return [int(known) for known in result.store.history(record.history or "")[column]]
