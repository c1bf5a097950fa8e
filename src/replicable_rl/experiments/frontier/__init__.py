"""The frontier: samples for the same policy against the loss, for every rule of `PlugInPolicy` and for rPVI.

rPVI replicates every number of every iteration; who needs the policy alone can replicate decisions instead. How many
samples of a pair does an agreement of 0.8 take, and what is lost for it? Every rule may lose 5 % of what the best
policy gains over the uniform one.
"""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Experiment, FigureTable
from replicable_rl.experiments.frontier.analysis import AIMS, MET, analyse, standing, verdicts
from replicable_rl.experiments.frontier.curves import design, more
from replicable_rl.experiments.frontier.figure import draw


def _summary(dataset: Dataset) -> str:
    needed, said = dataset.tables["needed"], []
    for rule, aims in AIMS.items():
        rows = needed.where(rule=rule)
        met = sum(standing(row, max(aims)) == MET for row in rows)
        small = sum(standing(row, min(aims)) == MET for row in rows)
        said.append(f"{rule}: {min(aims):.0e} on {small} of {len(rows)} problems, {max(aims):.0e} on {met}")
    return "samples per pair shown to be enough within the loss: " + "; ".join(said)


EXPERIMENT = Experiment(
    "frontier",
    62,
    title="The same policy from fewer samples: every rule against its loss",
    reading=[
        "How many samples of a state-action pair does it take until two runs have the same *policy* with probability "
        "0.8, and what does the policy lose? The loss is a share of what the best policy gains over the uniform one; "
        "every rule may lose 5 %. Down and left is better.",
        "`affordable` is the default of `PlugInPolicy`, `greedy` the plain empirical model. With `published` two labs "
        "use cuts that a third one published from as many samples, which is a weaker definition: what is shared "
        "depends on the publisher's sample. rPVI has all its iterations counted, and runs with the tolerance that "
        "its proof needs and with a coarse one, as large as the loss.",
        "Sizes rise until an agreement of 0.8 is shown. A bar runs from the largest size that is shown to be too small "
        "to the smallest that is shown to be enough. rPVI is left out where a run takes a hundred times as "
        "long, and the coarse one where it loses more than the budget.",
    ],
    summary=_summary,
    caption="Samples of a pair for an agreement of 0.8 (upwards, logarithmic) against the mean loss (to the right, in "
    "per cent of the gain over the uniform policy; dotted: the budget). Hollow, with an arrow up: not reached at the "
    "largest size tried. Arrow down: the smallest size tried was enough. Arrow right: loses more than the axis shows. "
    "In the grey band every rule has a place of its own; elsewhere affordable and published stand 0.15 aside.",
    alternative="A panel for every problem: samples per pair against loss, a marker for every rule.",
    tables=[
        FigureTable(
            "needed",
            {"problem": "problem", "states": "S", "rule": "rule", "samples": "samples per pair"}
            | {"samples_low": "shown too few", "samples_high": "shown enough", "tried_to": "tried to"}
            | {"loss": "mean loss", "worst_loss": "worst loss", "publisher": "as the publisher"},
            "Samples of a pair for an agreement of 0.8, and the loss there as a share of the gain; empty: not reached.",
        )
    ],
    design=design,
    more=more,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
