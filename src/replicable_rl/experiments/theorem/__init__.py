"""The theorems at their own sample sizes: what they ask for, drawn; what they promise, measured.

Counts are drawn instead of samples, so that 10^15 samples and more cost no more than a thousand. For every shipped
problem, rPVI (``thm:rpvi``) and the replicable ApproximateMDP (``obs:rep-mdp``) run at the m of their theorem. Two
promises are measured: how often do two runs differ (at most rho), and how far is the answer off (at most epsilon)? For
rPVI that is the loss of the policy from the worst state, for ApproximateMDP the error of an entry of the model. The
latter is measured after rows were divided by their sums, which the promise does not cover: it can be larger. Times are
those of the runs when they were made, as the store keeps them.
"""

from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.theorem.analysis import analyse, design, verdicts
from replicable_rl.experiments.theorem.figure import draw
from replicable_rl.experiments.theorem.texts import TEXTS

EXPERIMENT = Experiment("theorem", 40, TEXTS, design, analyse, draw, verdicts)
