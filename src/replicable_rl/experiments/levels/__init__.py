"""Model, value, policy: whether each level is harder to replicate than the next.

The same model gives the same value and the same value the same policy, so agreement cannot fall along the chain. The
paper expects it to *rise*: replicating a model should be hardest, a policy easiest. ApproximateMDP learns the model and
plans; rPVI estimates values directly. Both run over a range of sample sizes, and for each level the samples at which
two runs agree with probability 0.8 are read off.
"""

from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.levels.analysis import analyse, design, verdicts
from replicable_rl.experiments.levels.figure import draw
from replicable_rl.experiments.levels.texts import TEXTS

EXPERIMENT = Experiment("levels", 60, TEXTS, design, analyse, draw, verdicts)
