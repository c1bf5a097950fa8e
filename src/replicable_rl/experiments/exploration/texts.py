"""What people read about RepRMAX."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Texts


def _summary(dataset: Dataset) -> str:
    table = dataset.tables["agreement"]
    ours, theirs = (table.where(part="grid", variant=name, level="model")[-1] for name in ("RepRMAX", "R-max"))
    return (
        f"m = {ours['episodes']:.0e}: same model in {ours['same']} of {ours['pairs']} pairs (RepRMAX), "
        f"{theirs['same']} of {theirs['pairs']} (R-max)"
    )


TEXTS = Texts(
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
)
