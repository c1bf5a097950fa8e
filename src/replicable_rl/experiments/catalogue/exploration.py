"""RepRMAX, which the paper leaves without an experiment.

Agreement is counted for the model, the policy, and the *story*: the set of known pairs after every round.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence

from replicable_rl import plot
from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import distinct, pairwise, proportion, where, written
from replicable_rl.experiments.experiment import Data, Experiment, Row, Scale, Study, Verdict
from replicable_rl.runs import ObjectSpec

GRID = ObjectSpec("two-goals-v1")
KNIFE_EDGE = ObjectSpec("gridworld-v1", {"layout": "G.S#S.G", "slip": 0.0})  # two starts, left at once
EPISODES = tuple(10**k for k in range(2, 8))
PROMISE = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "horizon": 20}
SIZES = {"known": 0.5, "window": 0.5, "tolerance": 0.1, "rounds": 100}
VARIANTS = {  # thresholds and estimates
    "RepRMAX": ("randomised", "rstat"),
    "fixed threshold, rSTAT": ("fixed", "rstat"),
    "random threshold, plain means": ("randomised", "plain"),
    "R-max": ("fixed", "plain"),
}


class Exploration(Experiment):
    """RepRMAX: agreement of exploration, and what makes it.

    The paper gives no experiment for RepRMAX. Here two ingredients are switched on and off: the threshold for known
    pairs (random and shared, or fixed) and the entries of the model (rSTAT, or plain means). RepRMAX has both, R-max
    none. On the left is the model's agreement for all four: which ingredient moves it?

    A random threshold guards against the worst case. The problem on the right is built to be that case for a fixed one:
    exactly half of the episodes visit a pair, and the threshold is one half. Where no count lies near a fixed
    threshold, a random one can only move to where counts happen to be.
    """

    order = 30
    caption = "How often two runs agree, over the episodes of a round: two ingredients, and the worst case of one."

    def design(self, scale: Scale) -> list[Study]:
        """Return the 2 x 2 over m on the grid, and both thresholds on the other problem."""
        edge = itertools.product(("RepRMAX", "fixed threshold, rSTAT"), scale.some(EPISODES[::2], every=3))
        points = [("grid", GRID, *point) for point in itertools.product(VARIANTS, scale.some(EPISODES, every=3))]
        points += [("knife edge", KNIFE_EDGE, *point) for point in edge]
        studies = []
        for part, problem, variant, episodes in points:
            threshold, estimate = VARIANTS[variant]
            params = {**PROMISE, **SIZES, "episodes": episodes, "threshold": threshold, "estimate": estimate}
            point = {"part": part, "variant": variant, "episodes": episodes}
            spec = ObjectSpec("replicable-rmax-v1", params)
            studies.append(Study.of(point, problem, spec, max(2, scale.pairs // 2)))
        return studies

    def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
        """Return the agreement of every variant at every level."""
        rows = [row for study, result in zip(studies, results, strict=True) for row in _rows(study, result)]
        return Data({"agreement": rows}, {**PROMISE, **SIZES})

    def verdicts(self, data: Data) -> list[Verdict]:
        """Judge the theorems about RepRMAX, and then its ingredients, at the point with the most episodes."""

        def last(part: str, variant: str, level: str) -> Row:
            return where(data.tables["agreement"], part=part, variant=variant, level=level)[-1]

        rho, epsilon = PROMISE["rho"], PROMISE["epsilon"]
        ours, theirs = (last("grid", variant, "model") for variant in ("RepRMAX", "R-max"))
        policy, plain = last("grid", "R-max", "policy"), last("grid", "random threshold, plain means", "model")
        random, fixed = (last("knife edge", variant, "story") for variant in ("RepRMAX", "fixed threshold, rSTAT"))
        loss = max(row["worst_loss"] for row in where(data.tables["agreement"], variant="RepRMAX"))
        return [
            Verdict(
                "RepRMAX replicates the whole model, R-max does not",
                "thm:repmax-replicable",
                f"m = {ours['episodes']:.0e}: same model {written(ours, 'agreement')}, R-max "
                f"{written(theirs, 'agreement')} (same policy {written(policy, 'agreement')})",
                yes=ours["agreement_low"] >= 1 - rho and theirs["agreement_high"] < 1 - rho,
                no=ours["agreement_high"] < 1 - rho or theirs["agreement_low"] >= 1 - rho,
                rests_on=[ours, theirs],
            ),
            Verdict(
                "RepRMAX finds a nearly optimal policy",
                "lem:repmax-convergence",
                f"largest loss of any run, from the start and before normalisation: {loss:.2g} against epsilon = "
                f"{epsilon:g}",
                yes=loss <= epsilon,  # normalised, it is smaller still
            ),
            _more_often(
                "A threshold that is random and shared keeps the known sets of two runs together",
                f"problem built against a fixed threshold, m = {random['episodes']:.0e}: same known set in every round "
                f"{written(random, 'agreement')}, fixed threshold {written(fixed, 'agreement')}",
                random,
                fixed,
            ),
            _more_often(
                "Replicable queries are what makes models agree",
                f"two-goals grid, m = {plain['episodes']:.0e}, random threshold: same model with rSTAT "
                f"{written(ours, 'agreement')}, with plain means {written(plain, 'agreement')}",
                ours,
                plain,
            ),
        ]

    def draw(self, data: Data) -> plot.Figure:
        """Draw the 2 x 2, and the problem built against a fixed threshold."""
        figure, (axes,) = plot.panels((10.0, 4.0), 1, 2, sharey=True)
        titles = {
            "Which ingredient? Same model": ("grid", "model"),
            "A problem against a fixed threshold": ("knife edge", "story"),
        }
        for panel, (title, (part, level)) in zip(axes, titles.items(), strict=True):
            curves = where(data.tables["agreement"], part=part, level=level)
            for k, variant in enumerate(distinct(curves, "variant")):
                rows, line = where(curves, variant=variant), "--" if "fixed" in variant else "-"
                style = {"colour": plot.COLOURS[k], "marker": plot.MARKERS[k], "label": variant, "linestyle": line}
                plot.banded(panel, rows, "episodes", "agreement", **style)
            plot.logarithmic(panel)
            panel.set(title=title, ylim=(-0.03, 1.05), xlabel="episodes m per round", ylabel="pairs that are identical")
            plot.dotted(panel, 1.0 - PROMISE["rho"], "1 − ρ", x=0.9, above=False)
            panel.legend(loc="best", fontsize=9, frameon=True, framealpha=0.9, edgecolor="none")
        return figure


def _rows(study: Study, result: AuditResult) -> list[Row]:
    measured = {level: pairwise(result, level) for level in ("model", "policy")}
    if study.point["part"] == "knife edge":
        stories = [run.history["known_set"].tobytes() for run in result.runs]
        same, pairs = sum(map(operator.eq, stories[::2], stories[1::2])), len(stories) // 2
        measured["story"] = {"pairs": pairs, "same": same} | proportion("agreement", same, pairs)
    loss = max(policy.loss + policy.error for policy in result.policies or ())
    return [{**study.point, "level": level, **row, "worst_loss": loss} for level, row in measured.items()]


def _more_often(claim: str, measured: str, ours: Row, theirs: Row) -> Verdict:
    """Judge that one variant agrees more often than another."""
    yes = ours["agreement_low"] > theirs["agreement_high"]
    no = ours["agreement_high"] < theirs["agreement_low"]
    return Verdict(claim, "alg:repmax", measured, yes=yes, no=no, rests_on=[ours, theirs])


EXPERIMENT = Exploration()
