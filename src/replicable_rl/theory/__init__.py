"""The paper's formulas with runnable constants; nothing here samples anything.

Theorem 4.1 (``thm:rpvi``) and the like are numbers in the PDF and labels in the LaTeX of *Replicable Reinforcement
Learning* (Eaton, Hussing, Kearns and Sorrell, 2023); see ``docs/paper.md``.
"""

from replicable_rl.theory.approximate_mdp import ApproximateMDPPlan, approximate_mdp
from replicable_rl.theory.phased_vi import PhasedVIPlan, phased_vi, phased_vi_rho
from replicable_rl.theory.plan import MAX_CALLS, Plan, PlanTable
from replicable_rl.theory.plug_in import plug_in_policy, plug_in_policy_epsilon
from replicable_rl.theory.plug_in_plan import PlugInPlan
from replicable_rl.theory.rmax import RMaxPlan
from replicable_rl.theory.rmax_parameters import rmax, rmax_practical
from replicable_rl.theory.rstat import RStatPlan, rstat, rstat_mismatch, rstat_rho
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
    "phased_vi",
    "phased_vi_rho",
    "plug_in_policy",
    "plug_in_policy_epsilon",
    "rmax",
    "rmax_practical",
    "rstat",
    "rstat_mismatch",
    "rstat_rho",
]
