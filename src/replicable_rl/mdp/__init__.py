"""Markov decision processes as tables of outcomes, their files, and exact planning."""

from replicable_rl.mdp.allowed import allowed_of, check_allowed, forbid, pairs_of, uniform_policy
from replicable_rl.mdp.files import load_mdp
from replicable_rl.mdp.labels import Labels
from replicable_rl.mdp.planning import Evaluation, Optimum, evaluate_policy, optimal_values
from replicable_rl.mdp.policies import action_probabilities, chosen_actions, greedy
from replicable_rl.mdp.rows import Rows
from replicable_rl.mdp.tabular import TabularMDP

__all__ = [
    "Evaluation",
    "Labels",
    "Optimum",
    "Rows",
    "TabularMDP",
    "action_probabilities",
    "allowed_of",
    "check_allowed",
    "chosen_actions",
    "evaluate_policy",
    "forbid",
    "greedy",
    "load_mdp",
    "optimal_values",
    "pairs_of",
    "uniform_policy",
]
