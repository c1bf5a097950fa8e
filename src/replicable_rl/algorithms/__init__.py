"""Algorithms: one paper listing a file; baseline and replicable version are one loop."""

from replicable_rl.algorithms.phased_vi import PhasedVI, ReplicablePhasedVI

__all__ = ["PhasedVI", "ReplicablePhasedVI"]
