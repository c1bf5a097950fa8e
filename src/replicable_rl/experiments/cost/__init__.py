"""What rho costs: samples for an agreement of 0.8, against the theorem, on growing grids.

The theorem pays for a union bound over N*T queries: m grows as (NT)^2. Two runs need less, for differences heal and
most means lie far from the edge of a bin. A family of grids with pillars (the first is two-goals) grows in N; on each,
rPVI runs at several m around the one that the central limit theorem predicts, and the m at which two runs agree with
probability 0.8 is read off.
"""

from replicable_rl.experiments.cost.analysis import analyse, verdicts
from replicable_rl.experiments.cost.design import design
from replicable_rl.experiments.cost.figure import draw
from replicable_rl.experiments.cost.texts import TEXTS
from replicable_rl.experiments.experiment import Experiment

EXPERIMENT = Experiment("cost", 50, TEXTS, design, analyse, draw, verdicts)
