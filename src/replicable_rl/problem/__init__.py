"""Problems: tables, simulators, environments, what can be sampled from them, and the problems that are shipped.

The registry knows most shipped problems by a versioned id (``two-goals-v1``); what an id builds never changes.
"""

from replicable_rl.problem.classics import chain, garnet, riverswim
from replicable_rl.problem.conditions import conditions
from replicable_rl.problem.episodes import EpisodicEnv
from replicable_rl.problem.foreign import draw_from, play_from
from replicable_rl.problem.from_gym import from_gymnasium
from replicable_rl.problem.gridworlds import gridworld, two_goals, two_goals_wide
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.operations import admission, inventory, machine_repair
from replicable_rl.problem.policies import action_probabilities, chosen_actions, greedy
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.sampler import Counts, Table
from replicable_rl.problem.simulator import Simulator
from replicable_rl.problem.source import EpisodicModel, GenerativeModel, Problem, check_source, kind_of
from replicable_rl.problem.support import allowed_of, check_allowed, forbid, pairs_of, uniform_policy
from replicable_rl.problem.table import TabularMDP

__all__ = [
    "Counts",
    "EpisodicEnv",
    "EpisodicModel",
    "GenerativeModel",
    "Labels",
    "Problem",
    "Rows",
    "Simulator",
    "Table",
    "TabularMDP",
    "action_probabilities",
    "admission",
    "allowed_of",
    "chain",
    "check_allowed",
    "check_source",
    "chosen_actions",
    "conditions",
    "draw_from",
    "forbid",
    "from_gymnasium",
    "garnet",
    "greedy",
    "gridworld",
    "inventory",
    "kind_of",
    "machine_repair",
    "pairs_of",
    "play_from",
    "riverswim",
    "two_goals",
    "two_goals_wide",
    "uniform_policy",
]
