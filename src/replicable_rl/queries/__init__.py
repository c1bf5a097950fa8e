"""Queries: pure functions of (estimate, shared offset). No randomness of their own."""

from replicable_rl.queries.rstat import RoundedMeans, rstat

__all__ = ["RoundedMeans", "rstat"]
