"""Exact planning and evaluation, with certified errors."""

from replicable_rl.planning.exact import Evaluation, Optimum, evaluate_policy, gain, optimal_values

__all__ = ["Evaluation", "Optimum", "evaluate_policy", "gain", "optimal_values"]
