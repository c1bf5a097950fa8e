"""Samplers: fresh randomness lives here and nowhere else, and leaves as counts."""

from replicable_rl.sampling.counts import MAX_CALLS, OutcomeCounts
from replicable_rl.sampling.generative import CountSampler, GenerativeModel, as_generative
from replicable_rl.sampling.reference import PerSampleSampler
from replicable_rl.sampling.simulator import Simulator

__all__ = [
    "MAX_CALLS",
    "CountSampler",
    "GenerativeModel",
    "OutcomeCounts",
    "PerSampleSampler",
    "Simulator",
    "as_generative",
]
