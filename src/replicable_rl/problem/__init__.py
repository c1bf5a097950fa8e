"""Problems: tables, simulators, environments, what can be sampled from them, and the problems that are shipped.

The registry knows most shipped problems by a versioned id (``two-goals-v1``); what an id builds never changes.
"""

from replicable_rl.problem.shipped import chain, gridworld, riverswim
from replicable_rl.problem.source import Episodic, Generative, Source, as_source, greedy
from replicable_rl.problem.table import Labels, Rows, TabularMDP

__all__ = [
    "Episodic",
    "Generative",
    "Labels",
    "Rows",
    "Source",
    "TabularMDP",
    "as_source",
    "chain",
    "greedy",
    "gridworld",
    "riverswim",
]
