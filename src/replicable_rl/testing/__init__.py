"""To test what is your own: a suite to run on an algorithm, and a reference for sources of samples."""

from replicable_rl.testing.conformance import Conformance, ConformanceError, Finding, check_algorithm
from replicable_rl.testing.per_sample import PerSample

__all__ = ["Conformance", "ConformanceError", "Finding", "PerSample", "check_algorithm"]
