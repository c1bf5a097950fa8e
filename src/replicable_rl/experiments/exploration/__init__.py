"""RepRMAX, which the paper leaves without an experiment: whether exploration replicates, and why.

Two ingredients turn R-max into RepRMAX: a threshold k' for "known" that is random and shared, and rSTAT for the entries
of the model. All four combinations run on the two-goals grid, over the episodes m of a round. Agreement is counted for
the model, the value, the policy, and the *story*: the set of known pairs after every round.

On a grid where nothing depends on k, a random threshold has nothing to repair. So there is a second problem, built
against a fixed one: two starts of probability 1/2, left at once, so that exactly half of the episodes visit a pair;
with k = 1/2, whether it becomes known is a coin toss, however large m is.
"""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.exploration.analysis import analyse, design, verdicts
from replicable_rl.experiments.exploration.figure import draw


def _summary(dataset: Dataset) -> str:
    table = dataset.tables["agreement"]
    ours, theirs = (table.where(part="grid", variant=name, level="model")[-1] for name in ("RepRMAX", "R-max"))
    return (
        f"m = {ours['episodes']:.0e}: same model in {ours['same']} of {ours['pairs']} pairs (RepRMAX), "
        f"{theirs['same']} of {theirs['pairs']} (R-max)"
    )


EXPERIMENT = Experiment(
    "exploration",
    30,
    title="RepRMAX: agreement of exploration, and what makes it",
    reading=[
        "The paper gives no experiment for RepRMAX. Here two ingredients are switched on and off: the threshold for "
        "*known* (random and shared, or fixed) and the entries of the model (rSTAT, or plain means). RepRMAX has both, "
        "R-max none. Above right is the model's agreement for all four: which ingredient moves it?",
        "A random threshold guards against the worst case. The problem below left is built to be that case for a fixed "
        "one: exactly half of the episodes visit a pair, and the threshold is one half. Where no count lies near a "
        "fixed threshold, a random one can only move to where counts happen to be.",
    ],
    summary=_summary,
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
