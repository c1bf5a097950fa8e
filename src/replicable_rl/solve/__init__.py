"""The verbs: ``solve`` a problem, ``plan`` a run, ``save`` and ``load`` a solution."""

from replicable_rl.solve.files import load_solution, save_solution
from replicable_rl.solve.run import Algorithm, PlanningAlgorithm, algorithm_spec, plan, solve

__all__ = ["Algorithm", "PlanningAlgorithm", "algorithm_spec", "load_solution", "plan", "save_solution", "solve"]
