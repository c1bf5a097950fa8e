"""The paper's formulas with runnable constants; nothing here samples anything.

Theorem 4.1 (``thm:rpvi``) and the like are numbers in the PDF and labels in the LaTeX of *Replicable Reinforcement
Learning* (Eaton, Hussing, Kearns and Sorrell, 2023); see ``docs/paper.md``.
"""

from replicable_rl.theory.approximate_mdp import ApproximateMDPPlan, approximate_mdp
from replicable_rl.theory.paper import paper_approximate_mdp, paper_phased_vi, paper_rmax
from replicable_rl.theory.phased_vi import PhasedVIPlan, phased_vi
from replicable_rl.theory.plan import MAX_CALLS, Plan, PlanTable
from replicable_rl.theory.plug_in import plug_in_policy
from replicable_rl.theory.plug_in_plan import PlugInPlan
from replicable_rl.theory.rmax import RMaxPlan, rmax
from replicable_rl.theory.rstat import RStatPlan, rstat
from replicable_rl.theory.schedule import Schedule
from replicable_rl.theory.units import Units

__all__ = [
    "MAX_CALLS",
    "ApproximateMDPPlan",
    "PhasedVIPlan",
    "Plan",
    "PlanTable",
    "PlugInPlan",
    "RMaxPlan",
    "RStatPlan",
    "Schedule",
    "Units",
    "approximate_mdp",
    "paper_approximate_mdp",
    "paper_phased_vi",
    "paper_rmax",
    "phased_vi",
    "plug_in_policy",
    "rmax",
    "rstat",
]
