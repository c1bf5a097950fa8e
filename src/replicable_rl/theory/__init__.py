"""Our bounds on every listing, in a module each, and the paper's own parameters as ``paper_...``: numbers, no samples.

Theorem 4.1 (``thm:rpvi``) and the like are numbers in the PDF and labels in the LaTeX of *Replicable Reinforcement
Learning* (Eaton, Hussing, Kearns and Sorrell, 2023); see ``docs/paper.md``.
"""

from replicable_rl.theory.approximate_mdp import ApproximateMDPNumbers, approximate_mdp
from replicable_rl.theory.decisions import PlugInNumbers, plug_in_policy
from replicable_rl.theory.numbers import MAX_CALLS, Numbers, Units
from replicable_rl.theory.phased_vi import PhasedVINumbers, Schedule, paper_phased_vi, phased_vi
from replicable_rl.theory.rmax import RMaxNumbers, paper_rmax, rmax
from replicable_rl.theory.rstat import RStatNumbers, rstat

__all__ = [
    "MAX_CALLS",
    "ApproximateMDPNumbers",
    "Numbers",
    "PhasedVINumbers",
    "PlugInNumbers",
    "RMaxNumbers",
    "RStatNumbers",
    "Schedule",
    "Units",
    "approximate_mdp",
    "paper_phased_vi",
    "paper_rmax",
    "phased_vi",
    "plug_in_policy",
    "rmax",
    "rstat",
]
