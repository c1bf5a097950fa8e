"""RepRMAX, which the paper leaves without an experiment: whether exploration replicates, and why.

Two ingredients turn R-max into RepRMAX: a threshold k' for "known" that is random and shared, and rSTAT for the entries
of the model. All four combinations run on the two-goals grid, over the episodes m of a round. Agreement is counted for
the model, the value, the policy, and the *story*: the set of known pairs after every round.

On a grid where nothing depends on k, a random threshold has nothing to repair. So there is a second problem, built
against a fixed one: two starts of probability 1/2, left at once, so that exactly half of the episodes visit a pair;
with k = 1/2, whether it becomes known is a coin toss, however large m is.
"""

from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.exploration.analysis import analyse, design, verdicts
from replicable_rl.experiments.exploration.figure import draw
from replicable_rl.experiments.exploration.texts import TEXTS

EXPERIMENT = Experiment("exploration", 30, TEXTS, design, analyse, draw, verdicts)
