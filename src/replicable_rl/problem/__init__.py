"""Problems: tables, simulators, environments, what can be sampled from them, and the problems that are shipped.

The registry knows most shipped problems by a versioned id (``two-goals-v1``); what an id builds never changes.
"""

from replicable_rl.problem.environments import EpisodicEnv, from_gymnasium
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.shipped import (
    admission,
    chain,
    garnet,
    gridworld,
    inventory,
    machine_repair,
    riverswim,
    two_goals,
    two_goals_wide,
)
from replicable_rl.problem.simulator import Simulator
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source, as_source
from replicable_rl.problem.support import Support, greedy
from replicable_rl.problem.table import TabularMDP

__all__ = [
    "Episodic",
    "EpisodicEnv",
    "Generative",
    "Labels",
    "Recorded",
    "Rows",
    "Simulator",
    "Source",
    "Support",
    "TabularMDP",
    "admission",
    "as_source",
    "chain",
    "from_gymnasium",
    "garnet",
    "greedy",
    "gridworld",
    "inventory",
    "machine_repair",
    "riverswim",
    "two_goals",
    "two_goals_wide",
]
