"""Counts, and how they are drawn: fresh randomness leaves as counts."""

from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts, TransitionCounts
from replicable_rl.theory import MAX_CALLS

__all__ = ["MAX_CALLS", "EpisodeCounts", "OutcomeCounts", "TransitionCounts"]
