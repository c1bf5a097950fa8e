"""Samples from something that is stepped, kept as a data set: stopped, resumed, never lost and never drawn twice."""

from replicable_rl.collect.api import collect

__all__ = ["collect"]
