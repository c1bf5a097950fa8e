"""Figure 2 of the paper: the samples until value functions repeat.

rPVI with accuracy 0.02, delta = 0.001 and rho = 0.2; the calls per iteration are multiples of m = 13 000, which is what
Phased Q-learning needs, and rho_SQ is treated as a hyperparameter. The paper's two panels show the modal share and the
unique share of 150 runs under one shared seed. The third panel is what its dotted line, 1 - rho, is about: the
probability that two runs agree, over shared seeds.

The tolerance of a query is epsilon itself. With the tolerance of the paper's proof, (1-gamma) eps/2, the bins are
twenty times as narrow, and the multiples of the figure would not be enough.
"""

from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.figure2.analysis import analyse, design
from replicable_rl.experiments.figure2.figure import draw
from replicable_rl.experiments.figure2.texts import TEXTS
from replicable_rl.experiments.figure2.verdicts import verdicts

EXPERIMENT = Experiment("figure2", 20, TEXTS, design, analyse, draw, verdicts)
