"""The verbs: ``solve`` a problem, ``plan`` a run, ``save`` and ``load`` it."""

from replicable_rl.solve.files import load_run, save_run
from replicable_rl.solve.run import SAMPLERS, Algorithm, algorithm_spec, plan, solve, source_of

__all__ = ["SAMPLERS", "Algorithm", "algorithm_spec", "load_run", "plan", "save_run", "solve", "source_of"]
