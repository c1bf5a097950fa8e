"""To test what you bring yourself: an algorithm, a rule or a source; and a reference to test sources against."""

from replicable_rl.testing.conformance import Conformance, ConformanceError, check_algorithm, check_rule, check_source
from replicable_rl.testing.sources import PerSample

__all__ = ["Conformance", "ConformanceError", "PerSample", "check_algorithm", "check_rule", "check_source"]
