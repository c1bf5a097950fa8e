"""Suites to run on an algorithm of your own: whether it keeps the rules that the library relies on."""

from replicable_rl.testing.conformance import Conformance, ConformanceError, Finding, check_algorithm

__all__ = ["Conformance", "ConformanceError", "Finding", "check_algorithm"]
