"""Suites to run on an algorithm or a sampler of your own: whether it keeps the rules that the library relies on."""

from replicable_rl.testing.conformance import Conformance, ConformanceError, Finding, check_algorithm
from replicable_rl.testing.samplers import check_sampler

__all__ = ["Conformance", "ConformanceError", "Finding", "check_algorithm", "check_sampler"]
