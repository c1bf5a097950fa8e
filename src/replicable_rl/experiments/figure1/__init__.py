"""Figure 1 of the paper: two samples, two policies, two goals; and rPVI, which gives one.

Phased Q-learning and rPVI run under one shared seed with the same sample seeds and the same number of samples, the one
that ``thm:rpvi`` asks for. Among Phased Q-learning's runs we look, in the order of their sample seeds, for the first
whose policy more often ends in the left goal and the first whose policy more often ends in the right one; rPVI's two
runs are those with the same two sample seeds. In which goal a policy ends is computed exactly (see :mod:`.goals`).
"""

from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.figure1.analysis import analyse, design, verdicts
from replicable_rl.experiments.figure1.figure import draw
from replicable_rl.experiments.figure1.texts import TEXTS

EXPERIMENT = Experiment("figure1", 10, TEXTS, design, analyse, draw, verdicts)
