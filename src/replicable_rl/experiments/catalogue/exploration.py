"""RepRMAX, which the paper leaves without an experiment: whether exploration replicates, and why.

Two ingredients turn R-max into RepRMAX: a threshold k' for "known" that is random and shared, and rSTAT for the entries
of the model. All four combinations run on the two-goals grid, over the episodes m of a round. Agreement is counted for
the model, the value, the policy, and the *story*: the set of known pairs after every round.

On a grid where nothing depends on k, a random threshold has nothing to repair. So there is a second problem, built
against a fixed one: two starts of probability 1/2, left at once, so that exactly half of the episodes visit a pair;
with k = 1/2, whether it becomes known is a coin toss, however large m is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import agreement, proportion
from replicable_rl.experiments.experiment import (
    SHARED_SEED,
    Data,
    Experiment,
    Row,
    Scale,
    Study,
    Verdict,
    distinct,
    shown,
    where,
)
from replicable_rl.plotting import BLUE, COLOURS, MARKERS, RED, Axes, Figure, banded, dotted, logarithmic, panels
from replicable_rl.runs import ObjectSpec

GRID = ObjectSpec("two-goals-v1")
KNIFE_EDGE = ObjectSpec("gridworld-v1", {"layout": "G.S#S.G", "slip": 0.0})
EPISODES = tuple(10**k for k in range(2, 8))
PROMISE = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "horizon": 20}
SIZES = {"known": 0.5, "window": 0.5, "tolerance": 0.1, "rounds": 100}
VARIANTS = {  # thresholds and estimates
    "RepRMAX": ("randomised", "rstat"),
    "fixed threshold, rSTAT": ("fixed", "rstat"),
    "random threshold, plain means": ("randomised", "plain"),
    "R-max": ("fixed", "plain"),
}
ENDS = ("RepRMAX", "R-max")  # both ingredients, and none
STORIES, STORY_EPISODES = 10, 100  # runs laid over each other, and the episodes of their rounds
_LEVELS = {"model": "model (and value)", "policy": "policy", "story": "known set, round by round"}
_SHORT = dict(zip(VARIANTS, ("random, rSTAT", "fixed, rSTAT", "random, plain", "fixed, plain"), strict=True))


def design(scale: Scale) -> list[Study]:
    """Return the 2 x 2 over m on the grid, both thresholds on the other problem, and runs to lay side by side."""
    seeds = max(2, scale.pairs // 2)
    grid = itertools.product(VARIANTS, scale.some(EPISODES, every=3))
    edge = itertools.product(("RepRMAX", "fixed threshold, rSTAT"), scale.some(EPISODES[::2], every=3))
    return [
        *(_study("grid", GRID, variant, episodes, seeds) for variant, episodes in grid),
        *(_study("knife edge", KNIFE_EDGE, variant, episodes, seeds) for variant, episodes in edge),
        *(_study("stories", GRID, variant, STORY_EPISODES, (SHARED_SEED,), STORIES) for variant in ENDS),
    ]


def _study(
    part: str, problem: ObjectSpec, variant: str, episodes: int, seeds: int | tuple[int, ...], runs: int = 2
) -> Study:
    threshold, estimate = VARIANTS[variant]
    params = {**PROMISE, **SIZES, "episodes": episodes, "threshold": threshold, "estimate": estimate}
    point = {"part": part, "variant": variant, "episodes": episodes}
    return Study.of(point, problem, ObjectSpec("replicable-rmax-v1", params), seeds, runs)


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
    """Return the agreement of every variant at every level, and the stories of some runs."""
    points: list[Row] = []
    rounds: list[Row] = []
    for study, result in zip(studies, results, strict=True):
        if study.point["part"] == "stories":
            rounds += _rounds(study, result)
        else:
            points += _levels(study, result)
    return Data({"agreement": points, "stories": rounds}, {**PROMISE, **SIZES, "shared_seed": SHARED_SEED})


def _levels(study: Study, result: AuditResult) -> list[Row]:
    measured = {level: agreement(result, level) for level in ("model", "value", "policy")}
    if study.point["part"] != "grid" or study.point["variant"] in ENDS:  # reading histories takes its time
        texts = [run.history["known_set"].tobytes() for run in result.runs]
        same = sum(texts[i] == texts[i + 1] for i in range(0, len(texts), 2))
        pairs = len(texts) // 2
        measured["story"] = {"pairs": pairs, "same": same} | proportion("agreement", same, pairs)
    loss = max(policy.loss + policy.error for policy in result.policies or ())
    return [{**study.point, "level": level, **row, "worst_loss": loss} for level, row in measured.items()]


def _rounds(study: Study, result: AuditResult) -> list[Row]:
    return [
        {**study.point, "run": number, "round": i, "known": int(known)}
        for number, run in enumerate(result.runs, start=1)
        for i, known in enumerate(run.history["known"], start=1)
    ]


def verdicts(data: Data) -> list[Verdict]:
    """Judge the theorems about RepRMAX, and then its ingredients, at the point with the most episodes."""

    def last(part: str, variant: str, level: str) -> Row:
        return where(data.tables["agreement"], part=part, variant=variant, level=level)[-1]

    rho, epsilon = PROMISE["rho"], PROMISE["epsilon"]
    ours, theirs = (last("grid", variant, "model") for variant in ENDS)
    policy, plain = last("grid", "R-max", "policy"), last("grid", "random threshold, plain means", "model")
    fixed, random = (last("knife edge", variant, "story") for variant in ("fixed threshold, rSTAT", "RepRMAX"))
    loss = max(row["worst_loss"] for row in where(data.tables["agreement"], variant="RepRMAX"))
    return [
        Verdict.judged(
            "RepRMAX replicates the whole model, R-max does not",
            "thm:repmax-replicable",
            f"m = {ours['episodes']:.0e}: same model {shown(ours, 'agreement')}, R-max {shown(theirs, 'agreement')} "
            f"(same policy {shown(policy, 'agreement')})",
            yes=ours["agreement_low"] >= 1 - rho and theirs["agreement_high"] < 1 - rho,
            no=ours["agreement_high"] < 1 - rho or theirs["agreement_low"] >= 1 - rho,
            rests_on=[ours, theirs],
        ),
        Verdict.judged(
            "RepRMAX finds a nearly optimal policy",
            "lem:repmax-convergence",
            f"largest loss of any run, from the start and before normalisation: {loss:.2g} against epsilon = "
            f"{epsilon:g}",
            yes=loss <= epsilon,  # normalised, it is smaller still
            no=False,
        ),
        _more_often(
            "A threshold that is random and shared keeps the known sets of two runs together",
            f"problem built against a fixed threshold, m = {random['episodes']:.0e}: same known set in every round "
            f"{shown(random, 'agreement')}, fixed threshold {shown(fixed, 'agreement')}",
            random,
            fixed,
        ),
        _more_often(
            "Replicable queries are what makes models agree",
            f"two-goals grid, m = {plain['episodes']:.0e}, random threshold: same model with rSTAT "
            f"{shown(ours, 'agreement')}, with plain means {shown(plain, 'agreement')}",
            ours,
            plain,
        ),
    ]


def _more_often(claim: str, measured: str, more: Row, less: Row) -> Verdict:
    """Judge that one variant agrees more often than another."""
    yes, no = more["agreement_low"] > less["agreement_high"], more["agreement_high"] < less["agreement_low"]
    return Verdict.judged(claim, "alg:repmax", measured, yes=yes, no=no, rests_on=[more, less])


def draw(data: Data) -> Figure:
    """Draw RepRMAX beside R-max, the 2 x 2, the problem built against a fixed threshold, and the stories."""
    figure, axes = panels((12.5, 7.6), 2, 3)
    rows = data.tables["agreement"]
    for panel, variant in zip(axes[0], ENDS, strict=False):
        for k, (level, label) in enumerate(_LEVELS.items()):
            curve = where(rows, part="grid", variant=variant, level=level)
            banded(panel, curve, "episodes", "agreement", colour=COLOURS[k], marker=MARKERS[k], label=label)
        panel.set_title(f"{variant}: agreement of two runs")
    small = {"title_fontsize": 9, "fontsize": 9}
    axes[0, 1].legend(loc="upper center", fontsize=9, labelspacing=0.15, borderaxespad=0.1)
    _variants(axes[0, 2], where(rows, part="grid", level="model"))
    axes[0, 2].set_title("Which ingredient? Same model")
    place = {"loc": "center left", "bbox_to_anchor": (-0.01, 0.58), "handlelength": 1.6}
    axes[0, 2].legend(title="threshold, estimate", **place, **small)
    _variants(axes[1, 0], where(rows, part="knife edge", level="story"))
    axes[1, 0].set_title("A problem against a fixed threshold")
    axes[1, 0].legend(loc="center right", title="same known pairs in every round", **small)
    for panel in (*axes[0], axes[1, 0]):
        logarithmic(panel)
        panel.set(ylim=(-0.03, 1.05), xlabel="episodes m per round")
        dotted(panel, 1.0 - PROMISE["rho"], "1 − ρ", x=0.9, above=False)
    for panel in axes[:, 0]:
        panel.set_ylabel("pairs that are identical")
    for panel, variant, colour in zip(axes[1, 1:], ENDS, (BLUE, RED), strict=True):
        _stories(panel, where(data.tables["stories"], variant=variant), colour)
        panel.set_title(f"{variant}: ten runs, one shared seed")
    return figure


def _variants(panel: Axes, rows: Sequence[Row]) -> None:
    for k, (variant, label) in enumerate(_SHORT.items()):
        if curve := where(rows, variant=variant):
            dash = "--" if label.startswith("fixed") else "-"
            style = {"colour": COLOURS[k], "marker": MARKERS[k], "label": label, "linestyle": dash}
            banded(panel, curve, "episodes", "agreement", **style)


def _stories(panel: Axes, rounds: Sequence[Row], colour: str) -> None:
    for run in distinct(rounds, "run"):
        rows = where(rounds, run=run)
        xs, ys = [0] + [row["round"] for row in rows], [0] + [row["known"] for row in rows]
        panel.step(xs, ys, where="post", color=colour, alpha=0.35, linewidth=1.6)
        panel.plot(xs[-1], ys[-1], "o", color=colour, alpha=0.5)
    panel.set(xlabel=f"round (of m = {STORY_EPISODES} episodes)", ylabel="known pairs", ylim=(0, 33))


EXPERIMENT = Experiment(
    "exploration",
    30,
    title="RepRMAX: agreement of exploration, and what makes it",
    reading=[
        "The paper gives no experiment for RepRMAX. Here two ingredients are switched on and off: the threshold for "
        "known pairs (random and shared, or fixed) and the entries of the model (rSTAT, or plain means). RepRMAX has "
        "both, R-max none. Above right is the model's agreement for all four: which ingredient moves it?",
        "A random threshold guards against the worst case. The problem below left is built to be that case for a fixed "
        "one: exactly half of the episodes visit a pair, and the threshold is one half. Where no count lies near a "
        "fixed threshold, a random one can only move to where counts happen to be.",
    ],
    caption="Above: how often two runs agree, over the episodes of a round, for RepRMAX and R-max, and the model for "
    "all four combinations. Below: the problem built against a fixed threshold, and known pairs round by round in runs "
    "that share one seed.",
    alternative="Six panels about RepRMAX and R-max: agreement over episodes per round, an ablation, and known pairs "
    "per round.",
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
