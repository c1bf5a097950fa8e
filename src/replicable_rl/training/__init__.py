"""Anybody's training code as runs: functions of two seeds and Stable-Baselines3."""

from replicable_rl.training.callables import audit_callable
from replicable_rl.training.playing import EpisodeReturns, visited_observations
from replicable_rl.training.sb3 import StableBaselines3

__all__ = ["EpisodeReturns", "StableBaselines3", "audit_callable", "visited_observations"]
