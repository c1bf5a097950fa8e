"""Queries: pure functions of (estimate, shared offset). No randomness of their own."""

from replicable_rl.queries.rounding import RoundedMeans, rstat

__all__ = ["RoundedMeans", "rstat"]
