"""Anybody's training code as runs: functions of two seeds, Stable-Baselines3, and decisions on what was learned."""

from replicable_rl.adapters.callables import audit_callable
from replicable_rl.adapters.playing import EpisodeReturns, visited_observations
from replicable_rl.adapters.sb3 import StableBaselines3
from replicable_rl.adapters.stable import StableDecisions

__all__ = ["EpisodeReturns", "StableBaselines3", "StableDecisions", "audit_callable", "visited_observations"]
