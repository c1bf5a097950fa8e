"""Sources of samples: fresh randomness lives here and nowhere else, and leaves as counts."""

from replicable_rl.sampling.asked import draw_from, play_from
from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts, TransitionCounts
from replicable_rl.sampling.fused import Fused, Grid, Iterations, fused_iterations
from replicable_rl.sampling.problem import EpisodicModel, GenerativeModel, Problem, check_source, kind_of
from replicable_rl.sampling.simulator import Simulator
from replicable_rl.sampling.stepping import EpisodicEnv
from replicable_rl.sampling.tables import Counts, Table
from replicable_rl.theory import MAX_CALLS

__all__ = [
    "MAX_CALLS",
    "Counts",
    "EpisodeCounts",
    "EpisodicEnv",
    "EpisodicModel",
    "Fused",
    "GenerativeModel",
    "Grid",
    "Iterations",
    "OutcomeCounts",
    "Problem",
    "Simulator",
    "Table",
    "TransitionCounts",
    "check_source",
    "draw_from",
    "fused_iterations",
    "kind_of",
    "play_from",
]
