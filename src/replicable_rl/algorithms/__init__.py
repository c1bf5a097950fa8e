"""Algorithms: one paper listing a file; baseline and replicable version are one loop."""

from replicable_rl.algorithms.approximate_mdp import ApproximateMDP, ReplicableApproximateMDP
from replicable_rl.algorithms.phased_vi import PhasedVI, ReplicablePhasedVI
from replicable_rl.algorithms.plug_in_policy import PlugInPolicy
from replicable_rl.algorithms.rmax import ReplicableRMax, RMax
from replicable_rl.runs import ALGORITHMS, SHIPPED

_ALL = PhasedVI, ReplicablePhasedVI, ApproximateMDP, ReplicableApproximateMDP, RMax, ReplicableRMax, PlugInPolicy
SHIPPED.update({algorithm.id: algorithm for algorithm in _ALL})
ALGORITHMS.update(SHIPPED)

__all__ = [
    "ApproximateMDP",
    "PhasedVI",
    "PlugInPolicy",
    "RMax",
    "ReplicableApproximateMDP",
    "ReplicablePhasedVI",
    "ReplicableRMax",
]
