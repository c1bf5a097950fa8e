"""Queries: pure functions of (estimate, shared offset). No randomness of their own."""

from replicable_rl.queries.ingredients import Estimate, Fixed, Plain, Randomised, Rounded, Threshold, ingredient
from replicable_rl.queries.rounding import Means, Query, RoundedMeans, RStat, rstat

__all__ = [
    "Estimate",
    "Fixed",
    "Means",
    "Plain",
    "Query",
    "RStat",
    "Randomised",
    "Rounded",
    "RoundedMeans",
    "Threshold",
    "ingredient",
    "rstat",
]
