"""Samplers: fresh randomness lives here and nowhere else, and leaves as counts."""

from replicable_rl.sampling.counts import MAX_CALLS, OutcomeCounts, TransitionCounts
from replicable_rl.sampling.episodes import (
    EpisodeCounts,
    EpisodicModel,
    EpisodicTable,
    PerTrajectorySampler,
    as_episodic,
)
from replicable_rl.sampling.generative import CountSampler, GenerativeModel, as_generative
from replicable_rl.sampling.reference import PerSampleSampler
from replicable_rl.sampling.simulator import Simulator
from replicable_rl.sampling.stepping import EpisodicEnv

__all__ = [
    "MAX_CALLS",
    "CountSampler",
    "EpisodeCounts",
    "EpisodicEnv",
    "EpisodicModel",
    "EpisodicTable",
    "GenerativeModel",
    "OutcomeCounts",
    "PerSampleSampler",
    "PerTrajectorySampler",
    "Simulator",
    "TransitionCounts",
    "as_episodic",
    "as_generative",
]
