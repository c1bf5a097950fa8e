"""Problems: grids, textbook classics, operations, and anything tabular from Gymnasium.

Every function returns a :class:`~replicable_rl.mdp.TabularMDP`. The registry knows most of
them by a versioned id (``two-goals-v1``); what an id builds never changes.
"""

from replicable_rl.envs.classics import chain, garnet, riverswim
from replicable_rl.envs.gridworld import gridworld, two_goals, two_goals_wide
from replicable_rl.envs.gymnasium_adapter import from_gymnasium
from replicable_rl.envs.operations import admission, inventory, machine_repair

__all__ = [
    "admission",
    "chain",
    "from_gymnasium",
    "garnet",
    "gridworld",
    "inventory",
    "machine_repair",
    "riverswim",
    "two_goals",
    "two_goals_wide",
]
